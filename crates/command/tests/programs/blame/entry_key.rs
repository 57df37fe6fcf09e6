// The look-up before the insertion became entry(), which wants a key of its own each time.
// BLAME count
use std::collections::HashMap;
use std::hint::black_box;

fn count(words: &[String]) -> HashMap<String, usize> {
    let mut counts: HashMap<String, usize> = HashMap::with_capacity(16);
    for word in words {
        #[cfg(not(after))]
        match counts.get_mut(word) {
            Some(count) => *count += 1,
            None => {
                counts.insert(word.clone(), 1);
            }
        }
        #[cfg(after)]
        {
            *counts.entry(word.clone()).or_insert(0) += 1; // MARK blame
        }
    }
    counts
}

fn main() {
    let words: Vec<String> = (0..1000).map(|at| format!("word {}", at % 8)).collect();
    black_box(count(black_box(&words)));
}
