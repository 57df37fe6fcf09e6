//! `allotrope replay` and `allotrope bench`: an allocator that logs its calls sees those of the
//! recorded program's source; slow, crashing and unusable allocators are named.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Ended, Recording, SHORT_BENCH, Started, Text, allotrope, command, compiled, compiled_with,
    record, run, until,
};
use serde_json::Value;

/// A call as the logging allocator sees it. Blocks are numbers in order of allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    Allocate(&'static str, u64, u64),
    Reallocate(Option<usize>, u64),
    Free(usize),
}

const NAMES: [&str; 6] = [
    "malloc",
    "calloc",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "realloc",
];

/// The calls of `programs/replay/story.c`.
fn story() -> Vec<Call> {
    let mut calls = Vec::new();
    let mut next = 0;
    let mut allocate = |calls: &mut Vec<Call>, name, a, b| {
        calls.push(Call::Allocate(name, a, b));
        next += 1;
        next - 1
    };
    let mut blocks: Vec<usize> = (0..40)
        .map(|i| allocate(&mut calls, "malloc", 10 + i, 0))
        .collect();
    // realloc of no block allocates one, and each further one keeps it.
    let chain = allocate(&mut calls, "chain", 0, 0);
    calls.pop();
    for doubling in 0..11 {
        let old = (doubling > 0).then_some(chain);
        calls.push(Call::Reallocate(old, 8 << doubling));
    }
    for i in (0..40).step_by(2) {
        calls.push(Call::Free(blocks[i]));
    }
    for i in (0..40).step_by(2) {
        // The recording has the whole size: one element of it.
        blocks[i] = allocate(&mut calls, "calloc", 1, 3 * (7 + i as u64));
    }
    let aligned = allocate(&mut calls, "posix_memalign", 64, 100);
    let page = allocate(&mut calls, "aligned_alloc", 4096, 8192);
    let old = allocate(&mut calls, "memalign", 32, 40);
    // The C library's reallocarray calls realloc.
    let array = allocate(&mut calls, "array", 0, 0);
    calls.pop();
    calls.push(Call::Reallocate(None, 30));
    calls.push(Call::Reallocate(Some(array), 300));
    calls.extend([page, aligned, old, chain].map(Call::Free));
    calls.extend(blocks.iter().rev().map(|&block| Call::Free(block)));
    calls
}

/// Calls before the 30th of `malloc`, which is the 30th call.
const CRASH_AT: usize = 30;

/// Reads a log: for each process, the thread and the call of each line.
fn log(path: &Path) -> Vec<Vec<(u64, Call)>> {
    let text = fs::read_to_string(path).expect("the allocator wrote it");
    let lines: Vec<Vec<&str>> = text.lines().map(|it| it.split(' ').collect()).collect();
    let processes = lines.chunk_by(|a, b| a[0] == b[0]);
    processes.map(of_process).collect()
}

fn of_process(lines: &[Vec<&str>]) -> Vec<(u64, Call)> {
    let mut live = HashMap::new();
    let mut next = 0;
    let mut calls = Vec::new();
    for words in lines {
        let hex = |at: usize| u64::from_str_radix(words[at], 16).expect("hexadecimal");
        let thread = words[1].parse().expect("a thread");
        let (a, b, result) = (hex(3), hex(4), hex(5));
        let call = match words[2] {
            "free" => match live.remove(&a) {
                Some(block) => Call::Free(block),
                // Of a block that was allocated before the log began.
                None => continue,
            },
            "realloc" => {
                let old = (a != 0).then(|| live.remove(&a).expect("a live block"));
                let block = old.unwrap_or_else(|| {
                    next += 1;
                    next - 1
                });
                assert_eq!(live.insert(result, block), None);
                Call::Reallocate(old, b)
            }
            name => {
                let name = NAMES.iter().find(|it| **it == name).expect("a function");
                assert_eq!(live.insert(result, next), None);
                next += 1;
                Call::Allocate(name, a, b)
            }
        };
        calls.push((thread, call));
    }
    calls
}

fn allocator(flags: &[&str]) -> PathBuf {
    let shared: Vec<&str> = ["-shared", "-fPIC"].iter().chain(flags).copied().collect();
    compiled_with("replay/logging_allocator.c", &shared)
}

fn recorded(source: &str) -> Recording {
    let recording = record(compiled(source)).run();
    assert!(recording.status.success(), "{}", recording.stderr);
    recording
}

