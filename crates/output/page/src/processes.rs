//! The columns of processes: their figures, threads, sizes, windows and curves. Of those
//! without sites in the page only the figures.

use std::collections::BTreeMap;

use allotrope_profile::{
    Peak, Process, Profile, TimeCell, TimeTable, sum_of_live, sum_of_resident,
};
use allotrope_report::signal_name;
use allotrope_trace::model::{Exit, Origin};
use rustc_hash::FxHashMap;

use crate::Page;
use crate::columns::{Columns, cell_columns, class};
use crate::gaps;
use crate::names::Names;

/// Threads of a process, those with most allocations.
pub const MAX_THREADS: usize = 1000;
/// Windows of a process, in order of opening.
const MAX_WINDOWS: usize = 2000;
/// Samples of the resident set of a process.
const MAX_RESIDENT: usize = 2000;

/// Encodes `all` processes, of which the first ones are `carried` in full.
pub fn encode(
    columns: &mut Columns,
    page: &Page<'_>,
    all: &[&Process],
    carried: &[&Process],
    tables: &[TimeTable],
    names: &mut Names,
) {
    figures(columns, page.profile, all, names);
    gaps::encode(columns, all);
    curves(columns, page.profile, carried);
    columns.numbers(
        "bucket.count",
        tables.iter().map(|it| it.starts_ns.len() as u64),
    );
    let starts = tables.iter().flat_map(|it| it.starts_ns.iter().copied());
    columns.differences("bucket.start_ns", starts);
    columns.differences("boundary.ns", page.boundaries.iter().copied());
    columns.numbers("bucket.end_ns", tables.iter().map(|it| it.end_ns));
    let peak = |it: &&Process| {
        let at = page.peaks.binary_search_by_key(&it.id, Peak::image);
        at.map_or(0, |at| page.peaks[at].after_ns())
    };
    columns.numbers("bucket.peak_ns", carried.iter().map(peak));
    threads(columns, carried, names);
    sizes(columns, carried);
    windows(columns, carried, names);
    let marks = &page.profile.marks;
    columns.numbers("mark.time_ns", marks.iter().map(|it| it.time_ns));
    let marks: Vec<u64> = marks.iter().map(|it| names.number(&it.name)).collect();
    columns.numbers("mark.name", marks);
}

fn figures(columns: &mut Columns, profile: &Profile, all: &[&Process], names: &mut Names) {
    let indexes: FxHashMap<u32, u64> = all.iter().map(|it| it.id).zip(0..).collect();
    let mut column = |name: &str, of: &mut dyn FnMut(&Process) -> u64| {
        let values: Vec<u64> = all.iter().map(|it| of(it)).collect();
        columns.numbers(&format!("process.{name}"), values);
    };
    column("id", &mut |it| it.id.into());
    column("pid", &mut |it| it.pid.into());
    column("parent_pid", &mut |it| it.parent_pid.into());
    column("origin", &mut |it| match it.origin {
        Origin::First => 0,
        Origin::Fork => 1,
        Origin::Exec => 2,
    });
    column("forked_from", &mut |it| {
        let parent = it.forked_from.and_then(|parent| indexes.get(&parent));
        parent.map_or(0, |index| index + 1)
    });
    column("executable", &mut |it| {
        names.number(&allotrope_text::text_of_path(&it.executable))
    });
    column("command", &mut |it| {
        names.number(&allotrope_profile::command_text(&it.command))
    });
    column("exit", &mut |it| names.number(&exit(profile, it.exit)));
    column("started_us", &mut |it| it.started_us);
    column("duration_us", &mut |it| it.duration_us);
    column("lost", &mut |it| it.lost_events);
    let mut total = |name: &str, of: fn(&allotrope_profile::Totals) -> u64| {
        column(name, &mut |it| of(&it.totals));
    };
    total("allocations", |it| it.allocations);
    total("bytes", |it| it.allocated_bytes);
    total("deallocations", |it| it.deallocations);
    total("reallocations", |it| it.reallocations);
    total("temporary", |it| it.temporary_allocations);
    total("leaked", |it| it.leaked_allocations);
    total("leaked_bytes", |it| it.leaked_bytes);
    total("peak", |it| it.peak_allocations);
    total("peak_bytes", |it| it.peak_bytes);
    total("peak_us", |it| it.peak_time_us);
    total("inherited", |it| it.inherited_allocations);
    total("inherited_bytes", |it| it.inherited_bytes);
}

fn exit(profile: &Profile, exit: Exit) -> String {
    match exit {
        Exit::Running if profile.cut.is_some() => "cut".to_owned(),
        Exit::Status(status) => format!("exit {status}"),
        Exit::Signal(signal) => signal_name(signal),
        Exit::Exec => "exec".to_owned(),
        Exit::Running => "running".to_owned(),
        Exit::Unknown => "end unknown".to_owned(),
    }
}

