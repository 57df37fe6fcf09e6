//! Estimates and intervals in words.

use allotrope_profile::sampled::Estimate;
use allotrope_profile::{Metric, Unit};

use crate::numbers::{bytes, count};

/// An estimate without its interval.
pub fn value(estimate: &Estimate, metric: Metric) -> String {
    number(estimate.value.round() as u64, metric)
}

/// The interval of an estimate: `1.2 MiB–3.4 MiB`; `1.2 MiB–?` if the upper end is not known.
pub fn interval(estimate: &Estimate, metric: Metric) -> String {
    let it = estimate.rounded();
    // The casts saturate.
    let end = |it: f64| number(it as u64, metric);
    let high = it.known_high().map_or_else(|| "?".to_owned(), end);
    format!("{}–{high}", end(it.low))
}

fn number(number: u64, metric: Metric) -> String {
    match metric.unit() {
        Unit::Bytes => bytes(number),
        Unit::Count | Unit::Microseconds => count(number),
    }
}

/// A metric in the words of a sampled profile: nothing has ended, so nothing has leaked.
pub fn words(metric: Metric) -> &'static str {
    match metric {
        Metric::LeakedBytes => "live bytes",
        Metric::LeakedAllocations => "live blocks",
        other => other.words(),
    }
}
