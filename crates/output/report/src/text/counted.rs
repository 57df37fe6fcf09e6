//! Tables of allocations by entry point, by thread and by size. The first two are all that a
//! recording made with `--counts-only` has.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use allotrope_attribution::BlockTypes;
use allotrope_profile::{Process, Profile};
use allotrope_text::document::{Table, left, right, write_lines};
use allotrope_text::{Role, TextWriter};

use crate::numbers::{bytes, count};
use crate::selection::processes;
use crate::text::{TextOptions, chart};

/// Explains which figures are missing, and how to record them.
const WHY: &str = "Recorded with --counts-only: what is temporary, leaked or at the peak and the call stacks were not measured; record without it to see them.";

/// Columns of a curve.
const CURVE: usize = 10;

/// A line of a table.
struct Row {
    name: String,
    /// Allocations, their bytes, deallocations. The last are not known of operators of C++,
    /// which are among those of `free`.
    counts: [u64; 3],
    is_operator: bool,
    /// The live bytes over time.
    curve: Option<String>,
}

/// Writes the tables of the processes that are shown.
pub(super) fn write(
    profile: &Profile,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out)?;
    write_lines(out, options.style.fitted(WHY, ["", ""], Role::Plain))?;
    let many = processes(profile, options).nth(1).is_some();
    for process in processes(profile, options).take(options.top) {
        let of = match many {
            true => format!(" in process {}", process.id),
            false => String::new(),
        };
        table(&format!("Entry points{of}"), entries(process), options, out)?;
        // The counts of a single thread are the totals.
        if process.threads.len() > 1 {
            table(&format!("Threads{of}"), threads(process), options, out)?;
        }
    }
    Ok(())
}

/// Writes a table of the threads of each process.
pub fn write_threads(
    profile: &Profile,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_tables("Threads", &threads, profile, options, out)
}

/// Writes a table of the entry points of each process.
pub fn write_entries(
    profile: &Profile,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let types = BlockTypes::new(profile);
    let rows = |process: &Process| entries_with_operators(process, &types);
    write_tables("Entry points", &rows, profile, options, out)
}

/// Writes a table of each process's blocks by size; empty without the sizes.
pub fn write_sizes(
    profile: &Profile,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    let mut out = TextWriter::new(io::BufWriter::new(out), style.color);
    for process in processes(profile, options) {
        let title = format!("Sizes of blocks of process {}", process.id);
        writeln!(out, "\n{}", style.paint(Role::Title, &title))?;
        let sizes = process.sizes.iter().flatten();
        let rows = sizes.map(|it| {
            let name = match it.up_to_bytes {
                0..=2 => bytes(it.up_to_bytes),
                up_to => format!("{} to {}", bytes(up_to / 2 + 1), bytes(up_to)),
            };
            [
                name,
                count(it.allocations),
                bytes(it.allocated_bytes),
                bytes(it.bytes_at_peak),
                bytes(it.leaked_bytes),
            ]
        });
        let titles = ["allocations", "bytes", "at peak", "leaked"];
        write_lines(&mut out, columns(titles).rows(rows).lines(style))?;
    }
    out.flush()
}

fn write_tables(
    title: &str,
    rows: &dyn Fn(&Process) -> Vec<Row>,
    profile: &Profile,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = TextWriter::new(io::BufWriter::new(out), options.style.color);
    for process in processes(profile, options) {
        let title = format!("{title} of process {}", process.id);
        table(&title, rows(process), options, &mut out)?;
    }
    out.flush()
}

fn entries(process: &Process) -> Vec<Row> {
    let entries = process.entries.iter();
    entries
        .map(|it| Row {
            name: it.entry.name().to_owned(),
            counts: [it.allocations, it.allocated_bytes, it.deallocations],
            is_operator: false,
            curve: None,
        })
        .collect()
}

/// The same, with the operators of C++ apart: blocks that they allocated are theirs, not those
/// of the function that they called.
fn entries_with_operators(process: &Process, types: &BlockTypes<'_>) -> Vec<Row> {
    let mut rows = entries(process);
    let mut operators: BTreeMap<&'static str, [u64; 2]> = BTreeMap::new();
    for site in &process.sites {
        let (Some(operator), Some(details)) = (types.operator(site), &site.details) else {
            continue;
        };
        for of_site in &details.entries {
            let row = rows.iter_mut().find(|row| row.name == of_site.entry.name());
            let Some(row) = row else { continue };
            let sums = operators.entry(operator).or_default();
            for (at, value) in [of_site.allocations, of_site.allocated_bytes]
                .into_iter()
                .enumerate()
            {
                sums[at] = sums[at].saturating_add(value);
                row.counts[at] = row.counts[at].saturating_sub(value);
            }
        }
    }
    rows.retain(|row| row.counts != [0; 3]);
    rows.extend(
        operators
            .into_iter()
            .map(|(operator, [blocks, bytes])| Row {
                name: operator.to_owned(),
                counts: [blocks, bytes, 0],
                is_operator: true,
                curve: None,
            }),
    );
    rows
}

fn threads(process: &Process) -> Vec<Row> {
    let threads = (0..).zip(&process.threads);
    threads
        .map(|(index, it)| Row {
            name: format!("{} {}", it.tid, it.name),
            counts: [it.allocations, it.allocated_bytes, it.deallocations],
            is_operator: false,
            curve: chart::of_thread(process, index, CURVE).map(|values| chart::bars(&values)),
        })
        .collect()
}

/// Writes the rows with the most allocations in descending order, the rest as one
/// row.
fn table(
    title: &str,
    mut rows: Vec<Row>,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    rows.sort_by_key(|row| Reverse(row.counts));
    let rest = rows.split_off(rows.len().min(options.top));
    if !rest.is_empty() {
        let mut sums = [0_u64; 3];
        for row in &rest {
            for (sum, figure) in sums.iter_mut().zip(row.counts) {
                *sum = sum.saturating_add(figure);
            }
        }
        rows.push(Row {
            name: format!("{} more", count(rest.len() as u64)),
            counts: sums,
            is_operator: false,
            curve: None,
        });
    }
    writeln!(out, "\n{}", style.paint(Role::Title, title))?;
    let held = match rows.iter().any(|row| row.curve.is_some()) {
        true => "live bytes",
        false => "",
    };
    let rows = rows.into_iter().map(|row| {
        let [allocations, size, freed] = row.counts;
        let curve = row.curve.unwrap_or_default();
        let freed = match row.is_operator {
            true => String::new(),
            false => count(freed),
        };
        let figures = [count(allocations), bytes(size), freed, curve];
        std::iter::once(row.name).chain(figures)
    });
    let titles = ["allocations", "bytes", "deallocations", held];
    write_lines(out, columns(titles).rows(rows).lines(style))
}

/// A column of names and columns of figures.
fn columns(titles: [&str; 4]) -> Table {
    Table::new([left("")].into_iter().chain(titles.map(right)))
}
