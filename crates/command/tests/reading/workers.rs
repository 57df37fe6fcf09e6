//! Findings that are the same in several processes: those of the workers of
//! `programs/findings/workers.c`, whose comment has what each of them leaks.

use std::fs;

use crate::findings::in_some_run;
use crate::support::{Ended, Recording, Text, allotrope, compiled, record, run};
use serde_json::Value;

const WORKERS: &str = "findings/workers.c";
/// What one worker leaks.
const BLOCKS: u64 = 50;
const BYTES: u64 = BLOCKS * 120;

fn show(recording: &Recording, words: &[&str]) -> Ended {
    let trace = recording.trace.to_str().expect("UTF-8");
    allotrope(["show", trace].iter().chain(words).copied())
}

/// The leaks in the JSON report.
fn leaks(recording: &Recording) -> Vec<Value> {
    let report = recording.report();
    let findings = report.json["findings"].as_array().expect("a list");
    let leaks = findings.iter().filter(|it| it["rule"] == "leak");
    leaks.cloned().collect()
}

fn processes(finding: &Value) -> Vec<u64> {
    let ids = finding["processes"].as_array().expect("several processes");
    ids.iter().map(|id| id.as_u64().expect("an id")).collect()
}

#[test]
fn the_same_leak_of_sixteen_workers_is_one_finding() {
    in_some_run(|| {
        let recording = record(compiled(WORKERS)).arg("16").run().ok();
        let leaks = leaks(&recording);
        assert_eq!(leaks.len(), 1, "{leaks:?}");
        let leak = &leaks[0];
        let mut ids = processes(leak);
        assert_eq!(leak["process"], ids[0], "the first one");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 16);
        assert_eq!(leak["numbers"]["leaked_blocks"], BLOCKS, "of one process");
        assert_eq!(leak["sums"]["leaked_blocks"], 16 * BLOCKS);
        assert_eq!(leak["sums"]["leaked_bytes"], 16 * BYTES);
        assert_eq!(leak["sums"]["freed_blocks"], 16 * 450);
        assert!(leak["sums"].get("surviving").is_none(), "no sum of shares");
        assert_eq!(leak["sites"].as_array().expect("sites").len(), 16);

        let trace = recording.trace.to_str().expect("UTF-8");
        let mut report = crate::support::record::command();
        report.args(["report", trace]).env("COLUMNS", "120");
        let screen = run(&mut report, b"").ok().text();
        // 96,000 bytes.
        screen.has_all([
            "93.8 KiB in 800 blocks, in 16 processes",
            "16 processes: refuse",
        ]);
        assert_eq!(screen.matches("never freed").count(), 1, "{screen}");

        // Each of them is still there.
        let all = show(&recording, &["1"]).ok().text();
        all.has_all(["in 16 processes", "800 blocks, 93.8 KiB", "Allocated at"]);
        let id = processes(leak)[3].to_string();
        all.has(format!("--process {}", leak["process"]));
        let one = show(&recording, &["1", "--process", &id]).ok().text();
        one.has_all(["5.9 KiB in 50 blocks", "50 blocks, 5.9 KiB", "site "]);
        one.lacks("processes");
        let mut report = crate::support::record::command();
        report.args(["report", trace, "--process", &id]);
        let screen = run(&mut report, b"").ok().text();
        screen.has("5.9 KiB in 50 blocks").lacks("16 processes:");
        // The number of the finding is that of the whole list.
        screen.has(format!("show {trace} 1"));

        let why = show(
            &recording,
            &["--why", "leak", "--process", &id, "--format", "json"],
        );
        let why = why.ok().json();
        let candidates = why["rules"][0]["candidates"].as_array().expect("a list");
        assert_eq!(candidates[0]["process"].to_string(), id);
        assert_eq!(candidates[0]["outcome"]["finding"], 1);
    });
}

#[test]
fn what_differs_in_function_or_program_is_not_the_same() {
    in_some_run(|| {
        let program = compiled(WORKERS);
        let shell = record("/bin/sh");
        let other = shell.folder().join("others");
        fs::copy(&program, &other).expect("a copy");
        let line = format!("{} 2 & {} 3 & wait", program.display(), other.display());
        let recording = shell.arg("-c").arg(line).run().ok();
        let mut numbers: Vec<usize> = leaks(&recording)
            .iter()
            .map(|leak| processes(leak).len())
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [2, 3]);
    });
}

#[test]
fn one_worker_has_no_list_of_processes() {
    in_some_run(|| {
        let recording = record(compiled(WORKERS)).arg("1").run().ok();
        let leaks = leaks(&recording);
        assert_eq!(leaks.len(), 1, "{leaks:?}");
        assert!(leaks[0].get("processes").is_none(), "{leaks:?}");
        assert!(leaks[0].get("sums").is_none(), "{leaks:?}");
    });
}

#[test]
fn a_process_without_the_subject_is_refused() {
    let recording = record(compiled(WORKERS)).arg("1").run().ok();
    show(&recording, &["refuse", "--process", "99"]).fails(2, "no process 99");
    // The parent, which is the first, only waits.
    let parent = recording.report().json["processes"][0]["id"].to_string();
    show(&recording, &["refuse", "--process", &parent]).fails(2, "no blocks of process");
}
