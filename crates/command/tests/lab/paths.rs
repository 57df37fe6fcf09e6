//! `allotrope paths` and `diff` of its reports: instructions are exact. The tests change an
//! allocator by a number of instructions that its source states.
//!
//! `ALLOTROPE_SLOW=1` plants 20 changes and makes 50 comparisons of unchanged allocators,
//! instead of a few.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{SHORT_BENCH, Text, allotrope, compiled_with, line_of, record, skip};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Flags that make a shared library of a program of the tests.
const LIBRARY: [&str; 3] = ["-shared", "-fPIC", "-O2"];

/// The allocator of the tests with these flags, in its file.
fn allocator(flags: &[&str]) -> String {
    let all: Vec<&str> = LIBRARY.iter().chain(flags).copied().collect();
    let path = compiled_with("stepped_allocator.c", &all);
    path.to_str().expect("UTF-8").to_owned()
}

struct Recorded {
    folder: TempDir,
    trace: String,
}

impl Recorded {
    /// Records 1,000 pairs of malloc and free, and some operations of the C library.
    fn pairs() -> Self {
        let recording = record(crate::support::compiled("stepped_pairs.c"))
            .run()
            .ok();
        let trace = recording.trace.to_str().expect("UTF-8").to_owned();
        Self {
            folder: recording.folder,
            trace,
        }
    }

    fn file(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        path.to_str().expect("UTF-8").to_owned()
    }

    /// Saves a report; `None` if this machine cannot step.
    #[track_caller]
    fn paths(&self, name: &str, alloc: &str, more: &[&str]) -> Option<Value> {
        let file = self.file(name);
        let mut words = vec!["paths", &self.trace, "--alloc", alloc, "-q", "-o", &file];
        words.extend(more);
        let output = allotrope(&words);
        let errors = output.errors();
        if errors.contains("cannot be stepped") {
            skip("the kernel refuses ptrace");
            return None;
        }
        assert_eq!(output.status.code(), Some(0), "{errors}");
        let text = fs::read(&file).expect("a report");
        let report = serde_json::from_slice(&text).expect("it is JSON");
        crate::support::schema::check_with(
            include_str!("../../../../docs/paths.schema.json"),
            &report,
        );
        Some(report)
    }

    /// The exit status of `diff`, and what it prints.
    fn diff(&self, before: &str, after: &str, limit: &str) -> (Option<i32>, String) {
        let (before, after) = (self.file(before), self.file(after));
        let output = allotrope(["diff", &before, &after, "--fail-on", limit]);
        let mut text = output.text();
        text.push_str(&output.errors());
        (output.status.code(), text)
    }
}

/// A number of an entry point in the first allocator of a report.
#[track_caller]
fn figure(report: &Value, entry: &str, key: &str) -> f64 {
    let rows = report["allocators"][0]["instructions"]
        .as_array()
        .expect("rows");
    let row = rows.iter().find(|row| row["entry_point"] == entry);
    row.unwrap_or_else(|| panic!("no {entry}"))[key]
        .as_f64()
        .expect("a number")
}

fn slow() -> bool {
    std::env::var_os("ALLOTROPE_SLOW").is_some()
}

#[test]
fn added_instructions_are_counted_exactly() {
    let recorded = Recorded::pairs();
    let few = ["--sample", "100"];
    let Some(plain) = recorded.paths("plain", &allocator(&[]), &few) else {
        return;
    };
    let flags = ["-DMALLOC_NOPS=7", "-DFREE_NOPS=300"];
    let more = recorded
        .paths("more", &allocator(&flags), &few)
        .expect("it steps");
    let rise = |entry| figure(&more, entry, "mean") - figure(&plain, entry, "mean");
    assert_eq!(rise("malloc"), 7.0);
    assert_eq!(rise("free"), 300.0);
    for entry in ["all", "malloc", "free"] {
        assert_eq!(figure(&plain, entry, "low"), figure(&plain, entry, "high"));
        assert_eq!(
            figure(&plain, entry, "operations"),
            figure(&more, entry, "operations")
        );
    }
}

