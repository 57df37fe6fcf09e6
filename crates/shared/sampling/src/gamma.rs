//! The gamma distribution: probabilities and quantiles.
//!
//! Equation numbers are those of the *NIST Digital Library of Mathematical Functions*
//! (dlmf.nist.gov).

/// Standard normal quantile of 97.5 %.
const NORMAL: f64 = 1.959_963_984_540_054;

/// Shape above which Wilson and Hilferty's approximation is right to seven digits.
const LARGE_SHAPE: f64 = 1e5;

/// Terms after which a sum or a fraction ends in any case. With a shape up to
/// [`LARGE_SHAPE`] it needs a few times the root of the shape.
const MAX_TERMS: u32 = 10_000;

/// The end of the distribution's tail of 2.5 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// 2.5 % are below.
    Lower,
    /// 2.5 % are above.
    Upper,
}

/// A quantile of the gamma distribution with this shape, at least 1/2, and scale 1. (The
/// shapes of estimates are at least 1.)
pub fn quantile(shape: f64, tail: Tail) -> f64 {
    let normal = match tail {
        Tail::Lower => -NORMAL,
        Tail::Upper => NORMAL,
    };
    // Wilson and Hilferty, "The distribution of chi-square", PNAS 17, 1931.
    let ninth = 1.0 / (9.0 * shape);
    let root = 1.0 - ninth + normal * ninth.sqrt();
    let start = shape * root.max(0.05).powi(3);
    if shape > LARGE_SHAPE {
        return start;
    }
    // Newton's method, kept between bounds that enclose the quantile.
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut at = start;
    for _ in 0..200 {
        // Positive above the quantile. The smaller probability is the accurate one.
        let (below, above) = probabilities(shape, at);
        let excess = match tail {
            Tail::Lower => below - 0.025,
            Tail::Upper => 0.025 - above,
        };
        if excess > 0.0 {
            high = at;
        } else {
            low = at;
        }
        let density = ((shape - 1.0) * at.ln() - at - logarithm_of_gamma(shape)).exp();
        let newton = at - excess / density;
        let next = if newton > low && newton < high {
            newton
        } else if high.is_finite() {
            (low + high) / 2.0
        } else {
            2.0 * at
        };
        if (next - at).abs() <= 1e-10 * at {
            return next;
        }
        at = next;
    }
    at
}

