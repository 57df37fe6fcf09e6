//! The report of a replay: what was measured, in the form that is printed. Its fields are the
//! JSON (`docs/allocators.md`, `docs/replay.schema.json`); [`text`] is for people.

pub mod text;

use allotrope_replayer::operations::Call;
use serde::Serialize;

use crate::replay::allocators::Allocator;
use crate::replay::calibration::Calibration;
use crate::replay::comparison::Measured;
use crate::replay::environment::EnvironmentRow;
use crate::replay::live_curve::LiveCurve;
use crate::replay::operations_file::Operations;
use crate::replay::recording::Dropped;
use crate::replay::replayer::Touch;
use crate::replay::results::{Figures, Histogram};
use crate::replay::spread::{Spread, Verdict};
use crate::replay::worth::{self, Program, Saving};

/// The format's name and version.
pub const FORMAT: &str = "allotrope-replay/1";

/// A report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: &'static str,
    /// What was replayed.
    pub recording: Recorded,
    /// How it was replayed.
    pub replay: Setup,
    /// One for each allocator, in the order of the command line.
    pub allocators: Vec<Row>,
    /// Whether another allocator than the recorded one is worth it.
    pub switching: Switching,
}

/// The recorded process.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recorded {
    /// Process id.
    pub pid: u32,
    /// Path of the executable.
    pub executable: String,
    /// The command line.
    pub command: Vec<String>,
    /// Seconds that it ran, while it was recorded.
    pub wall_seconds: f64,
    /// Number of operations.
    pub operations: u64,
    /// Number of threads that called the allocator.
    pub threads: u32,
    /// The most blocks that were live at once.
    pub most_blocks: u32,
    /// The most live bytes.
    pub peak_live_bytes: u64,
    /// Live bytes at the end.
    pub final_live_bytes: u64,
    /// Deallocations of blocks whose allocation was not recorded: not replayed.
    pub foreign_frees: u64,
    /// Reallocations of such blocks: replayed as allocations.
    pub foreign_reallocations: u64,
    /// Deallocations that were not recorded although the address was given out again: replayed.
    pub lost_frees: u64,
    /// Calls that the recording lost, as it says itself: not replayed.
    pub lost_events: u64,
    /// The allocator that the program used, as far as known.
    pub allocator: String,
    /// Whether the recording or the user names that allocator; else it is assumed.
    pub allocator_is_known: bool,
}

impl Recorded {
    /// The command line, or the executable if it is not known.
    pub(crate) fn command_line(&self) -> String {
        match self.command.is_empty() {
            true => self.executable.clone(),
            false => self.command.join(" "),
        }
    }
}

/// How it was replayed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setup {
    /// `exact` for one thread; `recorded-order` for several, which run one at a time.
    pub order: &'static str,
    /// `none`, `first`, `all` or `calibrated`.
    pub touch: &'static str,
    /// The share of each block that is written, 0 to 1; `null` for `none` and `first`.
    pub touched_share: Option<f64>,
    /// The calibration; `null` if there was none.
    pub calibration: Option<CalibrationRow>,
    /// Timed runs of each allocator.
    pub runs: u32,
    /// The environment that the allocators had.
    pub environment: EnvironmentRow,
    /// Nanoseconds an operation of the null loop, which are subtracted.
    pub null_ns_per_operation: Option<SpreadRow>,
    /// Nanoseconds by which two readings of the clock of the percentiles differ at least; `null`
    /// if nothing was measured. A percentile below it is less than it, and not known better.
    pub clock_resolution_ns: Option<f64>,
}

/// How a calibration ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CalibrationRow {
    /// Growth of the recorded program's resident memory.
    pub recorded_bytes: u64,
    /// Growth of resident memory in the replay with the recorded allocator.
    pub replayed_bytes: u64,
    /// Whether they agree to 5 %.
    pub agrees: bool,
}

/// A median with the lowest and highest measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SpreadRow {
    /// The median.
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl From<Spread> for SpreadRow {
    fn from(spread: Spread) -> Self {
        Self {
            median: spread.median,
            low: spread.low,
            high: spread.high,
        }
    }
}

impl From<SpreadRow> for Spread {
    fn from(row: SpreadRow) -> Self {
        Self {
            median: row.median,
            low: row.low,
            high: row.high,
        }
    }
}

