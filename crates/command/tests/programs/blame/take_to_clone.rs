// The buffer's lines are cloned when they are flushed, where they were taken.
// BLAME flush
use std::hint::black_box;

#[derive(Default)]
struct Buffer {
    lines: Vec<String>,
}

impl Buffer {
    fn flush(&mut self) -> Vec<String> {
        #[cfg(not(after))]
        let lines = std::mem::take(&mut self.lines);
        #[cfg(after)]
        let lines = self.lines.clone(); // MARK blame
        self.lines.clear();
        lines
    }
}

fn main() {
    let mut buffer = Buffer::default();
    for block in 0..30 {
        buffer.lines = (0..10).map(|line| format!("line {block}.{line}")).collect();
        black_box(buffer.flush());
    }
}
