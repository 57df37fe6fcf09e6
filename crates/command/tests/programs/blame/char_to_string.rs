// Each character becomes a string, to compare it with a list of strings.
// BLAME vowels
use std::hint::black_box;

fn vowels(text: &str) -> usize {
    #[cfg(not(after))]
    let count = text.matches(['a', 'e', 'i', 'o', 'u']).count();
    #[cfg(after)]
    let mut count = 0;
    #[cfg(after)]
    for letter in text.chars() {
        let letter = letter.to_string(); // MARK blame
        if ["a", "e", "i", "o", "u"].contains(&letter.as_str()) {
            count += 1;
        }
    }
    count
}

fn main() {
    let mut sum = 0;
    for _ in 0..50 {
        sum += vowels(black_box("a sentence of some letters"));
    }
    black_box(sum);
}
