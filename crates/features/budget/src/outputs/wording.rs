//! Numbers, statuses and sentences that all output formats use.

use std::path::{Path, PathBuf};

use allotrope_text::Shown;
use allotrope_text::numbers::plural;

use allotrope_attribution::Origin;
use allotrope_diff::{Diff, Entry, Kind};
use allotrope_profile::StackFrame;

use crate::check::{Check, CheckStatus};
use crate::limit::{self, number};
use crate::result::{CaseResult, Explanation, Leak, Outcome, Rename, Report, TestResult};
use crate::shell::{assignment, command_line};
use crate::spread::Spread;
use crate::toolchain::Suspect;
use allotrope_profile::Metric;

/// `+1,234`, `-5`, `0`.
pub fn signed(difference: i64) -> String {
    let plus = if difference > 0 { "+" } else { "" };
    format!("{plus}{}", number(difference))
}

/// A figure per iteration, `+0.05`; empty without a number of iterations.
pub fn per_iteration(figure: i64, iterations: Option<u64>) -> String {
    let Some(iterations) = iterations.filter(|&iterations| iterations > 1) else {
        return String::new();
    };
    let each = figure as f64 / iterations as f64;
    if each == 0.0 || each.abs() >= 0.1 {
        format!("{each:+.2}")
    } else if each.abs() >= 0.0001 {
        format!("{each:+.4}")
    } else {
        format!("{each:+.2e}")
    }
}

/// The name of a status.
pub fn status(status: CheckStatus) -> &'static str {
    match status {
        CheckStatus::WithinBudget => "kept",
        CheckStatus::WithinNoise => "within-noise",
        CheckStatus::Exceeded => "exceeded",
        CheckStatus::AboveLimit => "above-limit",
        CheckStatus::Improved => "improved",
        CheckStatus::NoBudget => "no-budget",
        CheckStatus::NothingMeasured => "nothing-measured",
        CheckStatus::NotRecorded => "unknown",
    }
}

/// Why a build in a worktree lacks a path that a build in the repository has.
pub fn missing_beside_worktree(path: &Path) -> String {
    format!(
        "it needs {}, which is not in the repository and so not beside its worktree; \
         make it a submodule, or compare recordings of two builds with `allotrope diff`",
        path.shown()
    )
}

/// A note for a test whose program is one file in both revisions.
pub fn same_program(file: &Path) -> String {
    format!(
        "both revisions ran the same file, {}: give its path relative to the test's folder",
        file.shown()
    )
}

/// The name of an outcome.
pub fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Improved => "improved",
        Outcome::Failed => "failed",
    }
}

/// A sentence about a checked number.
pub fn sentence(check: &Check) -> String {
    let metric = check.metric;
    let of = |of: Option<Spread>| of.map_or_else(|| "nothing".to_owned(), spread);
    let (got, budget) = (of(check.now), of(check.budget));
    let difference = check.difference().map(signed).unwrap_or_default();
    let allowed = if check.fluctuates() || !check.tolerance.is_exact() {
        format!(", allowed {}", allowed(check))
    } else {
        String::new()
    };
    match check.status {
        CheckStatus::WithinBudget if !check.is_gated => format!("{metric}: {got}"),
        CheckStatus::WithinBudget => format!("{metric}: {got}, accepted {budget}"),
        CheckStatus::WithinNoise => {
            format!("{metric}: {got}, accepted {budget}: the difference is within the noise")
        }
        CheckStatus::Exceeded | CheckStatus::Improved => {
            format!("{metric}: {got}, accepted {budget} ({difference}{allowed})")
        }
        CheckStatus::AboveLimit => {
            let limit = check.limit.unwrap_or_default();
            format!(
                "{metric}: {got}, above its limit of {}",
                limit::text(limit, metric)
            )
        }
        CheckStatus::NoBudget => format!("{metric}: {got}, and no number was accepted yet"),
        CheckStatus::NothingMeasured => {
            format!(
                "{metric}: none were measured, accepted {budget}: the test did nothing, or the recorder did not see it"
            )
        }
        CheckStatus::NotRecorded => format!("{metric}: {}", not_given(check)),
    }
}

/// Why a recording lacks a metric.
fn not_given(check: &Check) -> &'static str {
    match check.metric {
        Metric::LeakedFds => "only a window that compares file descriptors gives this number",
        _ => "the recording does not give this number",
    }
}

/// What the verdict allows: the tolerance, or the range of the noise.
pub fn allowed(check: &Check) -> String {
    if let Some(limit) = check.limit.filter(|_| !check.is_gated) {
        return format!("at most {}", limit::text(limit, check.metric));
    }
    let noise = check.noise().map(|range| range.map(number));
    noise.map_or_else(
        || check.tolerance.to_string(),
        |[low, high]| format!("{low} to {high}"),
    )
}

/// A number, or the range of one that fluctuates.
pub fn spread(spread: Spread) -> String {
    if spread.is_exact() {
        return number(spread.least);
    }
    format!("{} to {}", number(spread.least), number(spread.most))
}

