//! The first screen in Markdown (CommonMark with GitHub's tables), for an issue or a pull
//! request.

use std::cmp::Reverse;
use std::io::{self, Write};

use allotrope_profile::{Frame, Process, command_text};

use crate::groups::{Grouping, groups};
use crate::numbers::{bytes, count, duration, share};
use crate::selection::processes;
use crate::shorten::clean;
use crate::text::{Screen, TextOptions, how_it_ended, peak_curve};
use crate::warnings::warnings;

/// Largest number of rows of a table.
const MAX: usize = 10;
/// Columns of the curve.
const COLUMNS: usize = 60;

/// Writes the answer of the first screen.
pub fn write(screen: &Screen<'_>, options: &TextOptions, out: &mut dyn Write) -> io::Result<()> {
    let profile = screen.profile;
    let shown: Vec<&Process> = processes(profile, options).collect();
    let command = match shown.as_slice() {
        [one] => command_text(&one.command),
        _ => command_text(&profile.recording.command),
    };
    writeln!(out, "### {}\n", code(&command))?;
    for warning in warnings(profile) {
        writeln!(out, "> {}\n", text(&warning))?;
    }
    match shown.as_slice() {
        [one] => write_totals(one, out)?,
        many => write_processes(many, out)?,
    }
    write_findings(screen, options, out)?;
    write_functions(screen, &shown, out)
}

fn write_totals(process: &Process, out: &mut dyn Write) -> io::Result<()> {
    let totals = &process.totals;
    writeln!(
        out,
        "{} · {} allocations · {} · peak **{}** after {} · {} live at the end\n",
        duration(process.duration_us as f64),
        count(totals.allocations),
        how_it_ended(process),
        bytes(totals.peak_bytes),
        duration(totals.peak_time_us as f64),
        bytes(totals.leaked_bytes),
    )?;
    if let Some(curve) = peak_curve(process, COLUMNS) {
        writeln!(out, "```text\n{curve}\n```\n")?;
    }
    Ok(())
}

fn write_processes(shown: &[&Process], out: &mut dyn Write) -> io::Result<()> {
    let mut sorted = shown.to_vec();
    sorted.sort_by_key(|process| Reverse(process.totals.allocated_bytes));
    writeln!(
        out,
        "| process | command | allocations | bytes | peak | end |"
    )?;
    writeln!(out, "| ---: | --- | ---: | ---: | ---: | --- |")?;
    for process in sorted.iter().take(MAX) {
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            process.id,
            code(&command_text(&process.command)),
            count(process.totals.allocations),
            bytes(process.totals.allocated_bytes),
            bytes(process.totals.peak_bytes),
            how_it_ended(process),
        )?;
    }
    if sorted.len() > MAX {
        writeln!(
            out,
            "\n{} more processes.",
            count((sorted.len() - MAX) as u64)
        )?;
    }
    writeln!(out)
}

fn write_findings(
    screen: &Screen<'_>,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let profile = screen.profile;
    let wanted = options.process;
    let findings = screen.findings.iter();
    let mut findings = findings
        .filter(|finding| wanted.is_none_or(|id| finding.process == id))
        .peekable();
    if findings.peek().is_none() {
        return writeln!(out, "Nothing stands out.\n");
    }
    writeln!(out, "#### What stands out\n")?;
    for (index, finding) in findings.take(MAX).enumerate() {
        let frame = finding.frame;
        let frame = frame.and_then(|index| profile.frames.get(index as usize));
        let place = frame.map_or_else(String::new, |frame| format!(" in {}", place(frame)));
        writeln!(
            out,
            "{}. **{}**: {}{place}. {} *{}*",
            index + 1,
            text(&finding.title),
            text(&finding.measure),
            text(&finding.text),
            text(&finding.advice),
        )?;
    }
    writeln!(out)
}

fn write_functions(screen: &Screen<'_>, shown: &[&Process], out: &mut dyn Write) -> io::Result<()> {
    let Screen {
        profile, headlines, ..
    } = *screen;
    let of_shown = shown.iter().copied();
    let mut all = groups(profile, of_shown, headlines, Grouping::Function);
    all.retain(|group| group.peak_bytes > 0);
    if all.is_empty() {
        return Ok(());
    }
    all.sort_by_key(|group| Reverse((group.peak_bytes, group.peak_blocks)));
    let whole: u64 = all.iter().map(|group| group.peak_bytes).sum();
    writeln!(out, "#### Held at the peak, by function\n")?;
    writeln!(out, "| bytes | share | blocks | function |")?;
    writeln!(out, "| ---: | ---: | ---: | --- |")?;
    for group in all.iter().take(MAX) {
        let place = match group.frame {
            Some(frame) if group.is_unnamed => {
                format!(
                    "{}, functions without names",
                    code(&profile.module_name(frame))
                )
            }
            Some(frame) => place(frame),
            None => "no stack".to_owned(),
        };
        writeln!(
            out,
            "| {} | {} | {} | {place} |",
            bytes(group.peak_bytes),
            share(group.peak_bytes, whole),
            count(group.peak_blocks),
        )?;
    }
    Ok(())
}

/// A function and its line.
fn place(frame: &Frame) -> String {
    let function = code(&frame.function);
    match (frame.file.rsplit('/').next(), frame.line) {
        (Some(file), line) if line > 0 => {
            format!("{function} ({})", code(&format!("{file}:{line}")))
        }
        _ => function,
    }
}

/// A code span, which can also stand in a cell of a table.
fn code(text: &str) -> String {
    // A bar ends a cell even in a code span, unless it is escaped.
    let text = clean(text).replace('`', "'").replace('|', "\\|");
    format!("`{text}`")
}

/// Text, with the characters escaped that mean something in Markdown.
fn text(text: &str) -> String {
    let mut escaped = String::new();
    for c in clean(text).chars() {
        if matches!(
            c,
            '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '|' | '#'
        ) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_break_the_markdown() {
        assert_eq!(code("a|b`c"), r"`a\|b'c`");
        assert_eq!(text("operator* <a_b>"), r"operator\* \<a\_b\>");
    }
}