/// An allocator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Name of the allocator.
    pub name: String,
    /// Path of its library; `null` for the C library's allocator.
    pub library: Option<String>,
    /// Why it was not measured; `null` if it was. The other fields are `null` or empty then.
    pub refused: Option<String>,
    /// Nanoseconds an operation in the allocator.
    pub ns_per_operation: Option<SpreadRow>,
    /// Compared with the first allocator that was measured: `less`, `tied`, `more`, or `unknown`
    /// with a single run. `null` for that allocator itself.
    pub compared: Option<&'static str>,
    /// The median of the most memory that it had.
    pub peak_rss_bytes: Option<u64>,
    /// The most memory that the allocator had, with spread.
    pub peak_rss: Option<SpreadRow>,
    /// The median of its memory after the last operation.
    pub final_rss_bytes: Option<u64>,
    /// Memory of the allocator after the last operation, with spread.
    pub final_rss: Option<SpreadRow>,
    /// Peak memory divided by the most live bytes: 1 would be no waste at all.
    pub peak_overhead: Option<f64>,
    /// Page faults in the median run.
    pub page_faults: Option<u64>,
    /// Memory beside live bytes over the run in which each call is measured: reading it would
    /// disturb the time of a short run.
    pub points: Vec<PointRow>,
    /// How long single calls took.
    pub percentiles: Vec<PercentileRow>,
}

/// A moment of the replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PointRow {
    /// Number of operations done.
    pub operations: u64,
    /// Bytes requested and not freed.
    pub live_bytes: u64,
    /// Bytes of memory that the allocator had.
    pub rss_bytes: u64,
}

/// How long calls of a function took, each measured by itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PercentileRow {
    /// The function.
    pub call: &'static str,
    /// How often it was called.
    pub calls: u64,
    /// Half of the calls took no longer than this, in nanoseconds; without what the
    /// measurement takes.
    pub p50_ns: f64,
    /// Nanoseconds within which 90 % of the calls ended.
    pub p90_ns: f64,
    /// Nanoseconds within which 99 % of the calls ended.
    pub p99_ns: f64,
    /// Nanoseconds within which 99.9 % of the calls ended.
    pub p999_ns: f64,
}

/// Whether another allocator is worth it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Switching {
    /// The allocator to switch from; `null` if it was not measured.
    pub from: Option<String>,
    /// Why nothing can be said; `null` if something can.
    pub unknown: Option<String>,
    /// One for each other allocator that was measured.
    pub to: Vec<SwitchRow>,
}

/// Whether one allocator is worth it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SwitchRow {
    /// Name of the allocator.
    pub name: String,
    /// `no`, `time`, `memory`, `both`, or `too-little` if the program is too small to tell.
    pub worth: &'static str,
    /// Why it is `no` or `too-little`; `null` otherwise.
    pub why: Option<String>,
    /// Seconds that the program's calls take less; negative: more.
    pub saved_seconds: f64,
    /// The noise of that.
    pub saved_seconds_error: f64,
    /// Saved share of the recorded wall time, at most 1; of several threads the most that it can
    /// be ([`SwitchRow::is_bound`]).
    pub saved_share: f64,
    /// The noise of that.
    pub saved_share_error: f64,
    /// There are several threads: `saved_seconds` is CPU time of all of them, and `saved_share`
    /// a bound of what the program's wall time can change by.
    pub is_bound: bool,
    /// Peak memory saved, in bytes; negative: more.
    pub saved_peak_rss_bytes: f64,
    /// The noise of that.
    pub saved_peak_rss_bytes_error: f64,
}

/// What a report is made of besides what was measured.
pub struct Facts<'a> {
    /// Process id.
    pub pid: u32,
    /// Path of the executable.
    pub executable: String,
    /// The command line.
    pub command: Vec<String>,
    /// How long it ran while it was recorded.
    pub wall_ns: u64,
    /// The operations.
    pub operations: &'a Operations,
    /// What was left out.
    pub dropped: Dropped,
    /// Calls that the recording lost.
    pub lost_events: u64,
    /// Live bytes, at the points of the replays.
    pub live: &'a LiveCurve,
    /// The recorded allocator.
    pub recorded_with: &'a Allocator,
    /// Whether that is known.
    pub recorded_with_is_known: bool,
    /// How much was written of each block.
    pub touch: Touch,
    /// The calibration that led to it.
    pub calibration: Option<&'a Calibration>,
    /// Timed runs.
    pub runs: u32,
    /// The environment that the allocators had.
    pub environment: &'a EnvironmentRow,
}

