//! Writes the report as text: a line for each case that has not passed, their details,
//! then a line for each case that has passed.

mod details;

use std::io::{self, Write};

use allotrope_text::document::write_lines;
use allotrope_text::{Role, Shown, Style, columns, cut, shown, shown_lines, shown_with_tabs, wrap};

use super::{brief, wording};
use crate::check::{Check, CheckStatus};
use crate::result::{CaseResult, Outcome, Report, TestResult};

/// Options of the text.
#[derive(Debug, Clone, Copy)]
pub struct TextOptions {
    /// Colour and width.
    pub style: Style,
    /// Shows the figures of every run and what differs between them, of all cases.
    pub samples: bool,
    /// Shows all stacks and frames that explain a figure.
    pub stacks: bool,
    /// The largest number of entries that explain a figure.
    pub top: usize,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            style: Style::default(),
            samples: false,
            stacks: false,
            top: 5,
        }
    }
}

/// The roles of outcomes.
const ROLES: [Role; 3] = [Role::Good, Role::Warning, Role::Bad];

/// How the lines of cases begin, by outcome.
const STATUS: [&str; 3] = ["ok  ", "less", "FAIL"];

/// Whether a line is that of a case, or the only one of a report without cases.
pub(super) fn is_line(line: &str) -> bool {
    let mut rest = STATUS.iter().filter_map(|word| line.strip_prefix(word));
    rest.any(|rest| rest.starts_with("  ")) || line.starts_with("0 tests")
}

/// Largest number of cases that are written whole if they have passed beside one that has not.
const MAX_PASSED: usize = 10;

/// The number of lines of a failed program's output that are shown.
const OUTPUT_LINES: usize = 20;

struct Text<'a> {
    options: &'a TextOptions,
    out: &'a mut dyn Write,
}

/// Writes the report.
///
/// # Errors
/// Errors of `out`.
pub fn write(report: &Report, options: &TextOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut text = Text { options, out };
    if !report.recorded {
        return text.unrecorded(report);
    }
    for test in &report.tests {
        text.lines_of_failed(test)?;
    }
    for test in &report.tests {
        text.details(test)?;
    }
    text.passed(report)?;
    text.end(report)
}

/// Writes the details of one case.
///
/// # Errors
/// Errors of `out`.
pub fn write_case(
    test: &TestResult,
    case: &CaseResult,
    options: &TextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut text = Text { options, out };
    text.case(case)?;
    text.suspects(test)?;
    text.explanations(case)
}

