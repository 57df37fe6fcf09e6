//! Metrics of the watched processes in Prometheus' text format, version 0.0.4.
//!
//! The figures are those of a report, without its sites: there are no series of stacks, so the
//! number of lines depends on the number of processes alone, and that has a limit
//! ([`MAX_PROCESSES`]).
//!
//! Source: Prometheus, "Exposition formats", text-based format.

use std::fmt::Write as _;
use std::io::{self, Write};

use allotrope_sampling::estimate::{Estimate, MIN};
use rustc_hash::FxHashMap;

use crate::resident::Resident;
use crate::since::Since;
use crate::sites::{Grouping, Mark, Sites, Sums};
use crate::snapshot::Snapshot;

/// Most processes with lines of their own. Others are only counted.
pub const MAX_PROCESSES: usize = 1000;

/// Most characters of a process's name: the process chooses it.
const MAX_NAME: usize = 200;

/// What is printed of one process.
struct Process<'a> {
    labels: String,
    snapshot: &'a Snapshot,
    resident: Option<Resident>,
    since: Since,
    /// `None`: sampling was never on.
    sums: Option<Sums>,
}

/// Writes the metrics. Blocks of at least `old_age` nanoseconds are old.
///
/// # Errors
/// Those of `out`.
pub fn write(snapshots: &[Snapshot], old_age: u64, out: &mut dyn Write) -> io::Result<()> {
    let shown = &snapshots[..snapshots.len().min(MAX_PROCESSES)];
    let grouping = Grouping {
        old_age,
        mark: &Mark::default(),
        known: &FxHashMap::default(),
    };
    let sums = Sites::new(shown, &grouping).processes;
    let processes = shown.iter().zip(sums);
    let processes = processes.map(|(snapshot, sums)| Process::new(snapshot, sums));
    let mut page = Page {
        out,
        processes: processes.collect(),
    };
    page.gauge("processes", "Watched processes.", |_| None)?;
    writeln!(page.out, "allotrope_processes {}", snapshots.len())?;
    page.estimate("live_bytes", "bytes that are live", |it| it.live.bytes())?;
    page.estimate("live_blocks", "blocks that are live", |it| {
        it.live.blocks(MIN)
    })?;
    page.estimate("old_bytes", "bytes of old blocks", |it| it.old.bytes())?;
    page.estimate("old_blocks", "blocks that are old", |it| it.old.blocks(MIN))?;
    page.counter(
        "allocated_bytes_total",
        "Estimated bytes allocated while sampled.",
        |it| Some(it.snapshot.state.allocated()?.bytes().value),
    )?;
    page.counter(
        "freed_bytes_total",
        "Estimated bytes of these that were freed.",
        |it| Some(it.snapshot.state.freed()?.bytes().value),
    )?;
    page.counter("samples_total", "Samples taken.", |it| {
        Some(it.snapshot.state.counters.sampled as f64)
    })?;
    page.counter(
        "freed_samples_total",
        "Samples whose blocks were freed.",
        |it| Some(it.snapshot.state.counters.freed as f64),
    )?;
    page.counter(
        "lost_samples_total",
        "Samples that were lost: tables were full.",
        |it| Some(it.snapshot.state.counters.lost_samples as f64),
    )?;
    page.gauge(
        "unreadable_parts",
        "Parts of the memory that made no sense.",
        |it| Some((it.snapshot.state.unstable + it.snapshot.state.malformed) as f64),
    )?;
    page.gauge(
        "resident_bytes",
        "Resident memory as the kernel counts it (VmRSS), with recorder_bytes.",
        |it| it.resident.map(|it| it.bytes as f64),
    )?;
    page.gauge(
        "recorder_bytes",
        "Resident memory of the recorder in the process.",
        |it| it.resident?.recorder_bytes.map(|it| it as f64),
    )?;
    page.gauge(
        "sampled_since_seconds",
        "Since when sampling is on without a break, since 1970.",
        |it| it.since.since.map(seconds),
    )?;
    page.gauge(
        "sampling_complete",
        "1: sampling was never off; 0: blocks may be live that are in no figure.",
        |it| Some(f64::from(u8::from(it.since.is_complete))),
    )?;
    page.gauge(
        "longest_period_bytes",
        "The longest period that was in force; 0: sampling was never on.",
        |it| {
            let longest = it.snapshot.state.periods.longest;
            Some(longest.map_or(0.0, |it| it.bytes() as f64))
        },
    )?;
    page.gauge(
        "period_bytes",
        "One of this many bytes is sampled on average; 0: off.",
        |it| Some(it.snapshot.state.period.map_or(0.0, |it| it.bytes() as f64)),
    )
}

