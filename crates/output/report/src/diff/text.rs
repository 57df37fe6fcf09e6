//! The comparison as text for people: first the totals, then the entries that changed,
//! the largest difference first, then the entries that only moved.
//!
//! Lines are never longer than the width in [`Style`](crate::Style). All numbers are
//! exact, so that they can be added up; ratios of differences are not shown.

use std::io::{self, Write};

use allotrope_diff::{Diff, Entry, Kind};
use allotrope_text::document::write_lines;
use allotrope_text::{Role, TextWriter};

use super::selection::sum;
use super::text_options::DiffTextOptions;
use super::wording::signed;
use super::{entry, summary};
use crate::numbers::{count, plural};

/// Writes the comparison.
pub fn write(diff: &Diff, options: &DiffTextOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut out = TextWriter::new(io::BufWriter::new(out), options.style.color);
    let out: &mut dyn Write = &mut out;
    let matching = options.selection.matching(diff);
    summary::write(diff, &matching, options, out)?;
    let large = |entry: &&Entry| options.selection.shows(entry);
    let is_moved = |entry: &&Entry| entry.kind == Kind::Moved;
    let (moved, changed): (Vec<&Entry>, Vec<&Entry>) = matching.into_iter().partition(is_moved);
    let changed = suppressed_last(changed);
    if changed.is_empty() && options.remarks.is_empty() {
        let what = match (&options.selection.filter, moved.len()) {
            (Some(_), 0) => "Nothing that was asked for is different.".to_owned(),
            (None, 0) => "Nothing is different.".to_owned(),
            // A new function with the figures of another one is worth a look.
            (_, renamed) => format!(
                "No figure is different, but the names in {} are.",
                plural(renamed, "entry", "entries")
            ),
        };
        writeln!(out, "\n{what}")?;
    }
    let shown = changed.iter().copied().filter(large).take(options.top);
    let mut written = 0;
    for entry in shown {
        written += 1;
        writeln!(out)?;
        entry::write(diff, entry, written, options, out)?;
    }
    write_rest(&changed, large, "\n", options, out)?;
    if !options.remarks.is_empty() {
        writeln!(out)?;
        write_remarks(options, 2, out)?;
    }
    write_moved(diff, &moved, written, options, out)?;
    out.flush()
}

/// Writes the entries that changed, the largest first, without the totals and the entries
/// that only moved. For callers that have already printed what is compared.
pub fn write_entries(
    diff: &Diff,
    options: &DiffTextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let matching = options.selection.matching(diff);
    let is_changed = |entry: &&Entry| entry.kind != Kind::Moved;
    let changed = suppressed_last(matching.into_iter().filter(is_changed).collect());
    let large = |entry: &&Entry| options.selection.shows(entry);
    let shown = changed.iter().copied().filter(large).take(options.top);
    for (index, shown) in shown.enumerate() {
        entry::write(diff, shown, index + 1, options, out)?;
    }
    write_rest(&changed, large, "  ", options, out)?;
    write_remarks(options, 4, out)
}

/// Writes the remarks, indented by so many columns.
fn write_remarks(options: &DiffTextOptions, indent: usize, out: &mut dyn Write) -> io::Result<()> {
    // The lines after the first are indented by two more.
    let [first, rest] = [indent, indent + 2].map(|columns| " ".repeat(columns));
    let remarks = options.remarks.iter();
    let lines = remarks.flat_map(|it| options.style.fitted(it, [&first, &rest], Role::Plain));
    write_lines(out, lines)
}

/// The entries in their order, but those whose leaks are suppressed after the others.
fn suppressed_last(mut entries: Vec<&Entry>) -> Vec<&Entry> {
    entries.sort_by_key(|entry| entry.suppressed.is_some());
    entries
}

/// Writes the number of changed entries that are not shown, and the sum of their
/// differences, after `before`.
fn write_rest(
    changed: &[&Entry],
    large: impl Fn(&&Entry) -> bool,
    before: &str,
    options: &DiffTextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (large, small): (Vec<&Entry>, Vec<&Entry>) = changed.iter().copied().partition(large);
    let cut = large.get(options.top..).unwrap_or_default();
    let below = format!(" below {}", count(options.selection.min));
    for (entries, why) in [(cut, ""), (&small[..], below.as_str())] {
        if entries.is_empty() {
            continue;
        }
        let rest = sum(entries.iter().copied());
        let line = format!(
            "… {}{why} with {}",
            plural(entries.len(), "more entry", "more entries"),
            signed(rest.difference())
        );
        let line = options.style.paint(Role::Location, &line);
        writeln!(out, "{before}{line}")?;
    }
    Ok(())
}

fn write_moved(
    diff: &Diff,
    moved: &[&Entry],
    written: usize,
    options: &DiffTextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let shown: Vec<&Entry> = moved
        .iter()
        .copied()
        .filter(|entry| options.selection.shows(entry))
        .collect();
    if shown.is_empty() {
        return Ok(());
    }
    let mut title = "Moved or renamed, not different".to_owned();
    if !options.selection.expand {
        title += " (folded";
        if let Some(option) = options.hints.moved {
            title += &format!("; {option} shows the stacks");
        }
        title += ")";
    }
    writeln!(out)?;
    summary::line(&title, Role::Title, options, out)?;
    for (index, moved) in shown.iter().take(options.top).enumerate() {
        if options.selection.expand {
            writeln!(out)?;
            entry::write(diff, moved, written + index + 1, options, out)?;
        } else {
            entry::write_folded(diff, moved, options, out)?;
        }
    }
    let rest = moved.len() - shown.len().min(options.top);
    if rest > 0 {
        let line = format!("  … {} more", count(rest as u64));
        writeln!(out, "{}", options.style.paint(Role::Location, &line))?;
    }
    Ok(())
}
