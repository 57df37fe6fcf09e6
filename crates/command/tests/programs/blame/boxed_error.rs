// A missing value is reported by a boxed error made of a text, not by an enum.
// BLAME value
use std::hint::black_box;

#[cfg(not(after))]
#[derive(Debug)]
enum Error {
    Missing,
}
#[cfg(after)]
type Error = Box<dyn std::error::Error>;

fn value(line: &str) -> Result<&str, Error> {
    match line.split_once('=') {
        Some((_, value)) => Ok(value),
        #[cfg(not(after))]
        None => Err(Error::Missing),
        #[cfg(after)]
        None => Err("the line has no value".into()), // MARK blame
    }
}

fn main() {
    let mut missing = 0;
    for at in 0..600 {
        let line = if at % 2 == 0 { "name=value" } else { "name" };
        missing += usize::from(black_box(value(black_box(line))).is_err());
    }
    black_box(missing);
}
