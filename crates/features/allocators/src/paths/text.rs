//! Reports and comparisons for people.

use allotrope_text::document::{Document, Table, left, right};
use allotrope_text::numbers::percent;

use crate::paths::compare::Comparison;
use crate::paths::findings::show_places;
use crate::paths::report::{Allocator, Path, Report};
use crate::tables::{callees, changes, lines, named_place};

/// The report as a document, with at most `top` rows in each table.
pub fn document(report: &Report, top: usize) -> Document {
    let mut document = Document::default();
    document.text(format!(
        "{}: one of {} of {} operations stepped",
        report.recording, report.every, report.recorded_operations
    ));
    if let Some(environment) = &report.environment {
        document.text(environment.text());
    }
    document.heading(2, "instructions an operation");
    document.table(overview(report));
    for allocator in &report.allocators {
        section(allocator, top, &mut document);
    }
    document
}

/// Instructions an operation, side by side.
fn overview(report: &Report) -> Table {
    const ENTRIES: [&str; 5] = ["all", "malloc", "calloc", "realloc", "free"];
    let rows = report.allocators.iter().map(|allocator| {
        let instructions = &allocator.instructions;
        let means = ENTRIES.map(|entry| {
            let row = instructions.iter().find(|it| it.entry_point == entry);
            row.map_or_else(|| "-".to_owned(), |row| format!("{:.2}", row.mean))
        });
        let spread = instructions.first().map_or(0.0, |it| it.spread());
        let spread = match (allocator.runs, spread) {
            (1, _) => "one run".to_owned(),
            (_, 0.0) => "none".to_owned(),
            (_, spread) => format!("{:.2}%", spread * 100.0),
        };
        let means = means.into_iter();
        means.chain([spread, allocator.name.clone()])
    });
    let numbers = ENTRIES.into_iter().chain(["spread"]).map(right);
    Table::new(numbers.chain([left("allocator")])).rows(rows)
}

fn section(allocator: &Allocator, top: usize, document: &mut Document) {
    document.heading(2, &*allocator.name);
    for finding in &allocator.findings {
        document.warning(finding);
    }
    show_places(&allocator.callees, document);
    if allocator.cut > 0 {
        let cut = allocator.cut;
        document.text(format!(
            "{cut} operations were too long to be stepped to their end"
        ));
    }
    document.table(entry_points(allocator));
    document.gap();
    document.table(size_classes(allocator).top(top));
    document.heading(
        3,
        "paths (of the entry point's operations, of its instructions)",
    );
    for path in allocator.paths.iter().take(top) {
        path_rows(path, document);
    }
    if let Some(more @ 1..) = allocator.paths.len().checked_sub(top) {
        document.text(format!("… {more} more"));
    }
    if !allocator.callees.is_empty() {
        document.heading(3, "callees (of all operations, of all instructions)");
        document.table(callees(&allocator.callees).top(top));
    }
    if !allocator.lines.is_empty() {
        document.heading(3, "source lines (of all instructions)");
        document.table(lines(&allocator.lines).top(top));
    }
}

fn entry_points(allocator: &Allocator) -> Table {
    let rows = allocator.instructions.iter().map(|row| {
        [
            row.entry_point.clone(),
            row.operations.to_string(),
            format!("{:.2}", row.mean),
            row.median.to_string(),
            row.p99.to_string(),
            format!("{:.3}", row.locked),
            format!("{:.4}", row.system_calls),
        ]
    });
    let numbers = ["operations", "mean", "median", "p99", "locked", "syscalls"].map(right);
    Table::new([left("entry point")].into_iter().chain(numbers)).rows(rows)
}

fn size_classes(allocator: &Allocator) -> Table {
    let mut classes: Vec<_> = allocator.size_classes.iter().collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.operations));
    let rows = classes.iter().map(|class| {
        [
            class.entry_point.clone(),
            class.up_to_bytes.to_string(),
            class.operations.to_string(),
            format!("{:.2}", class.mean),
            class.median.to_string(),
        ]
    });
    let numbers = ["up to bytes", "operations", "mean", "median"].map(right);
    Table::new([left("entry point")].into_iter().chain(numbers)).rows(rows)
}

fn path_rows(path: &Path, document: &mut Document) {
    document.text(format!(
        "{}: {} of operations, {} of instructions, {:.1} an operation",
        path.entry_point,
        percent(path.share_of_operations),
        percent(path.share_of_instructions),
        path.instructions
    ));
    let rows = path.functions.iter().map(|it| {
        let outside = if it.allocator { "" } else { " *" };
        let place = named_place(&it.file, it.line, &it.module);
        [
            format!("{:.1}", it.instructions),
            format!("{} {place}{outside}", it.function),
        ]
    });
    document.table(Table::new([right("").at_least(8), left("")]).rows(rows));
}

/// A comparison as a document.
pub fn comparison(comparison: &Comparison) -> Document {
    let mut document = Document::default();
    document.text("instructions an operation");
    document.table(changes(&comparison.rows, |row| {
        format!("{} ({})", row.entry_point, row.allocator)
    }));
    for note in &comparison.notes {
        document.warning(note.clone());
    }
    for missing in &comparison.missing {
        document.warning(format!("not compared: {missing}"));
    }
    for callee in &comparison.callees {
        document.text(callee);
    }
    document
}
