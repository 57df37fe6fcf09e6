//! Medians and spreads.

use serde::{Deserialize, Serialize};

/// A median with the range of its samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Median {
    /// The median: the middle value, or the mean of the two middle ones.
    pub middle: f64,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub greatest: f64,
    /// The number of values.
    pub runs: usize,
    /// The median's 95 % confidence interval; `None` for fewer than six values.
    pub interval: Option<(f64, f64)>,
}

impl Median {
    /// The median of these numbers; `None` if there are none.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut numbers: Vec<f64> = numbers.into_iter().collect();
        numbers.sort_by(f64::total_cmp);
        let (&least, &greatest) = (numbers.first()?, numbers.last()?);
        let half = numbers.len() / 2;
        let middle = if numbers.len() % 2 == 1 {
            numbers[half]
        } else {
            (numbers[half - 1] + numbers[half]) / 2.0
        };
        Some(Self {
            middle,
            least,
            greatest,
            runs: numbers.len(),
            interval: interval_of_median(&numbers),
        })
    }

    /// Same as [`text`](Self::text), with the confidence interval instead of the range, if there is
    /// one.
    pub fn text_with_interval(&self, unit: &str, form: impl Fn(f64) -> String) -> String {
        let (least, greatest) = self.interval.unwrap_or((self.least, self.greatest));
        let shown = Self {
            least,
            greatest,
            ..*self
        };
        shown.text(unit, form)
    }

    /// The text `middle unit (least–greatest)`, with numbers formatted by `form`; only
    /// the middle if there was one run.
    pub fn text(&self, unit: &str, form: impl Fn(f64) -> String) -> String {
        let (middle, least, greatest) = (form(self.middle), form(self.least), form(self.greatest));
        if self.runs == 1 {
            return format!("{middle}{unit}");
        }
        format!("{middle}{unit} ({least}–{greatest})")
    }
}

/// The 95 % confidence interval of the median: two of the values, chosen by the binomial
/// distribution, so that nothing is assumed about theirs. `None` for fewer than six. The
/// numbers are sorted.
fn interval_of_median(numbers: &[f64]) -> Option<(f64, f64)> {
    let count = numbers.len();
    // How probable it is that the median lies below the first value.
    let mut outside = 0.5_f64.powi(i32::try_from(count).ok()?);
    let mut of_next = outside;
    let mut skipped = None;
    for at in 0..count / 2 {
        if outside > 0.025 {
            break;
        }
        skipped = Some(at);
        of_next *= (count - at) as f64 / (at + 1) as f64;
        outside += of_next;
    }
    let at = skipped?;
    Some((numbers[at], numbers[count - 1 - at]))
}

/// Three significant digits, without an exponent.
pub fn short(number: f64) -> String {
    match number.abs() {
        size if size >= 99.95 => format!("{number:.0}"),
        size if size >= 9.995 => format!("{number:.1}"),
        size if size >= 0.0995 || size == 0.0 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

/// A count with K, M or G if it is a round number: `4 M`.
pub fn count(number: u64) -> String {
    match number {
        1_000_000_000.. if number.is_multiple_of(1_000_000_000) => {
            format!("{} G", number / 1_000_000_000)
        }
        1_000_000.. if number.is_multiple_of(100_000) => {
            format!("{} M", number as f64 / 1e6)
        }
        1_000.. if number.is_multiple_of(100) => format!("{} K", number as f64 / 1e3),
        _ => number.to_string(),
    }
}

/// The exponent with which a cost grows with its cause, for points (cause, cost): the
/// slope of the least-squares line through the logarithms. 1 is proportional.
pub fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    if points.len() < 2 || points.iter().any(|(x, y)| *x <= 0.0 || *y <= 0.0) {
        return None;
    }
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let number = logs.len() as f64;
    let mean_x = logs.iter().map(|(x, _)| x).sum::<f64>() / number;
    let mean_y = logs.iter().map(|(_, y)| y).sum::<f64>() / number;
    let above: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let below: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    (below > 0.0).then_some(above / below)
}

/// The largest exponent between two neighbouring points, and the causes of these two.
pub fn steepest(points: &[(f64, f64)]) -> Option<(f64, f64, f64)> {
    let steps = points
        .windows(2)
        .filter_map(|pair| Some((exponent(pair)?, pair[0].0, pair[1].0)));
    steps.max_by(|(a, ..), (b, ..)| a.total_cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_odd_and_even() {
        assert_eq!(Median::of([3.0, 1.0, 2.0]).unwrap().middle, 2.0);
        let even = Median::of([4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((even.middle, even.least, even.greatest), (2.5, 1.0, 4.0));
        assert_eq!(Median::of([]), None);
    }

    #[test]
    fn the_interval_of_a_median_is_that_of_the_tables() {
        // Ranks that tables of the sign test give: 1 and 6 of 6, 2 and 9 of 10, 6 and 15 of 20.
        let of = |count: u32| Median::of((1..=count).map(f64::from)).unwrap().interval;
        assert_eq!(of(5), None);
        assert_eq!(of(6), Some((1.0, 6.0)));
        assert_eq!(of(10), Some((2.0, 9.0)));
        assert_eq!(of(20), Some((6.0, 15.0)));
    }

    #[test]
    fn a_spread_is_shown_for_several_runs() {
        let form = |number: f64| format!("{number:.0}");
        assert_eq!(
            Median::of([2.0, 1.0, 4.0]).unwrap().text(" ns", form),
            "2 ns (1–4)"
        );
        assert_eq!(Median::of([2.0]).unwrap().text("×", form), "2×");
    }

    #[test]
    fn a_line_has_exponent_one_and_a_square_two() {
        let line = [(1.0, 3.0), (10.0, 30.0), (100.0, 300.0)];
        assert!((exponent(&line).unwrap() - 1.0).abs() < 1e-9);
        let square = [(1.0, 1.0), (2.0, 4.0), (4.0, 16.0)];
        assert!((exponent(&square).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(exponent(&[(1.0, 1.0)]), None);
        let bend = [(1.0, 1.0), (2.0, 1.0), (4.0, 4.0), (8.0, 8.0)];
        let (power, from, to) = steepest(&bend).unwrap();
        assert!((power - 2.0).abs() < 1e-9 && (from, to) == (2.0, 4.0));
    }

    #[test]
    fn counts_are_short() {
        assert_eq!(count(40_000_000), "40 M");
        assert_eq!(count(1_500_000), "1.5 M");
        assert_eq!(count(1_000), "1 K");
        assert_eq!(count(200), "200");
        assert_eq!(count(1_000_000_000), "1 G");
    }
}
