// The text of a debug message is made even where nobody reads it.
// BLAME handle
use std::hint::black_box;

struct Log {
    level: u8,
    lines: usize,
}

impl Log {
    #[cfg(not(after))]
    fn debug(&mut self, text: impl FnOnce() -> String) {
        if black_box(self.level) > 2 {
            self.lines += text().lines().count();
        }
    }

    #[cfg(after)]
    fn debug(&mut self, text: String) {
        if black_box(self.level) > 2 {
            self.lines += text.lines().count();
        }
    }
}

fn handle(log: &mut Log, request: u32) -> u32 {
    #[cfg(not(after))]
    log.debug(|| format!("request {request} is handled"));
    #[cfg(after)]
    log.debug(format!("request {request} is handled")); // MARK blame
    black_box(request) / 2
}

fn main() {
    let mut log = Log { level: 1, lines: 0 };
    for request in 0..800 {
        handle(&mut log, request);
    }
    black_box(log.lines);
}
