//! The report of a benchmark for people.

use allotrope_text::cut_middle;
use allotrope_text::document::{Document, Table, left, right};
use allotrope_text::numbers::{count, plural};

use super::{BenchReport, CaseRow};

/// The report as a document: a table for each benchmark.
pub fn document(report: &BenchReport) -> Document {
    let mut document = Document::default();
    let Some(system) = report.allocators.first() else {
        return document;
    };
    let rounds = match report.runs {
        1 => "1 round".to_owned(),
        rounds => format!("{rounds} rounds in turn"),
    };
    document.text(format!(
        "{rounds}; {} blocks a thread; calls of malloc and free",
        count(report.pairs)
    ));
    document.text(report.environment.text());
    for case in &system.cases {
        let threads = plural(case.case.threads as usize, "thread", "threads");
        document.gap();
        document.text(format!(
            "{}, {} bytes, {threads}; noise (glibc to itself) {:.2}–{:.2}x",
            case.case.pattern.name(),
            count(case.case.size),
            case.noise.low,
            case.noise.high
        ));
        let rows = report.allocators.iter().filter_map(|row| {
            let same = row.cases.iter().find(|it| it.case == case.case)?;
            Some(cells(&row.name, same))
        });
        let names = left("allocator").cut_by(cut_middle);
        let numbers = ["M calls/s", "ns", "vs glibc", "cycles", "instructions"].map(right);
        let columns = [names].into_iter().chain(numbers);
        document.table(Table::new(columns).indent(0).rows(rows));
    }
    document
}

fn cells(name: &str, row: &CaseRow) -> [String; 6] {
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
    [
        name.to_owned(),
        format!("{:.1}", row.operations_per_second.median / 1e6),
        format!("{:.1}", row.ns_per_operation.median),
        against,
        counted(row.cycles),
        counted(row.instructions),
    ]
}