/// Runs `replay` of a recording.
fn replay(trace: &Path, arguments: &[&str]) -> Ended {
    let words = ["replay".as_ref(), trace.as_os_str()];
    let words = words
        .into_iter()
        .chain(arguments.iter().map(|it| it.as_ref()));
    allotrope(words)
}

fn row<'a>(report: &'a Value, name: &str) -> &'a Value {
    let rows = report["allocators"].as_array().expect("a list");
    let row = rows.iter().find(|row| row["name"] == name);
    row.unwrap_or_else(|| panic!("no {name} in {report}"))
}

#[track_caller]
fn check_schema(value: &Value, schema: &str) {
    let text = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs")
            .join(schema),
    );
    let schema = serde_json::from_str(&text.expect("docs has it")).expect("it is JSON");
    if let Err(fault) = crate::support::schema::valid(value, &schema, "report") {
        panic!("{fault}");
    }
}

#[test]
fn one_thread_is_replayed_call_by_call() {
    let recording = recorded("replay/story.c");
    let calls = recording.folder.path().join("calls");
    let alloc = format!("log={}", allocator(&[]).display());
    let env = format!("CALLS={}", calls.display());
    let arguments = [
        "--alloc", &alloc, "--env", &env, "--runs", "1", "--format", "json",
    ];
    let report = replay(&recording.trace, &arguments).ok().json();
    let expected = story();
    assert_eq!(report["recording"]["operations"], expected.len());
    assert_eq!(report["recording"]["threads"], 1);
    assert_eq!(report["recording"]["final_live_bytes"], 300);
    assert_eq!(report["replay"]["order"], "exact");
    // Two replays: a timed one, and one in which each call is measured.
    let seen = log(&calls);
    assert_eq!(seen.len(), 2);
    for replay in seen {
        let calls: Vec<Call> = replay.into_iter().map(|(_, call)| call).collect();
        assert_eq!(calls, expected);
    }
    let percentiles = row(&report, "log")["percentiles"].as_array().unwrap();
    let called = |name: &str| {
        let line = percentiles.iter().find(|line| line["call"] == name);
        line.map_or(0, |line| line["calls"].as_u64().unwrap())
    };
    assert_eq!(called("malloc"), 40);
    assert_eq!(called("calloc"), 20);
    assert_eq!(called("realloc"), 11);
    assert_eq!(called("reallocarray"), 2);
    assert_eq!(called("free"), 20 + 4 + 40);
}

#[test]
fn threads_are_replayed_on_threads_in_their_order() {
    let recording = recorded("replay/threads.c");
    let calls = recording.folder.path().join("calls");
    let alloc = format!("log={}", allocator(&[]).display());
    let env = format!("CALLS={}", calls.display());
    let arguments = [
        "--alloc", &alloc, "--env", &env, "--runs", "1", "--format", "json",
    ];
    let report = replay(&recording.trace, &arguments).ok().json();
    assert_eq!(report["replay"]["order"], "recorded-order");
    // The first of both replays, of the blocks that tell their thread.
    let replay = log(&calls).remove(0);
    let marked = replay.iter().filter_map(|(thread, call)| match call {
        Call::Allocate("malloc", size @ 1000.., _) => Some((*thread, *size)),
        _ => None,
    });
    let once: Vec<(u64, u64)> = marked.collect();
    let sizes: Vec<u64> = once.iter().map(|(_, size)| *size).collect();
    let expected: Vec<u64> = (1..=3)
        .flat_map(|t| (0..20).map(move |i| 1000 * t + i))
        .collect();
    assert_eq!(sizes, expected);
    let threads: Vec<u64> = once.iter().map(|(thread, _)| *thread).collect();
    for of_one in threads.chunks(20) {
        assert!(
            of_one.iter().all(|thread| *thread == of_one[0]),
            "{threads:?}"
        );
    }
    assert!(
        threads[0] != threads[20] && threads[20] != threads[40],
        "{threads:?}"
    );
}

