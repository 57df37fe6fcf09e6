// The helper that yields the words makes them lower-case, too.
// BLAME words::{{closure}}
use std::hint::black_box;

fn words<'a>(text: &'a str) -> impl Iterator<Item = impl AsRef<str> + 'a> + 'a {
    let words = text.split(' ').filter(|word| !word.is_empty());
    #[cfg(after)]
    let words = words.map(|word| word.to_lowercase()); // MARK blame
    words.skip(1)
}

#[inline(never)]
fn letters(text: &str) -> usize {
    words(text).map(|word| black_box(word).as_ref().len()).sum()
}

fn main() {
    let mut sum = 0;
    for _ in 0..100 {
        sum += letters(black_box("The Quick  Brown Fox Jumps Over The Lazy Dog"));
    }
    black_box(sum);
}
