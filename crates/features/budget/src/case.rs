//! A case of a test, and its figures.

use allotrope_profile::Metric;

use crate::case_run::CaseRun;
use crate::spread::Spread;

/// A case and its figures.
#[derive(Debug, Clone)]
pub struct Case {
    /// `TEST`, or `TEST/WINDOW`.
    pub name: String,
    /// Runs of the case without warm-up; never empty.
    pub runs: Vec<CaseRun>,
}

impl Case {
    /// The spread of a metric over all runs; `None` if a run did not record it.
    pub fn spread(&self, metric: Metric) -> Option<Spread> {
        let runs = self.runs.iter();
        Spread::of(runs.map(|run| run.figure(metric)).collect::<Option<_>>()?)
    }
}
