//! The list of metrics of call stacks and of runs, with their names, units and where each
//! is known. The command line, budgets, diffs and exporters take names and units from
//! here. The README's glossary defines exactly what each metric means.

use std::fmt;

use crate::model::Site;

/// A number by which stacks or runs are compared, sorted, budgeted or exported.
///
/// The first nine are the metrics of call stacks ([`Metric::OF_STACKS`]);
/// `metric as usize` is their index in [`MetricValues`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Metric {
    /// Allocations.
    Allocations = 0,
    /// Requested bytes of all allocations.
    Bytes = 1,
    /// Temporary allocations.
    Temporary = 2,
    /// Allocations live at the end.
    LeakedAllocations = 3,
    /// Bytes live at the end.
    LeakedBytes = 4,
    /// Allocations live at the peak.
    PeakAllocations = 5,
    /// Bytes live at the peak. For a run: its largest number of live bytes.
    PeakBytes = 6,
    /// Lifetimes of all blocks, summed, in microseconds.
    Lifetime = 7,
    /// Reallocations: allocations that replaced a block.
    Reallocations = 8,
    /// Allocations of a run or a window that were live at its end.
    Remaining = 9,
    /// Allocations minus deallocations of a run; negative if it made more deallocations
    /// than allocations.
    Net = 10,
    /// File descriptors that were opened in a window and open at its end.
    LeakedFds = 11,
}

/// The unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of allocations, calls or descriptors.
    Count,
    /// Bytes.
    Bytes,
    /// Microseconds.
    Microseconds,
}

impl Metric {
    /// Whether it is a height that is reached once, which no number of iterations divides: a peak.
    pub fn is_level(self) -> bool {
        matches!(self, Self::PeakAllocations | Self::PeakBytes)
    }

    /// Number of metrics.
    pub const COUNT: usize = 12;

    /// The metrics of a call stack, by their index in [`MetricValues`].
    pub const OF_STACKS: [Self; 9] = [
        Self::Allocations,
        Self::Bytes,
        Self::Temporary,
        Self::LeakedAllocations,
        Self::LeakedBytes,
        Self::PeakAllocations,
        Self::PeakBytes,
        Self::Lifetime,
        Self::Reallocations,
    ];

    /// The metrics that the command line offers, in the order of its help. Lifetimes are
    /// not among them because they are times and not counts.
    pub const OFFERED: [Self; 7] = [
        Self::Allocations,
        Self::Bytes,
        Self::Temporary,
        Self::LeakedBytes,
        Self::LeakedAllocations,
        Self::PeakBytes,
        Self::PeakAllocations,
    ];

    /// The metrics of a run for which budgets can be set, in the order of configurations,
    /// budget files and outputs.
    pub const OF_RUNS: [Self; 8] = [
        Self::Allocations,
        Self::Bytes,
        Self::Remaining,
        Self::Net,
        Self::PeakBytes,
        Self::Temporary,
        Self::Reallocations,
        Self::LeakedFds,
    ];

