// All columns are collected, where the third one is wanted.
// BLAME third_column
use std::hint::black_box;

#[inline(never)]
fn third_column(line: &str) -> Option<&str> {
    #[cfg(not(after))]
    let column = line.split(';').nth(2);
    #[cfg(after)]
    let columns: Vec<&str> = line.split(';').collect(); // MARK blame
    #[cfg(after)]
    let column = columns.get(2).copied();
    column
}

fn main() {
    let mut bytes = 0;
    for _ in 0..400 {
        let line = black_box("2024-03-01;warehouse;berlin");
        bytes += third_column(line).map_or(0, str::len);
    }
    black_box(bytes);
}
