//! The curves of a process over time, in a bounded number of points: what was live, and the
//! resident memory.

use allotrope_profile::Process;

/// Points of all curves of a file together.
const MAX_POINTS: usize = 200_000;
/// The most buckets of one curve; two points each.
const MAX_BUCKETS: usize = 512;

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    /// Nanoseconds since the start of the recording.
    pub time_ns: u64,
    pub bytes: u64,
    /// Allocations made by then; 0 in curves of resident memory.
    pub allocated: u64,
}

/// The live bytes of a process, of which there are `processes`: for each bucket of time the
/// most at its start, and what was live at its end. Times ascend.
pub(super) fn live(process: &Process, processes: usize) -> Vec<Point> {
    let most = (MAX_POINTS / (3 * processes.max(1))).clamp(2, MAX_BUCKETS);
    let series = process.live.with_at_most(most);
    let mut points = Vec::with_capacity(2 * series.samples.len());
    let mut allocated = 0;
    let end = end_ns(process);
    for (number, sample) in (0_u64..).zip(&series.samples) {
        let start = number.saturating_mul(series.width_ns);
        let start = series.from_ns.saturating_add(start);
        let last = start.saturating_add(series.width_ns - 1).min(end);
        points.push(Point {
            time_ns: start,
            bytes: sample.max_bytes,
            allocated,
        });
        allocated = sample.allocated;
        points.push(Point {
            time_ns: last.max(start),
            bytes: sample.bytes,
            allocated,
        });
    }
    points
}

/// The resident memory of a process, without the recorder's; there are `processes`.
pub(super) fn resident(process: &Process, processes: usize) -> Vec<Point> {
    let most = (MAX_POINTS / (3 * processes.max(1))).max(2);
    let each = process.resident.len().div_ceil(most).max(1);
    let samples = process.resident.iter().step_by(each);
    let points = samples.map(|sample| Point {
        time_ns: sample.time_us.saturating_mul(1000),
        bytes: sample.program_bytes(),
        allocated: 0,
    });
    points.collect()
}

/// The end of a process, in nanoseconds since the start of the recording.
pub(super) fn end_ns(process: &Process) -> u64 {
    let end_us = process.started_us.saturating_add(process.duration_us);
    let times = process.times.as_ref().map_or(0, |times| times.end_ns);
    end_us.saturating_mul(1000).max(times)
}