/// A free of which each instruction is known: 41 of `nop`, and `ret`.
#[test]
fn the_instructions_of_a_function_in_assembly() {
    let recorded = Recorded::pairs();
    let Some(report) = recorded.paths("report", &allocator(&["-DFREE_IN_ASSEMBLY"]), &[]) else {
        return;
    };
    for key in ["mean", "median", "p99"] {
        assert_eq!(figure(&report, "free", key), 42.0, "{key}");
    }
}

/// Signals that come while an operation is stepped neither hide it nor add to it: not those that
/// a terminal sends, not those that stop a process, and not a timer's, which has a handler.
///
/// Reported: a signal while an operation is stepped drops the operation.
#[test]
fn signals_from_outside_change_no_count() {
    let recorded = Recorded::pairs();
    // Steps of each operation for longer than from one signal to the next.
    let base = ["-DMALLOC_NOPS=200", "-DFREE_NOPS=200"];
    let few = ["--sample", "100"];
    let Some(plain) = recorded.paths("plain", &allocator(&base), &few) else {
        return;
    };
    for signal in ["SIGWINCH", "SIGCONT", "SIGCHLD", "SIGTSTP", "SIGALRM"] {
        let timer = format!("-DTIMER={signal}");
        let library = allocator(&[base[0], base[1], &timer]);
        let report = recorded.paths(signal, &library, &few).expect("it steps");
        for entry in ["all", "malloc", "free"] {
            for key in ["operations", "mean", "low", "high", "median", "p99"] {
                assert_eq!(
                    figure(&report, entry, key),
                    figure(&plain, entry, key),
                    "{key} of {entry} with {signal}"
                );
            }
        }
    }
}

/// An operation that sends itself a signal that does nothing has the same instructions as one
/// that makes the same system calls and sends none.
///
/// Reported: a signal while an operation is stepped drops the operation.
#[test]
fn signals_of_the_allocator_itself_change_no_count() {
    let recorded = Recorded::pairs();
    let few = ["--sample", "100"];
    let Some(none) = recorded.paths("none", &allocator(&["-DFREE_RAISES=0"]), &few) else {
        return;
    };
    assert_eq!(figure(&none, "free", "system_calls"), 3.0);
    for signal in ["SIGWINCH", "SIGCONT", "SIGCHLD", "SIGTSTP"] {
        let library = allocator(&[&format!("-DFREE_RAISES={signal}")]);
        let report = recorded.paths(signal, &library, &few).expect("it steps");
        for key in ["operations", "mean", "low", "high"] {
            let (a, b) = (figure(&report, "free", key), figure(&none, "free", key));
            assert_eq!(a, b, "{key} with {signal}");
        }
    }
}

#[test]
fn an_allocator_that_ends_while_it_is_stepped_is_named() {
    let recorded = Recorded::pairs();
    for (flag, sentence) in [
        ("-DFREE_TRAPS", "crashed with SIGTRAP"),
        ("-DFREE_RAISES=SIGABRT", "crashed with SIGABRT"),
        ("-DFREE_RAISES=SIGSEGV", "crashed with SIGSEGV"),
        ("-DFREE_EXITS", "ended the process"),
    ] {
        let library = allocator(&[flag]);
        let words = ["paths", &recorded.trace, "--alloc", &library, "-q"];
        let output = allotrope([&words[..], &["--timeout", "60"]].concat());
        let errors = output.errors();
        if errors.contains("cannot be stepped") {
            return skip("the kernel refuses ptrace");
        }
        assert_eq!(output.status.code(), Some(2), "{flag}: {errors}");
        // Each free of the program's own: a number and what it was.
        assert!(errors.contains(sentence), "{flag}: {errors}");
        assert!(errors.contains("(free)"), "{flag}: {errors}");
    }
}