#[test]
fn a_slow_allocator_is_named_slower_and_not_worth_it() {
    let recording = recorded("replay/story.c");
    let slow = format!("slow={}", allocator(&["-DSLOW"]).display());
    let alloc = format!("glibc,{slow}");
    let arguments = ["--alloc", &alloc, "--runs", "3", "--format", "json"];
    let report = replay(&recording.trace, &arguments).ok().json();
    check_schema(&report, "replay.schema.json");
    assert_eq!(row(&report, "slow")["compared"], "more");
    assert!(row(&report, "glibc")["compared"].is_null());
    assert_eq!(report["switching"]["from"], "glibc");
    let switching = &report["switching"]["to"][0];
    assert_eq!(switching["worth"], "no");
    // The first reason is not that the program is small.
    let why = switching["why"].as_str().expect("a reason");
    assert!(why.starts_with("it is slower"), "{why}");
    let text = replay(&recording.trace, &["--alloc", &alloc, "--runs", "2"]).text();
    text.has_all(["slow", "Is switching"]);
    text.fits(80);
}

/// What several threads save is CPU time; their program's time is known only as a bound.
///
/// Reported: the saving of several threads is compared with the time of the program.
#[test]
fn a_saving_of_several_threads_is_a_bound() {
    let slow = format!("slow={}", allocator(&["-DSLOW"]).display());
    for (source, is_bound) in [("replay/threads.c", true), ("replay/story.c", false)] {
        let recording = recorded(source);
        let alloc = format!("glibc,{slow}");
        let arguments = ["--alloc", &alloc, "--recorded-with", &slow, "--runs", "2"];
        let report = replay(
            &recording.trace,
            &[&arguments[..], &["--format", "json"]].concat(),
        )
        .json();
        check_schema(&report, "replay.schema.json");
        let saved = &report["switching"]["to"][0];
        assert_eq!(saved["is_bound"], is_bound, "{saved}");
        // No program becomes faster by more than its allocator does: not even one that ran for
        // a shorter time than the replay, because it was not recorded with this allocator.
        assert!(saved["saved_share"].as_f64() <= Some(1.0), "{saved}");
        let text = replay(&recording.trace, &arguments).text();
        assert_eq!(
            text.contains("Several threads: a saving is CPU time"),
            is_bound,
            "{text}"
        );
        text.fits(80);
    }
}

/// The clock of the percentiles advances by several nanoseconds at a time on some machines, and
/// moments of memory are taken where they disturb no time.
///
/// Reported: percentiles of `replay` are below the resolution of the clock.
#[test]
fn the_clock_has_a_resolution_and_memory_its_moments() {
    let recording = recorded("replay/story.c");
    let arguments = ["--alloc", "glibc", "--runs", "2"];
    let report = replay(
        &recording.trace,
        &[&arguments[..], &["--format", "json"]].concat(),
    )
    .json();
    let resolution = report["replay"]["clock_resolution_ns"].as_f64();
    assert!(resolution > Some(0.0), "{}", report["replay"]);
    // 137 operations: each one is a moment.
    let points = row(&report, "glibc")["points"].as_array().expect("a list");
    let last = points.last().and_then(|it| it["operations"].as_u64());
    assert_eq!(last, Some(story().len() as u64));
    replay(&recording.trace, &arguments).has("two readings of the clock differ by");
}

/// A run of some milliseconds has hardly a sample of resident memory.
#[test]
fn a_calibration_without_samples_names_that_reason() {
    let recording = recorded("replay/story.c");
    let errors = replay(
        &recording.trace,
        &["--alloc", "glibc", "--runs", "1", "--touch", "calibrated"],
    )
    .ok()
    .errors();
    errors.has("samples of resident memory");
    errors.lacks("grow by less than");
}

/// A program of 137 calls that was recorded with a slow allocator: glibc saves most of its time,
/// and that says nothing.
#[test]
fn a_tiny_program_is_too_little_to_tell() {
    let slow = format!("slow={}", allocator(&["-DSLOW"]).display());
    let recording = recorded("replay/story.c");
    let alloc = format!("glibc,{slow}");
    let arguments = ["--alloc", &alloc, "--recorded-with", &slow, "--runs", "3"];
    let with_json = [&arguments[..], &["--format", "json"]].concat();
    // On a busy machine the noise may be larger than the saving, and the answer "no".
    let mut reports = (0..10).map(|_| replay(&recording.trace, &with_json).ok().json());
    let report = reports.find(|it| it["switching"]["to"][0]["worth"] != "no");
    let report = report.expect("a run with little noise");
    check_schema(&report, "replay.schema.json");
    let switching = &report["switching"];
    assert_eq!(switching["from"], "slow");
    assert_eq!(switching["to"][0]["worth"], "too-little", "{switching}");
    let why = switching["to"][0]["why"].as_str().expect("a reason");
    assert!(
        why.contains("the program ran only") || why.contains("the program made only"),
        "{why}"
    );
    let mut texts = (0..10).map(|_| replay(&recording.trace, &arguments).text());
    let text = texts.find(|it| it.contains("too little to tell"));
    let text = text.expect("a run with little noise");
    text.fits(80);
}