/// Of nanoseconds.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Takes one number of an estimate.
type End = fn(Estimate) -> f64;

struct Page<'a> {
    out: &'a mut dyn Write,
    processes: Vec<Process<'a>>,
}

impl Page<'_> {
    /// An estimate is three gauges: the figure and the ends of its 95 % interval.
    fn estimate(
        &mut self,
        name: &str,
        of: &str,
        figure: impl Fn(&Sums) -> Estimate,
    ) -> io::Result<()> {
        let ends: [(&str, &str, End); 3] = [
            ("", "Estimated", |it| it.value),
            ("_low", "Lower end of the 95 % interval of the", |it| it.low),
            ("_high", "Upper end of the 95 % interval of the", |it| {
                it.high
            }),
        ];
        for (suffix, words, end) in ends {
            self.gauge(
                &format!("{name}{suffix}"),
                &format!("{words} {of}."),
                |process| {
                    let estimate = process.sums.as_ref().map(&figure);
                    estimate.map(|it| end(it.rounded()))
                },
            )?;
        }
        Ok(())
    }

    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        value: impl Fn(&Process<'_>) -> Option<f64>,
    ) -> io::Result<()> {
        self.metric(name, "gauge", help, value)
    }

    fn counter(
        &mut self,
        name: &str,
        help: &str,
        value: impl Fn(&Process<'_>) -> Option<f64>,
    ) -> io::Result<()> {
        self.metric(name, "counter", help, value)
    }

    fn metric(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        value: impl Fn(&Process<'_>) -> Option<f64>,
    ) -> io::Result<()> {
        writeln!(self.out, "# HELP allotrope_{name} {help}")?;
        writeln!(self.out, "# TYPE allotrope_{name} {kind}")?;
        for process in &self.processes {
            if let Some(value) = value(process) {
                let value = match value.is_finite() {
                    true => value.round().to_string(),
                    // An upper end that is not known.
                    false => "+Inf".to_owned(),
                };
                writeln!(self.out, "allotrope_{name}{} {value}", process.labels)?;
            }
        }
        Ok(())
    }
}

impl<'a> Process<'a> {
    fn new(snapshot: &'a Snapshot, sums: Option<Sums>) -> Self {
        let name = snapshot.name();
        Self {
            labels: format!("{{pid=\"{}\",name=\"{}\"}}", snapshot.process, label(&name)),
            snapshot,
            resident: snapshot.resident,
            since: Since::new(&snapshot.state),
            sums,
        }
    }
}

/// The value of a label: backslash, quote and line feed are escaped, as the format wants it, and
/// other control characters are replaced.
fn label(text: &str) -> String {
    let mut label = String::new();
    for character in text.chars().take(MAX_NAME) {
        match character {
            '\\' => label.push_str("\\\\"),
            '"' => label.push_str("\\\""),
            '\n' => label.push_str("\\n"),
            it if it.is_control() => {
                let _ = write!(label, "{}", char::REPLACEMENT_CHARACTER);
            }
            it => label.push(it),
        }
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_label() {
        assert_eq!(label("a\"} 1\nb\\c"), "a\\\"} 1\\nb\\\\c");
        assert_eq!(label("\u{1b}[31m\r"), "\u{fffd}[31m\u{fffd}");
        assert_eq!(label(&"x".repeat(1000)).len(), MAX_NAME);
    }
}
