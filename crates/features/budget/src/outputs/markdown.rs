//! Writes the report as Markdown, for a comment or a job summary: the cases that have not
//! passed with their logs, then a table of the others, collapsed.

use std::io::{self, Write};

use allotrope_text::{Shown, shown};

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
    writeln!(out, "{TITLE}{}", wording::summary(report))?;
    let cases = report.tests.iter().flat_map(|test| &test.cases);
    let (passed, others): (Vec<&CaseResult>, Vec<&CaseResult>) =
        cases.partition(|case| case.outcome() == Outcome::Passed);
    if !others.is_empty() {
        writeln!(out)?;
        table(&others, out)?;
    }
    for test in &report.tests {
        for trouble in wording::troubles(test) {
            writeln!(out, "\n**{}**: {}", escaped(&test.name), escaped(&trouble))?;
        }
        for note in &test.notes {
            writeln!(
                out,
                "\n**{}**: note: {}",
                escaped(&test.name),
                escaped(note)
            )?;
        }
        for case in &test.cases {
            if case.outcome() != Outcome::Passed {
                write_log(test, case, out)?;
            }
        }
        if test.outcome() == Outcome::Failed {
            writeln!(out, "\nRun again: {}", code(&test.reproduce))?;
        }
        if let Some(command) = wording::accept_intended_command(test) {
            writeln!(out, "\nIf the rise is intended: {}", code(&command))?;
        }
    }
    if !passed.is_empty() {
        let count = match passed.len() {
            1 => "1 case".to_owned(),
            count => format!("{count} cases"),
        };
        writeln!(out, "\n<details><summary>{count} passed</summary>\n")?;
        table(&passed, out)?;
        writeln!(out, "\n</details>")?;
    }
    for (text, command) in [
        (
            "To accept these first numbers",
            wording::first_accept_command(report),
        ),
        (
            "To accept what has improved",
            wording::accept_command(report),
        ),
    ] {
        if let Some(command) = command {
            writeln!(out, "\n{text}: {}", code(&command))?;
        }
    }
    if !report.orphaned_budgets.is_empty() {
        writeln!(out, "\nBudgets of tests that no longer exist:\n")?;
        for file in &report.orphaned_budgets {
            writeln!(out, "- {}", code(&file.shown()))?;
        }
    }
    Ok(())
}

/// Writes the text about a case that has not passed. The text of one that has improved is
/// collapsed.
fn write_log(test: &TestResult, case: &CaseResult, out: &mut dyn Write) -> io::Result<()> {
    let mut log = Vec::new();
    text::write_case(test, case, &TextOptions::default(), &mut log)?;
    let log = String::from_utf8_lossy(&log);
    let log = log.trim_end().trim_start_matches('\n');
    let fence = fence(log);
    if case.outcome() == Outcome::Failed {
        return writeln!(out, "\n{fence}\n{log}\n{fence}");
    }
    // Markdown is not interpreted within an HTML block.
    let name = html(&case.name);
    writeln!(out, "\n<details><summary>{name}</summary>\n")?;
    writeln!(out, "{fence}\n{log}\n{fence}\n\n</details>")
}

fn table(cases: &[&CaseResult], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "| | case | metric | accepted | now | difference | per iteration |"
    )?;
    writeln!(out, "|---|---|---|---:|---:|---:|---:|")?;
    for case in cases {
        for check in &case.checks {
            let sign = match check.status {
                CheckStatus::WithinBudget => "✅",
                CheckStatus::WithinNoise => "✅ noise",
                CheckStatus::Improved => "🔽",
                _ => "❌",
            };
            write_row(sign, &case.name, case.iterations, check, out)?;
        }
    }
    Ok(())
}

/// Writes the row of a number after the sign of its status.
pub(super) fn write_row(
    sign: &str,
    case: &str,
    iterations: Option<u64>,
    check: &Check,
    out: &mut dyn Write,
) -> io::Result<()> {
    let number = |of: Option<Spread>| of.map(wording::spread).unwrap_or_default();
    let difference = check.difference().filter(|_| check.differs());
    let each = difference.map(|it| wording::per_iteration(it, iterations));
    writeln!(
        out,
        "| {sign} | {} | {} | {} | {} | {} | {} |",
        escaped(case),
        check.metric,
        number(check.budget),
        number(check.now),
        difference.map(wording::signed).unwrap_or_default(),
        each.unwrap_or_default()
    )
}

/// Escapes Markdown and HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in shown(text).chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

pub(super) fn html(text: &str) -> String {
    shown(text).replace('&', "&amp;").replace('<', "&lt;")
}

/// A code span for any text (CommonMark 6.1).
pub(super) fn code(text: &str) -> String {
    let text = shown(text);
    if !text.contains('`') {
        return format!("`{text}`");
    }
    let fence = fence(&text);
    format!("{fence} {text} {fence}")
}

/// A fence of backticks that is longer than any in the text.
pub(super) fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}
