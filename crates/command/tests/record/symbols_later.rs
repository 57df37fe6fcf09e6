//! `symbolize`: names added to a trace of a program that was recorded without
//! its debug file, and files that are refused because another build made them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Ended, Recording, Report, Text, allotrope, compiled_with, record};
use serde_json::Value;

/// A program stripped of everything, its debug file elsewhere, and a recording
/// of it.
struct Stripped {
    recording: Recording,
    program: PathBuf,
    debug: PathBuf,
}

fn objcopy(arguments: &[&str]) {
    let done = Command::new("objcopy").args(arguments).status();
    assert!(done.expect("binutils come with the compiler").success());
}

fn stripped(flags: &[&str]) -> Stripped {
    let whole = compiled_with("attribution.c", flags);
    let run = record("./program").arg("chain");
    let folder = run.folder().to_owned();
    let (program, debug) = (folder.join("program"), folder.join("kept/program.debug"));
    std::fs::create_dir(folder.join("kept")).expect("the folder is ours");
    let text = |path: &Path| path.to_str().expect("plain names").to_owned();
    objcopy(&["--only-keep-debug", &text(&whole), &text(&debug)]);
    objcopy(&["--strip-all", &text(&whole), &text(&program)]);
    Stripped {
        recording: run.run().ok(),
        program,
        debug,
    }
}

const WITH_BUILD_ID: [&str; 1] = ["-Wl,--build-id=sha1"];

fn symbolize(trace: &Path, options: &[&str]) -> Ended {
    let trace = trace.to_str().expect("plain names");
    allotrope(["symbolize", trace].iter().chain(options))
}

fn report(trace: &Path) -> Value {
    Report::of(trace).json
}

fn text(trace: &Path) -> String {
    allotrope(["report".as_ref(), "--lists".as_ref(), trace.as_os_str()]).text()
}

#[test]
fn names_are_added_to_a_recording_of_a_stripped_program() {
    let stripped = stripped(&WITH_BUILD_ID);
    let trace = &stripped.recording.trace;
    assert!(!text(trace).contains("middle"), "it was stripped");
    let totals = |trace: &Path| Report::of(trace).only().total("allocations");
    let before = totals(trace);
    let other = stripped.recording.folder.path().join("named.allotrope");
    let debug = stripped.debug.to_str().expect("plain names");
    let options = [
        "--module",
        debug,
        "-o",
        other.to_str().expect("plain names"),
    ];
    symbolize(trace, &options).ok();
    assert!(
        !text(trace).contains("middle"),
        "the trace itself is as it was"
    );
    let named = text(&other);
    named.has_all(["leaf", "middle", "outer"]);
    named.has("attribution.c");
    assert_eq!(totals(&other), before);

    // In place, with the program gone: the names stay.
    std::fs::remove_file(&stripped.program).expect("it is ours");
    let known = report(&other);
    symbolize(&other, &[]).ok();
    assert_eq!(report(&other), known);
    let names = std::fs::read_dir(stripped.recording.folder.path()).expect("it is ours");
    let partial = |name: &str| name.ends_with(".partial");
    let left = names.filter(|entry| {
        let name = entry.as_ref().expect("it can be read").file_name();
        partial(&name.to_string_lossy())
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn a_file_of_another_build_is_refused() {
    let stripped = stripped(&WITH_BUILD_ID);
    let trace = &stripped.recording.trace;
    let other = compiled_with("attribution.c", &["-Wl,--build-id=0x123456"]);
    let before = std::fs::read(trace).expect("it was written");
    let _output =
        symbolize(trace, &["--module", other.to_str().expect("plain names")]).fails(2, "123456");
    assert_eq!(std::fs::read(trace).expect("it is there"), before);

    // A program of another build at the old path is not used either.
    std::fs::copy(&other, &stripped.program).expect("the folder is ours");
    let output = symbolize(trace, &[]).ok();
    output.errors().has("was rebuilt since");
    assert!(!text(trace).contains("middle"));
}

#[test]
fn without_a_build_id_only_on_request() {
    let stripped = stripped(&["-Wl,--build-id=none"]);
    let trace = &stripped.recording.trace;
    std::fs::copy(
        compiled_with("attribution.c", &["-Wl,--build-id=none"]),
        &stripped.program,
    )
    .expect("the folder is ours");
    let output = symbolize(trace, &[]).ok();
    output.errors().has("--unverified");
    assert!(!text(trace).contains("middle"));
    symbolize(trace, &["--unverified"]).ok();
    assert!(text(trace).contains("middle"));
}

#[test]
fn a_cut_trace_stays_cut() {
    let stripped = stripped(&WITH_BUILD_ID);
    let whole = std::fs::read(&stripped.recording.trace).expect("it was written");
    let cut = stripped.recording.folder.path().join("cut.allotrope");
    std::fs::write(&cut, &whole[..whole.len() - 8]).expect("the folder is ours");
    let debug = stripped.debug.to_str().expect("plain names");
    let output = symbolize(&cut, &["--module", debug]).ok();
    output.errors().has("is not whole");
    assert!(!Report::of(&cut).warnings.is_empty());
    assert!(text(&cut).contains("middle"));
}

#[test]
fn an_unusable_trace_is_an_error_of_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("no.allotrope");
    std::fs::write(&path, "no trace").expect("the folder is ours");
    let missing = folder.path().join("missing");
    for trace in [&path, &missing] {
        let output = symbolize(trace, &[]).code(2);
        assert_eq!(output.errors().trim_end().lines().count(), 1);
    }
}
