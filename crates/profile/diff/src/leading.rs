//! Which metrics differ between two sides, and which of them a comparison leads with.

use allotrope_profile::{Metric, StackSet, Unit};

/// A difference of so many bytes counts, however small a part of the recording it is.
const MIN_BYTES: u64 = 64 << 10;
/// A metric counts whose figure is this part of the recording and more.
const MIN_PART: u64 = 100;

/// A metric whose totals differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricChange {
    /// The metric.
    pub metric: Metric,
    /// Its total before; of several runs, that of the run with the median.
    pub before: u64,
    /// Its total after, likewise.
    pub after: u64,
}

impl MetricChange {
    /// After minus before.
    pub fn difference(&self) -> i64 {
        (self.after as i64).saturating_sub(self.before as i64)
    }

    /// The change as a part of what was before: -1 if nothing is left, infinite if nothing was there.
    pub fn relative(&self) -> f64 {
        match (self.before, self.after) {
            (0, 0) => 0.0,
            (0, _) => f64::INFINITY,
            (before, after) => after as f64 / before as f64 - 1.0,
        }
    }

    /// How large the change is beside others: the tenths of the larger side that are not on the other
    /// one. What is nearly all of a metric is as much as all of another one.
    fn size(&self) -> u64 {
        let larger = self.before.max(self.after).max(1) as f64;
        let tenths = self.difference().unsigned_abs() as f64 * 10.0 / larger;
        tenths.round() as u64
    }
}

/// The metrics that both sides give and that differ, in the order of
/// [`Metric::OFFERED`]. A metric does not differ if the totals of several runs of the two sides
/// overlap.
pub fn metric_changes(before: &[StackSet], after: &[StackSet]) -> Vec<MetricChange> {
    let is_given = |metric: &Metric| {
        let mut sets = before.iter().chain(after);
        sets.all(|set| set.known.has(*metric))
    };
    let changes = Metric::OFFERED.into_iter().filter(is_given);
    let changes = changes.filter_map(|metric| {
        let [before, after] = [before, after].map(|runs| {
            let mut totals: Vec<u64> = runs.iter().map(|run| run.total(metric)).collect();
            totals.sort_unstable();
            totals
        });
        let overlap = before.first()? <= after.last()? && after.first()? <= before.last()?;
        let median = |totals: &[u64]| totals.get((totals.len() - 1) / 2).copied();
        (!overlap).then_some(MetricChange {
            metric,
            before: median(&before)?,
            after: median(&after)?,
        })
    });
    changes.collect()
}

/// The metric of which the largest part changed, in tenths, of those that are 1 % of the recording or
/// 64 KiB and more: of the allocations, of the allocated bytes, of the peak. Of equal ones the first in
/// the order of [`Metric::OFFERED`]. `None` if none is.
pub fn leading_metric(
    changes: &[MetricChange],
    before: &[StackSet],
    after: &[StackSet],
) -> Option<Metric> {
    let largest = |metric: Metric| {
        let totals = before.iter().chain(after).map(|set| set.total(metric));
        totals.max().unwrap_or(0)
    };
    let counts = |change: &&MetricChange| {
        let of = match change.metric {
            Metric::Bytes => Metric::Bytes,
            Metric::LeakedBytes | Metric::PeakBytes => Metric::PeakBytes,
            Metric::LeakedAllocations | Metric::PeakAllocations => Metric::PeakAllocations,
            _ => Metric::Allocations,
        };
        let figure = change.before.max(change.after);
        figure.saturating_mul(MIN_PART) >= largest(of)
            || change.metric.unit() == Unit::Bytes
                && change.difference().unsigned_abs() >= MIN_BYTES
    };
    // The first of equal ones.
    let counting = changes.iter().rev().filter(counts);
    let leading = counting.max_by_key(|it| it.size());
    leading.map(|change| change.metric)
}

#[cfg(test)]
mod tests {
    use allotrope_profile::{CountedStack, MetricSet};

    use super::*;

    /// A run with allocations, temporary ones, bytes at the peak, and leaked bytes.
    fn run(figures: [u64; 4]) -> StackSet {
        let metrics = [
            Metric::Allocations,
            Metric::Temporary,
            Metric::PeakBytes,
            Metric::LeakedBytes,
        ];
        let mut stack = CountedStack::default();
        for (metric, figure) in metrics.into_iter().zip(figures) {
            stack.figures[metric as usize] = figure;
        }
        StackSet {
            stacks: vec![stack],
            known: MetricSet::of(&metrics),
            ..StackSet::default()
        }
    }

    fn leading(before: &[[u64; 4]], after: &[[u64; 4]]) -> Option<Metric> {
        let [before, after] = [before, after]
            .map(|runs| -> Vec<StackSet> { runs.iter().map(|figures| run(*figures)).collect() });
        leading_metric(&metric_changes(&before, &after), &before, &after)
    }

    #[test]
    fn the_metric_of_which_most_changed_leads() {
        // The peak fell by 98.6 %, allocations by 1 %.
        let found = leading(&[[12_000, 0, 20 << 20, 0]], &[[11_842, 0, 290 << 10, 0]]);
        assert_eq!(found, Some(Metric::PeakBytes));
        // Twice and half are as much: the first metric leads.
        let found = leading(&[[100, 0, 200, 0]], &[[200, 0, 100, 0]]);
        assert_eq!(found, Some(Metric::Allocations));
        // All temporary allocations are gone, and nearly all allocations.
        let found = leading(&[[45_152, 500, 87_104, 0]], &[[102, 0, 84_000, 0]]);
        assert_eq!(found, Some(Metric::Allocations));
        assert_eq!(leading(&[[100, 0, 200, 0]], &[[100, 0, 200, 0]]), None);
    }

    #[test]
    fn what_is_small_in_the_recording_does_not_lead() {
        // Leaked bytes rose from 0 to 100, of 20 MiB.
        let found = leading(&[[100, 0, 20 << 20, 0]], &[[110, 0, 20 << 20, 100]]);
        assert_eq!(found, Some(Metric::Allocations));
        // 64 KiB count.
        let found = leading(&[[100, 0, 20 << 20, 0]], &[[110, 0, 20 << 20, 64 << 10]]);
        assert_eq!(found, Some(Metric::LeakedBytes));
    }

    #[test]
    fn what_several_runs_of_a_side_have_too_is_no_change() {
        let before = [[100, 0, 1000, 0], [100, 0, 3000, 0]];
        let after = [[101, 0, 2500, 0], [101, 0, 9000, 0]];
        assert_eq!(leading(&before, &after), Some(Metric::Allocations));
    }
}
