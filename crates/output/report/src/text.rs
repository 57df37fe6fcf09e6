//! The report as text for people.
//!
//! Lines are never longer than the width in [`Style`]. Counts are exact; bytes are in
//! binary units.

mod blocks;
mod by;
mod chart;
mod counted;
mod curve;
mod finding;
mod frames;
mod freed_at;
mod header;
mod imported;
mod lists;
pub(crate) mod options;
mod process_table;
mod row_details;
mod screen;
mod screen_parts;
mod selected;
mod show;
mod site;
mod totals;
mod tree;
mod why;
mod windows;

use std::io::{self, Write};

use allotrope_attribution::Attributed;
use allotrope_profile::warnings::{waits, warnings};
use allotrope_profile::{Metric, Process, Profile, Unit, WindowRun};
use allotrope_text::document::write_lines;
use allotrope_text::{Role, Style, TextWriter};

pub use blocks::BlockList;
pub use by::write_by;
pub use counted::{write_entries, write_sizes, write_threads};
pub use imported::{Imported, write_imported, write_imported_by, write_imported_sites};
use options::Blocks;
pub use options::{TextOptions, TreeOrder};
pub use process_table::write_processes;
pub use screen::{write_findings, write_screen};
pub use screen_parts::Screen;
pub use selected::write_selected_blocks;
pub use show::{Subject, write_subject};
pub use site::write_site;
pub use why::write_why;

pub(crate) use header::{exit as how_it_ended, left as what_is_left};
pub(crate) use screen::peak_curve;
pub(crate) use screen_parts::wanted as wanted_finding;

use crate::numbers;
use crate::selection::{LISTED, Row, processes, rows};
use crate::suppressed::Suppressed;

/// ` (each: divided by 1,000)`, at the end of a title; empty without a number.
fn divided_by(per: Option<f64>) -> String {
    per.map_or_else(String::new, |per| {
        format!(" (each: divided by {})", numbers::divisor(per))
    })
}

/// Writes the report.
pub fn write(
    attributed: &Attributed<'_>,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let profile = attributed.profile;
    let mut out = TextWriter::new(io::BufWriter::new(out), options.style.color);
    let out: &mut dyn Write = &mut out;
    header::write(profile, options, out)?;
    write_warnings(profile, options.style, out)?;
    if processes(profile, options).next().is_none() {
        writeln!(out, "\nNo process was recorded.")?;
        return out.flush();
    }
    totals::write(profile, options, out)?;
    if profile.is_counts_only() {
        counted::write(profile, options, out)?;
        windows::write(profile, options, out)?;
        return out.flush();
    }
    windows::write(profile, options, out)?;
    let rows = rows(attributed, options);
    let many = processes(profile, options).nth(1).is_some();
    if let Some(order) = options.tree {
        let metric = options.metric.unwrap_or(Metric::Allocations);
        tree::write(profile, &rows, metric, order, options, out)?;
    } else {
        for metric in listed(options) {
            lists::write(profile, &rows, metric, many, options, out)?;
        }
    }
    write_source_warnings(options, out)?;
    out.flush()
}

/// Writes the warnings about source files.
fn write_source_warnings(options: &TextOptions, out: &mut dyn Write) -> io::Result<()> {
    let warnings = options.source.iter().flat_map(|source| source.warnings());
    for warning in warnings {
        writeln!(out)?;
        let lines = options.style.fitted(&warning, ["! ", "  "], Role::Warning);
        write_lines(out, lines)?;
    }
    Ok(())
}

/// The metrics to list. If only leaked or only freed blocks are counted, the lists that
/// would repeat another one or be empty are left out.
fn listed(options: &TextOptions) -> Vec<Metric> {
    if let Some(metric) = options.metric {
        return vec![metric];
    }
    match options.blocks {
        Blocks::All => LISTED.to_vec(),
        Blocks::Leaked => vec![Metric::Allocations, Metric::Bytes],
        Blocks::Freed => vec![Metric::Allocations, Metric::Bytes, Metric::Temporary],
    }
}

fn write_warnings(profile: &Profile, style: Style, out: &mut dyn Write) -> io::Result<()> {
    const MAX: usize = 20;
    let mut all = warnings(profile);
    all.extend(waits(profile));
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let more = all.len().saturating_sub(MAX);
    let last = (more > 0).then(|| format!("{more} more warnings of this kind."));
    for warning in all.iter().take(MAX).chain(last.iter()) {
        write_lines(out, style.fitted(warning, ["! ", "  "], Role::Warning))?;
    }
    Ok(())
}

/// Writes how many of the leaks that the metric counts are not ranked, if there are any.
fn write_suppressed(
    rows: &[Row<'_>],
    metric: Metric,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let is_less = |row: &&Row<'_>| row.ranked.blocks(metric) < row.figures.blocks(metric);
    let mut suppressed = Suppressed::default();
    for row in rows.iter().filter(is_less) {
        suppressed.add(&row.suppressed);
    }
    if suppressed.is_empty() {
        return Ok(());
    }
    let text = format!("suppressed: {suppressed} (--all-leaks ranks them)");
    write_lines(
        out,
        options.style.fitted(&text, ["  ", "  "], Role::Location),
    )
}

/// What a metric counts, in words.
fn describe(metric: Metric, options: &TextOptions) -> &'static str {
    match metric {
        // Blocks that are live when a window closes are not leaked yet.
        Metric::LeakedBytes if options.window.is_some() => "remaining bytes",
        Metric::LeakedAllocations if options.window.is_some() => "remaining allocations",
        other => other.words(),
    }
}

/// A value of a metric divided by the number, with its unit: `21 each`. Empty for a peak.
fn each(metric: Metric, value: u64, per: f64) -> String {
    if metric.is_level() {
        return String::new();
    }
    match metric.unit() {
        Unit::Bytes => format!("{} each", numbers::bytes_each(value, per)),
        Unit::Count | Unit::Microseconds => format!("{} each", numbers::count_each(value, per)),
    }
}

/// A value of a metric, with its unit.
fn amount(metric: Metric, value: u64) -> String {
    match metric.unit() {
        Unit::Bytes => numbers::bytes(value),
        Unit::Count | Unit::Microseconds => numbers::count(value),
    }
}

impl TextOptions {
    /// The number by which a process's figures are also divided, if there is one.
    fn per(&self, process: &Process) -> Option<f64> {
        self.per.or_else(|| match &process.windows[..] {
            [run] if self.window.is_some() => iterations(run),
            _ => None,
        })
    }

    /// Returns the number by which figures are also divided, if all shown processes have the same.
    fn common_per(&self, profile: &Profile) -> Option<f64> {
        let mut all = processes(profile, self).map(|process| self.per(process));
        let first = all.next()?;
        all.all(|other| other == first).then_some(first?)
    }
}

/// The iterations that a window declares; `None` if it declares none, or only one, by
/// which nothing need be divided.
pub(crate) fn iterations(run: &WindowRun) -> Option<f64> {
    (run.iterations > 1).then_some(run.iterations as f64)
}
