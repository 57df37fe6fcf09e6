//! The figures that a budget can be set for: their names, and which figure of
//! a call stack explains them. How they are measured is `sample`'s.

use std::fmt;

use allotrope_profile::stack_set;

/// A figure of one run of a case. Every word is the glossary's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub enum Metric {
    /// Allocations.
    Allocations = 0,
    /// Requested bytes of all allocations.
    Bytes = 1,
    /// Allocations of the case that were live at its end.
    Remaining = 2,
    /// Allocations minus deallocations; below 0 where more was given back than
    /// taken.
    Net = 3,
    /// Largest number of live bytes.
    Peak = 4,
    /// Temporary allocations.
    Temporary = 5,
    /// Reallocations.
    Reallocations = 6,
    /// File descriptors that were opened in the case and open at its end.
    LeakedFds = 7,
}

/// Figures by metric; `None` where a run does not know one.
pub type Figures = [Option<i64>; Metric::ALL.len()];

impl Metric {
    /// Every metric, by its number.
    pub const ALL: [Self; 8] = [
        Self::Allocations,
        Self::Bytes,
        Self::Remaining,
        Self::Net,
        Self::Peak,
        Self::Temporary,
        Self::Reallocations,
        Self::LeakedFds,
    ];

    /// What it is called in configurations, budgets and outputs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocations => "allocations",
            Self::Bytes => "bytes",
            Self::Remaining => "remaining",
            Self::Net => "net",
            Self::Peak => "peak",
            Self::Temporary => "temporary",
            Self::Reallocations => "reallocations",
            Self::LeakedFds => "leaked_fds",
        }
    }

    /// The metric of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// The figure of call stacks that explains it, if stacks have one.
    pub fn of_stacks(self) -> Option<stack_set::Metric> {
        match self {
            Self::Allocations => Some(stack_set::Metric::Allocations),
            Self::Bytes => Some(stack_set::Metric::AllocatedBytes),
            Self::Remaining | Self::Net => Some(stack_set::Metric::LeakedAllocations),
            Self::Peak => Some(stack_set::Metric::BytesAtPeak),
            Self::Temporary => Some(stack_set::Metric::TemporaryAllocations),
            Self::Reallocations | Self::LeakedFds => None,
        }
    }

    /// Whether a recording that only counts calls knows it.
    pub fn is_counted(self) -> bool {
        matches!(
            self,
            Self::Allocations | Self::Bytes | Self::Net | Self::Reallocations
        )
    }

    /// Whether fewer is better: net is meant to be what it is.
    pub fn less_is_better(self) -> bool {
        self != Self::Net
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_found_by_its_number_and_its_name() {
        for (number, metric) in Metric::ALL.into_iter().enumerate() {
            assert_eq!(metric as usize, number);
            assert_eq!(Metric::named(metric.name()), Some(metric));
        }
        assert_eq!(Metric::named("allocation"), None);
    }
}
