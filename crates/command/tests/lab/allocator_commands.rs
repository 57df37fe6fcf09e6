//! The commands that measure allocators, with what they cannot use: recordings without calls,
//! with lost calls or cut; unusable and failing allocators; a machine that refuses ptrace or
//! perf_event_open. And with a signal in the middle. Each failure is one sentence with status 2,
//! and the other allocators are measured.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::watched::Program;
use crate::support::{
    Ended, Recording, Started, Text, allotrope, command, compiled, compiled_with, record, run,
    skip, until,
};
use serde_json::Value;

/// The commands that replay a recording, with options that make them short.
const REPLAYING: [&[&str]; 3] = [
    &["replay", "--runs", "1"],
    &["paths", "--runs", "1", "--sample", "100"],
    &[
        "allocators",
        "--runs",
        "1",
        "--stepped-runs",
        "1",
        "--sample",
        "100",
    ],
];

/// A benchmark that is short.
const BENCH: [&str; 11] = [
    "bench",
    "--runs",
    "1",
    "--blocks",
    "2048",
    "--pattern",
    "lifo",
    "--size",
    "64",
    "--threads",
    "1",
];

/// The logging allocator with these flags.
fn allocator(flags: &[&str]) -> PathBuf {
    let all: Vec<&str> = ["-shared", "-fPIC"].iter().chain(flags).copied().collect();
    compiled_with("replay/logging_allocator.c", &all)
}

/// Runs a command with a file behind its name, if it takes one.
fn replaying(words: &[&str], file: Option<&Path>, more: &[&str]) -> Ended {
    let mut all: Vec<&str> = words[..1].to_vec();
    all.extend(file.map(|it| it.to_str().expect("UTF-8")));
    all.extend(&words[1..]);
    all.extend(more);
    allotrope(all)
}

fn story() -> Recording {
    record(compiled("replay/story.c")).run().ok()
}

#[test]
fn recordings_without_single_calls_say_what_they_are_good_for() {
    let counted = record(compiled("replay/story.c")).option("--counts-only");
    let counted = counted.run().ok();
    let folder = tempfile::tempdir().expect("a folder");
    let sampled = folder.path().join("sampled");
    let mut program = Program::new(&["--period", "1"]);
    program.tell("malloc 30 4321");
    let process = program.id().to_string();
    allotrope([
        "watch",
        &process,
        "--output",
        sampled.to_str().expect("UTF-8"),
    ])
    .ok();
    for (file, what) in [
        (&counted.trace, "was recorded with --counts-only"),
        (&sampled, "is a sampled profile"),
    ] {
        for words in REPLAYING {
            let output = replaying(words, Some(file), &["--alloc", "glibc"]).fails(2, what);
            let errors = output.errors();
            // What can still be done, and it can.
            errors.has("`allotrope report` shows");
            assert_eq!(errors.lines().count(), 1, "{errors}");
            assert!(output.stdout.is_empty());
        }
        replaying(&["report"], Some(file), &[]).ok();
    }
}

