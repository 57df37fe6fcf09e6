//! `report --from`, `--to` and `--at`: what happened in a range of time. The program's
//! windows say when its phases were, however busy the machine is.

use std::sync::LazyLock;

use crate::support::{Ended, Recording, Text, allotrope, compiled, record};
use serde_json::Value;

static PHASES: LazyLock<Recording> = LazyLock::new(|| record(compiled("phases.c")).run().ok());

fn report(options: &[&str]) -> Ended {
    let trace = PHASES.trace.to_str().expect("UTF-8");
    allotrope(["report", trace].iter().chain(options).copied())
}

#[track_caller]
fn json(options: &[&str]) -> Value {
    report(&[options, &["--format", "json"]].concat())
        .ok()
        .json()
}

/// The moments in the middle of the pauses after the first and after the second phase.
fn pauses() -> [String; 2] {
    let report = json(&[]);
    let windows = &report["processes"][0]["windows"];
    let us = |window: usize, key: &str| windows[window][key].as_u64().expect("a time");
    [0, 1].map(|phase| {
        let closed = us(phase, "opened_us") + us(phase, "duration_us");
        let opened = us(phase + 1, "opened_us");
        assert!(opened > closed + 10_000, "it paused for 20 ms");
        format!("{}us", (closed + opened) / 2)
    })
}

/// Allocations of a function, and how many of their blocks are live at the end of the range.
fn blocks_of(report: &Value, function: &str) -> [u64; 2] {
    let frames = report["frames"].as_array().expect("a list");
    let is_of = |site: &&Value| {
        let stack = site["stack"].as_array().expect("a list");
        stack.iter().any(|frame| {
            let frame = frame.as_u64().expect("an index") as usize;
            frames[frame]["function"] == function
        })
    };
    let processes = report["processes"].as_array().expect("a list");
    let sites = processes
        .iter()
        .flat_map(|it| it["sites"].as_array().expect("a list"));
    let mut sums = [0, 0];
    for site in sites.filter(is_of) {
        for (sum, key) in sums.iter_mut().zip(["allocations", "leaked_allocations"]) {
            *sum += site[key].as_u64().expect("a number");
        }
    }
    sums
}

#[test]
fn a_range_has_what_was_allocated_in_it_and_live_at_its_end() {
    let [first, second] = pauses();
    for (options, early, late) in [
        (&["--to", &first][..], [10, 10], [0, 0]),
        (&["--to", &second], [10, 5], [20, 20]),
        (&["--from", &first, "--to", &second], [0, 0], [20, 20]),
        (&["--from", &first], [0, 0], [20, 17]),
        (&["--from", &second], [0, 0], [0, 0]),
        (&["--at", &second], [10, 5], [20, 20]),
        (&[], [10, 0], [20, 17]),
    ] {
        let report = json(options);
        assert_eq!(blocks_of(&report, "first_phase"), early, "{options:?}");
        assert_eq!(blocks_of(&report, "second_phase"), late, "{options:?}");
    }
    let range = json(&["--from", &first, "--to", &second]);
    let process = &range["processes"][0];
    let us = |text: &str| -> u64 { text[..text.len() - 2].parse().expect("a number") };
    assert_eq!(process["duration_us"], us(&second) - us(&first));
}

#[test]
fn the_text_says_what_is_shown() {
    let [first, second] = pauses();
    let text = |options: &[&str]| report(options).ok().text();
    let at = text(&["--at", &second]);
    at.has("after the start");
    // 5 of 100 bytes and 20 of 200.
    at.has_all(["second_phase", "first_phase"]);
    let range = text(&["--from", &first, "--to", &second, "--metric", "leaked"]);
    range.has("second_phase").lacks("first_phase");
    range.has("By remaining bytes: ");
}

#[test]
fn a_site_is_shown_over_time() {
    let listed = report(&["--filter", "second_phase", "--metric", "bytes"]).text();
    let number = listed
        .split_whitespace()
        .find_map(|word| word.strip_prefix('#'));
    let number = number.unwrap_or_else(|| panic!("{listed}"));
    let text = report(&["--site", number]).text();
    let line = text.lines().find(|line| line.contains("over time"));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    // 20 blocks of 200 bytes, 17 at the end.
    line.has("up to 3.9 KiB live, in ");
    let bars = line.trim_start().trim_start_matches("over time");
    assert!(bars.contains("██") && bars.contains('▇'), "{line}");
}

#[test]
fn impossible_times_are_one_sentence() {
    let [first, second] = pauses();
    for (options, sentence) in [
        (
            &["--from", &second, "--to", &first][..],
            "is not before --to",
        ),
        (&["--at", "1000s"], "is after the end; the run in "),
        (
            &["--to", "1h"],
            "write a time after the start, such as `2s`",
        ),
        (&["--at", "1ms", "--from", "0"], "cannot be used with"),
        (&["--from", "0", "--window", "first"], "cannot be used with"),
    ] {
        report(options).fails(2, sentence);
    }
}
