//! Writes the report as JSON in the format `allotrope-test/1`, documented in
//! `docs/budgets.md`. The format is stable: no field is renamed, removed or
//! redefined without a new format number. Readers ignore unknown fields.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::wording;
use crate::check::Check;
use crate::result::{CaseResult, Explanation, Rename, Report, TestResult};
use allotrope_profile::Metric;

pub(super) const FORMAT: &str = "allotrope-test/1";

#[derive(Serialize)]
struct ReportForm<'a> {
    format: &'static str,
    outcome: &'static str,
    recorded: bool,
    tests: Vec<TestForm<'a>>,
    budgets_of_no_test: Vec<String>,
    renames: Vec<RenameForm<'a>>,
}

#[derive(Serialize)]
struct RenameForm<'a> {
    old: &'a str,
    new: &'a str,
}

#[derive(Serialize)]
struct TestForm<'a> {
    name: &'a str,
    outcome: &'static str,
    command: &'a [String],
    folder: String,
    stdin: Option<String>,
    environment: BTreeMap<String, String>,
    duration_s: f64,
    problem: Option<String>,
    not_measured: &'a [String],
    notes: &'a [String],
    suspects: Vec<SuspectForm<'a>>,
    reproduce: &'a str,
    trace: Option<String>,
    cases: Vec<CaseForm<'a>>,
}

#[derive(Serialize)]
struct SuspectForm<'a> {
    what: &'a str,
    was: &'a str,
    is: &'a str,
}

#[derive(Serialize)]
struct CaseForm<'a> {
    name: &'a str,
    outcome: &'static str,
    iterations: Option<u64>,
    numbers: Vec<NumberForm>,
    watched: Vec<NumberForm>,
    allowed: Vec<AllowedForm<'a>>,
    samples: Vec<BTreeMap<&'static str, i64>>,
    leaks: Vec<LeakForm<'a>>,
    fluctuations: Vec<FluctuationForm<'a>>,
    responsible: Vec<ExplanationForm<'a>>,
    unexplained: Vec<UnexplainedForm<'a>>,
}

#[derive(Serialize)]
struct NumberForm {
    metric: &'static str,
    verdict: &'static str,
    accepted: Option<i64>,
    accepted_least: Option<i64>,
    accepted_most: Option<i64>,
    accepted_runs: Option<u32>,
    typical: Option<i64>,
    least: Option<i64>,
    most: Option<i64>,
    difference: Option<i64>,
    difference_per_iteration: Option<f64>,
    allowed: String,
    limit: Option<i64>,
    gated: bool,
}

#[derive(Serialize)]
struct AllowedForm<'a> {
    metric: &'static str,
    number: u64,
    reason: &'a str,
}

#[derive(Serialize)]
struct LeakForm<'a> {
    run: usize,
    metric: &'static str,
    figure: i64,
    names: &'a [String],
}

#[derive(Serialize)]
struct FluctuationForm<'a> {
    metric: &'static str,
    least: i64,
    most: i64,
    stacks: Vec<RangeForm<Vec<FrameForm<'a>>>>,
    threads: Vec<RangeForm<&'a str>>,
}

#[derive(Serialize)]
struct RangeForm<T> {
    least: u64,
    most: u64,
    of: T,
}

#[derive(Serialize)]
struct ExplanationForm<'a> {
    metric: &'static str,
    run: usize,
    accepted_profile: bool,
    difference: i64,
    rest: i64,
    remarks: &'a [String],
    entries: Vec<EntryForm<'a>>,
}

#[derive(Serialize)]
struct UnexplainedForm<'a> {
    metric: &'static str,
    remark: &'a str,
}

#[derive(Serialize)]
struct EntryForm<'a> {
    kind: String,
    accepted: u64,
    now: u64,
    difference: i64,
    confidence: f64,
    blame: Option<FrameForm<'a>>,
    in_repository: bool,
    through: Option<FrameForm<'a>>,
    stacks: Vec<StackForm<'a>>,
}

#[derive(Serialize)]
struct StackForm<'a> {
    accepted: u64,
    now: u64,
    frames: Vec<FrameForm<'a>>,
}

#[derive(Serialize)]
struct FrameForm<'a> {
    function: &'a str,
    module: &'a str,
    file: &'a str,
    line: u32,
}

impl<'a> From<&'a allotrope_profile::StackFrame> for FrameForm<'a> {
    fn from(frame: &'a allotrope_profile::StackFrame) -> Self {
        Self {
            function: &frame.function,
            module: &frame.module,
            file: &frame.file,
            line: frame.line,
        }
    }
}

/// Writes the report as one JSON object, followed by a newline.
///
/// # Errors
/// Errors of `out`.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let form = ReportForm {
        format: FORMAT,
        outcome: wording::outcome(report.outcome()),
        recorded: report.recorded,
        tests: report.tests.iter().map(test).collect(),
        budgets_of_no_test: report
            .orphaned_budgets
            .iter()
            .map(|file| file.to_string_lossy().into_owned())
            .collect(),
        renames: report
            .renames
            .iter()
            .map(|Rename { old, new }| RenameForm { old, new })
            .collect(),
    };
    allotrope_text::to_json_writer(&mut *out, &form)?;
    writeln!(out)
}

