//! The table of aims: how many rows reach each aim, and by how much the others miss it.
//! Some aims belong to single rows, others apply to all rows.

use std::fmt::Write as _;

use crate::figures::short;
use crate::run::Sample;
use crate::standard::{COUNTING, Measured};

/// A cost grows faster than its cause if it grows with a higher power than this. The
/// part above 1 is a margin for noise.
pub const GROWTH: f64 = 1.1;

/// The trace is finished within this fraction of the run time …
const FINISH_PART: f64 = 0.1;
/// … plus these seconds.
const FINISH_SECONDS: f64 = 0.2;
/// Seconds to read a million allocations.
const READING: f64 = 0.05;
/// Rows with fewer allocations are not checked: starting the reader takes as long.
const READING_LEAST: u64 = 1_000_000;
/// Bytes per event of a C++ program.
const BYTES: f64 = 1.3;
/// MiB of the collector.
const COLLECTOR: f64 = 256.0;
/// Additional MiB of the program, and for each of its threads.
const TARGET: (f64, f64) = (8.0, 1.0);

/// The largest number of listed rows that miss an aim, the worst first.
const LISTED: usize = 4;

/// An aim that applies to every row.
struct General {
    what: &'static str,
    /// The value of a row and its limit; `None` if the aim does not apply to the row.
    measure: fn(&Measured) -> Option<(f64, f64)>,
    unit: &'static str,
}

const GENERAL: [General; 5] = [
    General {
        what: "trace finished within 10 % of the run + 0.2 s after the exit",
        measure: |row| {
            let finish = middle(row, |sample| sample.finish)?;
            let wall = middle(row, |sample| sample.wall)?;
            Some((finish, wall * FINISH_PART + FINISH_SECONDS))
        },
        unit: "s",
    },
    General {
        what: "≤ 1.3 bytes an event on C++",
        measure: |row| {
            let bytes = middle(row, |sample| sample.trace_bytes as f64)?;
            row.is_cpp
                .then_some((bytes / row.events()?.all() as f64, BYTES))
        },
        unit: "bytes",
    },
    General {
        what: "reading ≤ 0.05 s per million allocations",
        measure: |row| {
            let allocations = row.events()?.allocations;
            let wall = row.of_reports("allotrope", |report| report.wall)?.middle;
            (allocations >= READING_LEAST).then_some((wall / (allocations as f64 / 1e6), READING))
        },
        unit: "s",
    },
    General {
        what: "collector ≤ 256 MiB",
        measure: |row| {
            Some((
                middle(row, |sample| sample.tool_peak_kib as f64)? / 1024.0,
                COLLECTOR,
            ))
        },
        unit: "MiB",
    },
    General {
        what: "program ≤ 8 MiB + 1 MiB a thread more than plain",
        measure: |row| {
            let over = row.against_plain("allotrope", |ours, plain| {
                (ours.target_peak_kib as f64 - plain.target_peak_kib as f64) / 1024.0
            })?;
            Some((over.middle, TARGET.0 + TARGET.1 * f64::from(row.threads)))
        },
        unit: "MiB",
    },
];

fn middle(row: &Measured, figure: impl Fn(&Sample) -> f64) -> Option<f64> {
    Some(row.median("allotrope", figure)?.middle)
}

/// The table. The time table has the aims of single rows in detail.
pub fn table(rows: &[Measured]) -> String {
    let with_aim: Vec<_> = rows
        .iter()
        .filter_map(|row| Some((row, row.is_reached()?)))
        .collect();
    let missed: Vec<_> = with_aim
        .iter()
        .filter(|(_, reached)| !reached)
        .map(|(row, _)| row.what.as_str())
        .collect();
    let mut text = "### Aims\n\n| aim | rows that reach it | rows that miss it, by how much |\n| --- | ---: | --- |\n".to_owned();
    let _ = writeln!(
        text,
        "| time of the program (the table below) | {} of {} | {} |",
        with_aim.len() - missed.len(),
        with_aim.len(),
        listed(
            &missed
                .iter()
                .map(|what| (*what).to_owned())
                .collect::<Vec<_>>()
        )
    );
    let counted: Vec<_> = rows
        .iter()
        .filter_map(|row| Some((row, row.counting()?)))
        .collect();
    if !counted.is_empty() {
        let missed: Vec<_> = counted
            .iter()
            .filter(|(_, (_, reached))| !reached)
            .map(|(row, (cost, _))| {
                format!("{}: {} of {COUNTING} ns", row.what, short(cost.middle))
            })
            .collect();
        let _ = writeln!(
            text,
            "| counting without stacks adds ≤ {COUNTING} ns to a pair | {} of {} | {} |",
            counted.len() - missed.len(),
            counted.len(),
            listed(&missed)
        );
    }
    for general in &GENERAL {
        let held: Vec<_> = rows
            .iter()
            .filter_map(|row| Some((row, (general.measure)(row)?)))
            .collect();
        let mut missed: Vec<_> = held.iter().filter(|(_, (is, may))| is > may).collect();
        missed.sort_by(|(_, (a, may_a)), (_, (b, may_b))| (b / may_b).total_cmp(&(a / may_a)));
        let missed: Vec<_> = missed
            .iter()
            .map(|(row, (is, may))| {
                format!(
                    "{}: {} of {} {}",
                    row.what,
                    short(*is),
                    short(*may),
                    general.unit
                )
            })
            .collect();
        let _ = writeln!(
            text,
            "| {} | {} of {} | {} |",
            general.what,
            held.len() - missed.len(),
            held.len(),
            listed(&missed)
        );
    }
    text
}

fn listed(missed: &[String]) -> String {
    if missed.is_empty() {
        "–".to_owned()
    } else {
        let shown = missed[..missed.len().min(LISTED)].join("; ");
        match missed.len().saturating_sub(LISTED) {
            0 => shown,
            more => format!("{shown}; and {more} more"),
        }
    }
}
