//! The bytes that a sampled block stands for, in integer arithmetic: for those who cannot use
//! floating point, see the crate's documentation.
//!
//! It is *s*/(1 − e^(−*s*/*P*)) for a block of *s* bytes and the period *P*. With *x* = *s*/*P*, the
//! exponential is 2^−*k*·e^−*r*, *x* = *k*·ln 2 + *r*, and e^−*r* has 60 bits of its Taylor series.
//! Below *x* = 2^−12 the difference from 1 would lose digits; there *P*·(1 + *x*/2 + *x*²/12), the
//! series of *x*/(1 − e^−*x*) (Bernoulli numbers), is wrong by less than *P*·*x*^4/720.

use crate::Period;

/// Bits behind the point.
const POINT: u32 = 60;
const ONE: u128 = 1 << POINT;
/// ln 2 with these bits.
const LN_2: u128 = 799_144_290_325_165_978;
/// Ratio of size to period from which on sampling is certain, as far as these bits can tell.
const CERTAIN: u64 = 44;

/// The bytes that a sampled block of `size` bytes stands for, rounded down; 0 for a block of
/// none.
pub fn weighted_bytes(size: u64, period: Period) -> u64 {
    let period = period.bytes();
    if size == 0 || size / period >= CERTAIN {
        return size;
    }
    let (wide, wide_period) = (u128::from(size), u128::from(period));
    if wide << 12 < wide_period {
        let third = wide * wide / (12 * wide_period);
        return (wide_period + wide / 2 + third) as u64;
    }
    // The size is below 2^46: it fits.
    let x = (wide << POINT) / wide_period;
    let (shift, rest) = (x / LN_2, x % LN_2);
    let sampled = ONE - (exponential(rest) >> shift);
    ((wide << POINT) / sampled) as u64
}

/// e^−`x` for an `x` from 0 to ln 2, by the series of e^`x`: its terms are all positive.
fn exponential(x: u128) -> u128 {
    let (mut term, mut sum, mut number) = (ONE, ONE, 1);
    while term > 0 {
        term = ((term * x) >> POINT) / number;
        sum += term;
        number += 1;
    }
    // 2^120 divided by a number from 2^60 to 2^61.
    (1 << (2 * POINT)) / sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_floating_point_says() {
        for shift in 0..=40 {
            for period in [(1 << shift) + 1, 3 << shift] {
                let Some(period) = Period::new(period) else {
                    continue;
                };
                for size in (0..63).flat_map(|bit| [1u64 << bit, 3 << (bit / 2), 5 << (bit / 3)]) {
                    let found = weighted_bytes(size, period) as f64;
                    let ratio = size as f64 / period.bytes() as f64;
                    let exact = size as f64 / -(-ratio).exp_m1();
                    let error = (found - exact).abs();
                    assert!(
                        error <= 1.0 + exact * 1e-9,
                        "{size} at {period:?}: {found} and not {exact}"
                    );
                }
            }
        }
        assert_eq!(weighted_bytes(0, Period::DEFAULT), 0);
        assert_eq!(weighted_bytes(u64::MAX, Period::MAX), u64::MAX);
        // 1 / (1 − 1/e) = 1.58197…
        assert_eq!(weighted_bytes(512 << 10, Period::DEFAULT), 829_411);
    }
}
