//! The top sites by one metric: two lines each, numbers and the user's function,
//! then the location and the callers.

use std::cmp::Reverse;
use std::io::{self, Write};

use allotrope_profile::{Frame, Metric, Profile};

use crate::numbers::{bytes, count, plural, share};
use crate::selection::{Figures, Row, sum};
use crate::shorten::{callers, name, path};
use crate::text::{TextOptions, amount, describe, each, write_suppressed};
use allotrope_text::document::{Table, Text, left, right, write_lines};
use allotrope_text::{Role, columns, cut_middle};

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
    let sites = rows.iter().filter(|row| row.figures.has(metric));
    let mut title = title(metric, &whole, sites.count(), options);
    let per = options.common_per(profile);
    if let Some(per) = per.filter(|_| !metric.is_level()) {
        title.push_str(&format!(", {}", each(metric, whole.value(metric), per)));
    }
    let mut ranked: Vec<&Row<'_>> = rows.iter().filter(|row| row.ranked.has(metric)).collect();
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
        style.paint(Role::Title, &cut_middle(&title, style.columns()))
    )?;
    let numbers = [(); 5].map(|()| right(""));
    let columns = numbers.into_iter().chain([left("").cut_by(name)]);
    let rows_of = shown.iter().map(|row| {
        let frame = row.stack.get(row.headline);
        let frame = frame.and_then(|&frame| profile.frames.get(frame as usize));
        let function = frame.map_or("[no stack]", |frame| &*frame.function);
        let cells = cells(row, metric, &whole, options);
        let cells = cells.into_iter().map(Text::from);
        cells.chain([Text::of(Role::Function, function)])
    });
    let lines = Table::new(columns).rows(rows_of).lines(style);
    for (row, line) in shown.iter().zip(lines) {
        writeln!(out, "{line}")?;
        let second = second_line(profile, row, many_processes, style.columns() - INDENT);
        if !second.is_empty() {
            let second = style.paint(Role::Location, &second);
            writeln!(out, "{:INDENT$}{second}", "")?;
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
    let lines = frames.filter_map(|frame| {
        let code = source.line(frame)?;
        let location = location(profile, frame, room / 3).unwrap_or_default();
        Some([
            Text::of(Role::Location, location),
            Text::from(format!("│ {code}")),
        ])
    });
    let table = Table::new([left(""), left("")]).indent(INDENT + 2).gap(1);
    write_lines(out, table.rows(lines).lines(options.style))
}

fn title(metric: Metric, whole: &Figures, sites: usize, options: &TextOptions) -> String {
    let what = describe(metric, options);
    let value = amount(metric, whole.value(metric));
    if sites == 0 {
        return format!("By {what}: none");
    }
    format!("By {what}: {value} at {}", plural(sites, "site", "sites"))
}

/// The number, the value, the value divided by `per`, its share, and a second figure that
/// explains the value.
fn cells(row: &Row<'_>, metric: Metric, whole: &Figures, options: &TextOptions) -> [String; 5] {
    let per = options.per(row.process);
    let figures = &row.ranked;
    let value = figures.value(metric);
    let times = |number| format!("{} ×", count(number));
    let second = match metric {
        Metric::Allocations => Metric::Bytes,
        Metric::Temporary => Metric::Allocations,
        other => other.counted_blocks(),
    };
    [
        format!("#{}", row.number()),
        amount(metric, value),
        per.map_or_else(String::new, |per| each(metric, value, per)),
        share(value, whole.value(metric)),
        match metric {
            _ if !options.known.has(second) => String::new(),
            Metric::Allocations => bytes(figures.value(second)),
            Metric::Temporary => format!("of {}", count(figures.value(second))),
            _ => times(figures.value(second)),
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
    cut_middle(&parts.join(" "), room)
}

/// The location of a frame: file and line, or its module. `None` if the frame's name
/// contains the module already.
pub(super) fn location(profile: &Profile, frame: &Frame, room: usize) -> Option<String> {
    if frame.file.is_empty() {
        let module = profile.module_name(frame);
        // A name such as `module+0x1f` contains the module.
        let is_in_name = module.is_empty() || frame.function.starts_with(&*module);
        return (!is_in_name)
            .then(|| cut_middle(&crate::shorten::clean(&format!("in {module}")), room));
    }
    let line = match frame.line {
        0 => String::new(),
        line => format!(":{line}"),
    };
    let room = room.saturating_sub(columns(&line));
    Some(format!("{}{line}", path(&frame.file, room)))
}