/// The probabilities that a value of the gamma distribution with this shape and scale 1 is
/// below `x`, and that it is above: the regularized incomplete gamma functions P and Q.
pub fn probabilities(shape: f64, x: f64) -> (f64, f64) {
    if x <= 0.0 {
        return (0.0, 1.0);
    }
    let factor = (shape * x.ln() - x - logarithm_of_gamma(shape)).exp();
    if x < shape + 1.0 {
        // 8.11.4: P = x^a e^-x / Γ(a) · Σ x^k / (a (a + 1) … (a + k)).
        let mut term = 1.0 / shape;
        let mut sum = term;
        for step in 1..MAX_TERMS {
            term *= x / (shape + f64::from(step));
            sum += term;
            if term < sum * f64::EPSILON {
                break;
            }
        }
        let below = (factor * sum).min(1.0);
        return (below, 1.0 - below);
    }
    // 8.9.2, a continued fraction, evaluated from the front by Lentz's method (Press et al.,
    // *Numerical Recipes*, 3rd edition, section 5.2).
    let mut b = x + 1.0 - shape;
    let mut c = f64::MAX;
    let mut d = 1.0 / b;
    let mut fraction = d;
    for step in 1..MAX_TERMS {
        let a = -f64::from(step) * (f64::from(step) - shape);
        b += 2.0;
        d = 1.0 / nonzero(a * d + b);
        c = nonzero(b + a / c);
        let change = d * c;
        fraction *= change;
        if (change - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    let above = (factor * fraction).min(1.0);
    (1.0 - above, above)
}

fn nonzero(value: f64) -> f64 {
    if value.abs() < f64::MIN_POSITIVE {
        f64::MIN_POSITIVE
    } else {
        value
    }
}

/// ln Γ(`x`), for a positive `x`.
fn logarithm_of_gamma(x: f64) -> f64 {
    // 5.5.1, Γ(x + 1) = x·Γ(x), up to where Stirling's series is right to 15 digits.
    let mut shifted = x;
    let mut product = 1.0;
    while shifted < 15.0 {
        product *= shifted;
        shifted += 1.0;
    }
    // 5.11.1, Stirling's series.
    let square = 1.0 / (shifted * shifted);
    let series = 1.0 / 1260.0 - square * (1.0 / 1680.0 - square / 1188.0);
    let series = (1.0 / 12.0 - square * (1.0 / 360.0 - square * series)) / shifted;
    let half_of_ln_2_pi = 0.918_938_533_204_672_8;
    (shifted - 0.5) * shifted.ln() - shifted + half_of_ln_2_pi + series - product.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Γ(n) = (n − 1)! and Γ(1/2) = √π.
    #[test]
    fn the_gamma_function_is_the_factorial() {
        let mut factorial = 1.0f64;
        for n in 1..100 {
            let found = logarithm_of_gamma(f64::from(n));
            assert!(
                (found - factorial.ln()).abs() < 1e-12 * found.abs().max(1.0),
                "{n}: {found}"
            );
            factorial *= f64::from(n);
        }
        let half = logarithm_of_gamma(0.5);
        assert!(
            (half - std::f64::consts::PI.sqrt().ln()).abs() < 1e-14,
            "{half}"
        );
    }

    /// With the shape 1 the gamma distribution is the exponential one, with the shape n the time
    /// until the nth event of a Poisson process: Q = Σ e^−x·x^k/k! over k < n.
    #[test]
    fn probabilities_are_those_of_a_poisson_process() {
        for events in 1..60 {
            for x in [0.01, 0.5, 1.0, 5.0, 20.0, 40.0, 80.0] {
                let (below, above) = probabilities(f64::from(events), x);
                let mut term = (-x).exp();
                let mut expected = 0.0;
                for k in 0..events {
                    expected += term;
                    term *= x / f64::from(k + 1);
                }
                assert!(
                    (above - expected).abs() < 1e-12,
                    "{events} {x}: {above} {expected}"
                );
                assert!((below + above - 1.0).abs() < 1e-15);
            }
        }
    }

    /// Half of the quantiles of chi-square with twice the shape as degrees of freedom, from the
    /// tables of Abramowitz and Stegun, *Handbook of Mathematical Functions*, table 26.8.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, lower, upper) in [
            (1.0, 0.000_982_069, 5.023_89),
            (2.0, 0.050_635_6, 7.377_76),
            (10.0, 3.246_97, 20.483_1),
            (30.0, 16.790_8, 46.979_2),
            (100.0, 74.221_9, 129.561),
        ] {
            for (tail, expected) in [(Tail::Lower, lower), (Tail::Upper, upper)] {
                let found = 2.0 * quantile(freedom / 2.0, tail);
                assert!(
                    (found / expected - 1.0f64).abs() < 1e-4,
                    "{freedom} {tail:?}: {found} instead of {expected}"
                );
            }
        }
    }

    #[test]
    fn a_quantile_has_its_probability() {
        let mut shape = 0.5;
        while shape < LARGE_SHAPE {
            let (below, _) = probabilities(shape, quantile(shape, Tail::Lower));
            let (_, above) = probabilities(shape, quantile(shape, Tail::Upper));
            assert!((above - 0.025).abs() < 1e-8, "{shape}: {above}");
            // Below a shape of 0.01 the quantile is smaller than any number.
            assert!(
                (below - 0.025).abs() < 1e-8 || shape < 0.01,
                "{shape}: {below}"
            );
            shape *= 1.7;
        }
    }

    #[test]
    fn the_two_ways_meet_at_large_shapes() {
        for tail in [Tail::Lower, Tail::Upper] {
            let below = quantile(LARGE_SHAPE, tail);
            let above = quantile(LARGE_SHAPE * (1.0 + 1e-9), tail);
            assert!((above / below - 1.0).abs() < 1e-7, "{below} {above}");
        }
    }
}
