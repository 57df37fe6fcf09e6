//! Estimates and intervals in words.

use allotrope_profile::sampled::{Estimate, SampledProfile};
use allotrope_profile::{Metric, Unit};

use crate::numbers::{bytes, count};

/// What a sampled profile is, in one sentence.
pub fn note(profile: &SampledProfile) -> String {
    format!(
        "the figures are estimates from samples ({}), and from–to are their 95 % intervals",
        periods(profile)
    )
}

/// At which periods the processes were sampled.
pub(super) fn periods(profile: &SampledProfile) -> String {
    let on = profile.processes.iter().map(|it| it.sampling);
    let mut periods: Vec<u64> = on
        .flat_map(|it| [it.period, it.longest_period])
        .filter(|&period| period > 0)
        .collect();
    periods.sort_unstable();
    match (periods.first(), periods.last()) {
        (Some(one), Some(other)) if one == other => format!("one byte of {} is a hit", bytes(*one)),
        (Some(least), Some(most)) => {
            format!("one byte of {} to {} is a hit", bytes(*least), bytes(*most))
        }
        _ => "sampling was never on".to_owned(),
    }
}

/// An estimate without its interval.
pub fn value(estimate: &Estimate, metric: Metric) -> String {
    number(estimate.value.round() as u64, metric)
}

/// The interval of an estimate: `1.2 MiB–3.4 MiB`.
pub fn interval(estimate: &Estimate, metric: Metric) -> String {
    let it = estimate.rounded();
    // The casts saturate.
    let [low, high] = [it.low, it.high].map(|it| number(it as u64, metric));
    format!("{low}–{high}")
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