impl Report {
    /// Makes the report.
    pub fn new(facts: &Facts<'_>, measured: &[Measured]) -> Self {
        let runs = measured.iter().flat_map(|it| &it.runs);
        let null = Spread::of(runs.map(|run| run.null_ns_per_operation));
        // The null loop is the same in all runs; one that was disturbed must not spoil its run.
        let own_ns = null.map_or(0.0, |it| it.median);
        let rows = measured.iter().map(|it| row(it, facts.live, own_ns));
        let mut rows: Vec<Row> = rows.collect();
        compare(&mut rows, measured);
        let touched_share = match facts.touch {
            Touch::Pages(share) => Some(f64::from(share) / f64::from(whole())),
            Touch::None | Touch::First => None,
        };
        let touch = match (facts.calibration, facts.touch) {
            (Some(_), _) => "calibrated",
            (None, Touch::None) => "none",
            (None, Touch::First) => "first",
            (None, Touch::Pages(_)) => "all",
        };
        let operations = facts.operations;
        let is_alone = operations.threads() == 1;
        Self {
            format: FORMAT,
            recording: Recorded {
                pid: facts.pid,
                executable: facts.executable.clone(),
                command: facts.command.clone(),
                wall_seconds: facts.wall_ns as f64 / 1e9,
                operations: operations.len(),
                threads: operations.threads(),
                most_blocks: operations.slots(),
                peak_live_bytes: facts.live.peak,
                final_live_bytes: facts.live.end,
                foreign_frees: facts.dropped.foreign_frees,
                foreign_reallocations: facts.dropped.foreign_reallocations,
                lost_frees: facts.dropped.lost_frees,
                lost_events: facts.lost_events,
                allocator: facts.recorded_with.name.clone(),
                allocator_is_known: facts.recorded_with_is_known,
            },
            replay: Setup {
                order: if is_alone { "exact" } else { "recorded-order" },
                touch,
                touched_share,
                calibration: facts.calibration.map(|it| CalibrationRow {
                    recorded_bytes: it.recorded_bytes,
                    replayed_bytes: it.replayed_bytes,
                    agrees: it.agrees(),
                }),
                runs: facts.runs,
                environment: facts.environment.clone(),
                null_ns_per_operation: null.map(Into::into),
                clock_resolution_ns: clock_resolution(measured),
            },
            switching: switching(facts, &rows, measured),
            allocators: rows,
        }
    }
}

/// The smallest of what the replays have found, to a tenth of a nanosecond.
fn clock_resolution(measured: &[Measured]) -> Option<f64> {
    let all = measured.iter().filter_map(|it| it.latencies.as_deref());
    let all = all.map(|it| it.clock_step as f64 * it.ns_per_tick);
    let least = all.min_by(f64::total_cmp)?;
    Some((least * 10.0).round() / 10.0)
}

/// All of a block, as a share.
fn whole() -> u32 {
    match Touch::ALL {
        Touch::Pages(whole) => whole,
        Touch::None | Touch::First => 1,
    }
}

fn row(measured: &Measured, live: &LiveCurve, own_ns: f64) -> Row {
    let runs = &measured.runs;
    let time_of = |run: &Figures| run.ns_per_operation + run.null_ns_per_operation - own_ns;
    let spread = |figure: fn(&Figures) -> f64| Spread::of(runs.iter().map(figure));
    let time = Spread::of(runs.iter().map(time_of));
    // The kernel's peak of a run is too low by the pages of files that came later; the run with
    // moments of memory has a second figure.
    let seen = measured.latencies.as_deref().map_or(0, |it| it.peak_memory);
    let peak = Spread::of(runs.iter().map(|run| run.peak_memory.max(seen) as f64));
    let end = spread(|run| run.final_memory as f64);
    let median = time.and_then(|time| {
        let distance = |run: &Figures| (time_of(run) - time.median).abs();
        runs.iter()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
    });
    let bytes = |spread: Option<Spread>| spread.map(|it| it.median as u64);
    Row {
        name: measured.allocator.name.clone(),
        library: measured
            .allocator
            .library
            .as_ref()
            .map(|path| path.to_string_lossy().into_owned()),
        refused: measured.refusal.clone(),
        ns_per_operation: time.map(Into::into),
        compared: None,
        peak_rss_bytes: bytes(peak),
        peak_rss: peak.map(Into::into),
        final_rss_bytes: bytes(end),
        final_rss: end.map(Into::into),
        peak_overhead: peak
            .filter(|_| live.peak > 0)
            .map(|it| it.median / live.peak as f64),
        page_faults: median.map(|run| run.page_faults),
        points: measured
            .latencies
            .as_deref()
            .map(|run| points(run, live))
            .unwrap_or_default(),
        percentiles: measured
            .latencies
            .as_deref()
            .map(percentiles)
            .unwrap_or_default(),
    }
}

fn points(run: &Figures, live: &LiveCurve) -> Vec<PointRow> {
    let points = run.points.iter().map(|point| {
        let after = live
            .points
            .partition_point(|&(operations, _)| operations < point.operations);
        let live = live.points.get(after).map_or(live.end, |&(_, bytes)| bytes);
        PointRow {
            operations: point.operations,
            live_bytes: live,
            rss_bytes: point.memory,
        }
    });
    points.collect()
}

