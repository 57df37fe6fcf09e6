//! The output as text.

use std::fmt::Write as _;
use std::io::{self, Write};

use allotrope_sampling::estimate::{Estimate, Figures};
use allotrope_text::numbers::{bytes, count, duration, moment};
use allotrope_text::shown;

use crate::history::Trend;
use crate::report::{ProcessRow, Report, SiteRow};
use crate::sites::{Sites, Sums};

/// Most frames of a stack.
const FRAMES: usize = 16;

/// Writes a report.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", moment(report.real_time))?;
    match &report.total {
        Some(total) => sums(report, total, out)?,
        None => writeln!(out, "nothing was sampled yet")?,
    }
    for row in &report.processes {
        process(row, out)?;
    }
    if report.suppressed.sites > 0 {
        let live = report
            .suppressed
            .live
            .as_ref()
            .map_or_else(String::new, in_bytes);
        let stacks = plural(report.suppressed.sites as u64, "stack");
        writeln!(out, "suppressed: {stacks}, {live}")?;
    }
    sites(&report.sites, report.more_sites, out)?;
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
        sites(&mark.sites, 0, out)?;
    }
    writeln!(out)
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
        Some(period) => format!("one of {} sampled", bytes(period.bytes())),
        None => "sampling is off".to_owned(),
    };
    write!(
        out,
        "process {} ({}): {live}; {period}",
        row.process,
        shown(&row.name)
    )?;
    match row.lost() {
        0 => writeln!(out),
        lost => writeln!(
            out,
            "; {} missing, so that the figures are too low",
            plural(lost, "sample")
        ),
    }
}

fn sites(rows: &[SiteRow], more: usize, out: &mut dyn Write) -> io::Result<()> {
    for (number, row) in (1..).zip(rows) {
        site(number, row, out)?;
    }
    match more {
        0 => Ok(()),
        more => writeln!(out, "\n{} more", plural(more as u64, "stack")),
    }
}

fn site(number: usize, row: &SiteRow, out: &mut dyn Write) -> io::Result<()> {
    let sums = &row.sums;
    let mut text = in_bytes(&sums.live);
    let blocks = sums.live.blocks(row.smallest);
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
    writeln!(out, "\n{number:3}  {text}")?;
    if let [_, _, ..] = &row.processes[..] {
        let of = |(process, live): &(u32, Figures)| format!("{process}: {}", in_bytes(live));
        let processes: Vec<String> = row.processes.iter().map(of).collect();
        writeln!(out, "     in processes {}", processes.join("; "))?;
    }
    for frame in row.stack.iter().take(FRAMES) {
        write!(out, "     {}", shown(&frame.name()))?;
        match frame.line {
            0 => writeln!(out)?,
            line => writeln!(out, "  {}:{line}", shown(&frame.file))?,
        }
    }
    match row.stack.len().saturating_sub(FRAMES) {
        0 => Ok(()),
        more => writeln!(out, "     … {}", plural(more as u64, "frame")),
    }
}

fn figures(figures: &Figures) -> String {
    let blocks = in_blocks(figures.blocks(Sites::SMALLEST));
    format!("{}, {blocks}", in_bytes(figures))
}

/// `1.5 MiB (1.0 MiB to 2.5 MiB)`.
fn in_bytes(figures: &Figures) -> String {
    let it = figures.bytes();
    let [value, low, high] = [it.value, it.low, it.high].map(|it| bytes(it as u64));
    format!("{value} ({low} to {high})")
}

fn in_blocks(it: Estimate) -> String {
    let [value, low, high] = [it.value, it.low, it.high].map(|it| count(it.round() as u64));
    format!("{value} blocks ({low} to {high})")
}

fn grown(sums: &Sums) -> String {
    let signed = |it: f64| match it < 0.0 {
        true => format!("-{}", bytes(-it as u64)),
        false => format!("+{}", bytes(it as u64)),
    };
    let it = sums.grown_bytes();
    let [value, low, high] = [it.value, it.low, it.high].map(signed);
    format!("{value} ({low} to {high})")
}

fn plural(number: u64, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        number => format!("{} {thing}s", count(number)),
    }
}
