//! The report of a benchmark for people.

use allotrope_text::cut_middle;
use allotrope_text::document::{Document, Table, left, right};
use allotrope_text::numbers::{count, plural};

use super::{BenchReport, Case, CaseRow};

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
    let is_profile = system.cases.iter().any(|it| it.case.profile.is_some());
    document.text(match is_profile {
        true => format!("{rounds}; calls of malloc and free"),
        false => format!(
            "{rounds}; {} blocks a thread; calls of malloc and free",
            count(report.pairs)
        ),
    });
    document.text(report.environment.text());
    for case in &system.cases {
        let threads = plural(case.case.threads as usize, "thread", "threads");
        document.gap();
        document.text(format!(
            "{}, {threads}; noise (glibc to itself) {:.2}–{:.2}x",
            what(&case.case),
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

/// The pattern with its sizes, or the profile with all of its parameters.
fn what(case: &Case) -> String {
    let size = count(case.size);
    match case.profile {
        None => format!("{}, {size} bytes", case.pattern.name()),
        Some(profile) => format!(
            "{} {profile}, {}–{size} bytes, {} of {} kept blocks replaced, exchanged each {}",
            case.pattern.name(),
            count(case.smallest_size),
            count(case.pairs),
            count(case.kept),
            count(case.exchange_rounds.unwrap_or_default() * 1024),
        ),
    }
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
