//! The top sites by one metric: two lines each, numbers and the user's function,
//! then the location and the callers.

use std::cmp::Reverse;
use std::io::{self, Write};

use allotrope_profile::{Frame, Metric, Profile};

use crate::numbers::{bytes, count, share};
use crate::selection::{Figures, Row, sum};
use crate::shorten::{callers, columns, end, middle, name, path};
use crate::style::Role;
use crate::text::{TextOptions, amount, describe, each, write_suppressed};

/// Columns before the second line.
const INDENT: usize = 8;

/// Writes the list of one metric.
pub(super) fn write(
    profile: &Profile,
    rows: &[Row<'_>],
    metric: Metric,
    many_processes: bool,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = options.style;
    let whole = sum(rows);
    let sites = rows.iter().filter(|row| row.figures.blocks(metric) > 0);
    let mut title = title(metric, &whole, sites.count(), options);
    if let Some(per) = options.common_per(profile) {
        title.push_str(&format!(", {}", each(metric, whole.value(metric), per)));
    }
    let mut ranked: Vec<&Row<'_>> = rows
        .iter()
        .filter(|row| row.ranked.blocks(metric) > 0)
        .collect();
    let rank = |row: &&Row<'_>| {
        let figures = &row.ranked;
        (
            Reverse(figures.value(metric)),
            Reverse(figures.blocks(metric)),
            row.number(),
        )
    };
    // There may be hundreds of thousands.
    let top = options.top.min(ranked.len());
    if top < ranked.len() {
        ranked.select_nth_unstable_by_key(top, rank);
    }
    let (shown, rest) = ranked.split_at_mut(top);
    shown.sort_by_key(rank);
    writeln!(
        out,
        "\n{}",
        style.paint(Role::Title, &middle(&title, style.columns()))
    )?;
    let cells = |row: &&Row<'_>| cells(row, metric, &whole, options.per(row.process));
    let cells: Vec<[String; 5]> = shown.iter().map(cells).collect();
    let width = |column: usize| cells.iter().map(|c| columns(&c[column])).max().unwrap_or(0);
    let widths = [0, 1, 2, 3, 4].map(width);
    for (row, cells) in shown.iter().zip(&cells) {
        let numbers: String = (cells.iter().zip(widths))
            .filter(|(_, width)| *width > 0)
            .map(|(cell, width)| format!("  {cell:>width$}"))
            .collect();
        let function = match row
            .stack
            .get(row.headline)
            .and_then(|&f| profile.frames.get(f as usize))
        {
            Some(frame) => &*frame.function,
            None => "[no stack]",
        };
        let room = style.columns().saturating_sub(columns(&numbers) + 2);
        let function = style.paint(Role::Function, &name(function, room));
        writeln!(out, "{numbers}  {function}")?;
        let second = second_line(profile, row, many_processes, style.columns() - INDENT);
        if !second.is_empty() {
            writeln!(
                out,
                "{:INDENT$}{}",
                "",
                style.paint(Role::Location, &second)
            )?;
        }
        write_source(profile, row, options, out)?;
    }
    if !rest.is_empty() {
        let value: u64 = rest.iter().map(|row| row.ranked.value(metric)).sum();
        let value = amount(metric, value);
        writeln!(out, "  … {} more with {value}", count(rest.len() as u64))?;
    }
    write_suppressed(rows, metric, options, out)
}

/// Writes the lines of code of a row's stack, innermost first, if they were found.
fn write_source(
    profile: &Profile,
    row: &Row<'_>,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(source) = &options.source else {
        return Ok(());
    };
    let room = options.style.columns().saturating_sub(INDENT + 2);
    let frames = row.stack.iter();
    let frames = frames.filter_map(|&index| profile.frames.get(index as usize));
    let lines: Vec<(String, String)> = frames
        .filter_map(|frame| {
            let code = source.line(frame)?;
            Some((location(profile, frame, room / 3).unwrap_or_default(), code))
        })
        .collect();
    let width = lines.iter().map(|(location, _)| columns(location)).max();
    for (location, code) in lines {
        let pad = width.unwrap_or(0) - columns(&location);
        let code = end(&code, room.saturating_sub(width.unwrap_or(0) + 3));
        let location = options.style.paint(Role::Location, &location).to_string();
        writeln!(out, "{:INDENT$}  {location}{:pad$} │ {code}", "", "")?;
    }
    Ok(())
}

fn title(metric: Metric, whole: &Figures, sites: usize, options: &TextOptions) -> String {
    let what = describe(metric, options);
    let value = amount(metric, whole.value(metric));
    let noun = if sites == 1 { "site" } else { "sites" };
    if sites == 0 {
        return format!("By {what}: none");
    }
    format!("By {what}: {value} at {} {noun}", count(sites as u64))
}

/// The number, the value, the value divided by `per`, its share, and a second figure that
/// explains the value.
fn cells(row: &Row<'_>, metric: Metric, whole: &Figures, per: Option<f64>) -> [String; 5] {
    let figures = &row.ranked;
    let value = figures.value(metric);
    let times = |number| format!("{} ×", count(number));
    [
        format!("#{}", row.number()),
        amount(metric, value),
        per.map_or_else(String::new, |per| each(metric, value, per)),
        share(value, whole.value(metric)),
        match metric {
            Metric::Allocations => bytes(figures.value(Metric::Bytes)),
            Metric::Temporary => format!("of {}", count(figures.value(Metric::Allocations))),
            _ => times(figures.blocks(metric)),
        },
    ]
}

fn second_line(profile: &Profile, row: &Row<'_>, many_processes: bool, room: usize) -> String {
    let mut parts = Vec::new();
    if many_processes {
        parts.push(format!("process {}:", row.process.id));
    }
    let frame = |&index: &u32| profile.frames.get(index as usize);
    if let Some(head) = row.stack.get(row.headline).and_then(frame) {
        parts.extend(location(profile, head, room / 2));
    }
    let wrappers = row.stack.iter().take(row.headline).rev();
    let wrappers: Vec<String> = wrappers
        .filter_map(frame)
        .map(|frame| name(&frame.function, room / 4))
        .collect();
    if !wrappers.is_empty() {
        parts.push(format!("(through {})", wrappers.join(", ")));
    }
    let names: Vec<&str> = (row.stack.iter().skip(row.headline + 1).filter_map(frame))
        .map(|frame| &*frame.function)
        .collect();
    let used: usize = parts.iter().map(|part| columns(part) + 1).sum();
    let calls = callers(&names, room.saturating_sub(used));
    if !calls.is_empty() {
        parts.push(calls);
    }
    middle(&parts.join(" "), room)
}

/// The location of a frame: file and line, or its module. `None` if the frame's name
/// contains the module already.
pub(super) fn location(profile: &Profile, frame: &Frame, room: usize) -> Option<String> {
    if frame.file.is_empty() {
        let module = profile.module_name(frame);
        // A name such as `module+0x1f` contains the module.
        let is_in_name = module.is_empty() || frame.function.starts_with(&*module);
        return (!is_in_name)
            .then(|| middle(&crate::shorten::clean(&format!("in {module}")), room));
    }
    let line = match frame.line {
        0 => String::new(),
        line => format!(":{line}"),
    };
    let room = room.saturating_sub(columns(&line));
    Some(format!("{}{line}", path(&frame.file, room)))
}
