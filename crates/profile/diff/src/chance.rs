//! Confidence interval of a difference of two sampled profiles.
//!
//! The figures of a sampled profile are estimates with 95 % intervals, from which those of differences
//! follow ([`Estimate::minus`]). An exact figure is an interval without width. An interval that
//! includes 0 cannot tell the difference from chance.
//!
//! It assumes that the samples of both sides are independent. Two profiles of one process share
//! the samples of blocks that were live in both. What they have in common cancels out of the
//! difference, so the interval is too wide then, never too narrow.

use allotrope_profile::Metric;
use allotrope_profile::sampled::{Estimate, SampledStacks};

use crate::{Diff, EntryStack, Side};

/// The 95 % interval of a difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The ends of the intervals of both figures.
    pub before: [f64; 2],
    /// See `before`.
    pub after: [f64; 2],
}

impl Interval {
    /// Of the difference `after` minus `before`.
    pub fn of_difference(before: &Estimate, after: &Estimate) -> Self {
        let difference = after.minus(before);
        Self {
            low: difference.low,
            high: difference.high,
            before: [before.low, before.high],
            after: [after.low, after.high],
        }
    }

    /// Whether there may be no difference at all.
    pub fn may_be_chance(&self) -> bool {
        self.low <= 0.0 && 0.0 <= self.high
    }
}

/// One side of a comparison.
#[derive(Debug, Clone)]
pub enum SideFigures {
    /// A recording, whose figures have no error.
    Exact,
    /// A sampled profile.
    Sampled(Box<SampledStacks>),
}

impl SideFigures {
    /// The estimate of a figure that is the sum of these stacks.
    fn of_stacks(
        &self,
        indexes: impl Iterator<Item = u32>,
        exact: u64,
        metric: Metric,
    ) -> Estimate {
        let Self::Sampled(samples) = self else {
            return exactly(exact);
        };
        let mut sum = samples.none;
        for figures in indexes.filter_map(|index| samples.stacks.get(index as usize)) {
            sum.merge(figures);
        }
        sum.metric(metric).unwrap_or(exactly(exact))
    }

    fn total(&self, exact: u64, metric: Metric) -> Estimate {
        match self {
            Self::Exact => exactly(exact),
            Self::Sampled(samples) => samples.total.metric(metric).unwrap_or(exactly(exact)),
        }
    }
}

fn exactly(figure: u64) -> Estimate {
    Estimate::exact(figure as f64)
}

/// Adds the intervals of the differences of the total and of all entries.
pub fn add_intervals(diff: &mut Diff, sides: [&SideFigures; 2]) {
    let [before, after] = sides;
    let metric = diff.metric;
    diff.interval = Some(Interval::of_difference(
        &before.total(diff.before, metric),
        &after.total(diff.after, metric),
    ));
    for entry in &mut diff.entries {
        let of = |side: Side| {
            let stacks = entry.stacks.iter();
            stacks.flat_map(move |stack: &EntryStack| stack.sources[side as usize].iter().copied())
        };
        entry.interval = Some(Interval::of_difference(
            &before.of_stacks(of(Side::Before), entry.before, metric),
            &after.of_stacks(of(Side::After), entry.after, metric),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, low, high }
    }

    #[test]
    fn the_interval_of_a_difference_adds_the_distances_as_squares() {
        let found = Interval::of_difference(
            &estimate(100.0, 96.0, 103.0),
            &estimate(200.0, 196.0, 212.0),
        );
        // 3-4-5: down by 4 after and up by 3 before.
        assert_eq!(found.low, 95.0);
        assert!((found.high - (100.0 + 160_f64.sqrt())).abs() < 1e-9);
        assert!(!found.may_be_chance());
    }

    #[test]
    fn exact_figures_differ_by_exactly_their_difference() {
        let found = Interval::of_difference(&exactly(7), &exactly(9));
        assert_eq!((found.low, found.high), (2.0, 2.0));
        assert!(Interval::of_difference(&exactly(7), &exactly(7)).may_be_chance());
    }
}
