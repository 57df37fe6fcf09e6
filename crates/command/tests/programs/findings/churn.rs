//! Counts the words of 3,000 lines.
//!
//! `churn temporaries`: `normalised` makes a new string for each of the 60,000 words, which
//! lives until the word is counted.
//! `churn chain`: `collect_line` grows a vector of 400 numbers from nothing, 3,000 times:
//! 4, 8, 16, … 512 elements of 8 bytes, so 7 growths each and a capacity of 4,096 bytes.
//! `churn reserved`: the same with the capacity of 400 numbers from the start.
//! `churn buffer`: `normalise_into` uses one string again and again.

use std::collections::HashMap;

#[inline(never)]
fn normalised(word: &str) -> String {
    let normal = word.to_uppercase(); // MARK normalised
    // Otherwise the call above is a jump, and this function has no frame.
    std::hint::black_box(&normal);
    normal
}

#[inline(never)]
fn normalise_into(word: &str, to: &mut String) {
    to.clear();
    to.extend(word.chars().map(|c| c.to_ascii_uppercase()));
}

#[inline(never)]
fn collect_line(line: usize, reserved: bool) -> Vec<usize> {
    let mut numbers = Vec::new();
    if reserved {
        numbers.reserve(400);
    }
    for word in 0..400 {
        numbers.push(line ^ word); // MARK push
    }
    numbers
}

fn main() {
    let kind = std::env::args().nth(1).unwrap_or_default();
    let words: Vec<String> = (0..20).map(|number| format!("word-{number}")).collect();
    let mut counts: HashMap<u64, usize> = HashMap::new();
    let mut buffer = String::new();
    let mut sum = 0;
    for line in 0..3000 {
        match kind.as_str() {
            "temporaries" => {
                for word in &words {
                    let length = normalised(word).len();
                    *counts.entry(length as u64).or_default() += 1;
                }
            }
            "buffer" => {
                for word in &words {
                    normalise_into(word, &mut buffer);
                    *counts.entry(buffer.len() as u64).or_default() += 1;
                }
            }
            _ => {
                let numbers = collect_line(line, kind == "reserved");
                sum += numbers.iter().sum::<usize>();
            }
        }
    }
    println!("{} {sum}", counts.len());
}
