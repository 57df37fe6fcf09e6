//! Live bytes and resident memory over time in the JSON report.

use allotrope_profile::{Process, Series};
use serde::Serialize;

/// Largest number of buckets of all processes together: a recording may have thousands of
/// processes.
const MAX_BUCKETS: usize = 1 << 16;
/// A process has so many buckets in any case.
const MIN_BUCKETS: usize = 16;

/// Live bytes in buckets of equal width. A list has a number for each bucket.
#[derive(Serialize)]
pub(crate) struct SeriesForm {
    /// Start of the first bucket, since the start of the recording.
    from_us: u64,
    width_us: u64,
    max_bytes: Vec<u64>,
    bytes: Vec<u64>,
    allocations: Vec<u64>,
    allocated: Vec<u64>,
}

/// A sample of the resident set.
#[derive(Serialize)]
pub(crate) struct ResidentForm {
    time_us: u64,
    /// Resident bytes as the kernel counts them.
    bytes: u64,
    /// Resident bytes of the recorder; null if unknown.
    recorder_bytes: Option<u64>,
}

impl SeriesForm {
    /// The series of one of so many processes.
    pub(crate) fn of(process: &Process, processes: usize) -> Self {
        let most = (MAX_BUCKETS / processes.max(1)).max(MIN_BUCKETS);
        let series: Series = process.live.with_at_most(most);
        let column = |of: fn(&allotrope_profile::LivePoint) -> u64| {
            let values = series.samples.iter().map(of);
            values.collect::<Vec<u64>>()
        };
        Self {
            from_us: series.from_ns / 1_000,
            width_us: series.width_ns / 1_000,
            max_bytes: column(|sample| sample.max_bytes),
            bytes: column(|sample| sample.bytes),
            allocations: column(|sample| sample.allocations),
            allocated: column(|sample| sample.allocated),
        }
    }
}

/// The samples of a process's resident set.
pub(crate) fn resident(process: &Process) -> Vec<ResidentForm> {
    let samples = process.resident.iter();
    samples
        .map(|sample| ResidentForm {
            time_us: sample.time_us,
            bytes: sample.bytes,
            recorder_bytes: sample.recorder_bytes,
        })
        .collect()
}
