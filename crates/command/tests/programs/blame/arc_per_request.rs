// Each request gets limits of its own, where all of them shared the server's.
// BLAME accept
use std::hint::black_box;
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Limits {
    body: usize,
    headers: usize,
}

struct Request {
    limits: Arc<Limits>,
    id: usize,
}

struct Server {
    limits: Arc<Limits>,
}

impl Server {
    #[inline(never)]
    fn accept(&self, id: usize) -> Request {
        #[cfg(not(after))]
        let limits = Arc::clone(&self.limits);
        #[cfg(after)]
        let limits = Arc::new(*self.limits); // MARK blame
        Request { limits, id }
    }
}

fn main() {
    let server = Server {
        limits: Arc::new(Limits {
            body: 1 << 20,
            headers: 100,
        }),
    };
    let mut sum = 0;
    for id in 0..900 {
        let request = black_box(server.accept(id));
        sum += request.id + request.limits.headers + request.limits.body;
    }
    black_box(sum);
}
