//! The median of repeated measurements with the lowest and the highest, and whether two of them
//! differ by more than the noise.

/// The spread of some measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The middle one; the mean of the two in the middle if their number is even.
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

/// How a measurement compares with another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Lower by more than the noise.
    Less,
    /// The difference lies inside the noise.
    Tied,
    /// Higher by more than the noise.
    More,
    /// One of them was measured only once, so that the noise is not known.
    Unknown,
}

impl Spread {
    /// Returns the spread of these values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|it| it.is_finite()).collect();
        values.sort_unstable_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[middle - 1], values[middle])
        } else {
            values[middle]
        };
        Some(Self { median, low, high })
    }

    /// The largest difference between two of the values: the noise of one and the same thing.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }

    /// Compares the medians of `runs` measurements each. They are tied if their difference is at
    /// most the noise, which is the larger of both widths.
    pub fn compare(&self, other: &Self, runs: usize) -> Verdict {
        if runs < 2 {
            return Verdict::Unknown;
        }
        let difference = self.median - other.median;
        if difference.abs() <= self.noise(other) {
            Verdict::Tied
        } else if difference < 0.0 {
            Verdict::Less
        } else {
            Verdict::More
        }
    }

    /// The larger of both widths.
    pub fn noise(&self, other: &Self) -> f64 {
        self.width().max(other.width())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(values: &[f64]) -> Spread {
        Spread::of(values.iter().copied()).unwrap()
    }

    #[test]
    fn the_median_is_the_middle_value_or_the_mean_of_two() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(spread(&[3.0, 1.0, 2.0]).width(), 2.0);
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN]), None);
    }

    #[test]
    fn a_difference_inside_the_noise_is_a_tie() {
        let wide = spread(&[10.0, 12.0, 14.0]);
        // The difference of the medians is 4, and so is the width of the first.
        assert_eq!(wide.compare(&spread(&[16.0, 16.0, 16.0]), 3), Verdict::Tied);
        assert_eq!(wide.compare(&spread(&[16.1, 16.1, 16.1]), 3), Verdict::Less);
        assert_eq!(spread(&[16.1, 16.1]).compare(&wide, 2), Verdict::More);
        assert_eq!(wide.compare(&spread(&[99.0]), 1), Verdict::Unknown);
    }
}
