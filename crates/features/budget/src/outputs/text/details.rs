//! The details of the tests that have not passed: the numbers, the stacks that explain
//! them, and what to do next. With `--samples`, of all tests.

use std::io;

use allotrope_report::diff::text::write_entries;
use allotrope_report::diff::{DiffTextOptions, Hints, Selection};

use allotrope_text::Role;
use allotrope_text::document::{Table, left, right, write_lines};
use allotrope_text::numbers::plural;

use super::{Text, end_of_output};
use crate::check::{Check, CheckStatus};
use crate::fluctuation::Fluctuation;
use crate::limit::number;
use crate::outputs::{brief, wording};
use crate::problem::Problem;
use crate::result::{CaseResult, Explanation, Outcome, TestResult};
use crate::spread::Spread;
use allotrope_profile::Metric;

impl Text<'_> {
    pub(super) fn details(&mut self, test: &TestResult) -> io::Result<()> {
        let outcome = test.outcome();
        let interesting =
            |case: &&CaseResult| case.outcome() != Outcome::Passed || self.options.samples;
        let cases: Vec<&CaseResult> = test.cases.iter().filter(interesting).collect();
        if outcome == Outcome::Passed && cases.is_empty() {
            return Ok(());
        }
        let troubles = wording::troubles(test);
        if !troubles.is_empty() || !test.notes.is_empty() {
            let title = self.options.style.paint(Role::Title, &test.name);
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
            self.next_steps(test)?;
        }
        Ok(())
    }

    /// Writes what to do about a failed test. Commands are not wrapped, so that they can
    /// be pasted.
    pub(super) fn next_steps(&mut self, test: &TestResult) -> io::Result<()> {
        if let Some(culprit) = brief::culprit(test) {
            self.sentence(2, &format!("Look at: {culprit}"))?;
        }
        self.command(2, "Run again:", &test.reproduce)?;
        if let Some(trace) = &test.trace {
            let words = ["allotrope".as_ref(), "report".as_ref(), trace.as_os_str()];
            let report = crate::shell::command_line(&words);
            self.command(2, "Look into:", &report)?;
        }
        if let Some(accept) = wording::accept_intended_command(test) {
            self.command(2, "If intended:", &accept)?;
        }
        Ok(())
    }

    pub(super) fn output(&mut self, test: &TestResult) -> io::Result<()> {
        if test.output.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "  The end of what it printed:")?;
        end_of_output(self.out, self.options.style, &test.output)
    }

    pub(super) fn suspects(&mut self, test: &TestResult) -> io::Result<()> {
        if test.suspects.is_empty() {
            return Ok(());
        }
        let head = "Changed since the numbers were accepted (suspect these before the code):";
        self.painted_sentence(2, head, Role::Warning)?;
        for suspect in &test.suspects {
            self.sentence(4, &wording::suspect(suspect))?;
        }
        Ok(())
    }

    pub(super) fn case(&mut self, case: &CaseResult) -> io::Result<()> {
        let runs = plural(case.runs.len(), "run", "runs");
        let iterations = case.iterations.filter(|&iterations| iterations > 1);
        let iterations = iterations.map(|iterations| {
            let iterations = i64::try_from(iterations).unwrap_or(i64::MAX);
            format!(" of {} iterations", number(iterations))
        });
        let title = self.options.style.paint(Role::Title, &case.name);
        let status = self.status(case.outcome());
        let iterations = iterations.unwrap_or_default();
        writeln!(self.out, "\n{status} {title}  ({runs}{iterations})")?;
        self.table(case)?;
        self.statuses(case)?;
        if let Some(line) = wording::proposed_tolerance(case) {
            let what = "If so much is to be allowed, in the test's section of allotrope.toml:";
            self.sentence(2, what)?;
            writeln!(self.out, "    {line}")?;
        }
        if self.options.samples {
            for leak in &case.leaks {
                self.sentence(2, &wording::leak(leak))?;
            }
            self.samples(case)?;
        }
        Ok(())
    }

    /// Writes a sentence about each number that the table does not explain.
    fn statuses(&mut self, case: &CaseResult) -> io::Result<()> {
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
                    CheckStatus::NothingMeasured
                        | CheckStatus::NoBudget
                        | CheckStatus::NotRecorded
                        | CheckStatus::AboveLimit
                ) {
                    self.sentence(2, &wording::sentence(check))?;
                }
            }
        }
        if self.options.samples {
            for sentence in case.checks.iter().filter_map(wording::noise) {
                self.sentence(2, &sentence)?;
            }
            return Ok(());
        }
        for sentence in brief::unsteady(case) {
            self.sentence(2, &sentence)?;
        }
        Ok(())
    }

    fn table(&mut self, case: &CaseResult) -> io::Result<()> {
        let rows = case.checks.iter().map(|check: &Check| {
            let number =
                |of: Option<Spread>| of.map_or_else(|| "-".to_owned(), |of| number(of.typical));
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
        });
        let rows: Vec<[String; 7]> = rows.collect();
        let each = match rows.iter().all(|row| row[4].is_empty()) {
            true => "",
            false => "each",
        };
        let titles = ["accepted", "now", "difference", each, "allowed", ""].map(right);
        let columns = [left("").at_least(13)].into_iter().chain(titles);
        let table = Table::new(columns).rows(rows);
        write_lines(self.out, table.lines(self.options.style))
    }

    /// Writes the figures of every run.
    fn samples(&mut self, case: &CaseResult) -> io::Result<()> {
        for metric in Metric::OF_RUNS {
            let figures = case.runs.iter().map(|run| run.figure(metric));
            let figures: Option<Vec<String>> = figures.map(|it| it.map(number)).collect();
            if let Some(figures) = figures {
                let name = metric.name();
                self.sentence(2, &format!("every run's {name}: {}", figures.join(" ")))?;
            }
        }
        Ok(())
    }

    /// Writes the stacks of the numbers that do not pass. `--samples` shows those of the
    /// others, too, and what differs between the runs.
    pub(super) fn explanations(&mut self, case: &CaseResult) -> io::Result<()> {
        let passes = |metric: Metric| {
            let check = case.checks.iter().find(|check| check.metric == metric);
            check.is_none_or(|check| check.status.passes())
        };
        let mut shown: Vec<&Explanation> = Vec::new();
        for explanation in &case.explanations {
            if passes(explanation.metric) && !self.options.samples {
                continue;
            }
            let same = shown
                .iter()
                .find(|other| brief::is_explained_by(other, explanation));
            match same {
                Some(other) if !self.options.stacks => {
                    self.sentence(2, &brief::same_stacks(other, explanation))?;
                }
                _ => self.explanation(explanation, case.runs.len())?,
            }
            shown.push(explanation);
        }
        for unexplained in &case.unexplained {
            self.sentence(2, &unexplained.remark)?;
        }
        if self.options.samples {
            for fluctuation in &case.fluctuations {
                self.fluctuation(fluctuation)?;
            }
        }
        Ok(())
    }

    fn explanation(&mut self, explanation: &Explanation, runs: usize) -> io::Result<()> {
        self.sentence(2, &wording::explanation_heading(explanation, runs))?;
        let options = DiffTextOptions {
            style: self.options.style,
            selection: Selection::default(),
            top: self.options.top,
            all_frames: self.options.stacks,
            changes: Vec::new(),
            titles: [Vec::new(), Vec::new()],
            hints: Hints {
                stacks: Some("--stacks"),
                moved: None,
            },
            remarks: explanation.remarks.clone(),
        };
        write_entries(&explanation.diff, &options, self.out)
    }

    fn fluctuation(&mut self, fluctuation: &Fluctuation) -> io::Result<()> {
        let [least, most] = fluctuation.range.map(number);
        let metric = fluctuation.metric;
        self.sentence(
            2,
            &format!("{metric} fluctuate between runs, {least} to {most}:"),
        )?;
        for (range, frames) in &fluctuation.stacks {
            let calls: Vec<&str> = frames.iter().map(|f| &*f.function).collect();
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
}