/// An allocator that starts processes leaves none, and changes no count by that.
///
/// Reported: processes that an allocator has started go on after the replay.
#[test]
fn processes_of_an_allocator_end_with_its_replay() {
    let recorded = Recorded::pairs();
    let list = recorded.file("processes");
    let forks = format!("-DFORKS=\"{list}\"");
    let none_is_left = |what: &str, least: usize| {
        let text = fs::read_to_string(&list).expect("the allocator wrote it");
        let processes: Vec<&str> = text.lines().collect();
        assert!(processes.len() >= least, "{what}: {text}");
        for process in processes {
            let is_there = Path::new(&format!("/proc/{process}")).exists();
            assert!(!is_there, "{what}: process {process} is left");
        }
        fs::remove_file(&list).expect("it is there");
    };
    let library = allocator(&[&forks]);
    let few = ["--sample", "100"];
    let stepped = recorded.paths("report", &library, &few);
    if let Some(report) = &stepped {
        // Two processes of each run.
        none_is_left("paths", 4);
        let plain = recorded.paths("plain", &allocator(&[]), &few);
        let plain = plain.expect("it steps");
        assert_eq!(figure(report, "all", "mean"), figure(&plain, "all", "mean"));
    }
    let run = |words: &[&str], status: i32| {
        allotrope(words).code(status);
    };
    run(
        &[
            "replay",
            &recorded.trace,
            "--alloc",
            &library,
            "--runs",
            "1",
        ],
        0,
    );
    // The timed run, and the one in which each call is measured.
    none_is_left("replay", 4);
    let bench = ["bench", "--alloc", &library, "--runs", "1"];
    run(&[&bench[..], &SHORT_BENCH].concat(), 0);
    none_is_left("bench", 2);
    let hanging = allocator(&[&forks, "-DFREE_HANGS"]);
    let limit = ["--alloc", &hanging, "--timeout", "3"];
    let commands = match stepped {
        Some(_) => &["replay", "paths"][..],
        None => &["replay"],
    };
    for command in commands {
        run(&[&[*command, &recorded.trace][..], &limit].concat(), 2);
        none_is_left(command, 2);
    }
}

#[test]
fn planted_changes_are_caught_and_unchanged_allocators_are_not() {
    let recorded = Recorded::pairs();
    // 200 instructions beside the allocator's own few: 2 % can be planted nearly to one. A step
    // takes microseconds, more under load, so only some operations are stepped.
    let base = ["-DMALLOC_NOPS=200", "-DFREE_NOPS=200"];
    let few = ["--runs", "1", "--sample", "60"];
    let Some(before) = recorded.paths("before", &allocator(&base), &few) else {
        return;
    };
    let (plants, unchanged) = if slow() { (20, 50) } else { (2, 3) };
    for number in 0..plants {
        let (entry, macro_name) = match number % 2 {
            0 => ("malloc", "MALLOC_NOPS"),
            _ => ("free", "FREE_NOPS"),
        };
        let mean = figure(&before, entry, "mean");
        // The least number of instructions above 2 %, and up to 9 more; then one below.
        let least = (mean * 0.02).floor() as u32 + 1;
        for (extra, status) in [(least + number / 2, Some(3)), (least - 1, Some(0))] {
            let flag = format!("-D{macro_name}={}", 200 + extra);
            let other = match entry {
                "malloc" => base[1],
                _ => base[0],
            };
            let library = allocator(&[&flag, other]);
            recorded.paths("after", &library, &few).expect("it steps");
            let (code, text) = recorded.diff("before", "after", "instructions>+2%");
            assert_eq!(code, status, "{extra} more in {entry}: {text}");
            text.has(entry);
        }
    }
    for _ in 0..unchanged {
        recorded.paths("again", "glibc", &few).expect("it steps");
        recorded
            .paths("once-more", "glibc", &few)
            .expect("it steps");
        let (code, text) = recorded.diff("again", "once-more", "instructions>+0");
        assert_eq!(code, Some(0), "{text}");
    }
}

