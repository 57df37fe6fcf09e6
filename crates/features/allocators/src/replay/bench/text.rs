//! The report of a benchmark as text for people, at most 80 columns wide.

use std::io::{self, Write};

use allotrope_text::numbers::count;
use allotrope_text::shown;

use super::{BenchReport, CaseRow};
use crate::replay::report::text::fitted;

/// Widest column of names: the others have 65 columns of 80.
const WIDEST_NAME: usize = 15;

/// Writes the report: a table for each benchmark.
///
/// # Errors
///
/// Those of `out`.
pub fn write(report: &BenchReport, out: &mut dyn Write) -> io::Result<()> {
    let names = report.allocators.iter().map(|row| shown(&row.name));
    let width = names.map(|name| name.chars().count()).max().unwrap_or(0);
    let width = width.clamp("allocator".len(), WIDEST_NAME);
    let Some(system) = report.allocators.first() else {
        return Ok(());
    };
    let rounds = match report.runs {
        1 => "1 round".to_owned(),
        rounds => format!("{rounds} rounds in turn"),
    };
    writeln!(
        out,
        "{rounds}; {} blocks a thread; calls of malloc and free\n",
        count(report.pairs)
    )?;
    for case in &system.cases {
        let threads = match case.case.threads {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        };
        writeln!(
            out,
            "{}, {} bytes, {threads}; noise (glibc to itself) {:.2}–{:.2}x",
            case.case.pattern.name(),
            count(case.case.size),
            case.noise.low,
            case.noise.high
        )?;
        writeln!(
            out,
            "{:width$}  {:>9}  {:>6}  {:>17}  {:>11}  {:>12}",
            "allocator", "M calls/s", "ns", "vs glibc", "cycles", "instructions"
        )?;
        for row in &report.allocators {
            let same = row.cases.iter().find(|it| it.case == case.case);
            if let Some(measured) = same {
                line(&fitted(&row.name, width), measured, width, out)?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

fn line(name: &str, row: &CaseRow, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let against = match row.verdict {
        None => String::new(),
        Some("tied") => "tied".to_owned(),
        Some("unknown") => format!("{:.2}x ?", row.ratio.median),
        Some(_) => format!(
            "{:.2}x {:.2}–{:.2}",
            row.ratio.median, row.ratio.low, row.ratio.high
        ),
    };
    let counted = |value: Option<f64>| {
        value.map_or_else(|| "unavailable".to_owned(), |it| format!("{it:.1}"))
    };
    writeln!(
        out,
        "{name:width$}  {:>9.1}  {:>6.1}  {against:>17}  {:>11}  {:>12}",
        row.operations_per_second.median / 1e6,
        row.ns_per_operation.median,
        counted(row.cycles),
        counted(row.instructions),
    )
}
