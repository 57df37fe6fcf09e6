//! Windows under `record --counts-only`: the counts of `programs/windows.c` are exact,
//! and equal to those of a full recording.

use std::path::Path;

use crate::support::{Recording, allotrope, compiled, record};
use allotrope_profile::{Options, Profile, WindowRun, aggregate};
use allotrope_trace::TraceReader;

/// Allocations, bytes, deallocations, reallocations.
type Counts = [u64; 4];

fn counted(arguments: &[&str]) -> Recording {
    let program = record(compiled("windows.c")).args(arguments);
    program.option("--counts-only").run()
}

fn profile(recording: &Recording) -> Profile {
    let trace = TraceReader::open(&recording.trace).expect("the trace opens");
    aggregate(&trace, &Options::default()).expect("the trace can be aggregated")
}

fn counts(run: &WindowRun) -> Counts {
    let figures = &run.figures;
    [
        figures.allocations,
        figures.allocated_bytes,
        figures.deallocations,
        figures.reallocations,
    ]
}

/// The windows of all images by name, with what was counted.
fn windows(profile: &Profile) -> Vec<(String, Counts)> {
    let runs = profile.processes.iter().flat_map(|it| &it.windows);
    let mut named: Vec<_> = runs
        .inspect(|run| assert!(run.measured && run.closed, "{}", run.name))
        .map(|run| (run.name.clone(), counts(run)))
        .collect();
    // Windows of several threads are opened in any order.
    named.sort();
    named
}

fn of_counted(arguments: &[&str]) -> Vec<(String, Counts)> {
    let recording = counted(arguments).ok();
    let profile = profile(&recording);
    assert!(profile.is_counts_only());
    windows(&profile)
}

fn expect(arguments: &[&str], expected: &[(&str, Counts)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, it)| ((*name).to_owned(), *it))
        .collect();
    assert_eq!(of_counted(arguments), expected, "{arguments:?}");
}

#[test]
fn nested_and_overlapping_windows() {
    // Inner: 5 of 1000 bytes that are freed, 2 of 10. Outer: also 3 of 100, 4 of 1.
    let inner = [5 + 2, 5 * 1000 + 2 * 10, 5, 0];
    let outer = [3 + 7 + 4, 3 * 100 + 5020 + 4, 5, 0];
    expect(&["nested"], &[("inner", inner), ("outer", outer)]);
    let (a, b) = ([1 + 2, 3 * 8, 0, 0], [2 + 4, 6 * 8, 0, 0]);
    expect(&["overlapping"], &[("a", a), ("b", b)]);
}

#[test]
fn threads_that_are_joined_inside() {
    let found = of_counted(&["joined"]);
    let of = |name: &str| found.iter().find(|it| it.0 == name).expect("it is there").1;
    // Each of four threads: 5 of 64 bytes that are freed, 1 of 8.
    assert_eq!(of("joined"), [4 * 6, 4 * (5 * 64 + 8), 4 * 5, 0]);
    let full = record(compiled("windows.c")).args(["joined"]).run().ok();
    assert_eq!(found, windows(&profile(&full)));
}

#[test]
fn another_thread_is_exact_by_happens_before() {
    let expected = [("signalled", [3, 3 * 64, 3, 0]); 2000];
    expect(&["signalled", "2000"], &expected);
}

#[test]
fn one_thread_or_the_whole_process() {
    let mine = [5, 5 * 16, 0, 0];
    let all = [5 + 3, 5 * 16 + 3 * 64, 3, 0];
    expect(&["one-thread"], &[("all", all), ("mine", mine)]);
    let found = of_counted(&["crowd"]);
    assert_eq!(found.len(), 4 * 500);
    assert!(found.iter().all(|it| it.1 == [3, 3 * 24, 3, 0]));
}

#[test]
fn opted_out_allocations_are_in_no_window_but_in_the_total() {
    // 1, then 2 + 4 + 8 outside, then 16 + 32.
    let some = 1 + 16 + 32;
    let recording = counted(&["opted-out"]).ok();
    let found = profile(&recording);
    assert_eq!(
        windows(&found),
        [("some".to_owned(), [some, some * 8, 0, 0])]
    );
    let none = profile(&counted(&["misused"]).ok());
    let all = |profile: &Profile| profile.processes[0].totals.allocations;
    assert_eq!(all(&found) - (some + 2 + 4 + 8), all(&none) - (1 + 2 + 4));
    // An opted-out thread allocates meanwhile: that is in none of the windows.
    let expected = [("beside", [100, 100 * 8, 100, 0]); 200];
    expect(&["beside"], &expected);
}

#[test]
fn children_have_windows_of_their_own() {
    let (parents, childs) = ([2 + 1, 3 * 8, 0, 0], [3, 3 * 8, 0, 0]);
    expect(&["forked"], &[("child's", childs), ("parent's", parents)]);
}

#[test]
fn windows_with_unknown_counts_are_not_measured() {
    let killed = profile(&counted(&["killed"]));
    let [closed, open] = &killed.processes[0].windows[..] else {
        panic!("two windows")
    };
    assert_eq!(counts(closed), [2, 2 * 8, 0, 0]);
    assert!(closed.measured && closed.closed);
    assert!(!open.measured && !open.closed);
    // Another thread closes this thread's window and cannot read its counters.
    let elsewhere = profile(&counted(&["closed-elsewhere"]).ok());
    let [run] = &elsewhere.processes[0].windows[..] else {
        panic!("one window")
    };
    assert!(run.closed && !run.measured);
}

#[test]
fn handlers_count_with_the_thread_that_they_interrupt() {
    let found = of_counted(&["interrupted"]);
    let of = |name: &str| found.iter().find(|it| it.0 == name).expect("it is there").1;
    assert_eq!(of("interrupted"), [400_000, 400_000 * 32, 400_000, 0]);
    assert_eq!(of("inside"), [2, 2 * 8, 0, 0]);
}

#[test]
fn commands_that_need_stacks_of_windows_refuse() {
    let recording = counted(&["nested"]).ok();
    let trace = recording.trace.to_str().expect("a plain path");
    for arguments in [
        vec!["report", "--window", "inner", trace],
        vec!["diff", "--window", "inner", trace, trace],
    ] {
        allotrope(&arguments).fails(2, "--counts-only");
    }
}

#[test]
fn the_report_shows_what_is_known() {
    let recording = counted(&["nested"]).ok();
    let text = allotrope([Path::new("report"), &recording.trace]).text();
    let words = |of: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.ends_with(of));
        let line = line.unwrap_or_else(|| panic!("{of}: {text}"));
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(
        words("  window"),
        [
            "runs",
            "allocations",
            "an",
            "iteration",
            "bytes",
            "net",
            "reallocations",
            "window"
        ]
    );
    // 1 run, 7 allocations, no number of iterations, 5020 bytes, net 7 - 5.
    assert_eq!(words("  inner")[..2], ["1", "7"]);
    assert_eq!(
        words("  inner")[words("  inner").len() - 3..],
        ["2", "0", "inner"]
    );
    let report = recording.report();
    let windows = &report.only().json["windows"];
    let inner = windows
        .as_array()
        .and_then(|all| all.iter().find(|it| it["name"] == "inner"));
    let inner = inner.expect("it is there");
    assert_eq!(inner["allocations"], 7);
    for name in ["temporary_allocations", "remaining_bytes", "peak_bytes"] {
        assert!(inner[name].is_null(), "{name}: {}", inner[name]);
    }
}