#[test]
fn glibc_is_identical_over_five_runs() {
    let recorded = Recorded::pairs();
    let Some(first) = recorded.paths("first", "glibc", &["--runs", "5"]) else {
        return;
    };
    let rows = first["allocators"][0]["instructions"]
        .as_array()
        .expect("rows");
    for row in rows {
        assert_eq!(row["low"], row["high"], "{row}");
    }
    let second = recorded
        .paths("second", "glibc", &["--runs", "1"])
        .expect("it steps");
    for key in ["instructions", "paths", "callees", "lines"] {
        let (a, b) = (&first["allocators"][0][key], &second["allocators"][0][key]);
        assert_eq!(a, b, "{key}");
    }
}

#[test]
fn callees_that_have_no_business_are_findings() {
    let recorded = Recorded::pairs();
    let cases = [
        (
            "-DFREE_ASKS",
            "environment",
            "looks up the environment in 100.0%",
        ),
        (
            "-DFREE_LOCKS",
            "lock",
            "executes a locked instruction in 100.0%",
        ),
        (
            "-DFREE_CALLS",
            "system call",
            "makes a system call in 100.0%",
        ),
    ];
    for (flag, kind, sentence) in cases {
        let Some(report) = recorded.paths("report", &allocator(&[flag]), &[]) else {
            return;
        };
        let callees = report["allocators"][0]["callees"].as_array().expect("rows");
        let callee = callees.iter().find(|it| it["kind"] == kind);
        let callee = callee.unwrap_or_else(|| panic!("no {kind}: {report}"));
        let of_free = &callee["entry_points"][0];
        assert_eq!(of_free["entry_point"], "free");
        assert_eq!(of_free["share_of_operations"], 1.0);
        let findings = report["allocators"][0]["findings"].to_string();
        findings.has(sentence);
        if kind == "environment" {
            assert_eq!(callee["function"], "getenv");
            assert_eq!(callee["line"], line_of("stepped_allocator.c", "asks"));
        }
        if kind == "system call" {
            assert_eq!(figure(&report, "free", "system_calls"), 1.0);
        }
        if kind == "lock" {
            assert_eq!(figure(&report, "free", "locked"), 1.0);
        }
    }
}

/// Addresses of functions in the allocator before `strip`: of `take`, which nothing exports, and
/// of the nearest exported function before it, or of the section.
fn place_of_take(path: &str) -> String {
    use object::{Object, ObjectSection, ObjectSymbol};
    let bytes = fs::read(path).expect("the library");
    let file = object::File::parse(&*bytes).expect("ELF");
    let take = file.symbols().find(|it| it.name() == Ok("take"));
    let take = take.expect("it has symbols").address();
    let exported = file.dynamic_symbols();
    let exported = exported.filter(|it| it.is_definition() && it.address() <= take);
    let text = file.section_by_name(".text").expect("code").address();
    let nearest = exported.max_by_key(|it| it.address());
    let (name, from) = match nearest.filter(|it| it.address() >= text) {
        Some(symbol) => (symbol.name().expect("UTF-8").to_owned(), symbol.address()),
        None => (".text".to_owned(), text),
    };
    format!("{name}+{:#x} (no symbol)", take - from)
}

#[test]
fn code_without_symbols_is_named_by_what_is_near() {
    let recorded = Recorded::pairs();
    let whole = allocator(&["-fno-inline"]);
    let place = place_of_take(&whole);
    let stripped = recorded.file("stripped.so");
    let strip = Command::new("strip")
        .args([&whole, "-o", &stripped])
        .status();
    assert!(strip.expect("binutils").success());
    let few = ["--sample", "100"];
    let Some(report) = recorded.paths("stripped", &stripped, &few) else {
        return;
    };
    let paths = report["allocators"][0]["paths"].as_array().expect("rows");
    let functions = |entry: &str| -> Vec<String> {
        let of_entry = paths.iter().filter(|it| it["entry_point"] == entry);
        let functions = of_entry.flat_map(|it| it["functions"].as_array().expect("rows"));
        let names = functions.map(|it| it["function"].as_str().expect("a name").to_owned());
        names.collect()
    };
    let of_malloc = functions("malloc");
    assert!(of_malloc.contains(&"malloc".to_owned()), "{of_malloc:?}");
    assert!(of_malloc.contains(&place), "{place}: {of_malloc:?}");
    // With symbols, the same functions have their names, and as many instructions.
    let named = recorded.paths("named", &whole, &few).expect("it steps");
    for entry in ["malloc", "free"] {
        let (a, b) = (
            figure(&report, entry, "mean"),
            figure(&named, entry, "mean"),
        );
        assert_eq!(a, b, "{entry}");
    }
}

