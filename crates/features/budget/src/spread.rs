//! The spread of a number over several runs, and the test that decides whether two
//! spreads differ by more than noise.
//!
//! The test is free of assumptions about the distribution of the numbers. Most real
//! spreads have a few separate values and rare outliers, so means and standard
//! deviations say little about them. `docs/budgets.md` has the rule, its rate of false
//! alarms and the measurements by which it was chosen.

use crate::tolerance::{Position, Tolerance};

/// Number of runs on both sides with which the margin is half the accepted width.
const FULL_RUNS: u32 = 10;

/// The spread of a number over several runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// The minimum.
    pub least: i64,
    /// The number of the run that stands for all: of those that were measured now, one
    /// with the median, the lower of two; of those that were accepted, the one whose
    /// stacks were accepted.
    pub typical: i64,
    /// The maximum.
    pub most: i64,
    /// The number of runs; 0 if it is not known, which is possible for an exact number
    /// only.
    pub runs: u32,
}

impl Spread {
    /// A number that is the same in all runs, whose number is not known.
    pub fn exact(number: i64) -> Self {
        Self {
            least: number,
            typical: number,
            most: number,
            runs: 0,
        }
    }

    /// The spread of the numbers of all runs; `None` if there are none.
    pub fn of(mut numbers: Vec<i64>) -> Option<Self> {
        numbers.sort_unstable();
        Some(Self {
            least: *numbers.first()?,
            typical: numbers[(numbers.len() - 1) / 2],
            most: *numbers.last()?,
            runs: u32::try_from(numbers.len()).unwrap_or(u32::MAX),
        })
    }

    /// Whether all runs have the same number.
    pub fn is_exact(&self) -> bool {
        self.least == self.most
    }

    /// The range in which a run of so many more is no difference from this accepted
    /// spread: wider than the spread itself by half its width on each side; with fewer
    /// than ten runs of either by more, because few runs rarely reach both ends. For an
    /// exact number it is the number itself.
    pub fn noise(&self, runs: u32) -> [i64; 2] {
        let width = i128::from(self.most) - i128::from(self.least);
        let runs = i128::from(runs.min(self.runs).clamp(1, FULL_RUNS));
        let margin = (width * i128::from(FULL_RUNS / 2) + runs - 1) / runs;
        let clamped = |number: i128| {
            let number = number.clamp(i64::MIN.into(), i64::MAX.into());
            i64::try_from(number).unwrap_or_default()
        };
        // Counts are not negative, except for differences of counts.
        let lowest = if self.least < 0 { i64::MIN } else { 0 };
        [
            clamped(i128::from(self.least) - margin).max(lowest),
            clamped(i128::from(self.most) + margin),
        ]
    }

    /// The position of measured runs relative to this accepted spread: above if all
    /// runs are above its noise and its tolerance, below if all are below.
    pub fn position(&self, now: &Self, tolerance: Tolerance) -> Position {
        let [low, high] = self.noise(now.runs);
        if now.least > high && tolerance.position(self.most, now.least) == Position::Above {
            Position::Above
        } else if now.most < low && tolerance.position(self.least, now.most) == Position::Below {
            Position::Below
        } else {
            Position::Within
        }
    }

