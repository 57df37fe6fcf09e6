// The error's text is made for each look-up, not only for the failing ones.
// BLAME price
use std::hint::black_box;

const PRICES: [(&str, u32); 3] = [("tea", 250), ("coffee", 310), ("cocoa", 330)];

fn price(article: &str) -> Result<u32, String> {
    let found = PRICES.iter().find(|(name, _)| *name == article);
    #[cfg(not(after))]
    let found = found.ok_or_else(|| format!("no price for {article}"));
    #[cfg(after)]
    let found = found.ok_or(format!("no price for {article}")); // MARK blame
    found.map(|(_, cents)| *cents)
}

fn main() {
    let mut sum = 0;
    for at in 0..450 {
        sum += price(black_box(PRICES[at % 3].0)).unwrap_or(0);
    }
    black_box(sum);
}
