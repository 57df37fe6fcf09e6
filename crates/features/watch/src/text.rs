//! The output as text.

use std::fmt::Write as _;
use std::io::{self, Write};

use allotrope_profile::warnings::nameless::MIN_PERCENT;
use allotrope_sampling::estimate::{Estimate, Figures, MIN};
use allotrope_text::numbers::{bytes, count, duration, moment};
use allotrope_text::{shown, words};

use crate::history::Trend;
use crate::nameless;
use crate::names::name_of;
use crate::report::{ProcessRow, Report, SiteRow, Together};
use crate::since::{Since, bound};
use crate::sites::{ENOUGH_SAMPLES, Sums};
use crate::verdict::Evidence;

/// Most frames of a stack.
const MAX_FRAMES: usize = 16;
/// What stands before a frame.
const FRAME: &str = "     ";

/// Writes a report in lines of at most `width` columns, but for names that are longer.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut text = Vec::new();
    whole(report, width, &mut text)?;
    let text = String::from_utf8_lossy(&text);
    text.lines().try_for_each(|line| wrapped(line, width, out))
}

/// The report; its sentences have any length.
fn whole(report: &Report, width: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", moment(report.real_time))?;
    match &report.total {
        Some(total) => {
            if let Some(bound) = bound(&total.live) {
                writeln!(out, "{bound}")?;
            }
            sums(report, total, out)?;
        }
        None => writeln!(out, "nothing was sampled yet")?,
    }
    for row in &report.processes {
        process(row, out)?;
    }
    if report.suppressed.sites > 0 {
        writeln!(out, "suppressed: {}", together(&report.suppressed))?;
    }
    if report.few.sites > 0 {
        let few = together(&report.few);
        writeln!(out, "with fewer than {ENOUGH_SAMPLES} samples each: {few}")?;
    }
    for sentence in nameless::sentences(&report.sites, MIN_PERCENT) {
        writeln!(out, "warning: {sentence}")?;
    }
    sites(&report.sites, report.more_sites, width, out)?;
    if let Some(mark) = &report.high_water {
        let live = mark
            .total
            .as_ref()
            .map_or_else(String::new, |it| in_bytes(&it.live));
        let age = if mark.is_new { "new" } else { "current" };
        writeln!(
            out,
            "\n{age} high-water mark, {}: {live}",
            moment(mark.real_time)
        )?;
        sites(&mark.sites, 0, width, out)?;
    }
    writeln!(out)
}

fn together(these: &Together) -> String {
    let live = these.live.as_ref().map_or_else(String::new, in_bytes);
    format!("{}, {live}", plural(these.sites as u64, "stack"))
}

fn sums(report: &Report, sums: &Sums, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = vec![("live".to_owned(), figures(&sums.live))];
    let old = format!("older than {}", duration(report.old_age as f64 / 1e3));
    lines.push((old, figures(&sums.old)));
    if let Some(mark) = report.mark_time.filter(|it| *it != report.real_time) {
        lines.push((format!("grown since {}", moment(mark)), grown(sums)));
    }
    for (name, text) in lines {
        writeln!(out, "{name}: {text}")?;
    }
    Ok(())
}

fn process(row: &ProcessRow, out: &mut dyn Write) -> io::Result<()> {
    let live = match &row.sums {
        Some(sums) => in_bytes(&sums.live),
        None => "nothing was sampled yet".to_owned(),
    };
    let period = match row.period {
        Some(period) => {
            let from_start = row.since.as_ref().and_then(Since::from_start);
            let size = bytes(period.bytes());
            match from_start {
                Some(it) if it == period => format!("one of {size} sampled from its start"),
                // It has allocated less than 64 KiB since the watcher came.
                Some(it) => {
                    let before = bytes(it.bytes());
                    format!("one of {before} sampled from its start, of {size} from now on")
                }
                None => format!("one of {size} sampled"),
            }
        }
        None => "sampling is off".to_owned(),
    };
    let resident = row.resident.map_or_else(String::new, |it| {
        format!("; {} resident", bytes(it.of_program()))
    });
    write!(
        out,
        "process {} ({}): {live}; {period}{resident}",
        row.process,
        shown(&row.name)
    )?;
    match row.lost() {
        0 => writeln!(out)?,
        lost => writeln!(
            out,
            "; {} missing, so that the figures are too low",
            plural(lost, "sample")
        )?,
    }
    let since = row.since.as_ref();
    let sentences = since.map(|it| [it.history(), it.gap()]);
    for sentence in sentences.into_iter().flatten().flatten() {
        writeln!(out, "process {}: {sentence}", row.process)?;
    }
    Ok(())
}

