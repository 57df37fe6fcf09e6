//! Windows as `report` and `diff` show them: `programs/measured.c`.

use crate::support::{Ended, Recording, Text, allotrope, compiled, record};

const ROWS: u64 = 1000;

fn measured(rows: u64, per_row: u64) -> Recording {
    record(compiled("measured.c"))
        .args([rows.to_string(), per_row.to_string()])
        .run()
        .ok()
}

fn run(words: &[&str], recordings: &[&Recording]) -> Ended {
    let traces = recordings
        .iter()
        .map(|it| it.trace.to_str().expect("UTF-8"));
    allotrope(words.iter().copied().chain(traces))
}

fn json(output: &Ended) -> serde_json::Value {
    assert_eq!(output.status.code(), Some(0), "{}", output.errors());
    output.json()
}

#[test]
fn a_report_lists_windows_and_shows_one() {
    let recording = measured(ROWS, 2);
    let text = run(&["report", "--lists"], &[&recording]).text();
    let line = |name: &str| {
        let line = text.lines().find(|line| line.ends_with(name));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}"))
    };
    // Runs, allocations, an iteration, temporary, remaining, peak.
    let cells: Vec<&str> = line("  encode").split_whitespace().collect();
    let expected = [
        "5", "2,001", "2.00", "2,000", "100", "B", "100", "B", "encode",
    ];
    assert_eq!(cells, expected);
    assert!(
        line("  left").starts_with("     1            1  "),
        "{text}"
    );
    text.has("never closed");

    let report = json(&run(&["report", "--format", "json"], &[&recording]));
    let windows = report["processes"][0]["windows"]
        .as_array()
        .expect("a list");
    assert_eq!(windows.len(), 6);
    for (window, occurrence) in windows[..5].iter().zip(1..) {
        assert_eq!(window["name"], "encode");
        assert_eq!(window["occurrence"], occurrence);
        assert_eq!(window["iterations"], ROWS);
        assert_eq!(window["allocations"], 2 * ROWS + 1);
        assert_eq!(window["allocated_bytes"], 2 * ROWS * 32 + 100);
        assert_eq!(window["remaining_bytes"], 100);
        assert_eq!(window["closed"], true);
        assert_eq!(window["thread"], serde_json::Value::Null);
    }
    assert_eq!(windows[5]["closed"], false);

    let one = run(&["report", "--window", "encode"], &[&recording]).text();
    one.has("window encode: run 1 of 5");
    one.has("1,000 iterations");
    one.has("Totals (each: divided by 1,000)");
    // 2,001 blocks with 64,100 bytes.
    one.has("64,100 bytes, 2.00 each with 64.10 B");
    let by_allocations = "By allocations: 2,001 at 2 sites, 2.00 each";
    one.has(by_allocations);
    one.has("2,000  2 each ");
    let remaining = "By remaining bytes: 100 B at 1 site, 0.10 B each";
    one.has(remaining);
    let by_10 = ["report", "--window", "encode", "--per", "10"];
    run(&by_10, &[&recording]).has("2,000  200 each ");
    let words = [
        "report", "--format", "json", "--window", "encode", "--nth", "3",
    ];
    let third = json(&run(&words, &[&recording]));
    let process = &third["processes"][0];
    assert_eq!(process["windows"][0]["occurrence"], 3);
    assert_eq!(process["totals"]["allocations"], 2 * ROWS + 1);
    assert_eq!(process["per"], ROWS as f64);
    assert_eq!(process["totals"]["allocations_each"], 2.001);
    let sites = process["sites"].as_array().expect("a list");
    let all: u64 = sites
        .iter()
        .filter_map(|it| it["allocations"].as_u64())
        .sum();
    assert_eq!(all, 2 * ROWS + 1);
}

#[test]
fn a_program_without_windows_has_none_in_its_report() {
    let recording = record("true").run().ok();
    let report = json(&run(&["report", "--format", "json"], &[&recording]));
    assert_eq!(report["processes"][0].get("windows"), None);
    run(&["report", "--lists"], &[&recording]).lacks("Windows");
    run(&["report", "--window", "x"], &[&recording]).fails(2, "it has none");
}