fn test(test: &TestResult) -> TestForm<'_> {
    TestForm {
        name: &test.name,
        outcome: wording::outcome(test.outcome()),
        command: &test.command,
        folder: test.folder.to_string_lossy().into_owned(),
        stdin: test
            .stdin
            .as_ref()
            .map(|file| file.to_string_lossy().into_owned()),
        environment: test
            .environment
            .iter()
            .map(|(name, value)| {
                (
                    name.to_string_lossy().into_owned(),
                    value.to_string_lossy().into_owned(),
                )
            })
            .collect(),
        duration_s: test.duration.as_secs_f64(),
        problem: test.problem.as_ref().map(ToString::to_string),
        not_measured: &test.not_measured,
        notes: &test.notes,
        suspects: test
            .suspects
            .iter()
            .map(|suspect| SuspectForm {
                what: &suspect.what,
                was: &suspect.was,
                is: &suspect.is,
            })
            .collect(),
        reproduce: &test.reproduce,
        trace: test
            .trace
            .as_ref()
            .map(|trace| trace.to_string_lossy().into_owned()),
        cases: test.cases.iter().map(case).collect(),
    }
}

fn case(case: &CaseResult) -> CaseForm<'_> {
    let number = |check: &Check| NumberForm {
        metric: check.metric.name(),
        verdict: wording::status(check.status),
        accepted: check.budget.map(|budget| budget.typical),
        accepted_least: check.budget.map(|budget| budget.least),
        accepted_most: check.budget.map(|budget| budget.most),
        accepted_runs: check
            .budget
            .map(|budget| budget.runs)
            .filter(|&runs| runs > 0),
        typical: check.now.map(|now| now.typical),
        least: check.now.map(|now| now.least),
        most: check.now.map(|now| now.most),
        difference: check.difference(),
        difference_per_iteration: check
            .difference()
            .zip(case.iterations)
            .map(|(difference, iterations)| difference as f64 / iterations as f64),
        allowed: check.tolerance.to_string(),
        limit: check.limit,
        gated: check.is_gated,
    };
    let samples = case.runs.iter().map(|sample| {
        let figures = Metric::OF_RUNS.into_iter();
        figures
            .filter_map(|metric| Some((metric.name(), sample.figure(metric)?)))
            .collect()
    });
    let leaks = case.leaks.iter().map(|leak| LeakForm {
        run: leak.run,
        metric: leak.metric.name(),
        figure: leak.figure,
        names: &leak.names,
    });
    CaseForm {
        name: &case.name,
        outcome: wording::outcome(case.outcome()),
        iterations: case.iterations,
        numbers: case.checks.iter().map(number).collect(),
        watched: case.watched.iter().map(number).collect(),
        allowed: case
            .allowed
            .iter()
            .map(|allowed| AllowedForm {
                metric: allowed.metric.name(),
                number: allowed.number,
                reason: &allowed.reason,
            })
            .collect(),
        samples: samples.collect(),
        leaks: leaks.collect(),
        fluctuations: fluctuations(case),
        responsible: case.explanations.iter().map(explanation).collect(),
        unexplained: case
            .unexplained
            .iter()
            .map(|unexplained| UnexplainedForm {
                metric: unexplained.metric.name(),
                remark: &unexplained.remark,
            })
            .collect(),
    }
}

fn fluctuations(case: &CaseResult) -> Vec<FluctuationForm<'_>> {
    let form = case.fluctuations.iter().map(|fluctuation| FluctuationForm {
        metric: fluctuation.metric.name(),
        least: fluctuation.range[0],
        most: fluctuation.range[1],
        stacks: fluctuation
            .stacks
            .iter()
            .map(|(range, frames)| RangeForm {
                least: range[0],
                most: range[1],
                of: frames.iter().map(FrameForm::from).collect(),
            })
            .collect(),
        threads: fluctuation
            .threads
            .iter()
            .map(|(range, name)| RangeForm {
                least: range[0],
                most: range[1],
                of: name.as_str(),
            })
            .collect(),
    });
    form.collect()
}

fn explanation(explanation: &Explanation) -> ExplanationForm<'_> {
    let diff = &explanation.diff;
    let frame = |index: &u32| diff.frames.get(*index as usize).map(FrameForm::from);
    let entries = wording::explaining_entries(diff).map(|entry| EntryForm {
        kind: format!("{:?}", entry.kind).to_lowercase(),
        accepted: entry.before,
        now: entry.after,
        difference: entry.difference,
        confidence: entry.confidence,
        blame: frame(&entry.blame),
        in_repository: wording::is_in_repository(diff, entry),
        through: wording::called(diff, entry).map(FrameForm::from),
        stacks: entry
            .stacks
            .iter()
            .map(|stack| StackForm {
                accepted: stack.before,
                now: stack.after,
                frames: stack.frames.iter().filter_map(frame).collect(),
            })
            .collect(),
    });
    ExplanationForm {
        metric: explanation.metric.name(),
        run: explanation.run,
        accepted_profile: explanation.accepted,
        difference: explanation.difference,
        rest: explanation.rest,
        remarks: &explanation.remarks,
        entries: entries.collect(),
    }
}