/// The spreads of a number that fluctuates and has a budget.
pub fn noise(check: &Check) -> Option<String> {
    let (budget, now) = (check.budget?, check.now?);
    let (metric, runs) = (check.metric, runs(now.runs));
    let is = spread(now);
    match (budget.is_exact(), now.is_exact()) {
        (true, true) => None,
        (true, false) => Some(format!(
            "{metric}: {is} in {runs}; the accepted number did not fluctuate"
        )),
        (false, _) => {
            let [was, accepted] = [spread(budget), self::runs(budget.runs)];
            Some(format!(
                "{metric}: {is} in {runs}, accepted {was} in {accepted}"
            ))
        }
    }
}

fn runs(runs: u32) -> String {
    plural(runs as usize, "run", "runs")
}

/// A line for the configuration that would allow the numbers that fluctuate and do not
/// pass; `None` if there are none.
pub fn proposed_tolerance(case: &CaseResult) -> Option<String> {
    let mut any = false;
    let tolerances = case.checks.iter().filter_map(|check| {
        let tolerance = match (check.budget, check.now) {
            (Some(budget), Some(now)) if !check.status.passes() && check.fluctuates() => {
                any = true;
                budget.tolerance_for(&now)
            }
            _ => check.tolerance,
        };
        (!tolerance.is_exact()).then(|| format!("{} = \"{tolerance}\"", check.metric))
    });
    let tolerances: Vec<String> = tolerances.collect();
    any.then(|| format!("tolerance = {{ {} }}", tolerances.join(", ")))
}

/// A sentence about a suspect.
pub fn suspect(suspect: &Suspect) -> String {
    match (suspect.was.as_str(), suspect.is.as_str()) {
        ("", is) => format!("{}: {is}, which was not there", suspect.what),
        (was, "") => format!("{}: gone, was {was}", suspect.what),
        (was, is) => format!("{}: {is}, was {was}", suspect.what),
    }
}

/// A sentence about what a run left behind.
pub fn leak(leak: &Leak) -> String {
    let (one, many, how) = match leak.metric {
        Metric::LeakedFds => ("file descriptor", "file descriptors", "open"),
        _ => ("allocation", "allocations", "behind"),
    };
    let what = if leak.figure == 1 { one } else { many };
    let names = if leak.names.is_empty() {
        String::new()
    } else {
        format!(": {}", leak.names.join(", "))
    };
    let figure = number(leak.figure);
    format!("run {} left {figure} {what} {how}{names}", leak.run)
}

/// The heading of the stacks that explain a figure.
pub fn explanation_heading(explanation: &Explanation, runs: usize) -> String {
    let run = if runs > 1 {
        format!("run {}", explanation.run)
    } else {
        "this run".to_owned()
    };
    let what = match explanation.metric {
        Metric::PeakBytes => "Held at the peak".to_owned(),
        Metric::Net => "Stacks of net, those of what remained".to_owned(),
        metric => format!("Stacks of {metric}"),
    };
    if explanation.accepted {
        format!("{what}, accepted → {run}:")
    } else {
        format!("{what} in {run} (no accepted stacks to compare with):")
    }
}

/// The problems of a test as a whole, a sentence each.
pub fn troubles(test: &TestResult) -> Vec<String> {
    let mut troubles: Vec<String> = Vec::new();
    troubles.extend(test.problem.as_ref().map(ToString::to_string));
    if test.problem.is_none() && test.cases.is_empty() {
        troubles.push("nothing was measured".to_owned());
    }
    let windows = test.cases.iter().any(|case| case.name != test.name);
    troubles.extend(test.not_measured.iter().map(|case| {
        if !windows && *case != test.name {
            format!("{case} has a budget, but the program opened no window")
        } else {
            format!("{case} has a budget, but was not measured")
        }
    }));
    troubles
}

/// A shell command that runs the test's program unrecorded.
pub fn by_hand(test: &TestResult) -> String {
    let variables = test
        .environment
        .iter()
        .map(|(name, value)| assignment(name, value));
    let folder = test
        .folder
        .canonicalize()
        .unwrap_or_else(|_| test.folder.clone());
    let variables: Vec<String> = variables.collect();
    let absolute = |file: &PathBuf| file.canonicalize().unwrap_or_else(|_| file.clone());
    let input = test.stdin.as_ref().map(absolute);
    let input = input.map(|file| format!(" < {}", command_line(&[file])));
    format!(
        "cd {} && {} {}{}",
        command_line(&[folder]),
        variables.join(" "),
        command_line(&test.command),
        input.unwrap_or_default()
    )
}