/// Live bytes and resident sets; and, of several processes, their sum over time.
fn curves(columns: &mut Columns, profile: &Profile, carried: &[&Process]) {
    let samples = || carried.iter().flat_map(|it| &it.live.samples);
    columns.numbers(
        "live.count",
        carried.iter().map(|it| it.live.samples.len() as u64),
    );
    columns.numbers("live.from_ns", carried.iter().map(|it| it.live.from_ns));
    columns.numbers("live.width_ns", carried.iter().map(|it| it.live.width_ns));
    columns.differences("live.max_bytes", samples().map(|it| it.max_bytes));
    columns.differences("live.bytes", samples().map(|it| it.bytes));
    columns.differences("live.allocations", samples().map(|it| it.allocations));
    columns.differences("live.allocated", samples().map(|it| it.allocated));
    // As many as there is room for in a curve.
    let resident: Vec<Vec<_>> = carried
        .iter()
        .map(|it| {
            let step = it.resident.len().div_ceil(MAX_RESIDENT).max(1);
            it.resident
                .chunks(step)
                .filter_map(|some| some.iter().max_by_key(|it| it.program_bytes()))
                .collect()
        })
        .collect();
    columns.numbers("resident.count", resident.iter().map(|it| it.len() as u64));
    let all = || resident.iter().flatten();
    columns.differences("resident.time_us", all().map(|it| it.time_us));
    columns.differences("resident.bytes", all().map(|it| it.program_bytes()));
    if profile.processes.len() > 1 {
        columns.differences("sum.live_bytes", sum_of_live(profile));
        let is_known = profile.processes.iter().any(|it| !it.resident.is_empty());
        let resident = is_known.then(|| sum_of_resident(profile));
        columns.differences("sum.resident_bytes", resident.unwrap_or_default());
    }
}

/// The threads of a process in the page, by index in the profile.
fn of_process(
    process: &Process,
) -> impl Iterator<Item = (usize, &allotrope_profile::ThreadTotals)> + Clone {
    // Sites name threads by index, so the first ones are kept and not those with most.
    process.threads.iter().take(MAX_THREADS).enumerate()
}

fn threads(columns: &mut Columns, carried: &[&Process], names: &mut Names) {
    columns.numbers(
        "thread.count",
        carried.iter().map(|it| of_process(it).count() as u64),
    );
    let all = || {
        carried
            .iter()
            .flat_map(|it| of_process(it))
            .map(|(_, it)| it)
    };
    let text: Vec<u64> = all().map(|it| names.number(&it.name)).collect();
    columns.numbers("thread.name", text);
    columns.numbers("thread.tid", all().map(|it| it.tid.into()));
    columns.numbers("thread.allocations", all().map(|it| it.allocations));
    columns.numbers("thread.bytes", all().map(|it| it.allocated_bytes));
    columns.numbers("thread.deallocations", all().map(|it| it.deallocations));
    columns.numbers("thread.temporary", all().map(|it| it.temporary_allocations));
    columns.numbers(
        "entries.count",
        carried.iter().map(|it| it.entries.len() as u64),
    );
    let entries = || carried.iter().flat_map(|it| &it.entries);
    let text: Vec<u64> = entries().map(|it| names.number(it.entry.name())).collect();
    columns.numbers("entries.name", text);
    columns.numbers("entries.number", entries().map(|it| it.entry as u64));
    columns.numbers("entries.allocations", entries().map(|it| it.allocations));
    columns.numbers("entries.bytes", entries().map(|it| it.allocated_bytes));
    columns.numbers(
        "entries.deallocations",
        entries().map(|it| it.deallocations),
    );
}

/// When the blocks of each thread were allocated and freed.
pub fn thread_cells(columns: &mut Columns, carried: &[&Process]) {
    const MAX_CELLS: usize = 100_000;
    let tables: Vec<TimeTable> = crate::sites::tables_with_at_most(
        carried.iter().map(|it| it.thread_times.as_ref()),
        MAX_CELLS,
    );
    let rows = carried.iter().zip(&tables).flat_map(|(process, table)| {
        of_process(process).map(|(index, _)| table.cells_of(index as u32))
    });
    cell_columns(columns, "thread_cell", rows);
    let widened = carried.iter().zip(&tables).flat_map(|(process, table)| {
        let width = |at: usize| table.widened.get(at).copied().unwrap_or(0);
        of_process(process).map(move |(index, _)| width(index).into())
    });
    columns.numbers("thread_cell.widened", widened.collect::<Vec<u64>>());
}

