//! Snapshots of the outputs, the text at 80 and 160 columns, of a report that
//! contains every kind of result.

use std::path::Path;

use allotrope_profile::{CountedStack, MetricSet, MetricValues, StackFrame, StackSet};
use allotrope_report::Style;

use super::nio::Generation;
use super::{Form, TextOptions, is_own, write};
use crate::budgets::Budget;
use crate::case::Case;
use crate::case_run::CaseRun;
use crate::check::check_case;
use crate::configuration::Protocol;
use crate::fluctuation::fluctuations;
use crate::nio_log::NioLog;
use crate::problem::Problem;
use crate::result::{CaseResult, Explanation, Leak, Report, TestResult};
use crate::spread::Spread;
use crate::tolerance::Tolerance;
use crate::toolchain::Suspect;
use allotrope_profile::Metric;

fn frame(function: &str, file: &str, line: u32) -> StackFrame {
    StackFrame {
        function: function.into(),
        module: "bench".into(),
        file: file.into(),
        line,
        ..StackFrame::default()
    }
}

/// One stack of a function that is called by `EventLoop::run` and `main`.
fn stacks(function: &str, allocations: u64) -> StackSet {
    let mut figures = MetricValues::default();
    figures[Metric::Allocations as usize] = allocations;
    StackSet {
        frames: vec![
            frame("malloc", "", 0),
            frame(function, "src/net/http/headers.cc", 127),
            frame("net::EventLoop::run", "src/net/event_loop.cc", 61),
            frame("main", "src/main.cc", 9),
        ],
        stacks: vec![CountedStack {
            frames: Box::new([0, 1, 2, 3]),
            figures,
            maximum: None,
        }],
        known: MetricSet::OF_STACKS,
        ..StackSet::default()
    }
}

const ADDED: &str = "net::http::Headers::add(std::basic_string<char>)";

fn sample(allocations: i64, remaining: i64, descriptors: &[&str]) -> CaseRun {
    let mut sample = CaseRun {
        stacks: stacks(ADDED, allocations.unsigned_abs()),
        threads: [("worker".to_owned(), allocations.unsigned_abs())].into(),
        leaked_descriptors: descriptors.iter().map(|&name| name.to_owned()).collect(),
        ..CaseRun::default()
    };
    for (metric, figure) in [
        (Metric::Allocations, allocations),
        (Metric::Bytes, allocations * 64),
        (Metric::Remaining, remaining),
        (Metric::Net, remaining),
        (Metric::LeakedFds, descriptors.len() as i64),
    ] {
        sample.figures[metric as usize] = Some(figure);
    }
    sample
}

fn case(name: &str, runs: Vec<CaseRun>, accepted: i64) -> CaseResult {
    let case = Case {
        name: name.into(),
        runs,
    };
    let budget = Budget {
        iterations: Some(1000),
        numbers: [
            (Metric::Allocations, Spread::exact(accepted).into()),
            (Metric::Remaining, Spread::exact(0).into()),
        ]
        .into(),
    };
    let mut protocol = Protocol::default();
    protocol
        .tolerance
        .insert(Metric::Allocations, Tolerance::absolute(0, 100));
    let checks = check_case(&case, Some(&budget), &protocol);
    let options = allotrope_diff::DiffOptions {
        per: Some(1000.0),
        ..Default::default()
    };
    let before = stacks("net::http::Headers::set", accepted.unsigned_abs());
    let now = &case.runs[0].stacks;
    let diff = allotrope_diff::compare(&[before], std::slice::from_ref(now), &options);
    let explained = diff.ok().filter(|diff| diff.difference != 0);
    let leaks = case.runs.iter().enumerate();
    let leaks = leaks.filter(|(_, sample)| !sample.leaked_descriptors.is_empty());
    CaseResult {
        iterations: Some(1000),
        checks,
        watched: Vec::new(),
        allowed: Vec::new(),
        explanations: explained
            .into_iter()
            .map(|diff| Explanation {
                metric: Metric::Allocations,
                run: 1,
                accepted: true,
                difference: diff.difference,
                rest: 0,
                remarks: Vec::new(),
                location: Some(("src/net/http/headers.cc".to_owned(), 127)),
                diff,
            })
            .collect(),
        unexplained: Vec::new(),
        fluctuations: fluctuations(&case, &protocol),
        leaks: leaks
            .map(|(run, sample)| Leak {
                run: run + 1,
                metric: Metric::LeakedFds,
                figure: sample.leaked_descriptors.len() as i64,
                names: sample.leaked_descriptors.clone(),
            })
            .collect(),
        name: case.name,
        runs: case.runs,
    }
}

