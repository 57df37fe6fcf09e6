//! What all processes of a recording have together over time.

use crate::model::{Process, Profile};
use crate::run_times::RunTimes;
use crate::series::ResidentPoint;

/// The equal parts of the recording's time at whose ends it is added up.
pub const PARTS_OF_SUM: u64 = 256;

/// The live bytes of all processes together, at the end of each of [`PARTS_OF_SUM`] equal parts of
/// the recording.
pub fn sum_of_live(profile: &Profile) -> Vec<u64> {
    sums(profile, live_at)
}

/// Likewise the resident sets without the recorder's memory, in bytes, each as it was read last.
pub fn sum_of_resident(profile: &Profile) -> Vec<u64> {
    sums(profile, resident_at)
}

/// What all processes have together at the end of each part. One that has not begun or has
/// ended by then has nothing.
fn sums(profile: &Profile, of: fn(&Process, u64) -> u64) -> Vec<u64> {
    let run = RunTimes::of(profile);
    let width = run.lasted_ns().div_ceil(PARTS_OF_SUM).max(1);
    let mut sums = vec![0_u64; PARTS_OF_SUM as usize];
    for process in &profile.processes {
        let ended_us = process.started_us.saturating_add(process.duration_us);
        let runs = process.started_us.saturating_mul(1000)..=ended_us.saturating_mul(1000);
        for (number, sum) in (1..).zip(&mut sums) {
            let end = run
                .started_ns
                .saturating_add(number * width)
                .min(run.ended_ns);
            if runs.contains(&end) {
                *sum = sum.saturating_add(of(process, end));
            }
        }
    }
    sums
}

/// The live bytes of a process at a time.
fn live_at(process: &Process, ns: u64) -> u64 {
    let series = &process.live;
    let passed = ns.saturating_sub(series.from_ns);
    let at = (passed / series.width_ns.max(1)) as usize;
    let sample = series.samples.get(at).or(series.samples.last());
    sample.map_or(0, |it| it.bytes)
}

/// The last resident set of a process that was read by a time; 0: none was.
fn resident_at(process: &Process, ns: u64) -> u64 {
    let samples: &[ResidentPoint] = &process.resident;
    let after = samples.partition_point(|it| it.time_us.saturating_mul(1000) <= ns);
    let last = after.checked_sub(1).map(|at| samples[at]);
    last.map_or(0, |it| it.program_bytes())
}
