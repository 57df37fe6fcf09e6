//! The live bytes of both sides over time, each since the start of its own recording.

use allotrope_profile::{PARTS_OF_SUM, Process, Profile, RunTimes, sum_of_live};

use crate::columns::Columns;

use super::ComparedSide;

/// The curve of a side: of one process its largest live bytes in each bucket, of several the
/// sum of their live bytes at the end of each.
#[derive(Default)]
struct Curve {
    /// Nanoseconds since the start of the recording.
    from_ns: u64,
    width_ns: u64,
    ended_ns: u64,
    bytes: Vec<u64>,
    /// The largest number of live bytes, and when, in nanoseconds since the start; 0 if it
    /// is unknown, as with several processes.
    peak: [u64; 2],
    processes: u64,
}

pub fn encode(columns: &mut Columns, sides: &[ComparedSide<'_>; 2]) {
    let curves = sides.each_ref().map(|side| {
        let curve = side.profile.map(of_profile);
        curve.unwrap_or_default()
    });
    let mut column = |name: &str, of: fn(&Curve) -> u64| {
        columns.numbers(name, curves.iter().map(of));
    };
    column("curve.count", |it| it.bytes.len() as u64);
    column("curve.from_ns", |it| it.from_ns);
    column("curve.width_ns", |it| it.width_ns);
    column("curve.ended_ns", |it| it.ended_ns);
    column("curve.peak_bytes", |it| it.peak[0]);
    column("curve.peak_ns", |it| it.peak[1]);
    column("curve.processes", |it| it.processes);
    let bytes = curves.iter().flat_map(|it| it.bytes.iter().copied());
    columns.differences("curve.bytes", bytes);
}

fn of_profile(profile: &Profile) -> Curve {
    let run = RunTimes::of(profile);
    // A launcher that allocates nothing does not make a sum of it.
    let processes = profile.processes.iter();
    let allocated: Vec<&Process> = processes.filter(|it| it.totals.allocations > 0).collect();
    let since = |ns: u64| ns.saturating_sub(run.started_ns);
    match allocated[..] {
        [] => Curve {
            ended_ns: run.lasted_ns(),
            ..Curve::default()
        },
        [process] => Curve {
            from_ns: since(process.live.from_ns),
            width_ns: process.live.width_ns,
            ended_ns: run.lasted_ns(),
            bytes: (process.live.samples.iter().map(|it| it.max_bytes)).collect(),
            peak: [
                process.totals.peak_bytes,
                since((process.started_us + process.totals.peak_time_us) * 1000),
            ],
            processes: 1,
        },
        _ => Curve {
            from_ns: 0,
            width_ns: run.lasted_ns().div_ceil(PARTS_OF_SUM).max(1),
            ended_ns: run.lasted_ns(),
            bytes: sum_of_live(profile),
            peak: [0, 0],
            processes: allocated.len() as u64,
        },
    }
}