/// When all blocks of each process were allocated and freed: of those that have sites with wider
/// buckets of time, whose cells do not add up to the figures of a range. None for processes
/// whose threads have wider buckets too, and for those with least allocations if there is no
/// room.
pub fn total_cells(columns: &mut Columns, carried: &[&Process], tables: &[TimeTable]) {
    const MAX_CELLS: usize = 200_000;
    let mut left = MAX_CELLS;
    let of = |(process, table): (&&Process, &TimeTable)| {
        let threads = process.thread_times.as_ref();
        let threads = threads.filter(|threads| {
            let is_exact = threads.widened.iter().all(|&width| width == 0);
            is_exact && threads.starts_ns == table.starts_ns
        });
        let Some(threads) = threads.filter(|_| table.widened.iter().any(|&width| width > 0)) else {
            return Vec::new();
        };
        let mut sums: BTreeMap<(u16, u16), (u64, u64)> = BTreeMap::new();
        for cell in &threads.cells {
            let sum = sums.entry((cell.allocated, cell.freed)).or_default();
            sum.0 += cell.blocks;
            sum.1 = sum.1.wrapping_add(cell.bytes);
        }
        let Some(room) = left.checked_sub(sums.len()) else {
            return Vec::new();
        };
        left = room;
        let cells = sums.into_iter();
        let cells = cells.map(|((allocated, freed), (blocks, bytes))| TimeCell {
            site: 0,
            allocated,
            freed,
            blocks,
            bytes,
        });
        cells.collect()
    };
    let rows: Vec<Vec<TimeCell>> = carried.iter().zip(tables).map(of).collect();
    cell_columns(columns, "total_cell", rows.iter().map(|it| &**it));
}

fn sizes(columns: &mut Columns, carried: &[&Process]) {
    let of = |it: &Process| it.sizes.clone().unwrap_or_default();
    let sizes: Vec<Vec<_>> = carried.iter().map(|it| of(it)).collect();
    columns.numbers("sizes.count", sizes.iter().map(|it| it.len() as u64));
    let all = || sizes.iter().flatten();
    columns.numbers("sizes.class", all().map(|it| class(it.up_to_bytes)));
    columns.numbers("sizes.allocations", all().map(|it| it.allocations));
    columns.numbers("sizes.bytes", all().map(|it| it.allocated_bytes));
    columns.numbers("sizes.at_peak", all().map(|it| it.allocations_at_peak));
    columns.numbers("sizes.at_peak_bytes", all().map(|it| it.bytes_at_peak));
    columns.numbers("sizes.leaked", all().map(|it| it.leaked_allocations));
    columns.numbers("sizes.leaked_bytes", all().map(|it| it.leaked_bytes));
}

fn windows(columns: &mut Columns, carried: &[&Process], names: &mut Names) {
    let of = |it: &Process| it.windows.len().min(MAX_WINDOWS) as u64;
    columns.numbers("window.count", carried.iter().map(|it| of(it)));
    let all = || {
        carried
            .iter()
            .flat_map(|it| it.windows.iter().take(MAX_WINDOWS))
    };
    let text: Vec<u64> = all().map(|it| names.number(&it.name)).collect();
    columns.numbers("window.name", text);
    columns.numbers("window.opened_us", all().map(|it| it.opened_us));
    columns.numbers("window.duration_us", all().map(|it| it.duration_us));
    columns.numbers("window.allocations", all().map(|it| it.figures.allocations));
    columns.numbers("window.bytes", all().map(|it| it.figures.allocated_bytes));
    columns.numbers(
        "window.remaining_bytes",
        all().map(|it| it.figures.remaining_bytes),
    );
}

#[cfg(test)]
mod tests {
    use allotrope_profile::ResidentPoint;

    use super::*;

    /// A process with resident sets read at these microseconds.
    fn process(started_us: u64, duration_us: u64, resident: &[(u64, u64)]) -> Process {
        let sample = |&(time_us, bytes)| ResidentPoint {
            time_us,
            bytes,
            recorder_bytes: None,
        };
        Process {
            started_us,
            duration_us,
            resident: resident.iter().map(sample).collect(),
            ..Process::default()
        }
    }

    #[test]
    fn resident_sets_are_added_up_at_the_same_times() {
        // 256 parts of 10 us; the last one is shorter.
        let profile = Profile {
            processes: vec![
                process(0, 2557, &[(5, 100), (25, 300)]),
                process(15, 20, &[(22, 7)]),
            ],
            ..Profile::default()
        };
        let sums = sum_of_resident(&profile);
        // At 10, 20, 30 and 40 us; at 35 us the second one has ended.
        assert_eq!(sums[..4], [100, 100, 307, 300]);
        assert!(sums[4..].iter().all(|&sum| sum == 300));
    }
}
