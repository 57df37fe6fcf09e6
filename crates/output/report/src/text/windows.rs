//! The windows of the program: a line for each name, with the ranges over its runs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use allotrope_profile::windows::{WindowFigures, WindowRun};
use allotrope_profile::{Process, Profile, QuietWait};

use crate::numbers::{bytes, count};
use crate::selection::processes;
use crate::text::TextOptions;
use allotrope_text::Role;
use allotrope_text::document::{Table, left, right, write_lines};

/// Largest number of names in the table.
const MAX: usize = 30;

const TITLES: [&str; 6] = [
    "runs",
    "allocations",
    "an iteration",
    "temporary",
    "remaining",
    "peak",
];

/// The titles if calls were only counted: other figures in the last three columns.
const TITLES_COUNTED: [&str; 6] = [
    "runs",
    "allocations",
    "an iteration",
    "bytes",
    "net",
    "reallocations",
];

/// Writes the windows of the processes that are shown, if they opened any.
pub(super) fn write(
    profile: &Profile,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    if options.window.is_some() {
        return Ok(());
    }
    let style = options.style;
    let counts_only = profile.is_counts_only();
    let shown: Vec<&Process> = processes(profile, options).collect();
    let many = shown.iter().filter(|it| !it.windows.is_empty()).count() > 1;
    let named: Vec<Named> = shown
        .iter()
        .flat_map(|process| by_name(process))
        .map(|(process, runs)| Named {
            label: label(process, &runs, many),
            cells: cells(&runs, counts_only),
            notes: notes(&runs, counts_only).join(", "),
        })
        .collect();
    if named.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", style.paint(Role::Title, "Windows"))?;
    let titles = match counts_only {
        true => TITLES_COUNTED,
        false => TITLES,
    };
    let columns = titles.map(right).into_iter().chain([left("window")]);
    let rows = named.iter().map(|row| {
        let cells = row.cells.iter().cloned();
        cells.chain([row.label.clone()])
    });
    let lines = Table::new(columns).rows(rows).top(MAX).lines(style);
    // The first line has the titles.
    let notes = std::iter::once("").chain(named.iter().take(MAX).map(|row| &*row.notes));
    for (line, notes) in lines.iter().zip(notes.chain([""])) {
        writeln!(out, "{line}")?;
        if !notes.is_empty() {
            let indents = ["        ", "          "];
            write_lines(out, style.fitted(notes, indents, Role::Plain))?;
        }
    }
    Ok(())
}

/// The line of all windows with one name.
struct Named {
    label: String,
    cells: [String; 6],
    notes: String,
}

/// The runs of each name, in the order in which the names were first opened.
fn by_name(process: &Process) -> Vec<(&Process, Vec<&WindowRun>)> {
    let mut indexes: BTreeMap<&str, usize> = BTreeMap::new();
    let mut named: Vec<(&Process, Vec<&WindowRun>)> = Vec::new();
    for run in &process.windows {
        let index = *indexes.entry(&run.name).or_insert(named.len());
        match named.get_mut(index) {
            Some((_, runs)) => runs.push(run),
            None => named.push((process, vec![run])),
        }
    }
    named
}

fn label(process: &Process, runs: &[&WindowRun], many: bool) -> String {
    let name = runs.first().map_or("", |run| &run.name);
    match many {
        true => format!("{name} (process {})", process.id),
        false => name.to_owned(),
    }
}

/// Notes that limit the meaning of the runs' figures.
fn notes(runs: &[&WindowRun], counts_only: bool) -> Vec<String> {
    let how_many = |is: &dyn Fn(&WindowRun) -> bool| runs.iter().filter(|run| is(run)).count();
    let unmeasured = match counts_only {
        true => "not measured",
        false => "not measured, for too many were open at once",
    };
    let facts = [
        (how_many(&|run| !run.closed), "never closed"),
        (
            how_many(&|run| run.quiet.contains(&QuietWait::TimedOut)),
            "although other threads were not quiet",
        ),
        (how_many(&|run| !run.measured), unmeasured),
        (how_many(&|run| run.thread.is_some()), "of one thread only"),
    ];
    let applicable = facts.iter().filter(|(number, _)| *number > 0);
    let mut notes: Vec<String> = applicable
        .map(|(number, what)| match number {
            all if *all == runs.len() => (*what).to_owned(),
            some => format!("{} {what}", count(*some as u64)),
        })
        .collect();
    let compared = runs.iter().filter_map(|run| run.descriptors.as_ref());
    let left: u64 = compared.map(|it| it.leaked()).sum();
    if left > 0 {
        notes.push(format!("{} descriptors left open", count(left)));
    }
    notes
}

fn cells(runs: &[&WindowRun], counts_only: bool) -> [String; 6] {
    let number = count(runs.len() as u64);
    let runs: Vec<&WindowRun> = runs
        .iter()
        .copied()
        .filter(|run| run.measured || !counts_only)
        .collect();
    let figures = || runs.iter().map(|run| &run.figures);
    let range = |of: fn(&WindowFigures) -> u64, show: fn(u64) -> String| {
        let (least, most) = (figures().map(of).min(), figures().map(of).max());
        span(least.map(show), most.map(show))
    };
    let net = || figures().map(WindowFigures::net);
    let others = match counts_only {
        true => [
            range(|it| it.allocated_bytes, bytes),
            span(net().min().map(signed), net().max().map(signed)),
            range(|it| it.reallocations, count),
        ],
        false => [
            range(|it| it.temporary_allocations, count),
            range(|it| it.remaining_bytes, bytes),
            range(|it| it.peak_bytes, bytes),
        ],
    };
    let [fourth, fifth, sixth] = others;
    [
        number,
        range(|it| it.allocations, count),
        per_iteration(&runs),
        fourth,
        fifth,
        sixth,
    ]
}

/// `least–most`; a dash if there is no value.
fn span(least: Option<String>, most: Option<String>) -> String {
    match (least, most) {
        (Some(least), Some(most)) if least == most => least,
        (Some(least), Some(most)) => format!("{least}–{most}"),
        _ => "–".to_owned(),
    }
}

/// A number that may be below 0.
fn signed(number: i64) -> String {
    match number < 0 {
        true => format!("-{}", count(number.unsigned_abs())),
        false => count(number.unsigned_abs()),
    }
}

/// Allocations for each iteration in the run with the fewest.
fn per_iteration(runs: &[&WindowRun]) -> String {
    let parts = runs.iter().filter(|run| run.iterations > 0);
    let least = parts
        .map(|run| run.figures.allocations as f64 / run.iterations as f64)
        .min_by(f64::total_cmp);
    least.map_or(String::new(), |least| format!("{least:.2}"))
}
