//! For random pairs of stacks and random accepted numbers, the entries and the rest sum to
//! the difference, in the result, in text and in JSON.

use std::path::Path;

use allotrope_profile::{CountedStack, Metric, MetricSet, MetricValues, StackFrame, StackSet};
use proptest::prelude::*;

use super::Explainer;
use crate::budgets::{Budget, profile};
use crate::case::Case;
use crate::case_run::CaseRun;
use crate::check::check_case;
use crate::configuration::Protocol;
use crate::outputs::{Form, TextOptions, write};
use crate::result::{CaseResult, Report, TestResult};
use crate::spread::Spread;

/// The metrics of runs that have stacks.
const METRICS: [Metric; 7] = [
    Metric::Allocations,
    Metric::Bytes,
    Metric::Remaining,
    Metric::Net,
    Metric::PeakBytes,
    Metric::Temporary,
    Metric::Reallocations,
];

/// Stacks of few functions, so that both sides have many in common.
fn stacks() -> impl Strategy<Value = StackSet> {
    let stack = proptest::collection::vec(0_u32..6, 1..5);
    let figures = proptest::collection::vec(0_u64..50, Metric::OF_STACKS.len());
    proptest::collection::vec((stack, figures), 0..12).prop_map(|stacks| {
        let frame = |(index, file): (usize, &str)| StackFrame {
            function: format!("f{index}").into(),
            module: "app".into(),
            file: file.into(),
            line: index as u32 + 1,
            ..StackFrame::default()
        };
        let files = [
            "src/a.c",
            "src/b.c",
            "/usr/include/c.h",
            "",
            "/lib/d.c",
            "src/a.c",
        ];
        StackSet {
            frames: files.into_iter().enumerate().map(frame).collect(),
            stacks: stacks
                .into_iter()
                .map(|(frames, figures)| CountedStack {
                    frames: frames.into(),
                    figures: MetricValues::try_from(figures).expect("one for each"),
                    maximum: None,
                })
                .collect(),
            known: MetricSet::OF_STACKS,
            ..StackSet::default()
        }
    })
}

/// A run with these stacks, in which so many older blocks were deallocated.
fn sample(stacks: &StackSet, older: i64) -> CaseRun {
    let mut sample = CaseRun::default();
    for metric in METRICS {
        let of_stacks = metric.of_stacks().expect("it has stacks");
        let total = stacks.total(of_stacks) as i64;
        let older = if metric == Metric::Net { older } else { 0 };
        sample.figures[metric as usize] = Some(total - older);
    }
    sample.stacks = crate::case_run::normalise_stacks(
        stacks,
        &crate::paths::Project::containing(Path::new("/")),
    );
    sample
}

/// The entries, the number of entries that are left out, and the rest in a text.
fn sum_of(text: &str) -> i64 {
    let figure = |line: &str| {
        let mut words = line.split_whitespace();
        let first = words.next()?;
        let figure = match first {
            "rest" => words.next()?.trim_end_matches(':'),
            "…" if line.contains("more entr") => words.next_back()?,
            first if first.strip_suffix('.')?.parse::<u32>().is_ok() => words.nth(1)?,
            _ => return None,
        };
        figure.replace([',', '+'], "").parse::<i64>().ok()
    };
    text.lines().filter_map(figure).sum()
}

fn shown(form: Form, result: CaseResult, top: usize) -> String {
    let test = TestResult {
        name: "x".to_owned(),
        cases: vec![result],
        ..TestResult::default()
    };
    let report = Report {
        tests: vec![test],
        recorded: true,
        ..Report::default()
    };
    let options = TextOptions {
        top,
        ..TextOptions::default()
    };
    let mut out = Vec::new();
    write(form, &report, &options, &mut out).expect("memory takes everything");
    String::from_utf8(out).expect("it is text")
}

proptest! {
    #[test]
    fn entries_and_rest_sum_to_the_difference(
        (was, is) in (stacks(), stacks()),
        older in [0..3_i64, 0..3],
        edited in prop_oneof![Just(0_i64), -5..5_i64],
        metric in proptest::sample::select(&METRICS[..]),
        (most, top) in (1..12_usize, 1..4_usize),
        (has_stacks, has_number, gated) in (any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let before = sample(&was, older[0]);
        let accepted = before.figure(metric).expect("it is there") + edited;
        let budget = Budget {
            iterations: None,
            numbers: [(metric, Spread::exact(accepted).into())].into(),
        };
        let budget = has_number.then_some(budget);
        let stored = if gated { metric } else { Metric::Bytes };
        let tree = profile(&before.stacks, &[stored], most);
        let case = Case { name: "x".to_owned(), runs: vec![sample(&is, older[1])] };
        let protocol = Protocol { gate: vec![metric], ..Protocol::default() };
        let explainer = Explainer {
            case: &case,
            protocol: &protocol,
            iterations: None,
            budget: budget.as_ref(),
            profile: has_stacks.then_some(&tree),
            is_of_log: false,
            root: Path::new("/"),
            accept: "allotrope test --accept x",
            program: "x",
        };
        let Some(Ok(explanation)) = explainer.explain(metric, 0) else {
            panic!("{metric} has stacks");
        };
        let now = case.runs[0].figure(metric).expect("it is there");
        let difference = now - if has_number { accepted } else { 0 };
        prop_assert_eq!(explanation.difference, difference);
        let entries = explanation.diff.entries.iter().map(|entry| entry.difference);
        prop_assert_eq!(entries.sum::<i64>() + explanation.rest, difference);
        prop_assert_eq!(explanation.rest == 0, explanation.remarks.is_empty());
        if edited == 0 && has_number && has_stacks && (gated || stored == metric)
            && metric != Metric::Net
        {
            prop_assert_eq!(explanation.rest, 0);
        }
        let checks = check_case(&case, budget.as_ref(), &protocol);
        let result = |explanation| CaseResult {
            watched: Vec::new(),
            allowed: Vec::new(),
            name: "x".to_owned(),
            iterations: None,
            runs: Vec::new(),
            checks: checks.clone(),
            explanations: vec![explanation],
            unexplained: Vec::new(),
            fluctuations: Vec::new(),
            leaks: Vec::new(),
        };
        if checks.iter().all(|check| check.status.passes()) {
            return Ok(());
        }
        let Some(Ok(again)) = explainer.explain(metric, 0) else {
            panic!("{metric} has stacks");
        };
        let text = shown(Form::Text, result(explanation), top);
        prop_assert_eq!(sum_of(&text), difference, "{}", text);
        let json = shown(Form::Json, result(again), top);
        let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        let found = &json["tests"][0]["cases"][0]["responsible"][0];
        let entries = found["entries"].as_array().expect("a list").iter();
        let sum: Option<i64> = entries.map(|entry| entry["difference"].as_i64()).sum();
        let rest = found["rest"].as_i64().expect("a number");
        prop_assert_eq!(sum.expect("numbers") + rest, difference);
        prop_assert_eq!(found["difference"].as_i64(), Some(difference));
    }
}
