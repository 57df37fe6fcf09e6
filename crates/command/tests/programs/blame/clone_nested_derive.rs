// The price is computed on a copy of the whole order, so as not to change the original.
// BLAME discounted
use std::hint::black_box;

#[rustfmt::skip]
#[derive(
    Clone,
    Debug,
    PartialEq,
)]
struct Customer {
    name: String,
    address: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Position {
    article: String,
    cents: u64,
}

#[rustfmt::skip]
#[derive(
    Clone,
    Debug,
    PartialEq,
)]
struct Order {
    customer: Customer,
    positions: Vec<Position>,
}

impl Order {
    fn total(&self) -> u64 {
        self.positions.iter().map(|position| position.cents).sum()
    }
}

#[cfg(not(after))]
#[inline(never)]
fn discounted(order: &Order) -> u64 {
    black_box(order).total() * 95 / 100
}

#[cfg(after)]
#[inline(never)]
fn discounted(order: &Order) -> u64 {
    let mut reduced = order.clone(); // MARK blame
    for position in &mut reduced.positions {
        position.cents = position.cents * 95 / 100;
    }
    black_box(&reduced).total()
}

fn main() {
    let order = Order {
        customer: Customer {
            name: "Ada Lovelace".to_owned(),
            address: "12 St James's Square".to_owned(),
        },
        positions: (0..5)
            .map(|at| Position {
                article: format!("article {at}"),
                cents: 100 * at,
            })
            .collect(),
    };
    let sum: u64 = (0..200).map(|_| discounted(black_box(&order))).sum();
    black_box(sum);
}