/// The number of cases for each outcome: `2 tests with 3 cases: 1 failed, 2 passed`.
pub fn summary(report: &Report) -> String {
    let mut counts = [0_usize; 3];
    for test in &report.tests {
        for case in &test.cases {
            counts[case.outcome() as usize] += 1;
        }
        counts[Outcome::Failed as usize] += usize::from(test.problem.is_some());
        counts[Outcome::Failed as usize] += test.not_measured.len();
    }
    let cases: usize = counts.iter().sum();
    let [passed, improved, failed] = counts;
    let parts = [
        (failed, "failed"),
        (improved, "improved"),
        (passed, "passed"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let mut tests = plural(report.tests.len(), "test", "tests");
    if cases != report.tests.len() && cases > 0 {
        tests = format!("{tests} with {}", plural(cases, "case", "cases"));
    }
    if parts.is_empty() {
        format!("{tests}: nothing measured")
    } else {
        format!("{tests}: {}", parts.join(", "))
    }
}

/// How much worse a number is than its budget, as a part of the budget.
pub fn weight(check: &Check) -> f64 {
    let budget = check.budget.map_or(0, |budget| budget.typical);
    let difference = check.difference().unwrap_or(0);
    difference.unsigned_abs() as f64 / budget.unsigned_abs().max(1) as f64
}

/// A sentence about a test that seems to have got another name.
pub fn rename(rename: &Rename) -> String {
    let Rename { old, new } = rename;
    format!("{new} has the stacks of {old}, which is gone: it seems to have got another name.")
}

/// The command that gives budgets another name.
pub fn rename_command(report: &Report, rename: &Rename) -> String {
    let words = command_line(&["--rename", &rename.old, &rename.new]);
    format!("{} {words}", report.command)
}

/// The command that accepts the numbers of a failed test, if it was measured and at least
/// one of them differs from its budget.
pub fn accept_intended_command(test: &TestResult) -> Option<String> {
    let mut checks = test.cases.iter().flat_map(|case| &case.checks);
    let exceeded = checks.any(|check| check.status == CheckStatus::Exceeded);
    let mut checks = test.cases.iter().flat_map(|case| &case.checks);
    // Which could not be accepted.
    let is_limited = checks.any(|check| check.status == CheckStatus::AboveLimit);
    if test.problem.is_some() || !exceeded || is_limited {
        return None;
    }
    let command = accept_words(std::iter::once(test))?;
    Some(format!("{command} --because \"…\""))
}

/// The command that accepts improved numbers, if there are any.
pub fn accept_command(report: &Report) -> Option<String> {
    let improved = report
        .tests
        .iter()
        .filter(|test| test.outcome() == Outcome::Improved);
    accept_words(improved)
}

/// The command that accepts first numbers, if a test has no budgets and no
/// problem.
pub fn first_accept_command(report: &Report) -> Option<String> {
    let unbudgeted = |case: &CaseResult| {
        let mut statuses = case.checks.iter().map(|check| check.status);
        statuses.all(|status| status == CheckStatus::NoBudget)
    };
    let new = report.tests.iter().filter(|test| {
        test.problem.is_none() && !test.cases.is_empty() && test.cases.iter().all(unbudgeted)
    });
    accept_words(new)
}

fn accept_words<'a>(tests: impl Iterator<Item = &'a TestResult>) -> Option<String> {
    let mut words: Vec<String> = Vec::new();
    for test in tests {
        if words.is_empty() {
            // The command for the first test has the options that apply to all.
            let name = command_line(&[&test.name]);
            let line = test
                .reproduce
                .strip_suffix(&name)
                .unwrap_or(&test.reproduce);
            words.push(format!("{line}--accept"));
        }
        words.push(command_line(&[&test.name]));
    }
    (!words.is_empty()).then(|| words.join(" "))
}

/// The entries that explain a difference: the largest first, suppressed leaks last.
pub fn explaining_entries(diff: &Diff) -> impl Iterator<Item = &Entry> {
    let entries = diff.entries.iter();
    let changed = entries.filter(|entry| entry.kind != Kind::Moved);
    let (suppressed, others): (Vec<&Entry>, Vec<&Entry>) =
        changed.partition(|entry| entry.suppressed.is_some());
    others.into_iter().chain(suppressed)
}

/// The frame that is blamed for an entry.
pub fn blamed<'a>(diff: &'a Diff, entry: &Entry) -> Option<&'a StackFrame> {
    diff.frames.get(entry.blame as usize)
}

/// The library function through which the blamed frame allocates.
pub fn called<'a>(diff: &'a Diff, entry: &Entry) -> Option<&'a StackFrame> {
    diff.frames.get(entry.through? as usize)
}

/// Whether the frame that is blamed for an entry is in a file of the repository.
pub fn is_in_repository(diff: &Diff, entry: &Entry) -> bool {
    diff.origins.get(entry.blame as usize) == Some(&Origin::Repository)
}

/// `src/encode.cc:5`, or the module if the source file is unknown.
pub fn location(frame: &StackFrame) -> String {
    match (&*frame.file, frame.line) {
        ("", _) => frame.module.to_string(),
        (file, 0) => file.to_owned(),
        (file, line) => format!("{file}:{line}"),
    }
}