/// `neighbours.c uncommitted` allocates 20,000 blocks and exits; the kernel refuses memory for
/// most of these 20,001 events.
#[test]
fn a_recording_with_lost_calls_is_replayed_with_a_warning_and_without_a_verdict() {
    let recording = record(compiled("neighbours.c")).arg("uncommitted").run();
    if recording.status.code() == Some(96) {
        return skip("this kernel does not commit memory on request, or has no seccomp");
    }
    let recording = recording.code(7);
    for words in REPLAYING {
        let more = ["--alloc", "glibc", "--format", "json"];
        let output = replaying(words, Some(&recording.trace), &more);
        let errors = output.errors();
        if errors.contains("cannot be stepped") {
            return skip("the kernel refuses ptrace");
        }
        assert_eq!(output.status.code(), Some(0), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        let report = output.json();
        assert_eq!(report["allocators"].as_array().map(Vec::len), Some(1));
        if words[0] == "paths" {
            errors.has("calls of process");
            continue;
        }
        let recorded = &report["recording"];
        let lost = recorded["lost_events"].as_u64().expect("a number");
        assert!(lost > 10_000, "{recorded}");
        assert_eq!(recorded["operations"].as_u64(), Some(20_001 - lost));
        let sentence = format!("lost {lost} calls of process");
        errors.has(&sentence);
        let switching = &report["switching"]["unknown"];
        assert!(switching.is_string(), "{switching}");
    }
    let words = ["replay", "--runs", "2"];
    let output = replaying(
        &words,
        Some(&recording.trace),
        &["--alloc", "glibc", "--format", "json"],
    );
    let unknown = output.json()["switching"]["unknown"].to_string();
    unknown.has("the recording lost");
}

/// Without the closing chunk, no operation is missing.
#[test]
fn a_cut_recording_is_replayed_up_to_the_cut() {
    let recording = story();
    let bytes = fs::read(&recording.trace).expect("the trace");
    let cut = recording.folder.path().join("cut.allotrope");
    fs::write(&cut, &bytes[..bytes.len() - 1]).expect("our folder");
    let whole = |key: &str, report: &Value| report["recording"][key].clone();
    let all = replaying(
        REPLAYING[0],
        Some(&recording.trace),
        &["--alloc", "glibc", "--format", "json"],
    );
    let expected = whole("operations", &all.json());
    for words in REPLAYING {
        let output = replaying(words, Some(&cut), &["--alloc", "glibc", "--format", "json"]);
        let errors = output.errors();
        if errors.contains("cannot be stepped") {
            return skip("the kernel refuses ptrace");
        }
        assert_eq!(output.status.code(), Some(0), "{errors}");
        errors.has("is not whole");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        let report = output.json();
        let operations = match words[0] {
            "paths" => report["recorded_operations"].clone(),
            _ => whole("operations", &report),
        };
        assert_eq!(operations, expected);
    }
}

/// Each allocator that cannot be used has a sentence, and glibc behind them all is measured.
#[test]
fn unusable_and_failing_allocators_leave_the_others() {
    let recording = story();
    let folder = recording.folder.path();
    let file = |name: &str, bytes: &[u8]| {
        fs::write(folder.join(name), bytes).expect("our folder");
        format!("{name}={}", folder.join(name).display())
    };
    let mut small = vec![0; 64];
    small[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    let list = [
        file("static.a", b"!<arch>\n"),
        file("small.so", &small),
        format!("lacking={}", allocator(&["-DNO_REALLOC"]).display()),
        format!("crash={}", allocator(&["-DCRASH_AT=30"]).display()),
        format!("failing={}", allocator(&["-DFAIL_FROM=45"]).display()),
        "glibc".to_owned(),
    ];
    let list = list.join(",");
    // Every operation is stepped.
    for words in REPLAYING.into_iter().chain([&BENCH[..]]) {
        let is_bench = words[0] == "bench";
        let file = (!is_bench).then_some(&*recording.trace);
        let output = replaying(words, file, &["--alloc", &list, "--format", "json"]);
        let errors = output.errors();
        if errors.contains("cannot be stepped") {
            return skip("the kernel refuses ptrace");
        }
        assert_eq!(output.status.code(), Some(2), "{words:?}: {errors}");
        for sentence in [
            "static.a cannot be used: it is a static library",
            "small.so cannot be used: it is not a 64-bit library",
            "lacking cannot be used: it does not define realloc",
            "crash crashed with SIGSEGV",
            "failing ran out of memory",
        ] {
            let lines = errors.lines().filter(|it| it.contains(sentence));
            assert_eq!(lines.count(), 1, "{words:?}: {sentence}: {errors}");
        }
        assert_eq!(errors.lines().count(), 5, "{errors}");
        let report = output.json();
        let rows = report["allocators"].as_array().expect("a list");
        let glibc = rows.iter().find(|it| it["name"] == "glibc");
        let glibc = glibc.expect("it is measured");
        let is_measured = match words[0] {
            "paths" => glibc["instructions"].is_array(),
            "bench" => glibc["cases"].as_array().is_some_and(|it| !it.is_empty()),
            _ => glibc["ns_per_operation"].is_object(),
        };
        assert!(is_measured, "{glibc}");
    }
}

/// Each process of a replay has a limit: an allocator that never returns is refused, and glibc is
/// measured.
///
/// Reported: an allocator that hangs makes `replay` wait for ever.
#[test]
fn an_allocator_that_hangs_is_refused_at_the_limit() {
    let recording = story();
    let list = format!("hanging={},glibc", allocator(&["-DHANG"]).display());
    for words in REPLAYING.into_iter().chain([&BENCH[..]]) {
        let file = (words[0] != "bench").then_some(&*recording.trace);
        let more = ["--alloc", &list, "--timeout", "2", "--format", "json"];
        let output = replaying(words, file, &more);
        let errors = output.errors();
        if errors.contains("cannot be stepped") {
            return skip("the kernel refuses ptrace");
        }
        assert_eq!(output.status.code(), Some(2), "{words:?}: {errors}");
        let sentence = "hanging did not finish within 2 s (--timeout)";
        assert!(errors.contains(sentence), "{words:?}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        let report = output.json();
        let rows = report["allocators"].as_array().expect("a list");
        assert!(rows.iter().any(|it| it["name"] == "glibc"), "{report}");
    }
}

/// A message that nobody can read changes no exit status.
///
/// Reported: the exit status is another one if standard error cannot be written.
#[test]
fn a_full_standard_error_output_leaves_the_status() {
    for (words, status) in [
        (&["replay", "no-such-file"][..], 2),
        (&["replay", "--no-such-option"], 2),
        (&["report", "no-such-file"], 2),
    ] {
        let full = fs::File::options().write(true).open("/dev/full");
        let mut command = command();
        command
            .args(words)
            .stderr(full.expect("every Linux has it"));
        let ended = command.status().expect("it starts");
        assert_eq!(ended.code(), Some(status), "{words:?}");
    }
}

/// Runs the command where a system call is refused; `None` if this kernel has no filters.
fn without(call: &str, words: &[&str]) -> Option<Ended> {
    let mut command = Command::new(compiled("deny_call.c"));
    command.args([call, env!("CARGO_BIN_EXE_allotrope")]);
    let output = run(command.args(words), b"");
    (output.status.code() != Some(77)).then_some(output)
}

#[test]
fn without_ptrace_there_are_no_instructions_and_time_is_measured() {
    let recording = story();
    let trace = recording.trace.to_str().expect("UTF-8");
    let log = format!("log={}", allocator(&[]).display());
    let list = format!("glibc,{log}");
    let sentence = "glibc, log cannot be stepped: ";
    let Some(output) = without("ptrace", &["paths", trace, "--alloc", &list]) else {
        return skip("this kernel has no seccomp filters");
    };
    let text = output.errors();
    assert_eq!(output.status.code(), Some(2), "{text}");
    text.has(sentence);
    text.has("ptrace must be allowed");
    assert_eq!(text.lines().count(), 1, "{text}");

    let words = ["allocators", trace, "--alloc", &list, "--runs", "1"];
    let words = [&words[..], &["--format", "json"]].concat();
    let output = without("ptrace", &words)
        .expect("it has filters")
        .fails(2, sentence);
    let text = output.errors();
    assert_eq!(text.lines().count(), 1, "{text}");
    let report = output.json();
    let schema = include_str!("../../../../docs/allocators.schema.json");
    crate::support::schema::check_with(schema, &report);
    for row in report["allocators"].as_array().expect("a list") {
        assert!(row["ns_per_operation"].is_object(), "{row}");
        assert!(row["instructions"].as_array().is_some_and(Vec::is_empty));
        assert!(row["not_stepped"].is_string());
    }
    let words = ["allocators", trace, "--alloc", "glibc", "--runs", "1"];
    without("ptrace", &words)
        .expect("it has filters")
        .lacks("stepped to count instructions");
    // A replay needs no ptrace.
    let words = ["replay", trace, "--alloc", &list, "--runs", "1"];
    without("ptrace", &words).expect("it has filters").ok();
}

#[test]
fn without_perf_there_is_a_sentence_and_all_else_is_measured() {
    let Some(output) = without("perf", &["cpu", "--", "true"]) else {
        return skip("this kernel has no seccomp filters");
    };
    let text = output.errors();
    assert_eq!(output.status.code(), Some(2), "{text}");
    text.has_all(["does not let this user sample", "perf_event_paranoid"]);
    assert_eq!(text.lines().count(), 1, "{text}");

    let bench = [&BENCH[..], &["--alloc", "glibc", "--format", "json"]].concat();
    let output = without("perf", &bench).expect("it has filters").ok();
    let case = &output.json()["allocators"][0]["cases"][0];
    assert!(case["ns_per_operation"].is_object(), "{case}");
    assert!(case["cycles"].is_null() && case["instructions"].is_null());

    let recording = story();
    let trace = recording.trace.to_str().expect("UTF-8");
    let words = ["allocators", trace, "--alloc", "glibc", "--runs", "1"];
    let words = [&words[..], &["--format", "json"]].concat();
    let report = without("perf", &words).expect("it has filters").json();
    let counters = report["allocators"][0]["counters"].as_array();
    let cycles = counters.expect("a list").iter();
    let mut cycles = cycles.filter(|it| it["counter"] == "cycles");
    let cycles = cycles.next().expect("it is listed");
    assert!(cycles["per_operation"].is_null(), "{cycles}");
    let why = cycles["why"].as_str().expect("a reason");
    why.has("does not let this user sample");
}

/// The setting of the kernel itself, of which root is exempt.
#[test]
fn a_user_whom_the_kernel_forbids_to_sample_is_told_the_setting() {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let is_forbidden = paranoid.trim().parse().is_ok_and(|it: i32| it > 2);
    if !is_forbidden || !crate::support::is_root() {
        return skip("this kernel lets users sample, or this is not root");
    }
    let mut command = command();
    command.args(["cpu", "--", "true"]).uid(65534).gid(65534);
    let text = run(&mut command, b"").code(2).errors();
    let setting = format!("kernel.perf_event_paranoid is {}", paranoid.trim());
    text.has(&setting);
}

/// The processes that a process's first thread has started.
fn children(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().flat_map(str::parse).collect()
}

fn is_alive(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .map(|(_, rest)| rest.starts_with('Z'));
    state == Some(false)
}

/// The files of a process that have a name in one of these folders.
fn named_files(process: u32, folders: &[&Path]) -> Vec<PathBuf> {
    let links = fs::read_dir(format!("/proc/{process}/fd"));
    let links = links.into_iter().flatten().flatten();
    let files = links.filter_map(|it| fs::read_link(it.path()).ok());
    let is_named = |it: &PathBuf| {
        let is_gone = it.to_string_lossy().ends_with(" (deleted)");
        !is_gone && folders.iter().any(|folder| it.starts_with(folder))
    };
    files.filter(is_named).collect()
}

/// Starts the command in a process group of its own.
fn start(words: &[&str], file: Option<&Path>, alloc: &str, temporary: &Path) -> Started {
    let mut command = command();
    command.args(&words[..1]);
    command.args(file);
    command.args(&words[1..]).args(["--alloc", alloc]);
    Started::new(command.env("TMPDIR", temporary).process_group(0))
}

/// Ctrl-C goes to the whole process group. The allocator never returns from its first call.
#[test]
fn ctrl_c_leaves_no_process_and_no_file() {
    let recording = story();
    let hanging = allocator(&["-DHANG"]).display().to_string();
    for words in REPLAYING.into_iter().chain([&BENCH[..]]) {
        let temporary = tempfile::tempdir().expect("a folder");
        let file = (words[0] != "bench").then_some(&*recording.trace);
        let command = start(words, file, &hanging, temporary.path());
        let is_replaying = |process: &u32| {
            let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
            maps.contains("logging_allocator")
        };
        until("the replayer starts", || {
            children(command.id()).iter().any(is_replaying)
        });
        let replayers = children(command.id());
        // What it writes has no name, so nothing can remain, however it ends.
        let folders = [temporary.path(), Path::new("/dev/shm")];
        for process in [&replayers[..], &[command.id()]].concat() {
            let files = named_files(process, &folders);
            assert!(files.is_empty(), "{words:?}: {files:?}");
        }
        let signal = rustix::process::Signal::INT;
        rustix::process::kill_process_group(command.pid(), signal).expect("it runs");
        let ended = command.end();
        assert_eq!(ended.status.signal(), Some(2), "{ended}");
        until("the replayer ends", || {
            !replayers.iter().any(|it| is_alive(*it))
        });
        let left = fs::read_dir(temporary.path()).expect("our folder").count();
        assert_eq!(left, 0, "{words:?}");
    }
}
