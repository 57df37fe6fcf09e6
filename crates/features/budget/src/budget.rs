//! The accepted numbers of a case.

use std::collections::BTreeMap;

use allotrope_profile::Metric;

use crate::spread::Spread;

/// The accepted numbers of a case.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Budget {
    /// Iterations in a run.
    pub iterations: Option<u64>,
    /// The numbers.
    pub numbers: BTreeMap<Metric, Number>,
}

/// An accepted number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number {
    /// Spread of the number over the runs.
    pub spread: Spread,
    /// Why it was accepted, if somebody said so.
    pub because: Option<String>,
}

impl From<Spread> for Number {
    fn from(spread: Spread) -> Self {
        Self {
            spread,
            because: None,
        }
    }
}

impl Budget {
    /// The accepted spread of a metric.
    pub fn spread(&self, metric: Metric) -> Option<Spread> {
        self.numbers.get(&metric).map(|number| number.spread)
    }
}
