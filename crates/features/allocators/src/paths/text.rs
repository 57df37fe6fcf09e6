//! Reports and comparisons for people.

use std::io::{self, Write};

use allotrope_text::{cut, shown, write_wrapped};

use crate::paths::compare::Comparison;
use crate::paths::report::{Allocator, Callee, Path, Report};

/// Narrowest lines.
const NARROWEST: usize = 60;

/// Writes a report: `top` rows of each table, lines of at most `width` columns.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, top: usize, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let width = width.max(NARROWEST);
    writeln!(
        out,
        "{}: one of {} of {} operations stepped",
        shown(&report.recording),
        report.every,
        report.recorded_operations
    )?;
    overview(report, width, out)?;
    for allocator in &report.allocators {
        section(allocator, top, width, out)?;
    }
    Ok(())
}

/// Instructions an operation, side by side.
fn overview(report: &Report, width: usize, out: &mut dyn Write) -> io::Result<()> {
    const ENTRIES: [&str; 5] = ["all", "malloc", "calloc", "realloc", "free"];
    writeln!(
        out,
        "\ninstructions an operation\n      all   malloc   calloc  realloc     free   spread"
    )?;
    for allocator in &report.allocators {
        let mut line = String::new();
        for entry in ENTRIES {
            let row = allocator
                .instructions
                .iter()
                .find(|it| it.entry_point == entry);
            match row {
                Some(row) => line.push_str(&format!("{:>9.2}", row.mean)),
                None => line.push_str(&format!("{:>9}", "-")),
            }
        }
        let spread = allocator.instructions.first().map_or(0.0, |it| it.spread());
        let spread = match (allocator.runs, spread) {
            (1, _) => "one run".to_owned(),
            (_, 0.0) => "none".to_owned(),
            (_, spread) => format!("{:.2}%", spread * 100.0),
        };
        line.push_str(&format!("{spread:>9}  {}", shown(&allocator.name)));
        writeln!(out, "{}", cut(&line, width))?;
    }
    Ok(())
}

fn section(allocator: &Allocator, top: usize, width: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", shown(&allocator.name))?;
    for finding in &allocator.findings {
        write_wrapped(out, &shown(finding), ["! ", "  "], width)?;
    }
    if allocator.cut > 0 {
        let cut = allocator.cut;
        writeln!(
            out,
            "{cut} operations were too long to be stepped to their end"
        )?;
    }
    entry_points(allocator, width, out)?;
    size_classes(allocator, top, width, out)?;
    writeln!(
        out,
        "\n  paths (of the entry point's operations, of its instructions)"
    )?;
    for path in allocator.paths.iter().take(top) {
        path_rows(path, width, out)?;
    }
    more(allocator.paths.len(), top, out)?;
    if !allocator.callees.is_empty() {
        writeln!(out, "\n  callees (of all operations, of all instructions)")?;
        for callee in allocator.callees.iter().take(top) {
            callee_row(callee, width, out)?;
        }
        more(allocator.callees.len(), top, out)?;
    }
    if !allocator.lines.is_empty() {
        writeln!(out, "\n  source lines (of all instructions)")?;
        for line in allocator.lines.iter().take(top) {
            let text = format!(
                "  {:>6} {:>8.2}  {} {}:{}",
                percent(line.share_of_instructions),
                line.instructions,
                line.function,
                base(&line.file),
                line.line
            );
            writeln!(out, "{}", cut(&shown(&text), width))?;
        }
    }
    Ok(())
}

fn entry_points(allocator: &Allocator, width: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\n  entry point     operations     mean   median      p99   locked  syscalls"
    )?;
    for row in &allocator.instructions {
        let line = format!(
            "  {:<15} {:>10} {:>8.2} {:>8} {:>8} {:>8.3} {:>9.4}",
            row.entry_point,
            row.operations,
            row.mean,
            row.median,
            row.p99,
            row.locked,
            row.system_calls
        );
        writeln!(out, "{}", cut(&line, width))?;
    }
    Ok(())
}

fn size_classes(
    allocator: &Allocator,
    top: usize,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(
        out,
        "\n  entry point     up to bytes  operations     mean   median"
    )?;
    let mut classes: Vec<_> = allocator.size_classes.iter().collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.operations));
    for class in classes.iter().take(top) {
        let line = format!(
            "  {:<15} {:>11} {:>11} {:>8.2} {:>8}",
            class.entry_point, class.up_to_bytes, class.operations, class.mean, class.median
        );
        writeln!(out, "{}", cut(&line, width))?;
    }
    more(classes.len(), top, out)
}

fn path_rows(path: &Path, width: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "  {}: {} of operations, {} of instructions, {:.1} an operation",
        path.entry_point,
        percent(path.share_of_operations),
        percent(path.share_of_instructions),
        path.instructions
    )?;
    for function in &path.functions {
        let place = match (&*function.file, function.line) {
            ("", _) => base(&function.module).to_owned(),
            (file, line) => format!("{}:{line}", base(file)),
        };
        let outside = if function.allocator { "" } else { " *" };
        let text = format!(
            "    {:>8.1}  {} {place}{outside}",
            function.instructions, function.function
        );
        writeln!(out, "{}", cut(&shown(&text), width))?;
    }
    Ok(())
}

fn callee_row(callee: &Callee, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let place = match (&*callee.file, callee.line) {
        ("", _) => String::new(),
        (file, line) => format!(" {}:{line}", base(file)),
    };
    let text = format!(
        "  {:>6} {:>6}  {} ({}), called by {}{place}",
        percent(callee.share_of_operations),
        percent(callee.share_of_instructions),
        callee.function,
        callee.kind,
        callee.caller
    );
    writeln!(out, "{}", cut(&shown(&text), width))
}

/// Writes a comparison.
///
/// # Errors
/// Those of `out`.
pub fn write_comparison(
    comparison: &Comparison,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let width = width.max(NARROWEST);
    writeln!(
        out,
        "instructions an operation\n    before      after    change    noise  entry point"
    )?;
    for row in &comparison.rows {
        let change = row.change();
        let change = change.map_or_else(|| "-".to_owned(), |it| format!("{:+.2}%", it * 100.0));
        let line = format!(
            "{:>10.2} {:>10.2} {change:>9} {:>8.2}  {} ({})",
            row.before, row.after, row.noise, row.entry_point, row.allocator
        );
        writeln!(out, "{}", cut(&shown(&line), width))?;
    }
    for missing in &comparison.missing {
        let sentence = format!("! not compared: {missing}");
        write_wrapped(out, &shown(&sentence), ["", "  "], width)?;
    }
    for callee in &comparison.callees {
        write_wrapped(out, &shown(callee), ["", "  "], width)?;
    }
    Ok(())
}

fn more(all: usize, top: usize, out: &mut dyn Write) -> io::Result<()> {
    match all.saturating_sub(top) {
        0 => Ok(()),
        more => writeln!(out, "  … {more} more"),
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}
