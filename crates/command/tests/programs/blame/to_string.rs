// A log line formats the name once more for each record.
// BLAME log
use std::hint::black_box;

#[inline(never)]
fn log(names: &[&str]) -> usize {
    let mut bytes = 0;
    for name in names {
        #[cfg(after)]
        let name = name.to_string(); // MARK blame
        bytes += black_box(name).len();
    }
    bytes
}

fn main() {
    let names = vec!["alpha"; 1000];
    black_box(log(&names));
}