    /// The tolerance, with two significant digits, within which twice the distance
    /// between any run of either spread and this accepted one would be.
    pub fn tolerance_for(&self, now: &Self) -> Tolerance {
        let ends = [self.least, self.most, now.least, now.most];
        let away = |end: i64| end.abs_diff(self.typical);
        let distance = ends.map(away).into_iter().max().unwrap_or(0);
        let distance = distance.saturating_mul(2);
        let mut step = 1;
        while distance / step >= 100 {
            step *= 10;
        }
        let rounded = distance.div_ceil(step).saturating_mul(step);
        Tolerance::absolute(rounded, rounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(numbers: &[i64]) -> Spread {
        Spread::of(numbers.to_vec()).expect("there are some")
    }

    fn position(accepted: &[i64], now: &[i64]) -> Position {
        spread(accepted).position(&spread(now), Tolerance::default())
    }

    #[test]
    fn an_exact_number_is_exact() {
        assert_eq!(position(&[7; 10], &[7; 10]), Position::Within);
        assert_eq!(position(&[7; 10], &[8; 10]), Position::Above);
        assert_eq!(position(&[7; 10], &[8, 900]), Position::Above);
        assert_eq!(position(&[7; 10], &[6; 10]), Position::Below);
        // Of an old file the number of runs is not known.
        let old = Spread::exact(7);
        assert_eq!(
            old.position(&spread(&[8; 2]), Tolerance::default()),
            Position::Above
        );
    }

    #[test]
    fn a_lucky_run_is_no_improvement_and_an_unlucky_one_no_regression() {
        let lucky = [7, 7, 7, 7, 5, 7, 7, 7, 7, 7];
        assert_eq!(position(&[7; 10], &lucky), Position::Within);
        assert_eq!(position(&lucky, &[7; 10]), Position::Within);
        assert_eq!(position(&[4, 4, 4, 4, 7], &lucky), Position::Within);
    }

    #[test]
    fn all_runs_beyond_the_spread_and_half_its_width_are_a_difference() {
        // 100 to 140: the width is 40, the margin 20.
        let accepted = [100, 110, 120, 125, 130, 135, 136, 137, 138, 140];
        assert_eq!(spread(&accepted).noise(10), [80, 160]);
        assert_eq!(position(&accepted, &[160; 10]), Position::Within);
        assert_eq!(position(&accepted, &[161; 10]), Position::Above);
        assert_eq!(position(&accepted, &[80; 10]), Position::Within);
        assert_eq!(position(&accepted, &[79; 10]), Position::Below);
        let mut mixed = [900; 10];
        mixed[3] = 160;
        assert_eq!(position(&accepted, &mixed), Position::Within);
    }

    #[test]
    fn fewer_runs_need_a_larger_difference() {
        let accepted = [100, 140, 100, 140, 100, 140, 100, 140, 100, 140];
        // 40 × 5 / 3, rounded up.
        assert_eq!(spread(&accepted).noise(3), [100 - 67, 140 + 67]);
        assert_eq!(spread(&accepted).noise(1), [0, 140 + 200]);
        assert_eq!(spread(&[100, 140]).noise(10), [0, 240]);
        let extreme = Spread {
            least: i64::MIN,
            typical: 0,
            most: i64::MAX,
            runs: 1,
        };
        assert_eq!(extreme.noise(1), [i64::MIN, i64::MAX]);
    }

    #[test]
    fn a_tolerance_is_in_addition() {
        let five = Tolerance::absolute(5, 5);
        let accepted = spread(&[10, 20, 10, 20, 10, 20, 10, 20, 10, 20]);
        // The noise ends at 25, as the tolerance does.
        assert_eq!(
            accepted.position(&spread(&[25; 10]), five),
            Position::Within
        );
        assert_eq!(accepted.position(&spread(&[26; 10]), five), Position::Above);
        let seven = Spread::exact(7);
        assert_eq!(seven.position(&spread(&[12; 10]), five), Position::Within);
        assert_eq!(seven.position(&spread(&[13; 10]), five), Position::Above);
    }

    #[test]
    fn the_lower_median_is_typical() {
        assert_eq!(spread(&[4, 1, 3, 2]).typical, 2);
        assert_eq!(spread(&[9, 1, 5]).typical, 5);
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn the_proposed_tolerance_covers_both_spreads_twice() {
        let accepted = spread(&[100, 103, 110]);
        // From 103, the end at 130 is 27 away.
        let proposed = accepted.tolerance_for(&spread(&[120, 130]));
        assert_eq!(proposed.to_string(), "±54");
        let proposed = accepted.tolerance_for(&spread(&[120, 103 + 1_234]));
        assert_eq!(proposed.to_string(), "±2500");
    }

    /// The number of ways in which `n` of `n + m` runs can be the largest ones is 1 of
    /// the binomial coefficient: the largest possible rate of false alarms, whatever the
    /// distribution, if the runs are exchangeable and no two are equal.
    #[test]
    fn the_rate_of_false_alarms_is_below_its_bound() {
        // Every split of 10 different numbers into 5 accepted and 5 measured ones.
        let numbers: [i64; 10] = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89];
        let (mut splits, mut alarms) = (0, 0);
        for chosen in 0_u32..1 << 10 {
            if chosen.count_ones() != 5 {
                continue;
            }
            let side = |of: u32| {
                let indexes = (0..10).filter(|index| chosen >> index & 1 == of);
                indexes.map(|index| numbers[index]).collect::<Vec<_>>()
            };
            splits += 1;
            alarms += u32::from(position(&side(0), &side(1)) != Position::Within);
        }
        // 10! / (5! 5!), and one split for each direction at most.
        assert_eq!(splits, 252);
        assert!(alarms <= 2, "{alarms}");
    }
}
