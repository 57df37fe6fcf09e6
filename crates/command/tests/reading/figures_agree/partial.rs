//! Recordings that have not everything: for each reason, no command says that they do. The page says
//! `every allocation recorded, none lost` only if its data say so (`ui/src/views/overview.tsx`,
//! `recordedFact`); the text and JSON have a sentence.

use std::path::Path;

use serde_json::Value;

use crate::figures_agree::compare::{number, utf8};
use crate::figures_agree::figures;
use crate::figures_agree::page::Page;
use crate::support::{Recording, Text, allotrope, compiled, compiled_with, record};

/// What the page says about a recording, as in `recordedFact`.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Everything,
    Lost,
    NotComplete,
    InPart,
    /// Estimates, or counts: nothing is said of all allocations.
    NoClaim,
}

fn said(page: &Page) -> Said {
    let meta = &page.meta;
    match meta["kind"].as_str() {
        Some("recording") => {}
        _ => return Said::NoClaim,
    }
    if page.numbers("process.lost").iter().sum::<u64>() > 0 {
        return Said::Lost;
    }
    match (meta["complete"] == true, meta["partly"] == true) {
        (false, _) => Said::NotComplete,
        (true, true) => Said::InPart,
        (true, false) => Said::Everything,
    }
}

/// The page of a recording, and its warnings in JSON and text.
#[track_caller]
fn shown(trace: &Path, folder: &Path) -> (Said, Value) {
    let out = folder.join("page.html");
    let run = |words: &[&str]| allotrope(words).ok().stdout;
    run(&["report", utf8(trace), "--html", utf8(&out), "--force"]);
    let json: Value = serde_json::from_slice(&run(&["report", utf8(trace), "--format", "json"]))
        .expect("it is JSON");
    let page = Page::read(&out);
    // The warnings of the page are those of JSON, which also has how long the program waited.
    let sentences = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        let list = list.filter_map(|it| it.as_str().map(str::to_owned));
        list.filter(|it| !it.contains(" waited ")).collect()
    };
    if page.meta["kind"] == "recording" {
        assert_eq!(
            sentences(&page.meta["warnings"]),
            sentences(&json["warnings"])
        );
    }
    (said(&page), json)
}

/// Fails unless the page says this, and one of the sentences has these words.
#[track_caller]
fn expect(recording: &Recording, expected: &Said, words: &str) {
    let (said, json) = shown(&recording.trace, recording.folder.path());
    assert_eq!(said, *expected, "{}", json["warnings"]);
    let warnings = json["warnings"].to_string();
    warnings.has(words);
    // A comparison says that something is missing, too.
    let trace = utf8(&recording.trace);
    allotrope(["diff", trace, trace]).says("warning: ");
}

#[test]
fn everything() {
    let recording = figures(&["forks", "3", "50"]).run().ok();
    let (said, json) = shown(&recording.trace, recording.folder.path());
    assert_eq!(said, Said::Everything, "{}", json["warnings"]);
}

/// The program stops its collector while it fills its buffer.
#[test]
fn a_full_buffer() {
    let record = record(compiled("windows.c")).arg("full");
    let recording = record.option("--on-full=drop").run().ok();
    expect(&recording, &Said::Lost, "the buffer was full");
}

/// The collector is killed, and the program goes on.
#[test]
fn a_killed_collector() {
    let script = "\"$0\" work 30000; kill -9 ${ALLOTROPE_ARENA%%[!0-9]*}; \"$0\" work 3000";
    let recording = record("sh").args(["-c", script]);
    let recording = recording.arg(compiled("figures.c")).run();
    expect(&recording.code(125), &Said::NotComplete, "Incomplete");
}

/// The trace meets the limit of file sizes, as it does a full disk.
#[test]
fn a_limit_of_file_sizes() {
    let script =
        "prlimit --pid ${ALLOTROPE_ARENA%%[!0-9]*} --fsize=100000; exec \"$0\" work 300000";
    let recording = record("sh").args(["-c", script]);
    let recording = recording.arg(compiled("figures.c")).run();
    expect(&recording.code(125), &Said::NotComplete, "Incomplete");
}

/// Cut off anywhere, also where the program's last event is there and its end is not.
#[test]
fn a_cut_trace() {
    let recording = figures(&["phases", "3000"]).run().ok();
    let bytes = std::fs::read(&recording.trace).expect("it was written");
    let cut = recording.folder.path().join("cut.allotrope");
    for length in [bytes.len() / 3, bytes.len() * 9 / 10, bytes.len() - 1] {
        std::fs::write(&cut, &bytes[..length]).expect("the folder is ours");
        let (said, json) = shown(&cut, recording.folder.path());
        assert_eq!(said, Said::NotComplete, "{length}: {}", json["warnings"]);
    }
}

/// Read while it is made.
#[test]
fn a_recording_that_goes_on() {
    let script = "\"$0\" work 300; \"$1\" report recorded.allotrope --html page.html";
    let record = record("sh").args(["-c", script]).arg(compiled("figures.c"));
    let recording = record.arg(env!("CARGO_BIN_EXE_allotrope")).run();
    let recording = recording.ok();
    let page = Page::read(&recording.folder.path().join("page.html"));
    assert_eq!(page.meta["growing"], true);
    assert_eq!(said(&page), Said::NotComplete);
}

/// A child without the recorder.
#[test]
fn a_program_that_cannot_be_recorded() {
    let program = compiled_with("nothing.c", &["-static"]);
    let recording = record("sh").args(["-c", "\"$0\"; true"]).arg(program).run();
    expect(&recording.ok(), &Said::InPart, "was not recorded");
}

/// A library in a namespace of its own, with a C library that nobody records.
#[test]
fn a_library_that_is_not_recorded() {
    let recording = record(compiled("namespace.c")).run().ok();
    expect(&recording, &Said::InPart, "was recorded only in part");
}

/// Blocks that were allocated unseen, as before a recording.
#[test]
fn blocks_from_before() {
    let recording = figures(&["not_seen"]).run().ok();
    expect(&recording, &Said::InPart, "gave back 3 blocks");
}

#[test]
fn counts_only() {
    let record = figures(&["work", "300"]).option("--counts-only");
    let recording = record.run().ok();
    let (said, _) = shown(&recording.trace, recording.folder.path());
    assert_eq!(said, Said::NoClaim);
}

/// The page has the whole recording: what would select a part of it is refused.
#[test]
fn a_part_of_the_time() {
    let recording = figures(&["phases", "100"]).run().ok();
    let trace = utf8(&recording.trace);
    let out = recording.folder.path().join("page.html");
    let at = format!("{trace}@0.01s");
    for words in [
        &["report", trace, "--from", "0.01s"][..],
        &["report", trace, "--to", "0.01s"],
        &["report", trace, "--window", "all"],
        &["report", trace, "--process", "0"],
        &["report", &at],
    ] {
        allotrope(words.iter().copied().chain(["--html", utf8(&out)])).code(2);
        assert!(!out.exists(), "{words:?}");
    }
}

/// The numbers of lost events agree in all forms.
#[test]
fn lost_events_are_one_number() {
    let record = record(compiled("windows.c")).arg("full");
    let recording = record.option("--on-full=drop").run().ok();
    let (_, json) = shown(&recording.trace, recording.folder.path());
    let processes = json["processes"].as_array().expect("a list").iter();
    let lost: u64 = processes.map(|it| number(it, "lost_events")).sum();
    assert!(lost > 0);
    let page = Page::read(&recording.folder.path().join("page.html"));
    assert_eq!(page.numbers("process.lost").iter().sum::<u64>(), lost);
}