/// The percentiles of each function that was called. What it takes to measure a call that does
/// nothing is subtracted.
fn percentiles(figures: &Figures) -> Vec<PercentileRow> {
    let calls = Call::ALL.iter().zip(&figures.latencies);
    let rows = calls.zip(&figures.null_latencies);
    let rows = rows.filter(|((_, histogram), _)| !histogram.is_empty());
    let rows = rows.map(|((call, histogram), null)| {
        let own = null.quantile(0.5).unwrap_or_default();
        let at = |share| ns(histogram, share, own, figures.ns_per_tick);
        PercentileRow {
            call: call.name(),
            calls: histogram.len(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
        }
    });
    rows.collect()
}

fn ns(histogram: &Histogram, share: f64, own: u64, ns_per_tick: f64) -> f64 {
    let ticks = histogram.quantile(share).unwrap_or_default();
    let ns = ticks.saturating_sub(own) as f64 * ns_per_tick;
    (ns * 10.0).round() / 10.0
}

/// Compares each allocator's time with that of the first one that was measured.
fn compare(rows: &mut [Row], measured: &[Measured]) {
    let first = rows.iter().position(|row| row.ns_per_operation.is_some());
    let Some(first) = first else {
        return;
    };
    let base: Option<Spread> = rows[first].ns_per_operation.map(Into::into);
    for (index, row) in rows.iter_mut().enumerate() {
        let time: Option<Spread> = row.ns_per_operation.map(Into::into);
        if let (Some(time), Some(base)) = (time, base)
            && index != first
        {
            let runs = measured[index].runs.len().min(measured[first].runs.len());
            row.compared = Some(match time.compare(&base, runs) {
                Verdict::Less => "less",
                Verdict::Tied => "tied",
                Verdict::More => "more",
                Verdict::Unknown => "unknown",
            });
        }
    }
}

fn switching(facts: &Facts<'_>, rows: &[Row], measured: &[Measured]) -> Switching {
    let is_measured = |row: &&Row| row.ns_per_operation.is_some();
    let with = facts.recorded_with;
    // By library: a user may give any name to one.
    let both = rows.iter().zip(measured);
    let mut same = both.filter(|(_, it)| it.allocator.is_same(with));
    let from = same.find(|(row, _)| is_measured(row)).map(|(row, _)| row);
    let unknown = match from {
        None => Some(match &with.library {
            None => format!(
                "the program used {0}, which was not measured; add {0} to --alloc",
                with.name
            ),
            Some(library) => format!(
                "the program used {} ({}), which was not measured; add it to --alloc",
                with.name,
                library.display()
            ),
        }),
        Some(_) if facts.runs < 2 => {
            Some("the noise is not known after one run; take --runs 2 or more".to_owned())
        }
        Some(_) if facts.lost_events > 0 => Some(format!(
            "the recording lost {} of the program's calls",
            facts.lost_events
        )),
        Some(_) if facts.wall_ns == 0 => {
            Some("the recording does not say how long the program ran".to_owned())
        }
        Some(_) => None,
    };
    let to = match from {
        Some(from) if unknown.is_none() => {
            let others = rows.iter().filter(is_measured);
            let others = others.filter(|row| row.name != from.name);
            others.filter_map(|row| switch(facts, from, row)).collect()
        }
        _ => Vec::new(),
    };
    Switching {
        from: from.map(|row| row.name.clone()),
        unknown,
        to,
    }
}

fn switch(facts: &Facts<'_>, from: &Row, to: &Row) -> Option<SwitchRow> {
    let (time_from, time_to): (Spread, Spread) =
        (from.ns_per_operation?.into(), to.ns_per_operation?.into());
    let (peak_from, peak_to): (Spread, Spread) = (from.peak_rss?.into(), to.peak_rss?.into());
    let seconds = facts.operations.len() as f64 / 1e9;
    let wall = facts.wall_ns as f64 / 1e9;
    let saved = (time_from.median - time_to.median) * seconds;
    let error = time_from.noise(&time_to) * seconds;
    let saved_peak = peak_from.median - peak_to.median;
    let peak_error = peak_from.noise(&peak_to);
    let is_bound = facts.operations.threads() > 1;
    let share = worth::most_of_wall(saved, time_from.median * seconds, wall);
    // The error is cut as its figure is.
    let share_error = match saved {
        0.0 => error / wall,
        _ => error * (share / saved),
    };
    let saving = Saving {
        seconds: share * wall,
        seconds_error: share_error * wall,
        peak: saved_peak,
        peak_error,
    };
    let program = Program {
        wall_seconds: wall,
        operations: facts.operations.len(),
        allocator_seconds: time_from.median * seconds,
        peak: peak_from.median,
    };
    let (worth, why) = worth::judge(&saving, &program);
    Some(SwitchRow {
        name: to.name.clone(),
        worth,
        why,
        saved_seconds: saved,
        saved_seconds_error: error,
        saved_share: share,
        saved_share_error: share_error,
        is_bound,
        saved_peak_rss_bytes: saved_peak,
        saved_peak_rss_bytes_error: peak_error,
    })
}