#[test]
fn a_path_that_is_hotter_than_its_size_class_is_a_finding() {
    let recorded = Recorded::pairs();
    let slow = allocator(&["-DSLOW_EVERY=50"]);
    let Some(report) = recorded.paths("report", &slow, &["--sample", "100000"]) else {
        return;
    };
    let findings = report["allocators"][0]["findings"].to_string();
    findings.has("one path of malloc is hotter");
    let Some(plain) = recorded.paths("plain", &allocator(&[]), &[]) else {
        return;
    };
    assert_eq!(
        plain["allocators"][0]["findings"].as_array().map(Vec::len),
        Some(0)
    );
}

#[test]
fn allocators_that_cannot_be_used_leave_the_others() {
    let recorded = Recorded::pairs();
    let lacking = allocator(&["-DLACKS_REALLOC"]);
    let file = recorded.file("saved");
    let list = format!("nosuch,{lacking},glibc");
    let output = allotrope([
        "paths",
        &recorded.trace,
        "--alloc",
        &list,
        "-q",
        "-o",
        &file,
    ]);
    let errors = output.errors();
    if errors.contains("cannot be stepped") {
        return skip("the kernel refuses ptrace");
    }
    assert_eq!(output.status.code(), Some(2), "{errors}");
    errors.has("there is no allocator called nosuch");
    errors.has("does not define realloc");
    let report: Value = serde_json::from_slice(&fs::read(&file).expect("a report")).expect("JSON");
    assert_eq!(report["allocators"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["allocators"][0]["name"], "glibc");
}

#[test]
fn files_that_cannot_be_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("it is written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let empty = r#"{"format":"allotrope-paths/1","recording":"x","recorded_operations":9,"every":1,"allocators":[]}"#;
    let (good, cut) = (file("good", empty), file("cut", &empty[..60]));
    let stacks = file("folded", "main;f 3\n");
    let status = |words: &[&str]| {
        let output = allotrope([&["diff"], words].concat());
        let errors = output.errors();
        (output.status.code(), errors)
    };
    for (words, sentence) in [
        (vec![&*good, &cut], "damaged"),
        (vec![&good, &stacks], "no report of `allotrope paths`"),
        (vec![&good, &good], "no allocator is in both"),
        (
            vec![&good, &good, "--fail-on", "bytes>+2%"],
            "by instructions",
        ),
        (
            vec![&stacks, &stacks, "--fail-on", "instructions>+2%"],
            "recordings have neither instructions",
        ),
    ] {
        let (code, errors) = status(&words);
        assert_eq!(code, Some(2), "{errors}");
        errors.has(sentence);
    }
}

/// A saved report: allocators, and the instructions an operation of their entry points. All have
/// 10 operations of each entry point.
fn saved(allocators: &[(&str, &[(&str, f64)])]) -> Value {
    let row = |(entry, mean): &(&str, f64)| {
        json!({
            "entry_point": entry, "operations": 10, "mean": mean, "low": mean, "high": mean,
            "median": 1, "p99": 1, "locked": 0.0, "system_calls": 0.0,
        })
    };
    let allocator = |(name, rows): &(&str, &[(&str, f64)])| {
        json!({
            "name": name, "library": "", "runs": 2, "operations": 10, "cut": 0,
            "instructions": rows.iter().map(row).collect::<Vec<_>>(),
            "size_classes": [], "paths": [], "callees": [], "lines": [], "findings": [],
        })
    };
    json!({
        "format": "allotrope-paths/1", "recording": "x", "recorded_operations": 100, "every": 10,
        "allocators": allocators.iter().map(allocator).collect::<Vec<_>>(),
    })
}

/// Compares two reports: status, stdout and stderr.
fn compared(before: &Value, after: &Value, more: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    // With blanks, as jq writes it.
    let file = |name: &str, report: &Value| {
        let path = folder.path().join(name);
        let text = serde_json::to_vec_pretty(report).expect("it is JSON");
        fs::write(&path, text).expect("it is written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (before, after) = (file("before", before), file("after", after));
    let output = allotrope([&["diff", &before, &after], more].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    (output.status.code(), out, errors)
}

const GATE: [&str; 2] = ["--fail-on", "instructions>+2%"];

/// A version that crashes has no figures, and must not pass.
///
/// Reported: an allocator that only one report has passes the gate of `diff`.
#[test]
fn a_gate_is_not_passed_by_what_is_missing() {
    let row = ("all", 10.0);
    let before = saved(&[("glibc", &[row]), ("mine", &[row, ("free", 5.0)])]);
    let crashed = saved(&[("glibc", &[row])]);
    let lacking = saved(&[("glibc", &[row]), ("mine", &[row])]);
    let json = ["--format", "json"];
    for (after, entry, sentence) in [
        (&crashed, Value::Null, "mine is not in the report after"),
        (
            &lacking,
            json!("free"),
            "free of mine is not in the report after",
        ),
    ] {
        let (code, text, errors) = compared(&before, after, &GATE);
        assert_eq!(code, Some(2), "{text}{errors}");
        errors.has(sentence);
        text.has(format!("! not compared: {sentence}"));
        let (code, text, errors) = compared(&before, after, &[&GATE[..], &json].concat());
        assert_eq!(code, Some(2), "{text}{errors}");
        let report: Value = serde_json::from_str(&text).expect("JSON");
        let missing = json!([{ "allocator": "mine", "entry_point": entry, "missing_in": "after" }]);
        assert_eq!(report["missing"], missing);
        // Without a limit there is nothing to fail.
        let (code, text, errors) = compared(&before, after, &[]);
        assert_eq!(code, Some(0), "{text}{errors}");
        text.has(sentence);
    }
    // A rise that is seen is one, whatever else is missing.
    let slower = saved(&[("glibc", &[("all", 11.0)])]);
    let (code, text, errors) = compared(&before, &slower, &GATE);
    assert_eq!(code, Some(3), "{text}{errors}");
    let (code, text, errors) = compared(&before, &before, &GATE);
    assert_eq!(code, Some(0), "{text}{errors}");
}

/// Reported: `diff` compares reports of `paths` on different recordings.
#[test]
fn reports_of_other_recordings_are_refused_although_they_have_as_many_operations() {
    let before = saved(&[("mine", &[("all", 10.0), ("malloc", 10.0)])]);
    let mut after = before.clone();
    after["allocators"][0]["instructions"][1]["operations"] = json!(9);
    let (code, text, errors) = compared(&before, &after, &[]);
    assert_eq!(code, Some(2), "{text}{errors}");
    let sentence = "operations of malloc: 10 before, 9 after";
    errors.has(sentence);
}

#[test]
fn options_for_stacks_are_refused_for_two_reports() {
    let report = saved(&[("mine", &[("all", 10.0)])]);
    for options in [
        &["--filter", "x"][..],
        &["--min", "1"],
        &["--per", "2"],
        &["--top", "3"],
        &["--metric", "bytes"],
        &["--window", "x"],
        &["--suppressions", "x"],
        &["--flamegraph", "x.svg"],
        &["--html", "x.html"],
        &["--glue", "x"],
        &["--expand"],
        &["--all-frames"],
    ] {
        let (code, text, errors) = compared(&report, &report, options);
        assert_eq!(code, Some(2), "{options:?}: {text}{errors}");
        let sentence = format!("{} is for stacks", options[0]);
        errors.has(&sentence);
        assert_eq!(text, "");
    }
    for limit in ["instructions>++2", "instructions>+-0", "INSTRUCTIONS>+2"] {
        let (code, text, errors) = compared(&report, &report, &["--fail-on", limit]);
        assert_eq!(code, Some(2), "{limit}: {text}{errors}");
        errors.has("instructions");
    }
}

#[test]
fn a_recording_of_counts_cannot_be_replayed() {
    let recording = record(crate::support::compiled("stepped_pairs.c"));
    let recording = recording.option("--counts-only").run().ok();
    let trace = recording.trace.to_str().expect("UTF-8");
    allotrope(["paths", trace]).fails(2, "--counts-only");
}

/// The story of `examples/allocator-getenv`, as its README tells it.
#[test]
fn the_example_of_an_allocator_that_asks_the_environment() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/allocator-getenv");
    let folder = tempfile::tempdir().expect("a folder");
    let inside = |name: &str| -> PathBuf { folder.path().join(name) };
    for name in ["allocator.c", "words.c", "ask-once.patch"] {
        fs::copy(example.join(name), inside(name)).expect("it is there");
    }
    let run = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        let status = command.args(words).current_dir(folder.path()).status();
        assert!(status.expect("it starts").success(), "{program} {words:?}");
    };
    let build = |library: &str| {
        let flags = "-O2 -g -fPIC -shared -ftls-model=initial-exec -fno-builtin-malloc";
        let mut words: Vec<&str> = flags.split(' ').collect();
        words.extend(["allocator.c", "-o", library]);
        run("cc", &words);
        inside(library).to_str().expect("UTF-8").to_owned()
    };
    run("cc", &["-O2", "-g", "words.c", "-o", "words"]);
    let recording = record(inside("words")).run().ok();
    let recorded = Recorded {
        trace: recording.trace.to_str().expect("UTF-8").to_owned(),
        folder: recording.folder,
    };
    let Some(before) = recorded.paths("before.paths", &build("before.so"), &["--sample", "2000"])
    else {
        return;
    };
    let source = fs::read_to_string(inside("allocator.c")).expect("it is there");
    let line = source
        .lines()
        .position(|it| it.contains("getenv("))
        .expect("it asks")
        + 1;
    let callees = before["allocators"][0]["callees"].as_array().expect("rows");
    let getenv = callees
        .iter()
        .find(|it| it["function"] == "getenv")
        .expect("it is named");
    assert!(getenv["file"].as_str().unwrap().ends_with("allocator.c"));
    assert_eq!(getenv["line"].as_u64(), Some(line as u64));
    let of_free = &getenv["entry_points"][0];
    assert_eq!(of_free["entry_point"], "free");
    assert_eq!(of_free["share_of_operations"], 1.0);
    assert!(
        of_free["share_of_instructions"].as_f64().unwrap() > 0.3,
        "{getenv}"
    );

    run("git", &["apply", "ask-once.patch"]);
    let after = recorded
        .paths("after.paths", &build("after.so"), &["--sample", "2000"])
        .expect("it steps");
    assert!(
        !after["allocators"][0]["callees"]
            .to_string()
            .contains("getenv")
    );
    // What the callee took is what the change saves, up to the instructions that asked.
    let saved = 1.0 - figure(&after, "free", "mean") / figure(&before, "free", "mean");
    assert!(
        saved >= of_free["share_of_instructions"].as_f64().unwrap(),
        "{saved}"
    );
    let (code, text) = recorded.diff("before.paths", "after.paths", "instructions>+2%");
    assert_eq!(code, Some(0), "{text}");
    text.has("getenv takes 0.00 instructions an operation");
    let (code, text) = recorded.diff("after.paths", "before.paths", "instructions>+2%");
    assert_eq!(code, Some(3), "{text}");
    // Times are not checked: both are measured.
    let list = ["before", "after"]
        .map(|name| format!("{name}={}", inside(&format!("{name}.so")).display()));
    let few = [
        "--pattern",
        "lifo",
        "--size",
        "64",
        "--threads",
        "1",
        "--runs",
        "1",
        "--blocks",
        "1000",
    ];
    let list = list.join(",");
    let bench = allotrope([&["bench", "--format", "json", "--alloc", &list][..], &few].concat())
        .ok()
        .text();
    bench.has_all(["\"before\"", "\"after\""]);
}
