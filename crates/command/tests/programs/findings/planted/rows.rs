//! blamed: parse_row
//! Parses 4,000 rows of 256 numbers into vectors that begin empty.

#[inline(never)]
fn parse_row(text: &str) -> Vec<u64> {
    let mut row = Vec::new();
    for word in text.split(' ') {
        row.push(word.len() as u64);
    }
    row
}

fn main() {
    let text = vec!["12"; 256].join(" ");
    let mut sum = 0;
    for _ in 0..4000 {
        sum += parse_row(&text).iter().sum::<u64>();
    }
    println!("{sum}");
}
