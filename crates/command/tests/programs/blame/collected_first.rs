// The readings are collected into a vector before they are added up.
// BLAME sum_of_valid
use std::hint::black_box;

#[inline(never)]
fn sum_of_valid(readings: &[i64]) -> i64 {
    let valid = readings.iter().filter(|reading| **reading >= 0);
    #[cfg(after)]
    let valid: Vec<&i64> = valid.collect(); // MARK blame
    black_box(valid).into_iter().sum()
}

fn main() {
    let readings: Vec<i64> = (-50..50).collect();
    let mut sum = 0;
    for _ in 0..300 {
        sum += sum_of_valid(black_box(&readings));
    }
    black_box(sum);
}
