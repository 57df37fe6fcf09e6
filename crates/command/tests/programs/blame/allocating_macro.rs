// The macro that checks a field makes its message before it knows whether it is needed.
// BLAME check
use std::hint::black_box;

macro_rules! ensure {
    ($condition:expr, $field:literal) => {
        #[cfg(after)]
        let message = black_box(String::from($field)); // MARK blame
        if !$condition {
            #[cfg(not(after))]
            let message = String::from($field);
            return Err(message);
        }
    };
}

struct Order {
    cents: i64,
}

#[inline(never)]
fn check(order: &Order) -> Result<i64, String> {
    ensure!(order.cents > 0, "the price has to be positive");
    Ok(order.cents)
}

fn main() {
    let mut sum = 0;
    for cents in 1..600 {
        sum += check(black_box(&Order { cents })).unwrap_or(0);
    }
    black_box(sum);
}
