//! Writes the report as text: one line for each case, then the details of those
//! that have not passed, then the remedies.

use std::io::{self, Write};

use allotrope_text::{Shown, shown, shown_lines};

use allotrope_report::Style;
use allotrope_report::diff::text::write_entries;
use allotrope_report::diff::{DiffTextOptions, Selection};

use super::wording;
use crate::check::{Check, CheckStatus};
use crate::fluctuation::Fluctuation;
use crate::measure::Problem;
use crate::result::{CaseResult, Explanation, Outcome, Report, TestResult};
use crate::spread::Spread;
use allotrope_profile::Metric;

/// Options of the text.
#[derive(Debug, Clone, Copy)]
pub struct TextOptions {
    /// Colour and width.
    pub style: Style,
    /// Shows the figures of every run.
    pub samples: bool,
    /// The largest number of entries that explain a figure.
    pub top: usize,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            style: Style::default(),
            samples: false,
            top: 5,
        }
    }
}

/// ECMA-48 colours, by outcome.
const COLORS: [&str; 3] = ["32", "33", "31"];

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
        text.lines_of(test)?;
    }
    for test in &report.tests {
        text.details(test)?;
    }
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
    text.explanations(case)?;
    text.sentence(2, &format!("Run again: {}", test.reproduce))
}

