//! Random distances between hits.
//!
//! A distance with mean *P* is −ln(*u*)·*P*, rounded up, with *u* uniform in (0, 1): the
//! inverse of the exponential distribution's cumulative distribution function (Devroye,
//! *Non-Uniform Random Variate Generation*, 1986, section II.2).
//!
//! The logarithm is computed in fixed point, with 56 bits behind the point. *u* is
//! *r*/2^64, and *r* = 2^*k*·*m* with 1 ≤ *m* < 2, so that −ln(*u*) = (64 − *k*)·ln 2 −
//! ln(*m*). A table has the centre *c* of each of 128 intervals of *m* (Tang, "Table-driven
//! implementation of the logarithm function in IEEE floating-point arithmetic", ACM TOMS
//! 16(4), 1990): ln(*m*) = ln(*c*) + ln(1 + *z*) with *z* = *m*/*c* − 1. As *c* − *m* is at most
//! 1/256, |*z*| < 2^−8, and five terms of the series of ln(1 + *z*) have an error below
//! |*z*|^6/6·(1 + 2^−7) < 2^−50. Eight roundings add at most 2^−53, those of the table less. So
//! −ln(*u*) is wrong by less than 2^−49: with the longest period, by 0.002 bytes.

use crate::Period;

/// Bits behind the point.
const POINT: u32 = 56;
/// Intervals of the mantissa.
const INTERVALS: usize = 128;

/// The centre of an interval of the mantissa.
#[derive(Clone, Copy)]
struct Centre {
    /// 2^64 divided by it.
    inverse: u64,
    /// Natural logarithm of the centre, with [`POINT`] bits.
    logarithm: i64,
}

static CENTRES: [Centre; INTERVALS] = centres();
/// ln 2.
const LN_2: i64 = 2 * inverse_hyperbolic_tangent(1, 3);

/// artanh(`numerator`/`denominator`), which is at most 1/3, with [`POINT`] bits:
/// Σ *z*^(2*k*+1)/(2*k*+1).
const fn inverse_hyperbolic_tangent(numerator: u128, denominator: u128) -> i64 {
    const GUARD: u32 = 40;
    let mut power = (numerator << (POINT + GUARD)) / denominator;
    let mut sum = 0;
    let mut divisor = 1;
    while power > 0 {
        sum += power / divisor;
        divisor += 2;
        power = power * numerator / denominator * numerator / denominator;
    }
    ((sum + (1 << (GUARD - 1))) >> GUARD) as i64
}

const fn centres() -> [Centre; INTERVALS] {
    let empty = Centre {
        inverse: 0,
        logarithm: 0,
    };
    let mut centres = [empty; INTERVALS];
    let mut at = 0;
    while at < INTERVALS {
        // The centre is 1 + odd/256, and its logarithm 2·artanh((c − 1)/(c + 1)).
        let odd = 2 * at as u128 + 1;
        centres[at] = Centre {
            inverse: ((256u128 << 64) / (256 + odd)) as u64,
            logarithm: 2 * inverse_hyperbolic_tangent(odd, 512 + odd),
        };
        at += 1;
    }
    centres
}

/// A product of numbers with [`POINT`] bits.
#[inline(always)]
const fn product(a: i64, b: i64) -> i64 {
    ((a as i128 * b as i128) >> POINT) as i64
}

/// −ln(`random`/2^64) with 56 bits behind the point. 0 counts as 1.
#[inline]
fn minus_logarithm(random: u64) -> u64 {
    let random = random | u64::from(random == 0);
    let zeros = random.leading_zeros();
    let mantissa = random << zeros;
    let centre = &CENTRES[(mantissa >> 56) as usize % INTERVALS];
    // With 63 bits behind the point: m/c, which is near 1, then z.
    let quotient = ((u128::from(mantissa) * u128::from(centre.inverse)) >> 64) as u64;
    let z = (quotient.wrapping_sub(1 << 63) as i64) >> (63 - POINT);
    const ONE: i64 = 1 << POINT;
    let series = ONE / 4 - z / 5;
    let series = ONE / 3 - product(z, series);
    let series = ONE / 2 - product(z, series);
    let series = ONE - product(z, series);
    let logarithm = centre.logarithm + product(z, series);
    let result = i64::from(zeros + 1) * LN_2 - logarithm;
    result.max(0) as u64
}

/// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
/// OOPSLA 2014): one word of state, any value of which is good.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Generator(u64);

impl Generator {
    /// A generator whose numbers depend on every one of `parts`. Threads and forked children
    /// draw independently if one part differs, such as the thread id or the time.
    pub const fn seeded(parts: &[u64]) -> Self {
        let mut state = 0;
        let mut at = 0;
        while at < parts.len() {
            let mut one = Self(state ^ parts[at]);
            state = one.next();
            at += 1;
        }
        Self(state)
    }

    /// The next 64 random bits.
    #[inline]
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = self.0;
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The number of the byte that is the next hit, counted from 1.
    #[inline]
    pub fn distance(&mut self, period: Period) -> u64 {
        let product = u128::from(minus_logarithm(self.next())) * u128::from(period.bytes());
        // At most 2^40 · 45.
        (product >> POINT) as u64 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The proven bound, and what `f64` itself is wrong by at 45.
    const BOUND: f64 = 1.0 / (1u64 << 49) as f64 + 45.0 / (1u64 << 52) as f64;

    fn assert_right(random: u64) {
        // `f64` cannot hold all of `random`; the logarithm of the rest is exact enough.
        let high = (random >> 11) << 11;
        let exact = if high == 0 {
            64.0 * std::f64::consts::LN_2 - (random as f64).ln()
        } else {
            let rest = ((random - high) as f64 / high as f64).ln_1p();
            64.0 * std::f64::consts::LN_2 - (high as f64).ln() - rest
        };
        let found = minus_logarithm(random) as f64 / (1u64 << POINT) as f64;
        assert!(
            (found - exact).abs() < BOUND,
            "{random:#x}: {found} instead of {exact}"
        );
    }

    #[test]
    fn the_logarithm_is_right_at_both_ends_of_every_interval() {
        for exponent in 7..64 {
            for interval in 0..=INTERVALS as u64 {
                let end = ((1u128 << exponent) + (u128::from(interval) << (exponent - 7))) as u64;
                for random in [end.wrapping_sub(1), end, end.saturating_add(1)] {
                    if random != 0 {
                        assert_right(random);
                    }
                }
            }
        }
        for random in 1..1000 {
            assert_right(random);
        }
    }

    #[test]
    fn the_logarithm_is_right_anywhere() {
        let mut generator = Generator::seeded(&[1]);
        for _ in 0..1_000_000 {
            let random = generator.next();
            assert_right(random);
            assert_right((random >> (random % 64)).max(1));
        }
    }

    #[test]
    fn extreme_numbers_give_distances() {
        assert_eq!(minus_logarithm(0), minus_logarithm(1));
        // −ln(1 − 2^−64), less than the arithmetic can tell.
        assert!(minus_logarithm(u64::MAX) <= 1 << (POINT - 49));
    }

    /// Reference values of the authors' program with the seed 1234567.
    #[test]
    fn the_generator_is_splitmix64() {
        let mut generator = Generator(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
        ];
        assert_eq!(expected.map(|_| generator.next()), expected);
    }

    #[test]
    fn every_part_of_a_seed_matters() {
        let parts = [7, 8, 9];
        let first = Generator::seeded(&parts).next();
        for at in 0..parts.len() {
            let mut others = parts;
            others[at] += 1;
            assert_ne!(Generator::seeded(&others).next(), first);
        }
        assert_ne!(Generator::seeded(&[8, 7, 9]).next(), first);
    }
}