fn test(name: &str, cases: Vec<CaseResult>) -> TestResult {
    TestResult {
        name: name.into(),
        command: vec!["/no/such/bench".into(), name.into()],
        folder: "/".into(),
        cases,
        reproduce: format!("allotrope test {name}"),
        // Each test has a line of its own.
        definition: Some(("allotrope.toml".to_owned(), name.len() as u32)),
        ..TestResult::default()
    }
}

fn report() -> Report {
    let steady = || vec![sample(27_350, 0, &[]), sample(27_350, 0, &[])];
    let fluctuating = vec![sample(500, 0, &[]), sample(530, 0, &["/tmp/a socket"])];
    let mut red = test(
        "requests",
        vec![
            case("requests/1000_reqs_1_conn", steady(), 27_300),
            case("requests/small", fluctuating, 500),
        ],
    );
    red.suspects = vec![
        Suspect {
            what: "compiler".into(),
            was: "GCC: (Debian 11.3.0-12) 11.3.0".into(),
            is: "GCC: (Debian 12.2.0-14) 12.2.0".into(),
        },
        Suspect {
            what: "serde (Cargo.lock)".into(),
            was: "1.0.1".into(),
            is: "1.0.2".into(),
        },
    ];
    let mut crash = test("crash", Vec::new());
    crash.problem = Some(Problem::Signal(11));
    crash.output = "about to\nuse a null pointer\u{1b}[31m\n".into();
    let mut gone = test("windowless", vec![case("windowless", steady(), 27_350)]);
    gone.not_measured = vec!["windowless/<decode> & more".into()];
    Report {
        tests: vec![
            red,
            test(
                "decode",
                vec![case("decode", vec![sample(10, 0, &[])], 1000)],
            ),
            crash,
            gone,
        ],
        orphaned_budgets: vec!["allotrope-budgets/gone.toml".into()],
        recorded: true,
        command: "allotrope test".to_owned(),
        ..Report::default()
    }
}

fn shown(form: Form, width: usize) -> String {
    shown_with(form, width, false)
}

fn shown_with(form: Form, width: usize, samples: bool) -> String {
    let options = TextOptions {
        style: Style {
            width,
            color: false,
        },
        samples,
        ..TextOptions::default()
    };
    let mut out = Vec::new();
    write(form, &report(), &options, &mut out).expect("memory takes everything");
    String::from_utf8(out).expect("it is text")
}

#[test]
fn colours_change_no_text() {
    let text = |color| {
        let style = Style { width: 80, color };
        let options = TextOptions {
            style,
            samples: true,
            ..TextOptions::default()
        };
        let mut out = Vec::new();
        write(Form::Text, &report(), &options, &mut out).expect("memory takes everything");
        String::from_utf8(out).expect("it is text")
    };
    let mut coloured = text(true);
    assert!(coloured.contains("\u{1b}[33mChanged since"), "{coloured}");
    while let Some(at) = coloured.find("\u{1b}[") {
        let end = coloured[at..].find('m').expect("the end of a colour code");
        coloured.replace_range(at..=at + end, "");
    }
    assert_eq!(coloured, text(false));
}

#[test]
fn text() {
    for width in [80, 160] {
        let text = shown(Form::Text, width);
        let long = text.lines().find(|line| line.chars().count() > width);
        assert_eq!(long, None, "longer than {width}");
        insta::assert_snapshot!(format!("text_at_{width}_columns"), text);
    }
    insta::assert_snapshot!("text_with_samples", shown_with(Form::Text, 80, true));
}

#[test]
fn markdown_and_annotations() {
    insta::assert_snapshot!("markdown", shown(Form::Markdown, 80));
    let github = shown(Form::Github, 80);
    let annotations: Vec<&str> = github
        .lines()
        .filter(|line| line.starts_with("::"))
        .collect();
    insta::assert_snapshot!("annotations", annotations.join("\n"));
}