/// The recorded allocator is recognised by its library, whatever the names are.
///
/// Reported: the recorded allocator is not recognised under another name.
#[test]
fn the_recorded_allocator_is_known_by_its_library() {
    let recording = recorded("replay/story.c");
    let library = allocator(&[]).display().to_string();
    let alloc = format!("mine={library},jemalloc={library},glibc");
    let from = |with: &str| {
        let arguments = ["--alloc", &alloc, "--recorded-with", with, "--runs", "2"];
        let output = replay(
            &recording.trace,
            &[&arguments[..], &["--format", "json"]].concat(),
        )
        .ok();
        output.json()["switching"].clone()
    };
    assert_eq!(from(&library)["from"], "mine");
    assert_eq!(from("glibc")["from"], "glibc");
    let other = allocator(&["-DSLOW"]).display().to_string();
    let switching = from(&format!("jemalloc={other}"));
    assert_eq!(switching["from"], Value::Null);
    let why = switching["unknown"].as_str().expect("a reason");
    why.has(&other);
}

/// Reported: the recorded allocator is not recognised under another name.
#[test]
fn the_name_glibc_means_the_c_librarys() {
    let recording = recorded("replay/story.c");
    let alloc = format!("glibc,glibc={}", allocator(&[]).display());
    let output = replay(
        &recording.trace,
        &["--alloc", &alloc, "--runs", "1", "--format", "json"],
    )
    .fails(2, "the name glibc is");
    assert_eq!(row(&output.json(), "glibc")["library"], Value::Null);
    let words = [
        "bench", "--alloc", &alloc, "--runs", "1", "--format", "json",
    ];
    let report = allotrope([&words[..], &SHORT_BENCH].concat())
        .code(2)
        .json();
    let rows = report["allocators"].as_array().expect("a list");
    let same = rows.iter().filter(|row| row["name"] == "glibc").count();
    assert_eq!(same, 1, "{report}");
}

#[test]
fn a_long_name_is_cut_to_fit() {
    let recording = recorded("replay/story.c");
    let name = "a_name_of_an_allocator_that_is_longer_than_any_table_is_wide".repeat(2);
    let alloc = format!("glibc,{name}={}", allocator(&[]).display());
    let outputs = [
        replay(&recording.trace, &["--alloc", &alloc, "--runs", "2"]),
        allotrope(
            [
                &["bench", "--alloc", &alloc, "--runs", "2"][..],
                &SHORT_BENCH,
            ]
            .concat(),
        ),
    ];
    for output in outputs {
        let text = output.text();
        assert!(text.contains("a_name") && text.contains('…'), "{text}");
        text.fits(80);
    }
}

#[test]
fn an_allocator_against_itself_has_the_same_calls_and_two_names() {
    let recording = recorded("replay/story.c");
    let arguments = ["--alloc", "glibc,glibc", "--runs", "2", "--format", "json"];
    let report = replay(&recording.trace, &arguments).json();
    check_schema(&report, "replay.schema.json");
    assert_eq!(row(&report, "glibc#2")["library"], Value::Null);
}

#[test]
fn a_crash_and_a_failure_name_the_operation_and_the_others_are_measured() {
    let recording = recorded("replay/story.c");
    let crash = allocator(&[&format!("-DCRASH_AT={CRASH_AT}")]);
    let failing = allocator(&["-DFAIL_FROM=45"]);
    let lacking = allocator(&["-DNO_REALLOC"]);
    let alloc = format!(
        "crash={},failing={},lacking={},glibc",
        crash.display(),
        failing.display(),
        lacking.display()
    );
    let output = replay(
        &recording.trace,
        &["--alloc", &alloc, "--runs", "1", "--format", "json"],
    )
    .code(2);
    let errors = output.errors();
    let operations = story().len();
    // Numbers count from 0. malloc(10 + 35) is the first of 45 bytes.
    for sentence in [
        format!("crash crashed with SIGSEGV in operation 29 of {operations} (malloc of 39 bytes)"),
        format!(
            "failing ran out of memory: operation 35 of {operations} (malloc of 45 bytes) failed, and 4 more did"
        ),
        "lacking cannot be used: it does not define realloc, which every program needs".to_owned(),
    ] {
        errors.has(&sentence);
    }
    assert_eq!(errors.lines().count(), 3, "{errors}");
    let report = output.json();
    check_schema(&report, "replay.schema.json");
    assert!(row(&report, "glibc")["ns_per_operation"].is_object());
    assert!(row(&report, "crash")["ns_per_operation"].is_null());
}

