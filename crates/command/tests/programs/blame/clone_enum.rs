// Each event is kept for the audit log, too, by a clone.
// BLAME dispatch
use std::hint::black_box;

#[derive(Clone)]
enum Event {
    Opened { file: String },
    Written(String, usize),
    Closed,
}

struct Server {
    #[cfg_attr(not(after), allow(dead_code))]
    audit: Vec<Event>,
    bytes: usize,
}

impl Server {
    #[inline(never)]
    fn dispatch(&mut self, event: &Event) {
        #[cfg(after)]
        self.audit.push(event.clone()); // MARK blame
        self.bytes += match event {
            Event::Opened { file } => file.len(),
            Event::Written(file, bytes) => file.len() + bytes,
            Event::Closed => 0,
        };
    }
}

fn main() {
    let file = "/var/data/one".to_owned();
    let events = [
        Event::Opened { file: file.clone() },
        Event::Written(file, 10),
        Event::Closed,
    ];
    let mut server = Server {
        audit: Vec::with_capacity(1200),
        bytes: 0,
    };
    for at in 0..1200 {
        server.dispatch(&events[at % events.len()]);
    }
    black_box(server.bytes);
}
