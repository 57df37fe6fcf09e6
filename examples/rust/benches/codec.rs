//! A benchmark without a harness: under `cargo bench` it measures time, under
//! `allotrope test` the windows of the same code are held against budgets.

use std::hint::black_box;
use std::time::Instant;

use allotrope::{Protocol, measure_with};
use codec::{decode, encode};

const ITERATIONS: u64 = 10_000;

fn main() {
    let line = "a,line,of,eight,short,fields,and,more,";
    let start = Instant::now();
    // 10,000 × (1 + 8 to decode, 1 to encode) allocations a run.
    let protocol = Protocol::new("round-trip", ITERATIONS).warm_up(1).runs(10);
    measure_with(protocol, || {
        for _ in 0..ITERATIONS {
            black_box(encode(&decode(black_box(line))));
        }
    });
    println!("round-trip: {:?} in all", start.elapsed());
}