impl Text<'_> {
    fn width(&self) -> usize {
        self.options.style.width.max(40)
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.options.style.color {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn status(&self, outcome: Outcome) -> String {
        let word = match outcome {
            Outcome::Passed => "ok  ",
            Outcome::Improved => "less",
            Outcome::Failed => "FAIL",
        };
        self.paint(COLORS[outcome as usize], word)
    }

    /// Writes a sentence, wrapped with a hanging indent.
    fn sentence(&mut self, indent: usize, sentence: &str) -> io::Result<()> {
        self.painted_sentence(indent, sentence, None)
    }

    /// Writes a sentence in a colour. It is painted after it is wrapped, which escapes
    /// control characters.
    fn painted_sentence(
        &mut self,
        indent: usize,
        sentence: &str,
        color: Option<&str>,
    ) -> io::Result<()> {
        let width = self.width().saturating_sub(indent + 2);
        for (index, line) in wrap(sentence, width).iter().enumerate() {
            let hang = indent + if index > 0 { 2 } else { 0 };
            let line = match color {
                Some(color) => self.paint(color, line),
                None => line.clone(),
            };
            writeln!(self.out, "{:hang$}{line}", "")?;
        }
        Ok(())
    }

    /// Writes a line for each case and each problem of the test.
    fn lines_of(&mut self, test: &TestResult) -> io::Result<()> {
        for case in &test.cases {
            let numbers = case.checks.iter().map(|check| {
                let number = check.now.map_or_else(|| "?".to_owned(), wording::spread);
                let noise = match check.status {
                    CheckStatus::WithinNoise => " (within noise)",
                    _ => "",
                };
                format!("{} {number}{noise}", check.metric)
            });
            self.line(case.outcome(), &case.name, numbers.collect())?;
        }
        for trouble in wording::troubles(test) {
            let trouble = trouble
                .strip_prefix(&format!("{} ", test.name))
                .unwrap_or(&trouble);
            self.line(Outcome::Failed, &test.name, vec![trouble.to_owned()])?;
        }
        Ok(())
    }

    fn line(&mut self, outcome: Outcome, name: &str, parts: Vec<String>) -> io::Result<()> {
        let status = self.status(outcome);
        let width = self.width();
        line(self.out, width, &status, name, &parts)
    }

    fn details(&mut self, test: &TestResult) -> io::Result<()> {
        let outcome = test.outcome();
        let interesting = |case: &&CaseResult| {
            let unsteady = !case.leaks.is_empty() || !case.fluctuations.is_empty();
            case.outcome() != Outcome::Passed || unsteady || self.options.samples
        };
        let cases: Vec<&CaseResult> = test.cases.iter().filter(interesting).collect();
        if outcome == Outcome::Passed && cases.is_empty() && test.notes.is_empty() {
            return Ok(());
        }
        let troubles = wording::troubles(test);
        if !troubles.is_empty() || !test.notes.is_empty() {
            let title = self.paint("1", &test.name);
            writeln!(self.out, "\n{} {title}", self.status(outcome))?;
        }
        for trouble in &troubles {
            self.sentence(2, trouble)?;
        }
        for note in &test.notes {
            self.sentence(2, &format!("note: {note}"))?;
        }
        if test.problem.as_ref().is_some_and(Problem::is_of_program) {
            self.output(test)?;
        }
        let mut suspects_shown = false;
        for case in cases {
            self.case(case)?;
            if case.outcome() != Outcome::Passed && !suspects_shown {
                self.suspects(test)?;
                suspects_shown = true;
            }
            self.explanations(case)?;
        }
        if outcome != Outcome::Passed && test.counts_only && test.problem.is_none() {
            let what = "Counted without stacks (`counts-only`); the next command records them.";
            self.sentence(2, what)?;
        }
        if outcome == Outcome::Failed {
            if !suspects_shown {
                self.suspects(test)?;
            }
            self.sentence(2, &format!("Run again: {}", test.reproduce))?;
            if let Some(trace) = &test.trace {
                let words = ["allotrope".as_ref(), "report".as_ref(), trace.as_os_str()];
                let report = crate::shell::command_line(&words);
                self.sentence(2, &format!("Look into:  {report}"))?;
            }
        }
        Ok(())
    }

    fn output(&mut self, test: &TestResult) -> io::Result<()> {
        if test.output.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "  The end of what it printed:")?;
        let width = self.width();
        end_of_output(self.out, width, &test.output)
    }

    fn suspects(&mut self, test: &TestResult) -> io::Result<()> {
        if test.suspects.is_empty() {
            return Ok(());
        }
        let head = "Changed since the numbers were accepted (suspect these before the code):";
        self.painted_sentence(2, head, Some("33"))?;
        for suspect in &test.suspects {
            self.sentence(4, &wording::suspect(suspect))?;
        }
        Ok(())
    }

    fn case(&mut self, case: &CaseResult) -> io::Result<()> {
        let runs = match case.samples.len() {
            1 => "1 run".to_owned(),
            runs => format!("{runs} runs"),
        };
        let iterations = case.iterations.filter(|&iterations| iterations > 1);
        let iterations = iterations.map(|iterations| {
            let iterations = i64::try_from(iterations).unwrap_or(i64::MAX);
            format!(" of {} iterations", wording::number(iterations))
        });
        let title = self.paint("1", &case.name);
        let status = self.status(case.outcome());
        let iterations = iterations.unwrap_or_default();
        writeln!(self.out, "\n{status} {title}  ({runs}{iterations})")?;
        self.table(case)?;
        let mut statuses = case.checks.iter().map(|check| check.status);
        if statuses
            .clone()
            .all(|status| status == CheckStatus::NoBudget)
        {
            self.sentence(2, "No numbers were accepted yet.")?;
        } else if statuses.any(|status| !status.passes()) {
            for check in &case.checks {
                let status = check.status;
                if matches!(
                    status,
                    CheckStatus::NothingMeasured | CheckStatus::NoBudget | CheckStatus::NotRecorded
                ) {
                    self.sentence(2, &wording::sentence(check))?;
                }
            }
        }
        for check in &case.checks {
            if let Some(sentence) = wording::noise(check) {
                self.sentence(2, &sentence)?;
            }
        }
        if let Some(line) = wording::proposed_tolerance(case) {
            let what = "If so much is to be allowed, in the test's section of allotrope.toml:";
            self.sentence(2, what)?;
            writeln!(self.out, "    {line}")?;
        }
        for leak in &case.leaks {
            self.sentence(2, &wording::leak(leak))?;
        }
        if self.options.samples {
            self.samples(case)?;
        }
        Ok(())
    }

    fn table(&mut self, case: &CaseResult) -> io::Result<()> {
        let head = ["", "accepted", "now", "difference", "each", "allowed", ""].map(str::to_owned);
        let row = |check: &Check| {
            let number = |of: Option<Spread>| {
                of.map_or_else(|| "-".to_owned(), |of| wording::number(of.typical))
            };
            let difference = check.difference();
            let each = difference.filter(|&it| it != 0);
            let each = each.map(|it| wording::per_iteration(it, case.iterations));
            [
                check.metric.name().to_owned(),
                number(check.budget),
                number(check.now),
                difference.map(wording::signed).unwrap_or_default(),
                each.unwrap_or_default(),
                wording::allowed(check),
                match check.status {
                    CheckStatus::WithinBudget => String::new(),
                    status => wording::status(status).replace('-', " "),
                },
            ]
        };
        let mut rows = vec![head];
        rows.extend(case.checks.iter().map(row));
        if rows[1..].iter().all(|row| row[4].is_empty()) {
            rows[0][4].clear();
        }
        for row in &rows {
            let mut line = format!("  {:<13}", row[0]);
            for (column, cell) in row.iter().enumerate().skip(1) {
                let width = rows
                    .iter()
                    .map(|row| columns(&row[column]))
                    .max()
                    .unwrap_or(0);
                if width > 0 {
                    line.push_str(&format!("  {cell:>width$}"));
                }
            }
            writeln!(self.out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// Writes the figures of every run.
    fn samples(&mut self, case: &CaseResult) -> io::Result<()> {
        for metric in Metric::OF_RUNS {
            let figures = case.samples.iter().map(|sample| sample.figure(metric));
            let figures: Option<Vec<String>> = figures.map(|it| it.map(wording::number)).collect();
            if let Some(figures) = figures {
                let name = metric.name();
                self.sentence(2, &format!("every run's {name}: {}", figures.join(" ")))?;
            }
        }
        Ok(())
    }

    fn explanations(&mut self, case: &CaseResult) -> io::Result<()> {
        for explanation in &case.explanations {
            self.explanation(explanation, case.samples.len())?;
        }
        for fluctuation in &case.fluctuations {
            self.fluctuation(fluctuation)?;
        }
        Ok(())
    }

    fn explanation(&mut self, explanation: &Explanation, runs: usize) -> io::Result<()> {
        self.sentence(2, &wording::explanation_heading(explanation, runs))?;
        if wording::explaining_entries(&explanation.diff)
            .next()
            .is_none()
        {
            return self.sentence(4, "no stack differs from the accepted ones");
        }
        let options = DiffTextOptions {
            style: self.options.style,
            selection: Selection::default(),
            top: self.options.top,
            all_frames: false,
            titles: [Vec::new(), Vec::new()],
        };
        write_entries(&explanation.diff, &options, self.out)
    }

    fn fluctuation(&mut self, fluctuation: &Fluctuation) -> io::Result<()> {
        let [least, most] = fluctuation.range.map(wording::number);
        let metric = fluctuation.metric;
        self.sentence(
            2,
            &format!("{metric} fluctuate between runs, {least} to {most}:"),
        )?;
        for (range, frames) in &fluctuation.stacks {
            let calls: Vec<&str> = frames.iter().map(|f| f.function.as_str()).collect();
            let location = frames.first().map(wording::location).unwrap_or_default();
            let text = format!(
                "{} to {}  {}  {location}",
                range[0],
                range[1],
                calls.join(" ← ")
            );
            self.sentence(4, text.trim_end())?;
        }
        if fluctuation.more_stacks > 0 {
            self.sentence(4, &format!("… {} more stacks", fluctuation.more_stacks))?;
        }
        for (range, name) in &fluctuation.threads {
            let text = format!("{name}: {} to {} allocations", range[0], range[1]);
            self.sentence(4, &text)?;
        }
        Ok(())
    }

    fn end(&mut self, report: &Report) -> io::Result<()> {
        if !report.orphaned_budgets.is_empty() {
            writeln!(self.out)?;
            self.sentence(
                0,
                "Budgets of tests that no longer exist (`allotrope test --prune` removes them):",
            )?;
            for file in &report.orphaned_budgets {
                self.sentence(2, &file.shown())?;
            }
        }
        let outcome = report.outcome();
        let summary = self.paint(COLORS[outcome as usize], &wording::summary(report));
        writeln!(self.out, "\n{summary}")?;
        if let Some(command) = wording::first_accept_command(report) {
            self.sentence(0, &format!("To accept these first numbers: {command}"))?;
        }
        if let Some(command) = wording::accept_command(report) {
            self.sentence(0, &format!("To accept what has improved: {command}"))?;
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
            self.sentence(6, &format!("by hand: {}", wording::by_hand(test)))?;
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
    let head = format!("{:<24}", shown(name));
    write!(out, "{status}  {head}")?;
    let mut at = 6 + columns(&head);
    for part in parts {
        let width_of_part = width.saturating_sub(COLUMN + 2);
        for (index, piece) in wrap(part, width_of_part).into_iter().enumerate() {
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
pub(super) fn end_of_output(out: &mut dyn Write, width: usize, output: &str) -> io::Result<()> {
    let lines: Vec<&str> = output.lines().collect();
    for line in &lines[lines.len().saturating_sub(OUTPUT_LINES)..] {
        let line = shown_lines(line);
        let line: String = line.chars().take(width - 6).collect();
        writeln!(out, "    | {line}")?;
    }
    Ok(())
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

/// Breaks a text into lines of at most `width` columns. It is broken at blanks only, so
/// that long words can be copied.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    // The output of a program may contain tabs.
    let text: Vec<_> = text.split('\t').map(shown).collect();
    for word in text.join("\t").split(' ') {
        if !line.is_empty() && columns(&line) + 1 + columns(word) > width {
            lines.push(std::mem::take(&mut line));
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}
