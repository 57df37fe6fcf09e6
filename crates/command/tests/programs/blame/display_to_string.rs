// The colour's name is made a string, only to take its length.
// BLAME width
use std::fmt;
use std::hint::black_box;

struct Colour(u8, u8, u8);

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

#[inline(never)]
fn width(colour: &Colour) -> usize {
    #[cfg(not(after))]
    let width = "#".len() + 2 * [colour.0, colour.1, colour.2].len();
    #[cfg(after)]
    let width = colour.to_string().len(); // MARK blame
    width
}

fn main() {
    let mut sum = 0;
    for at in 0..=255 {
        sum += width(black_box(&Colour(at, at, 255 - at)));
    }
    println!("{sum}, the last one {}", Colour(255, 255, 0));
}
