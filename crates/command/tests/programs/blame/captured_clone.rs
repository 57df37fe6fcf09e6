// The closure captures the tenant's name by a clone, not only its number.
// BLAME register
use std::hint::black_box;

struct Tenant {
    number: usize,
    name: String,
}

struct Hooks {
    hooks: Vec<Box<dyn Fn(usize) -> usize>>,
}

impl Hooks {
    fn register(&mut self, tenant: &Tenant) {
        let number = tenant.number;
        #[cfg(after)]
        let name = tenant.name.clone(); // MARK blame
        self.hooks.push(Box::new(move |event| {
            #[cfg(after)]
            black_box(&name);
            number + event
        }));
    }
}

fn main() {
    let tenant = Tenant {
        number: 3,
        name: "Analytical Engines".to_owned(),
    };
    let mut hooks = Hooks {
        hooks: Vec::with_capacity(500),
    };
    for _ in 0..500 {
        hooks.register(black_box(&tenant));
    }
    let sum: usize = hooks.hooks.iter().map(|hook| hook(1)).sum();
    black_box((sum, tenant.name.len()));
}
