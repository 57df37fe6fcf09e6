//! When a recording ran, and its marks: without an aggregation of its events ([`run_times`]), or
//! from a profile.

use crate::error::AggregateError;
use crate::index::{Image, index};
use crate::model::{Mark, Profile};
use crate::source::TraceSource;

/// When a recording ran, in nanoseconds since its start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunTimes {
    /// The start of the first process. Times that people write count from it.
    pub started_ns: u64,
    /// The end of the last process, or the last known time.
    pub ended_ns: u64,
    /// The named moments, in order of time.
    pub marks: Vec<Mark>,
    /// The number of process images.
    pub processes: usize,
}

impl RunTimes {
    /// Returns the times of a profile of a whole recording, exact to a microsecond.
    pub fn of(profile: &Profile) -> Self {
        let processes = || profile.processes.iter();
        let start = processes().map(|it| it.started_us).min().unwrap_or(0);
        let ends = processes().map(|it| it.started_us.saturating_add(it.duration_us));
        Self {
            started_ns: start.saturating_mul(1000),
            ended_ns: ends.max().unwrap_or(start).saturating_mul(1000),
            marks: profile.marks.clone(),
            processes: profile.processes.len(),
        }
    }

    /// Returns the time from the start of the first process to the end of the last one, in
    /// nanoseconds.
    pub fn lasted_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.started_ns)
    }
}

/// When a recording ran.
///
/// # Errors
///
/// If the trace cannot be read, or a record of it is damaged.
pub fn run_times<S: TraceSource>(source: &S) -> Result<RunTimes, AggregateError> {
    let (index, _) = index(source)?;
    let start = |image: &Image<S::Handle>| index.timeline.ns(image.start.tick);
    let end = |image: &Image<S::Handle>| match image.end {
        Some(end) => index.timeline.ns(end.tick),
        None => index.last_seen(image),
    };
    let images = || index.images.values();
    let started_us = images().map(start).min().unwrap_or(0) / 1000;
    Ok(RunTimes {
        started_ns: started_us * 1000,
        ended_ns: images().map(end).max().unwrap_or(0),
        marks: index.named_moments(),
        processes: index.images.len(),
    })
}
