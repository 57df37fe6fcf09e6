// The queue takes any action, so that each one is boxed.
// BLAME schedule
use std::hint::black_box;

#[cfg(not(after))]
type Action = fn(u64, u64) -> u64;
#[cfg(after)]
type Action = Box<dyn Fn(u64) -> u64>;

struct Queue {
    actions: Vec<(u64, Action)>,
}

impl Queue {
    #[inline(never)]
    fn schedule(&mut self, time: u64, step: u64) {
        #[cfg(not(after))]
        let action: Action = |now, step| now + step;
        #[cfg(after)]
        let action: Action = Box::new(move |now| now + step); // MARK blame
        self.actions.push((time ^ step, action));
    }

    fn run(self) -> u64 {
        let mut now = 0;
        for (_step, action) in black_box(self.actions) {
            #[cfg(not(after))]
            let next = action(now, _step);
            #[cfg(after)]
            let next = action(now);
            now = next;
        }
        now
    }
}

fn main() {
    let mut queue = Queue {
        actions: Vec::with_capacity(600),
    };
    for at in 0..600 {
        queue.schedule(at, at % 7);
    }
    black_box(queue.run());
}