#[test]
fn junit() {
    insta::assert_snapshot!("junit", shown(Form::Junit, 80));
}

#[test]
fn json_has_the_documented_keys() {
    let json: serde_json::Value = serde_json::from_str(&shown(Form::Json, 80)).expect("it is JSON");
    let documented = include_str!("../../../../../docs/budgets.md");
    fn keys(value: &serde_json::Value, into: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(object) => {
                for (key, value) in object {
                    into.push(key.clone());
                    keys(value, into);
                }
            }
            serde_json::Value::Array(values) => values.iter().for_each(|it| keys(it, into)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    keys(&json, &mut all);
    for key in all {
        assert!(
            documented.contains(&format!("\"{key}\":")),
            "{key} in docs/budgets.md"
        );
    }
}

/// Compares with the example in the documentation, byte for byte.
#[test]
fn the_log_of_the_swiftnio_harness() {
    let mut run = CaseRun::default();
    for (metric, figure) in [
        (Metric::Allocations, 75_001),
        (Metric::Bytes, 4_138_056),
        (Metric::Net, 0),
        (Metric::LeakedFds, 0),
    ] {
        run.figures[metric as usize] = Some(figure);
    }
    let samples = vec![run; 2];
    let name = "test_future_lots_of_callbacks";
    let mut report = Report {
        tests: vec![test(
            "nio",
            vec![case(&format!("nio/{name}"), samples, 75_001)],
        )],
        recorded: true,
        command: "allotrope test".to_owned(),
        ..Report::default()
    };
    let log = |report: &Report, generation| {
        let mut out = Vec::new();
        let form = Form::Nio(generation);
        write(form, report, &TextOptions::default(), &mut out).expect("memory takes everything");
        String::from_utf8(out).expect("it is text")
    };
    let dictionary = "[\"remaining_allocations\": 0, \"total_allocations\": 75001, \
                      \"total_allocated_bytes\": 4138056]";
    assert_eq!(
        log(&report, Generation::Dictionaries),
        format!(
            "- /no/such/bench\n\
             {name}.remaining_allocations: 0\n\
             {name}.total_allocations: 75001\n\
             {name}.total_allocated_bytes: 4138056\n\
             DEBUG: [{dictionary}, {dictionary}]\n"
        )
    );
    let structure = format!(
        "Test_{name}.Measurement(totalAllocations: 75001, totalAllocatedBytes: 4138056, \
         remainingAllocations: 0, leakedFDs: [])"
    );
    let newer = log(&report, Generation::Structures);
    assert_eq!(
        newer,
        format!(
            "- /no/such/bench\n\
             {name}.total_allocations: 75001\n\
             {name}.remaining_allocations: 0\n\
             {name}.total_allocated_bytes: 4138056\n\
             {name}.leaked_fds: 0\n\
             DEBUG: [{structure}, {structure}]\n"
        )
    );
    // Both can be read as budgets.
    for text in [newer, log(&report, Generation::Dictionaries)] {
        let read = NioLog::parse(&text, Path::new("x.log")).expect("it is a log");
        assert_eq!(read.names().collect::<Vec<_>>(), [name]);
    }
    report.recorded = false;
    report.tests[0].cases.clear();
    let zeros = log(&report, Generation::Structures);
    assert!(zeros.contains("nio.total_allocations: 0\n"), "{zeros}");
}

#[test]
fn each_form_is_recognised_by_its_head() {
    let forms = [
        Form::Text,
        Form::Json,
        Form::Junit,
        Form::Markdown,
        Form::Github,
        Form::Nio(Generation::Dictionaries),
        Form::Nio(Generation::Structures),
    ];
    for form in forms {
        let text = shown(form, 80);
        assert!(is_own(form, text.as_bytes()), "{form:?}: {text}");
        for other in [
            "Dear reader,\n\nthis is a letter.\n",
            "{\"a\":1}\n",
            "<?xml version=\"1.0\"?>\n<testsuites name=\"other\">\n",
            "# Title\n",
            "- item\n- item\n",
        ] {
            assert!(!is_own(form, other.as_bytes()), "{form:?}: {other}");
        }
    }
}