impl Text<'_> {
    fn status(&self, outcome: Outcome) -> String {
        let role = ROLES[outcome as usize];
        self.options.style.paint(role, STATUS[outcome as usize])
    }

    /// Writes a sentence, wrapped with a hanging indent.
    fn sentence(&mut self, indent: usize, sentence: &str) -> io::Result<()> {
        self.painted_sentence(indent, sentence, Role::Plain)
    }

    fn painted_sentence(&mut self, indent: usize, sentence: &str, role: Role) -> io::Result<()> {
        let [first, rest] = [indent, indent + 2].map(|columns| " ".repeat(columns));
        let style = self.options.style;
        write_lines(self.out, style.wrapped(sentence, [&first, &rest], role))
    }

    /// Writes a label and a command that can be pasted: it is not wrapped.
    fn command(&mut self, indent: usize, label: &str, command: &str) -> io::Result<()> {
        writeln!(self.out, "{:indent$}{label} {}", "", shown_lines(command))
    }

    /// Writes a line for each case of the test that has not passed, and for each problem.
    fn lines_of_failed(&mut self, test: &TestResult) -> io::Result<()> {
        for case in &test.cases {
            if case.outcome() != Outcome::Passed {
                self.line(case.outcome(), &case.name, numbers(case))?;
            }
        }
        for trouble in wording::troubles(test) {
            let trouble = trouble
                .strip_prefix(&format!("{} ", test.name))
                .unwrap_or(&trouble);
            self.line(Outcome::Failed, &test.name, vec![trouble.to_owned()])?;
        }
        Ok(())
    }

    /// Writes a line for each case that has passed, and the notes of tests that have. Many
    /// of them are only named if another case has not passed, so that they do not hide it.
    fn passed(&mut self, report: &Report) -> io::Result<()> {
        let passed = |case: &&CaseResult| case.outcome() == Outcome::Passed;
        let count: usize = report
            .tests
            .iter()
            .map(|test| test.cases.iter().filter(passed).count())
            .sum();
        let all = report.outcome() == Outcome::Passed;
        if !all && count > 0 {
            writeln!(self.out)?;
        }
        if !all && count > MAX_PASSED && !self.options.samples {
            let cases = report.tests.iter().flat_map(|test| &test.cases);
            let names: Vec<&str> = cases
                .filter(passed)
                .map(|case| case.name.as_str())
                .collect();
            let names = names.join(", ");
            return self.sentence(0, &format!("ok    {count} cases: {names}"));
        }
        for test in &report.tests {
            for case in test.cases.iter().filter(passed) {
                self.line(Outcome::Passed, &case.name, numbers(case))?;
                for sentence in brief::unsteady(case) {
                    self.sentence(6, &sentence)?;
                }
            }
            if test.outcome() == Outcome::Passed {
                for note in &test.notes {
                    self.sentence(6, &format!("note: {note}"))?;
                }
            }
        }
        Ok(())
    }

    fn line(&mut self, outcome: Outcome, name: &str, parts: Vec<String>) -> io::Result<()> {
        let status = self.status(outcome);
        let width = self.options.style.columns();
        line(self.out, width, &status, name, &parts)
    }

    fn end(&mut self, report: &Report) -> io::Result<()> {
        if !report.orphaned_budgets.is_empty() {
            writeln!(self.out)?;
            self.sentence(
                0,
                &format!(
                    "Budgets of tests that no longer exist (`{} --prune` removes them):",
                    report.command
                ),
            )?;
            for file in &report.orphaned_budgets {
                self.sentence(2, &file.shown())?;
            }
        }
        for rename in &report.renames {
            self.sentence(0, &wording::rename(rename))?;
            self.command(2, "If so:", &wording::rename_command(report, rename))?;
        }
        let outcome = report.outcome();
        let summary = wording::summary(report);
        let summary = self.options.style.paint(ROLES[outcome as usize], &summary);
        writeln!(self.out, "\n{summary}")?;
        if let Some(command) = wording::first_accept_command(report) {
            self.command(0, "To accept these first numbers:", &command)?;
        }
        if let Some(command) = wording::accept_command(report) {
            self.command(0, "To accept what has improved:", &command)?;
        }
        Ok(())
    }

    fn unrecorded(&mut self, report: &Report) -> io::Result<()> {
        for test in &report.tests {
            let outcome = match test.problem {
                None => Outcome::Passed,
                Some(_) => Outcome::Failed,
            };
            let zeros = ["allocations 0".to_owned(), "remaining 0".to_owned()];
            self.line(outcome, &test.name, zeros.into())?;
            if let Some(problem) = &test.problem {
                self.sentence(6, &problem.to_string())?;
                self.output(test)?;
            }
            self.command(6, "by hand:", &wording::by_hand(test))?;
        }
        let why = "Nothing was recorded, because of --no-record: the zeros are no measurements, and \
                   nothing was compared.";
        self.sentence(0, why)?;
        if let Some(scratch) = &report.scratch {
            self.sentence(0, &format!("scratch folder: {}", scratch.shown()))?;
        }
        Ok(())
    }
}

/// The numbers of a case: with an iteration's share if they pass, otherwise with the
/// difference.
fn numbers(case: &CaseResult) -> Vec<String> {
    let number = |check: &Check| {
        let Some(now) = check.now else {
            return format!("{} ?", check.metric);
        };
        let number = format!("{} {}", check.metric, wording::spread(now));
        match (check.status, check.difference()) {
            (CheckStatus::WithinNoise, _) => format!("{number} (within noise)"),
            (CheckStatus::WithinBudget, _) if now.is_exact() => {
                match brief::share(now.typical, case.iterations) {
                    Some(share) => format!("{number}: {share}"),
                    None => number,
                }
            }
            (CheckStatus::Exceeded | CheckStatus::Improved, Some(difference)) => {
                format!("{number} ({})", wording::signed(difference))
            }
            _ => number,
        }
    };
    case.checks.iter().map(number).collect()
}

/// Writes a status of four letters, a name and its parts. Parts that do not fit
/// continue on the next line.
pub(super) fn line(
    out: &mut dyn Write,
    width: usize,
    status: &str,
    name: &str,
    parts: &[String],
) -> io::Result<()> {
    const COLUMN: usize = 30;
    let name = shown(name);
    let pad = 24_usize.saturating_sub(columns(&name));
    write!(out, "{status}  {name}{:pad$}", "")?;
    let mut at = 6 + columns(&name) + pad;
    for part in parts {
        let width_of_part = width.saturating_sub(COLUMN + 2);
        let pieces = wrap(&shown_with_tabs(part), ["", ""], width_of_part);
        for (index, piece) in pieces.into_iter().enumerate() {
            if index > 0 || at + 2 + columns(&piece) > width {
                write!(out, "\n{:COLUMN$}", "")?;
                at = COLUMN;
            }
            write!(out, "  {piece}")?;
            at += 2 + columns(&piece);
        }
    }
    writeln!(out)
}

/// Writes the last lines of a failed program's output.
pub(super) fn end_of_output(out: &mut dyn Write, style: Style, output: &str) -> io::Result<()> {
    let lines: Vec<&str> = output.lines().collect();
    let last = &lines[lines.len().saturating_sub(OUTPUT_LINES)..];
    let lines = last
        .iter()
        .map(|line| format!("    | {}", shown_lines(line)));
    write_lines(out, lines.map(|line| cut(&line, style.columns())))
}