#[test]
fn missing_windows_and_runs_are_errors() {
    let recording = measured(10, 1);
    for (words, expected) in [
        (
            &["report", "--window", "decode"][..],
            "its windows are encode, left",
        ),
        (
            &["report", "--window", "encode", "--nth", "6"],
            "its runs are 1 to 5",
        ),
        (&["report", "--nth", "1"], "--window"),
        (
            &["report", "--window", "encode", "--site", "1", "--events"],
            "--window",
        ),
    ] {
        run(words, &[&recording]).fails(2, expected);
    }
    run(&["diff", "--window", "left"], &[&recording, &recording]).fails(2, "was closed");
    let folded = recording.folder.path().join("stacks.folded");
    std::fs::write(&folded, "main;f 1\n").expect("a file");
    let folded = folded.to_str().expect("UTF-8");
    run(&["diff", "--window", "encode", folded], &[&recording]).fails(2, "only recordings");
}

#[test]
fn a_diff_of_windows_names_the_stack_for_each_iteration() {
    let (before, after) = (measured(ROWS, 2), measured(ROWS, 5));
    let words = ["diff", "--format", "json", "--window", "encode"];
    let diff = json(&run(&words, &[&before, &after]));
    assert_eq!(diff["before"], 2 * ROWS + 1);
    assert_eq!(diff["after"], 5 * ROWS + 1);
    let entries = diff["entries"].as_array().expect("a list");
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["difference"], 3 * ROWS);
    let blame = entries[0]["blame"].as_u64().expect("an index") as usize;
    assert_eq!(diff["frames"][blame]["function"], "row");
    let text = run(&["diff", "--window", "encode"], &[&before, &after]).text();
    text.has("(+3.00 each)");
    text.has("5 runs of window encode");
    text.has("5 runs before of 2,001");
    let options = ["diff", "--window", "encode", "--per", "500"];
    run(&options, &[&before, &after]).has("(+6.00 each)");
    let judged = [
        "diff",
        "--window",
        "encode",
        "--fail-on",
        "allocations>+2999",
    ];
    assert_eq!(run(&judged, &[&before, &after]).status.code(), Some(3));
}

#[test]
fn different_numbers_of_iterations_are_reported() {
    let (before, after) = (measured(10, 1), measured(20, 1));
    let output = run(&["diff", "--window", "encode"], &[&before, &after]).ok();
    output.errors().has("10 to 20 iterations");
    output.text().lacks("each");
}

/// Reported: "window headlines cut in the middle". The end of the line has what figures are divided by.
#[test]
fn the_line_of_a_window_is_whole_in_narrow_terminals() {
    let recording = measured(ROWS, 2);
    let trace = recording.trace.to_str().expect("UTF-8");
    for columns in ["40", "60", "80"] {
        let mut report = crate::support::command();
        report.args(["report", trace, "--window", "encode", "--nth", "2"]);
        let text = crate::support::run(report.env("COLUMNS", columns), b"")
            .ok()
            .text();
        let words: Vec<&str> = text.split_whitespace().collect();
        let head = words.join(" ");
        head.has("1,000 iterations");
        let lines: Vec<&str> = text.lines().take_while(|it| !it.is_empty()).collect();
        let window = lines.iter().skip_while(|it| !it.contains("encode"));
        assert!(window.clone().count() > 0, "{text}");
        assert!(
            window.clone().all(|it| !it.contains('…')),
            "{columns}: {text}"
        );
        text.fits(columns.parse().expect("a number"));
    }
}

/// Reported: "a window's peak divided by its iterations". A peak of 1,000 iterations is no sum.
#[test]
fn a_peak_is_not_divided() {
    let recordings = [measured(ROWS, 2), measured(ROWS, 3)];
    let [one, two] = recordings
        .each_ref()
        .map(|it| it.trace.to_str().expect("UTF-8"));
    let window = ["--window", "encode", "--nth", "1"];
    for metric in ["peak", "peak-allocations"] {
        for tree in [&[][..], &["--tree"]] {
            let words = ["report", one, "--metric", metric];
            let words = words.iter().chain(&window).chain(tree);
            let text = allotrope(words).ok().text();
            let (_, list) = text.split_once("peak").expect("a list");
            let lists = list.split_once("\n\n").map_or(list, |it| it.1);
            assert!(!lists.contains(" each"), "{metric}: {text}");
        }
        let words = ["diff", one, two, "--window", "encode", "--metric", metric];
        let text = allotrope(words).text();
        assert!(!text.contains(" each"), "{metric}: {text}");
    }
    // What is a sum is.
    let words = ["report", one, "--metric", "allocations"];
    allotrope(words.iter().chain(&window)).ok().has(" each");
}