fn sites(rows: &[SiteRow], more: usize, width: usize, out: &mut dyn Write) -> io::Result<()> {
    for (number, row) in (1..).zip(rows) {
        site(number, row, width, out)?;
    }
    match more {
        0 => Ok(()),
        more => writeln!(out, "\n{} more", plural(more as u64, "stack")),
    }
}

fn site(number: usize, row: &SiteRow, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let sums = &row.sums;
    let mut text = in_bytes(&sums.live);
    let blocks = sums.live.blocks(row.smallest());
    let _ = write!(text, ", {}", in_blocks(blocks));
    if sums.old.samples() > 0 {
        let _ = write!(text, ", old {}", in_bytes(&sums.old));
    }
    if sums.new.samples() + sums.gone.samples() > 0 {
        let _ = write!(text, ", grown {}", grown(sums));
    }
    let _ = write!(text, ", {}", plural(sums.live.samples(), "sample"));
    let _ = write!(text, ", the oldest {}", duration(row.oldest as f64 / 1e3));
    if row.trend != Trend::Unknown {
        let _ = write!(text, ", {}", row.trend.name());
    }
    if let Some(evidence) = &row.evidence {
        let _ = write!(text, ": {}", evidence_text(evidence));
    }
    writeln!(out, "\n{number:3}  {text}")?;
    if let [_, _, ..] = &row.processes[..] {
        let of = |(process, live): &(u32, Figures)| format!("{process}: {}", in_bytes(live));
        let processes: Vec<String> = row.processes.iter().map(of).collect();
        writeln!(out, "     in processes {}", processes.join("; "))?;
    }
    for frame in row.stack.iter().take(MAX_FRAMES) {
        let name = name_of(frame);
        let name = shown(&name);
        write!(out, "{FRAME}{name}")?;
        if frame.line != 0 {
            let place = format!("{}:{}", shown(&frame.file), frame.line);
            let columns = FRAME.len() + name.chars().count() + 2 + place.chars().count();
            match columns <= width {
                true => write!(out, "  {place}")?,
                false => write!(out, "\n{FRAME}    {place}")?,
            }
        }
        writeln!(out)?;
    }
    match row.stack.len().saturating_sub(MAX_FRAMES) {
        0 => Ok(()),
        more => writeln!(out, "     … {}", plural(more as u64, "frame")),
    }
}

/// What shows that a site grows: how many of its samples were freed.
fn evidence_text(it: &Evidence) -> String {
    let freed = match it.freed {
        0 => "none".to_owned(),
        freed => freed.to_string(),
    };
    let were = if it.freed == 1 || it.freed == 0 {
        "was"
    } else {
        "were"
    };
    let which = match it.age {
        0 => String::new(),
        age => format!(" that reached {}", duration(age as f64 / 1e3)),
    };
    format!(
        "of {}{which} {freed} {were} freed",
        plural(it.reached, "sample")
    )
}

/// Writes a line, in several ones if it is wider: they end after a comma or semicolon, or where a
/// part is too wide, between words. Frames have no such places that may be used.
fn wrapped(line: &str, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let columns = |text: &str| text.chars().count();
    let is_sentence = line.starts_with(|c: char| c.is_alphabetic()) || is_figures(line);
    if columns(line) <= width || !is_sentence {
        return writeln!(out, "{line}");
    }
    let indent = if line.starts_with(' ') {
        "       "
    } else {
        "  "
    };
    let mut current = String::new();
    let parts = line.split_inclusive([',', ';']);
    // A comma within a number, as in 1,234, is followed by a digit.
    let mut clauses: Vec<String> = Vec::new();
    for part in parts {
        match clauses.last_mut().filter(|_| !part.starts_with(' ')) {
            Some(last) => last.push_str(part),
            None => clauses.push(part.to_owned()),
        }
    }
    for clause in clauses {
        if columns(&current) + columns(&clause) <= width {
            current.push_str(&clause);
            continue;
        }
        let is_short = columns(indent) + columns(clause.trim_start()) <= width;
        if is_short && !current.trim().is_empty() {
            writeln!(out, "{current}")?;
            current = format!("{indent}{}", clause.trim_start());
            continue;
        }
        for word in words(&clause).filter(|it| !it.is_empty()) {
            if columns(&current) + columns(word) + 1 > width && !current.trim().is_empty() {
                writeln!(out, "{current}")?;
                current = indent.to_owned();
            }
            let needs_blank = !current.is_empty() && !current.ends_with(' ');
            current.push_str(if needs_blank { " " } else { "" });
            current.push_str(word);
        }
    }
    writeln!(out, "{current}")
}