#[test]
fn what_is_no_allocator_is_refused_in_a_sentence() {
    let recording = recorded("replay/story.c");
    let folder = recording.folder.path();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).expect("the folder is writable");
        path.display().to_string()
    };
    let fifo = folder.join("fifo.so");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("coreutils").success());
    let mut small = vec![0; 64];
    small[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    let mut cut = vec![0; 64];
    cut[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    for (path, sentence) in [
        (file("libx.a", b"!<arch>\n"), "a static library"),
        (file("text.so", b"hello"), "not a shared library"),
        (file("empty.so", b""), "not a shared library"),
        (file("small.so", &small), "not a 64-bit library"),
        (file("cut.so", &cut), "cannot be used"),
        (
            folder.join("none.so").display().to_string(),
            "cannot read it",
        ),
        (",glibc".to_owned(), "an allocator's name is empty"),
        (
            "nonsense".to_owned(),
            "there is no allocator called nonsense",
        ),
        (folder.display().to_string(), "not a shared library"),
        // Nobody writes to it: opening it would wait for ever.
        (fifo.display().to_string(), "not a shared library"),
    ] {
        replay(&recording.trace, &["--alloc", &path, "--runs", "1"])
            .fails(2, sentence)
            .error_lines(1);
    }
}

#[test]
fn recordings_without_calls_are_refused_and_a_cut_one_is_replayed() {
    let counted = record(compiled("replay/story.c"))
        .option("--counts-only")
        .run();
    replay(&counted.trace, &["--alloc", "glibc"]).fails(2, "--counts-only");

    let recording = recorded("replay/story.c");
    let bytes = fs::read(&recording.trace).unwrap();
    let cut = recording.folder.path().join("cut.allotrope");
    // The closing chunk is the last.
    fs::write(&cut, &bytes[..bytes.len() - 1]).unwrap();
    let output = replay(
        &cut,
        &["--alloc", "glibc", "--runs", "1", "--format", "json"],
    )
    .ok();
    output.errors().has("is not whole");
    assert_eq!(output.json()["recording"]["operations"], story().len());

    // With ever less of the file, no process is left at some point, and the reason is the cut.
    let mut is_without_process = false;
    for length in (16..bytes.len()).step_by(32) {
        fs::write(&cut, &bytes[..length]).unwrap();
        let output = replay(&cut, &["--alloc", "glibc", "--runs", "1"]);
        let message = output.errors();
        assert!(!message.contains("has no process"), "{length}: {message}");
        if output.status.code() == Some(0) {
            break;
        }
        is_without_process |= message.contains("is not whole, and no process is left");
    }
    assert!(is_without_process);

    let text = recording.folder.path().join("text");
    fs::write(&text, "hello").unwrap();
    assert_eq!(replay(&text, &[]).status.code(), Some(2));
}

/// The last line that was printed, however much was printed before; of a benchmark, too.
#[test]
fn the_last_words_are_the_last_ones() {
    let recording = recorded("replay/story.c");
    let of = |flag: &str, words: &[&str]| {
        let alloc = format!("loud={}", allocator(&[flag]).display());
        let few = ["--runs", "1", "--alloc", &alloc];
        allotrope([words, &few].concat()).code(2).errors()
    };
    let trace = recording.trace.to_str().expect("UTF-8");
    let commands = [
        &["replay", trace][..],
        &[
            "bench",
            "--pattern",
            "lifo",
            "--size",
            "16",
            "--threads",
            "1",
        ],
    ];
    for words in commands {
        let message = of("-DLOUD", words);
        message.has_all(["its last words: the end", "SIGABRT"]);
        let message = of("-DEXITS_AT_START", words);
        let sentence =
            "ended with status 7 while its libraries were loaded; its last words: cannot";
        message.has(sentence);
    }
}

/// One sentence for several allocators.
#[test]
fn several_allocators_were_not_measured() {
    let recording = recorded("replay/story.c");
    let library = allocator(&["-DEXITS_AT_START"]);
    let alloc = format!("a={0},b={0}", library.display());
    let message = replay(&recording.trace, &["--alloc", &alloc, "--runs", "1"])
        .code(2)
        .errors();
    message.has("a, b were not measured: ");
    let empty = compiled_with("replay/no_allocator.c", &["-shared", "-fPIC"]);
    let empty = empty.display().to_string();
    let message = replay(&recording.trace, &["--alloc", &empty, "--runs", "1"]).errors();
    let sentence = "malloc, calloc, realloc, free, which every program needs, because the C library itself calls them";
    message.has(sentence);
}

#[test]
fn nothing_is_left_behind() {
    let recording = recorded("replay/story.c");
    let temporary = tempfile::tempdir().unwrap();
    let mut command = command();
    command
        .args(["replay".as_ref(), recording.trace.as_os_str()])
        .args(["--alloc", "glibc", "--runs", "1"])
        .env("TMPDIR", temporary.path());
    assert!(run(&mut command, b"").status.success());
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}

/// What allotrope itself lacks is neither the recording's fault nor an allocator's.
#[test]
fn without_a_folder_for_temporary_files_allotrope_has_failed() {
    let recording = recorded("replay/story.c");
    let missing = recording.folder.path().join("missing");
    for subcommand in ["replay", "paths", "allocators"] {
        let mut command = command();
        command
            .args([subcommand.as_ref(), recording.trace.as_os_str()])
            .args(["--alloc", "glibc"])
            .env("TMPDIR", &missing);
        run(&mut command, b"").fails(1, "TMPDIR").says("missing");
    }
}

/// The processes that a process's first thread has started.
fn children(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().flat_map(str::parse).collect()
}

#[test]
fn a_signal_ends_the_replayer_and_leaves_nothing() {
    let recording = recorded("replay/story.c");
    let temporary = tempfile::tempdir().unwrap();
    let hanging = allocator(&["-DHANG"]).display().to_string();
    let mut command = command();
    command
        .args(["replay".as_ref(), recording.trace.as_os_str()])
        .args(["--alloc", &hanging])
        .env("TMPDIR", temporary.path());
    let command = Started::new(&mut command);
    let runs = |process: u32| Path::new(&format!("/proc/{process}")).exists();
    // The replayer is in its first call.
    let is_replaying = |process: &u32| {
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        maps.contains("logging_allocator")
    };
    until("the replayer starts", || {
        children(command.id()).iter().any(is_replaying)
    });
    let replayers = children(command.id());
    command.signal(rustix::process::Signal::INT);
    assert!(!command.end().status.success());
    until("the replayer ends", || {
        !replayers.iter().any(|it| runs(*it))
    });
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn a_benchmark_has_all_cases_and_no_counter_is_zero() {
    let alloc = format!("log={}", allocator(&[]).display());
    let report = allotrope([
        "bench",
        "--alloc",
        &alloc,
        "--size",
        "16,64",
        "--threads",
        "1,2",
        "--runs",
        "2",
        "--blocks",
        "4096",
        "--format",
        "json",
    ])
    .ok()
    .json();
    check_schema(&report, "bench.schema.json");
    for name in ["glibc", "log"] {
        let cases = row(&report, name)["cases"].as_array().unwrap();
        // Five patterns, two sizes, two numbers of threads.
        assert_eq!(cases.len(), 5 * 2 * 2);
        for case in cases {
            assert!(case["cycles"].is_null() || case["cycles"].as_f64() > Some(0.0));
        }
    }
    let text = allotrope([
        "bench",
        "--alloc",
        "glibc",
        "--pattern",
        "lifo",
        "--size",
        "16",
        "--threads",
        "1",
        "--runs",
        "2",
        "--blocks",
        "4096",
    ])
    .text();
    text.has("noise (glibc to itself)");
    assert!(text.starts_with("2 rounds in turn; "), "{text}");
    text.fits(80);
}

#[test]
fn a_benchmark_makes_the_calls_of_its_pattern() {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls");
    let alloc = format!("log={}", allocator(&[]).display());
    let env = format!("CALLS={}", calls.display());
    for (pattern, frees_first) in [("lifo", 1023), ("fifo", 0)] {
        let _ = fs::remove_file(&calls);
        allotrope([
            "bench",
            "--alloc",
            &alloc,
            "--pattern",
            pattern,
            "--size",
            "40",
            "--threads",
            "1",
            "--runs",
            "1",
            "--blocks",
            "2048",
            "--env",
            &env,
        ])
        .ok();
        // glibc, which does not log, runs before and after it.
        let processes = log(&calls);
        assert_eq!(processes.len(), 1);
        let calls: Vec<Call> = processes[0].iter().map(|(_, call)| call.clone()).collect();
        assert_eq!(calls.len(), 2 * 2048);
        assert!(
            calls[..1024]
                .iter()
                .all(|it| *it == Call::Allocate("malloc", 40, 0))
        );
        assert_eq!(calls[1024], Call::Free(frees_first));
    }
}

#[test]
fn a_profile_has_its_threads_sizes_and_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let counts = folder.path().join("counts");
    let define = format!("-DCOUNTS=\"{}\"", counts.display());
    let flags = ["-shared", "-fPIC", define.as_str()];
    let library = compiled_with("replay/counting_allocator.c", &flags);
    let alloc = format!("count={}", library.display());
    // From docs/allocators.md: sizes, threads, and blocks that each thread keeps.
    for (profile, smallest, largest, threads, kept) in [
        ("tiny", 8, 128, 1, 1024),
        ("mid", 2048, 32768, 1, 1024),
        ("mt", 8, 1024, 4, 4096),
    ] {
        let words = [
            "bench",
            "--alloc",
            &alloc,
            "--profile",
            profile,
            "--seconds",
            "0.02",
            "--runs",
            "1",
            "--format",
            "json",
        ];
        let report = allotrope(words).ok().json();
        check_schema(&report, "bench.schema.json");
        let case = &row(&report, "count")["cases"][0];
        assert_eq!(case["profile"], profile);
        assert_eq!(case["smallest_size"], smallest);
        assert_eq!(case["size"], largest);
        let numbers = fs::read(&counts).unwrap();
        let number = |at: usize| {
            let bytes = numbers[at * 8..][..8].try_into().unwrap();
            u64::from_le_bytes(bytes)
        };
        let [calls, _, most, least, greatest, callers] = [0, 1, 2, 3, 4, 5].map(number);
        let pairs = case["pairs"].as_u64().unwrap();
        assert_eq!(
            calls,
            threads * (kept + pairs.next_multiple_of(1024)),
            "{profile}"
        );
        assert_eq!((most, callers), (threads * kept, threads), "{profile}");
        // Of so many random sizes some are near the ends.
        let margin = (largest - smallest) / 20;
        assert!(
            (smallest..=smallest + margin).contains(&least),
            "{profile}: {least}"
        );
        assert!(
            (largest - margin..=largest).contains(&greatest),
            "{profile}: {greatest}"
        );
    }
}

#[test]
fn profiles_are_listed_and_unknown_ones_refused() {
    let list = allotrope(["bench", "--profile", "list"]).ok();
    list.has("tiny").has("2,048–32,768").has("mt");
    let unknown = allotrope(["bench", "--profile", "large"]).code(2);
    unknown.says("there are the profiles tiny, mid, mt (list shows them)");
    let both = allotrope(["bench", "--profile", "tiny", "--size", "16"]).code(2);
    both.says("cannot be used with");
}

#[test]
fn an_allocator_inside_a_program_is_refused_with_what_to_link() {
    let recording = recorded("replay/story.c");
    for flags in [["-rdynamic", "-pie"], ["-rdynamic", "-no-pie"]] {
        let program = compiled_with("own_malloc.c", &flags);
        let alloc = program.to_str().unwrap();
        let sentence = "it is a program, and only a shared library can be preloaded; link the allocator's own object files, compiled with -fPIC and without main, as one: cc -shared -o ";
        replay(&recording.trace, &["--alloc", alloc, "--runs", "1"])
            .code(2)
            .says(sentence);
        let bench = [
            &["bench", "--alloc", alloc, "--runs", "1"],
            &SHORT_BENCH[..],
        ];
        allotrope(bench.concat()).code(2).says(sentence);
        let paths = ["paths".as_ref(), recording.trace.as_os_str()];
        allotrope(
            paths
                .into_iter()
                .chain(["--alloc".as_ref(), program.as_os_str()]),
        )
        .code(2)
        .says(sentence);
    }
}