    /// Returns the metric's name on the command line, in configurations, in budget files and in the
    /// JSON of diffs and tests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocations => "allocations",
            Self::Bytes => "bytes",
            Self::Temporary => "temporary",
            Self::LeakedAllocations => "leaked-allocations",
            Self::LeakedBytes => "leaked",
            Self::PeakAllocations => "peak-allocations",
            Self::PeakBytes => "peak",
            Self::Lifetime => "lifetime",
            Self::Remaining => "remaining",
            Self::Net => "net",
            Self::Reallocations => "reallocations",
            Self::LeakedFds => "leaked_fds",
        }
    }

    /// Returns the metric's key in the JSON formats of reports and stacks.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Allocations => "allocations",
            Self::Bytes => "allocated_bytes",
            Self::Temporary => "temporary_allocations",
            Self::LeakedAllocations => "leaked_allocations",
            Self::LeakedBytes => "leaked_bytes",
            Self::PeakAllocations => "allocations_at_peak",
            Self::PeakBytes => "bytes_at_peak",
            Self::Lifetime => "lifetime_us",
            Self::Remaining => "remaining_allocations",
            Self::Net => "net_allocations",
            Self::Reallocations => "reallocations",
            Self::LeakedFds => "leaked_fds",
        }
    }

    /// Returns the metric's description for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Allocations => "allocations",
            Self::Bytes => "allocated bytes",
            Self::Temporary => "temporary allocations",
            Self::LeakedAllocations => "leaked allocations",
            Self::LeakedBytes => "leaked bytes",
            Self::PeakAllocations => "allocations at the peak",
            Self::PeakBytes => "bytes at the peak",
            Self::Lifetime => "microseconds of lifetime",
            Self::Remaining => "remaining allocations",
            Self::Net => "allocations minus deallocations",
            Self::Reallocations => "reallocations",
            Self::LeakedFds => "leaked file descriptors",
        }
    }

    /// Returns the metric's unit.
    pub const fn unit(self) -> Unit {
        match self {
            Self::Bytes | Self::LeakedBytes | Self::PeakBytes => Unit::Bytes,
            Self::Lifetime => Unit::Microseconds,
            _ => Unit::Count,
        }
    }

    /// The metric with this name among `metrics`.
    pub fn named(name: &str, metrics: &[Self]) -> Option<Self> {
        metrics.iter().copied().find(|metric| metric.name() == name)
    }

    /// The metric that counts the blocks of a metric in bytes or microseconds; for
    /// others, the metric itself. It breaks ties, and distinguishes blocks of 0 bytes
    /// from no blocks.
    #[must_use]
    pub const fn counted_blocks(self) -> Self {
        match self {
            Self::Bytes | Self::Lifetime => Self::Allocations,
            Self::LeakedBytes => Self::LeakedAllocations,
            Self::PeakBytes => Self::PeakAllocations,
            other => other,
        }
    }

    /// The metric of call stacks that shows where a run's number comes from: itself if
    /// stacks have it; `None` if stacks have no such metric.
    pub const fn of_stacks(self) -> Option<Self> {
        match self {
            Self::Remaining | Self::Net => Some(Self::LeakedAllocations),
            Self::LeakedFds => None,
            other => Some(other),
        }
    }

    /// Whether it is known in a recording made with `--counts-only`.
    pub const fn is_counted(self) -> bool {
        matches!(
            self,
            Self::Allocations | Self::Bytes | Self::Net | Self::Reallocations
        )
    }

    /// Whether less is better. Not so for [`Metric::Net`], which has an intended value.
    pub fn less_is_better(self) -> bool {
        self != Self::Net
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// The values of one call stack's metrics, in the order of [`Metric::OF_STACKS`].
pub type MetricValues = [u64; Metric::OF_STACKS.len()];

impl Site {
    /// The values of its metrics.
    pub fn metrics(&self) -> MetricValues {
        [
            self.allocations,
            self.allocated_bytes,
            self.temporary_allocations,
            self.leaked_allocations,
            self.leaked_bytes,
            self.allocations_at_peak,
            self.bytes_at_peak,
            u64::try_from(self.lifetimes.total_ns() / 1000).unwrap_or(u64::MAX),
            self.reallocations,
        ]
    }
}

/// A set of metrics, such as those that a file has: a bit set by `metric as u16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MetricSet(u16);

impl MetricSet {
    /// All metrics of call stacks.
    pub const OF_STACKS: Self = Self((1 << Metric::OF_STACKS.len()) - 1);

    /// The metrics of what was live at a moment.
    pub fn of_live() -> Self {
        Self::of(&[
            Metric::Allocations,
            Metric::Bytes,
            Metric::LeakedAllocations,
            Metric::LeakedBytes,
        ])
    }

    /// The set of these metrics.
    pub fn of(metrics: &[Metric]) -> Self {
        let bits = metrics.iter().map(|&metric| 1 << metric as u16);
        Self(bits.fold(0, |set, bit| set | bit))
    }

    /// Whether `metric` is in the set.
    pub fn has(self, metric: Metric) -> bool {
        self.0 & 1 << metric as u16 != 0
    }

    /// The set without a metric.
    #[must_use]
    pub const fn without(self, metric: Metric) -> Self {
        Self(self.0 & !(1 << metric as u16))
    }

    /// The intersection.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_stacks_are_their_own_indexes() {
        for (index, metric) in Metric::OF_STACKS.into_iter().enumerate() {
            assert_eq!(metric as usize, index);
            assert_eq!(metric.of_stacks(), Some(metric));
            assert!(MetricSet::OF_STACKS.has(metric));
        }
        assert!(!MetricSet::OF_STACKS.has(Metric::Remaining));
    }

    #[test]
    fn every_metric_is_found_by_its_name() {
        for list in [&Metric::OF_STACKS[..], &Metric::OFFERED, &Metric::OF_RUNS] {
            for &metric in list {
                assert_eq!(Metric::named(metric.name(), list), Some(metric));
            }
            assert_eq!(Metric::named("allocation", list), None);
        }
    }
}