/// Whether a line has the number and the figures of a site.
fn is_figures(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let number = words.next().is_some_and(|it| it.parse::<u32>().is_ok());
    (number && line.len() - line.trim_start().len() < FRAME.len())
        || line.starts_with("     in processes ")
}

fn figures(figures: &Figures) -> String {
    let blocks = in_blocks(figures.blocks(MIN));
    format!("{}, {blocks}", in_bytes(figures))
}

/// Live bytes with their interval: `1.5 MiB (1.0 MiB to 2.5 MiB)`, `1.5 MiB (at least 1.0 MiB)`.
pub fn in_bytes(figures: &Figures) -> String {
    let it = figures.bytes();
    let value = bytes(it.value as u64);
    format!("{value} ({})", interval(it, |it| bytes(it as u64)))
}

fn in_blocks(it: Estimate) -> String {
    let it = it.rounded();
    let blocks = plural(it.value as u64, "block");
    format!("{blocks} ({})", interval(it, |it| count(it as u64)))
}

/// The interval of an estimate; an end that is not known is infinite.
fn interval(it: Estimate, number: impl Fn(f64) -> String) -> String {
    match (it.low.is_finite(), it.high.is_finite()) {
        (true, true) => format!("{} to {}", number(it.low), number(it.high)),
        (true, false) => format!("at least {}", number(it.low)),
        (false, true) => format!("at most {}", number(it.high)),
        (false, false) => "or any other amount".to_owned(),
    }
}

fn grown(sums: &Sums) -> String {
    let signed = |it: f64| match it < 0.0 {
        true => format!("-{}", bytes(-it as u64)),
        false => format!("+{}", bytes(it as u64)),
    };
    let it = sums.grown_bytes();
    format!("{} ({})", signed(it.value), interval(it, signed))
}

fn plural(number: u64, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        number => format!("{} {thing}s", count(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(line: &str, width: usize) -> Vec<String> {
        let mut out = Vec::new();
        wrapped(line, width, &mut out).expect("memory");
        let text = String::from_utf8(out).expect("UTF-8");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn figures_are_wrapped_after_commas() {
        let line = "  1  46.3 MiB (36.3 MiB to 58.1 MiB), 1,234 blocks (1,000 to 1,500), old 20.0 MiB (9.0 MiB to 30.5 MiB), 45 samples, the oldest 1.01 s, growing";
        let expected = [
            "  1  46.3 MiB (36.3 MiB to 58.1 MiB), 1,234 blocks (1,000 to 1,500),",
            "       old 20.0 MiB (9.0 MiB to 30.5 MiB), 45 samples, the oldest 1.01 s,",
            "       growing",
        ];
        assert_eq!(lines(line, 80), expected);
        assert_eq!(lines(line, 1000), [line]);
        // What has no comma is wrapped between words.
        assert!(lines(line, 20).iter().all(|it| it.chars().count() <= 20));
        assert_eq!(lines(line, 20).len(), 12);
    }

    #[test]
    fn an_end_that_is_not_known_is_not_printed() {
        let estimate = |low, high| Estimate {
            value: 2.0,
            low,
            high,
        };
        let all = [
            (estimate(1.0, 3.0), "1 to 3"),
            (estimate(1.0, f64::INFINITY), "at least 1"),
            (estimate(f64::NEG_INFINITY, 3.0), "at most 3"),
            (
                estimate(f64::NEG_INFINITY, f64::INFINITY),
                "or any other amount",
            ),
        ];
        for (estimate, expected) in all {
            assert_eq!(interval(estimate, |it| it.to_string()), expected);
        }
    }

    #[test]
    fn frames_stay_whole() {
        let frame = "     std::vector<int, std::allocator<int> >::push_back(int const&)";
        assert_eq!(lines(frame, 20), [frame]);
    }

    #[test]
    fn an_interval_of_blocks_does_not_become_narrower() {
        let estimate = Estimate {
            value: 1.2,
            low: 1.0,
            high: 5.2,
        };
        assert_eq!(in_blocks(estimate), "1 block (1 to 6)");
        let estimate = Estimate {
            value: 2.6,
            low: 1.9,
            high: 5.2,
        };
        assert_eq!(in_blocks(estimate), "3 blocks (1 to 6)");
    }
}
