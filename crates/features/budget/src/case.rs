//! A case of a test, and its figures.

use allotrope_profile::Metric;

use crate::sample::Sample;
use crate::spread::Spread;

/// A case and its figures.
#[derive(Debug, Clone)]
pub struct Case {
    /// `TEST`, or `TEST/WINDOW`.
    pub name: String,
    /// Its runs without warm-up; never empty.
    pub samples: Vec<Sample>,
}

impl Case {
    /// The spread of a metric over all runs; `None` if a run did not record it.
    pub fn spread(&self, metric: Metric) -> Option<Spread> {
        let samples = self.samples.iter();
        Spread::of(
            samples
                .map(|sample| sample.figure(metric))
                .collect::<Option<_>>()?,
        )
    }
}
