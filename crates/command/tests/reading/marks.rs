//! `allotrope mark`, `FILE@MOMENT`, and reading a recording that is still being made.

use std::path::{Path, PathBuf};

use crate::support::{Ended, Record, Started, Text, allotrope, compiled, record};
use serde_json::Value;

/// A recording of `steps.c` that still runs.
struct Running {
    started: Started,
    record: Record,
    trace: PathBuf,
}

impl Running {
    fn start() -> Self {
        let record = record(compiled("steps.c"));
        Self {
            started: record.start(),
            trace: record.folder().join("recorded.allotrope"),
            record,
        }
    }

    /// Waits for the program's next line.
    fn line(&mut self) -> String {
        self.started.line()
    }

    /// The program's next step.
    fn go_on(&mut self) {
        self.started.write(b"x");
    }

    fn finish(mut self) -> (Record, PathBuf) {
        self.go_on();
        self.started.end().ok();
        (self.record, self.trace)
    }
}

fn at(trace: &Path, moment: &str) -> String {
    format!("{}@{moment}", trace.display())
}

#[track_caller]
fn succeeds(arguments: &[&str]) -> Ended {
    allotrope(arguments).ok()
}

#[track_caller]
fn json(arguments: &[&str]) -> Value {
    succeeds(&[arguments, &["--format", "json"]].concat()).json()
}

/// The error of a command that refuses its input.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    allotrope(arguments).code(2).error_lines(1).errors()
}

/// Live blocks and bytes of a function, from a report.
fn live(report: &Value, function: &str) -> [u64; 2] {
    let frames = report["frames"].as_array().expect("a list");
    let mut sums = [0, 0];
    for process in report["processes"].as_array().expect("a list") {
        for site in process["sites"].as_array().expect("a list") {
            let mut stack = site["stack"].as_array().expect("a list").iter();
            if stack.any(|frame| frames[frame.as_u64().unwrap() as usize]["function"] == function) {
                sums[0] += site["leaked_allocations"].as_u64().expect("a number");
                sums[1] += site["leaked_bytes"].as_u64().expect("a number");
            }
        }
    }
    sums
}

/// Returns by how many blocks the stacks of a function differ, from a diff.
fn difference(before: &str, after: &str, function: &str) -> i64 {
    let diff: Value = succeeds(&["diff", before, after, "--format", "json"]).json();
    let frames = diff["frames"].as_array().expect("a list");
    let of_function = |stack: &&Value| {
        let mut stack = stack["stack"].as_array().expect("a list").iter();
        stack.any(|frame| frames[frame.as_u64().unwrap() as usize]["function"] == function)
    };
    let entries = diff["entries"].as_array().expect("a list").iter();
    let stacks = entries.flat_map(|entry| entry["stacks"].as_array().expect("a list"));
    let number = |stack: &Value, key| stack[key].as_i64().expect("a number");
    let differences = stacks.filter(of_function);
    let differences = differences.map(|it| number(it, "after") - number(it, "before"));
    differences.sum()
}

