//! The totals: a table for a single process; for several processes, a line for each.

use std::io::{self, Write};

use allotrope_profile::{Process, Profile};
use allotrope_text::document::{Table, left, right, write_lines};
use allotrope_text::{Role, text_of_os, text_of_path};

use crate::numbers::{bytes, bytes_each, count, count_each, duration, share};
use crate::reachability;
use crate::selection::processes;
use crate::text::{TextOptions, divided_by, header};

/// Printed in place of a figure that a recording does not have.
const NOT_MEASURED: &str = "not measured";

/// Largest number of processes in the table.
const MAX: usize = 30;

/// Writes the totals of the processes that are shown.
pub(super) fn write(
    profile: &Profile,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let shown: Vec<&Process> = processes(profile, options).collect();
    match shown.as_slice() {
        [one] => write_one(one, profile.is_counts_only(), options, out),
        many => write_table(profile, many, options, out),
    }
}

fn write_one(
    process: &Process,
    counts_only: bool,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    let per = options.per(process);
    let title = format!("Totals{}", divided_by(per));
    writeln!(out, "\n{}", style.paint(Role::Title, &title))?;
    let mut lines = lines(process, options.window.is_some(), per);
    if counts_only {
        lines.iter_mut().for_each(Line::mark_if_not_measured);
    }
    let columns = [left(""), right(""), right(""), right(""), left("")];
    let rows = lines.into_iter().map(|line| {
        [
            line.word.to_owned(),
            line.count,
            line.share,
            line.bytes,
            line.note,
        ]
    });
    write_lines(out, Table::new(columns).rows(rows).lines(style))
}

#[derive(Default)]
struct Line {
    word: &'static str,
    count: String,
    share: String,
    bytes: String,
    note: String,
}

impl Line {
    /// Replaces figures that a recording which only counted does not have.
    fn mark_if_not_measured(&mut self) {
        if matches!(self.word, "temporary" | "leaked" | "peak") {
            *self = Self {
                word: self.word,
                count: NOT_MEASURED.into(),
                ..Self::default()
            };
        }
    }
}

fn lines(process: &Process, is_window: bool, per: Option<f64>) -> Vec<Line> {
    let totals = &process.totals;
    let exact = |number: u64| match number {
        0..1024 => String::new(),
        _ => format!("{} bytes", count(number)),
    };
    let each = |blocks: u64| match per {
        Some(per) if blocks > 0 => format!("{} each", count_each(blocks, per)),
        _ => String::new(),
    };
    let both_each = |blocks: u64, size: u64| match per {
        Some(per) if blocks > 0 => {
            format!("{} with {}", each(blocks), bytes_each(size, per))
        }
        _ => String::new(),
    };
    let joined = |parts: [String; 2]| {
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(", ")
    };
    let of_all = |number| share(number, totals.allocations);
    let mut lines = vec![
        Line {
            word: "allocations",
            count: count(totals.allocations),
            bytes: bytes(totals.allocated_bytes),
            note: joined([
                exact(totals.allocated_bytes),
                both_each(totals.allocations, totals.allocated_bytes),
            ]),
            ..Line::default()
        },
        Line {
            word: "deallocations",
            count: count(totals.deallocations),
            note: each(totals.deallocations),
            ..Line::default()
        },
        Line {
            word: "reallocations",
            count: count(totals.reallocations),
            share: of_all(totals.reallocations),
            note: each(totals.reallocations),
            ..Line::default()
        },
        Line {
            word: "temporary",
            count: count(totals.temporary_allocations),
            share: of_all(totals.temporary_allocations),
            note: each(totals.temporary_allocations),
            ..Line::default()
        },
        Line {
            // Blocks that are live when a window closes are not leaked yet.
            word: if is_window { "remaining" } else { "leaked" },
            count: count(totals.leaked_allocations),
            share: of_all(totals.leaked_allocations),
            bytes: bytes(totals.leaked_bytes),
            note: joined([
                exact(totals.leaked_bytes),
                both_each(totals.leaked_allocations, totals.leaked_bytes),
            ]),
        },
        Line {
            word: "peak",
            count: count(totals.peak_allocations),
            bytes: bytes(totals.peak_bytes),
            note: peak_note(process, &exact(totals.peak_bytes)),
            ..Line::default()
        },
    ];
    let parts = reachability::parts(process).into_iter();
    lines.extend(parts.map(|(word, part)| Line {
        word,
        count: count(part.allocations),
        share: of_all(part.allocations),
        bytes: bytes(part.bytes),
        note: exact(part.bytes),
    }));
    if totals.inherited_allocations > 0 {
        lines.push(Line {
            word: "inherited",
            count: count(totals.inherited_allocations),
            bytes: bytes(totals.inherited_bytes),
            note: format!("{} given back", count(totals.inherited_deallocations)),
            ..Line::default()
        });
    }
    lines
}

fn peak_note(process: &Process, exact: &str) -> String {
    let when = format!("after {}", duration(process.totals.peak_time_us as f64));
    if exact.is_empty() {
        return when;
    }
    format!("{exact}, {when}")
}

fn write_table(
    profile: &Profile,
    shown: &[&Process],
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    const TITLES: [&str; 8] = [
        "id",
        "pid",
        "allocations",
        "bytes",
        "temporary",
        "leaked",
        "peak",
        "end",
    ];
    let style = options.style;
    let title = format!("Processes{}", divided_by(options.per));
    writeln!(out, "\n{}", style.paint(Role::Title, &title))?;
    let columns = TITLES.map(right).into_iter().chain([left("command")]);
    let rows = shown.iter().map(|process| {
        let mut cells = cells(profile, process);
        if profile.is_counts_only() {
            // Temporary, leaked, peak.
            cells[4..7].fill("–".into());
        }
        cells.into_iter().chain([command(process)])
    });
    let table = Table::new(columns).rows(rows).top(MAX);
    write_lines(out, table.lines(style))
}

fn cells(profile: &Profile, process: &Process) -> [String; 8] {
    let totals = &process.totals;
    [
        process.id.to_string(),
        process.pid.to_string(),
        count(totals.allocations),
        bytes(totals.allocated_bytes),
        share(totals.temporary_allocations, totals.allocations),
        bytes(totals.leaked_bytes),
        bytes(totals.peak_bytes),
        header::exit(profile, process),
    ]
}

/// The command line, its program without folders.
pub(super) fn command(process: &Process) -> String {
    let mut words = process.command.iter().map(|word| text_of_os(word));
    let program = words
        .next()
        .unwrap_or_else(|| text_of_path(&process.executable));
    let program = program.rsplit('/').next().unwrap_or(&program).to_owned();
    let all: Vec<_> = std::iter::once(program.into()).chain(words).collect();
    all.join(" ")
}
