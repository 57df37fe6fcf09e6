//! Writes the report as Markdown, for a comment or a job summary: the cases that have not
//! passed with their logs, then a table of the others, collapsed.

use std::io::{self, Write};

use allotrope_text::document::{Document, Table, Text, left, right};
use allotrope_text::numbers::plural;
use allotrope_text::{Role, Shown};

use super::{TextOptions, text, wording};
use crate::check::{Check, CheckStatus};
use crate::result::{CaseResult, Outcome, Report, TestResult};
use crate::spread::Spread;

/// How the report begins.
pub(super) const TITLE: &str = "### Allocations: ";

/// Writes the report as Markdown.
///
/// # Errors
/// Errors of `out`.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut document = Document::default();
    document.heading(3, format!("Allocations: {}", wording::summary(report)));
    let cases = report.tests.iter().flat_map(|test| &test.cases);
    let (passed, others): (Vec<&CaseResult>, Vec<&CaseResult>) =
        cases.partition(|case| case.outcome() == Outcome::Passed);
    if !others.is_empty() {
        document.table(table(&others));
    }
    for test in &report.tests {
        let troubles = wording::troubles(test).into_iter();
        let notes = test.notes.iter().map(|note| format!("note: {note}"));
        for sentence in troubles.chain(notes) {
            document.text(named(&test.name, &sentence));
        }
        for case in &test.cases {
            if case.outcome() != Outcome::Passed {
                write_log(test, case, &mut document)?;
            }
        }
        if test.outcome() == Outcome::Failed {
            document.text(command("Run again: ", &test.reproduce));
        }
        if let Some(accept) = wording::accept_intended_command(test) {
            document.text(command("If the rise is intended: ", &accept));
        }
    }
    if !passed.is_empty() {
        let count = plural(passed.len(), "case", "cases");
        let mut part = Document::default();
        part.table(table(&passed));
        document.folded(format!("{count} passed"), part);
    }
    if let Some(accept) = wording::first_accept_command(report) {
        document.text(command("To accept these first numbers: ", &accept));
    }
    if let Some(accept) = wording::accept_command(report) {
        document.text(command("To accept what has improved: ", &accept));
    }
    if !report.orphaned_budgets.is_empty() {
        document.text("Budgets of tests that no longer exist:");
        let files = report.orphaned_budgets.iter();
        document.list(files.map(|file| Text::of(Role::Code, file.shown())));
    }
    document.write_markdown(out)
}

/// A sentence about something with this name.
pub(super) fn named(name: &str, sentence: &str) -> Text {
    Text::of(Role::Title, name).and(Role::Plain, format!(": {sentence}"))
}

fn command(before: &str, command: &str) -> Text {
    Text::from(before).and(Role::Code, command)
}

/// Appends the text about a case that has not passed. The text of one that has improved is
/// collapsed.
fn write_log(test: &TestResult, case: &CaseResult, document: &mut Document) -> io::Result<()> {
    let mut log = Vec::new();
    text::write_case(test, case, &TextOptions::default(), &mut log)?;
    let log = String::from_utf8_lossy(&log);
    if case.outcome() == Outcome::Failed {
        document.lines(log);
    } else {
        let mut part = Document::default();
        part.lines(log);
        document.folded(&*case.name, part);
    }
    Ok(())
}

fn table(cases: &[&CaseResult]) -> Table {
    let mut table = numbers(["accepted", "now"]);
    for case in cases {
        for check in &case.checks {
            let sign = match check.status {
                CheckStatus::WithinBudget => "✅",
                CheckStatus::WithinNoise => "✅ noise",
                CheckStatus::Improved => "🔽",
                _ => "❌",
            };
            table.row(row(sign, &case.name, case.iterations, check));
        }
    }
    table
}

/// A table for numbers of cases that are compared.
pub(super) fn numbers(compared: [&str; 2]) -> Table {
    let texts = ["", "case", "metric"].map(left).into_iter();
    let numbers = compared.into_iter().chain(["difference", "per iteration"]);
    Table::new(texts.chain(numbers.map(right)))
}

/// The row of a number after the sign of its status.
pub(super) fn row(sign: &str, case: &str, iterations: Option<u64>, check: &Check) -> [String; 7] {
    let number = |of: Option<Spread>| of.map(wording::spread).unwrap_or_default();
    let difference = check.difference().filter(|_| check.differs());
    let each = difference.map(|it| wording::per_iteration(it, iterations));
    [
        sign.to_owned(),
        case.to_owned(),
        check.metric.to_string(),
        number(check.budget),
        number(check.now),
        difference.map(wording::signed).unwrap_or_default(),
        each.unwrap_or_default(),
    ]
}