#[test]
fn a_running_recording_has_names_and_moments() {
    let mut running = Running::start();
    let line = running.line();
    let pid = line.strip_prefix("1 ").expect("its process id");
    let trace = running.trace.clone();
    let file = trace.to_str().expect("UTF-8");

    let text = succeeds(&["mark", pid, "warm"]).text();
    assert!(text.starts_with("warm at "), "{text}");
    // What is before a mark is in the file when the command ends: no waiting.
    let report = json(&["report", file]);
    assert_eq!(live(&report, "first_step"), [10, 10_000]);
    assert_eq!(report["marks"][0]["name"], "warm");
    assert_eq!(report["still_recording"], true);
    assert_eq!(report["cut"], Value::Null, "growing is no damage");
    let text = succeeds(&["report", file]);
    let errors = text.errors();
    errors.has("still being recorded");
    let text = text.text();
    text.has_all(["first_step", "steps.c:"]);
    text.has("marks: warm");

    running.go_on();
    assert_eq!(running.line(), "2");
    let launcher = running.started.id().to_string();
    succeeds(&["mark", "--quiet", file, "cold"]);
    succeeds(&["mark", "--quiet", &launcher, "later"]);
    assert_eq!(
        live(&json(&["report", &at(&trace, "warm")]), "first_step"),
        [10, 10_000]
    );
    assert_eq!(
        live(&json(&["report", &at(&trace, "now")]), "first_step"),
        [6, 6000]
    );
    let [warm, now] = ["warm", "now"].map(|moment| at(&trace, moment));
    assert_eq!(difference(&warm, &now, "second_step"), 20);
    assert_eq!(difference(&warm, &now, "first_step"), -4);
    assert!(refused(&["symbolize", file]).contains("still being recorded"));
    for (name, why) in [
        ("", "empty"),
        ("two\nlines", "control characters"),
        (&"x".repeat(101), "longer"),
        ("3s", "moment already"),
        ("now", "moment already"),
    ] {
        let error = refused(&["mark", pid, name]);
        error.has(why);
    }
    let error = refused(&["mark", "1", "x"]);
    error.has("not being recorded");

    let (_record, trace) = running.finish();
    let [warm, cold, now] = ["warm", "cold", "now"].map(|moment| at(&trace, moment));
    for (moment, first, second) in [
        (&warm, [10, 10_000], [0, 0]),
        (&cold, [6, 6000], [20, 6000]),
        (&now, [6, 6000], [20, 6000]),
    ] {
        let report = json(&["report", moment]);
        assert_eq!(live(&report, "first_step"), first, "{moment}");
        assert_eq!(live(&report, "second_step"), second, "{moment}");
    }
    assert_eq!(difference(&warm, &now, "second_step"), 20);
    assert_eq!(difference(&warm, &cold, "first_step"), -4);
    let report = json(&["report", file]);
    assert_eq!(report["still_recording"], Value::Null);
    let marks = report["marks"].as_array().expect("a list");
    let names: Vec<&Value> = marks.iter().map(|mark| &mark["name"]).collect();
    assert_eq!(names, ["warm", "cold", "later"]);
    let seconds = marks
        .iter()
        .map(|mark| mark["seconds"].as_f64().expect("a number"));
    let seconds: Vec<f64> = seconds.collect();
    assert!(seconds.is_sorted() && seconds[0] > 0.0, "{seconds:?}");
    // The times in JSON are those that the options take.
    let time = format!("{}s", seconds[1]);
    assert_eq!(
        live(&json(&["report", file, "--at", &time]), "second_step"),
        [20, 6000]
    );
    let range = json(&["report", file, "--from", "warm", "--to", "cold"]);
    assert_eq!(live(&range, "first_step"), [0, 0]);
    assert_eq!(live(&range, "second_step"), [20, 6000]);

    let folded = succeeds(&["export", &warm, "--format", "folded", "--metric", "bytes"]).text();
    let sum = folded.lines().filter(|line| line.contains("first_step"));
    let sum = sum.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    assert_eq!(sum.sum::<u64>(), 10_000, "{folded}");
    for format in ["pprof", "dhat", "json"] {
        succeeds(&["export", &warm, "--format", format]);
    }

    let error = refused(&["report", &at(&trace, "wram")]);
    error.has_all(["warm (", "cold ("]);
    let error = refused(&["diff", &at(&trace, "9999s"), &now]);
    error.has_all(["after the end", "lasted"]);
    refused(&["report", file, "--from", "cold", "--to", "warm"]);
    refused(&["report", &warm, "--at", "1ms"]);
    let error = refused(&["mark", file, "late"]);
    error.has("not being written");

    // A file that has the whole name wins.
    let named = trace.with_file_name("recorded.allotrope@warm");
    std::fs::copy(&trace, &named).expect("it is copied");
    assert_eq!(live(&json(&["report", &warm]), "first_step"), [6, 6000]);
}

#[test]
fn a_recording_can_be_read_without_a_mark() {
    let mut running = Running::start();
    running.line();
    let file = running.trace.to_str().expect("UTF-8").to_owned();
    // Everything is in the file after a quarter of a second, or later on a machine under
    // load.
    let mut seen = [0, 0];
    for _ in 0..300 {
        seen = live(&json(&["report", &file]), "first_step");
        if seen == [10, 10_000] {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(seen, [10, 10_000]);
    running.go_on();
    running.line();
    running.finish();
}
