//! `allotrope cpu`: its samples name the code that the program's source says runs. Shares
//! that depend on the machine are not checked; that all or nothing of a loop is inside the
//! allocator is.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;

use crate::support::{Started, Text, command, compiled, line_of, linked_bench, run, skip};
use serde_json::Value;

/// The report of a run, as JSON; `None` if the kernel forbids sampling here.
#[track_caller]
fn sampled<S: AsRef<OsStr>>(command: &[S], status: i32) -> Option<Value> {
    sampled_with(&[], command, status)
}

/// Same as [`sampled`], with more options.
#[track_caller]
fn sampled_with<S: AsRef<OsStr>>(options: &[String], command: &[S], status: i32) -> Option<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cpu.json");
    let mut allotrope = crate::support::record::command();
    allotrope.args(["cpu", "--format", "json", "-o"]).arg(&file);
    allotrope.args(options).arg("--").args(command);
    let output = run(&mut allotrope, b"");
    let errors = output.errors();
    if errors.contains("perf_event") {
        assert_eq!(output.status.code(), Some(2), "{errors}");
        skip("the kernel refuses perf_event_open");
        return None;
    }
    assert_eq!(output.status.code(), Some(status), "{errors}");
    let report = fs::read(&file).expect("a report");
    let report = serde_json::from_slice(&report).expect("it is JSON");
    crate::support::schema::check_with(include_str!("../../../../docs/cpu.schema.json"), &report);
    Some(report)
}

fn program(what: &str) -> Vec<String> {
    let program = compiled("cpu_sites.c");
    let program = program.to_str().expect("UTF-8").to_owned();
    vec![program, what.to_owned()]
}

#[track_caller]
fn rows<'a>(report: &'a Value, table: &str) -> &'a Vec<Value> {
    report[table].as_array().expect("a table")
}

/// The lines of the calling sites in the program's source, the hottest first.
fn site_lines(report: &Value) -> Vec<u64> {
    site_lines_of("cpu_sites.c", report)
}

/// The lines of the calling sites in this source, the hottest first.
fn site_lines_of(source: &str, report: &Value) -> Vec<u64> {
    let rows = rows(report, "sites").iter();
    let own = rows.filter(|row| row["file"].as_str().unwrap().ends_with(source));
    own.map(|row| row["line"].as_u64().unwrap()).collect()
}

#[test]
fn pairs_of_malloc_and_free_are_named_with_their_sites() {
    let Some(report) = sampled(&program("pairs"), 7) else {
        return;
    };
    assert_eq!(report["format"], "allotrope-cpu/1");
    let samples = report["samples"].as_u64().unwrap();
    assert!(samples > 20, "{report}");
    assert!(
        report["inside"]["share"].as_f64().unwrap() > 0.3,
        "{report}"
    );
    let mut entries: Vec<&str> = Vec::new();
    for row in &rows(&report, "entry_points")[..2] {
        assert_eq!(row["allocator"], true);
        entries.push(row["function"].as_str().unwrap());
    }
    entries.sort_unstable();
    assert_eq!(entries, ["free", "malloc"]);
    let mut hottest = site_lines(&report)[..2].to_vec();
    hottest.sort_unstable();
    // A sample in a call has the return address: the same line, or the next one with code.
    let expected = ["malloc", "free"];
    let expected = expected.map(|text| line_of("cpu_sites.c", text));
    assert_eq!(hottest, expected);
    // What the machine lacks is null, never 0.
    let hardware = ["instructions", "cycles", "cache-references", "cache-misses"];
    for name in hardware.into_iter().chain(["branch-misses"]) {
        let counter = &report["counters"][name];
        assert!(
            counter.is_null() || counter["total"].as_u64().unwrap() > 0,
            "{counter}"
        );
    }
}

#[test]
fn a_program_that_does_not_allocate_has_nothing_inside() {
    let Some(report) = sampled(&program("none"), 7) else {
        return;
    };
    assert!(report["samples"].as_u64().unwrap() > 20, "{report}");
    assert!(
        report["inside"]["share"].as_f64().unwrap() < 0.1,
        "{report}"
    );
}

#[test]
fn reallocations_children_and_threads_are_sampled() {
    let expected = [
        ("grow", "realloc"),
        ("child", "malloc"),
        ("threads", "malloc"),
    ];
    for (what, site) in expected {
        let Some(report) = sampled(&program(what), 7) else {
            return;
        };
        let site = line_of("cpu_sites.c", site);
        assert!(site_lines(&report).contains(&site), "{what}: {report}");
        assert!(report["inside"]["share"].as_f64().unwrap() > 0.3, "{what}");
    }
}

#[test]
fn another_allocator_is_one_as_a_whole() {
    let library = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    if !std::path::Path::new(library).exists() {
        return skip("libjemalloc2 is not installed");
    }
    let preload = format!("LD_PRELOAD={library}");
    let program = program("pairs");
    let command = ["env", &preload, &program[0], &program[1]];
    let Some(report) = sampled(&command, 7) else {
        return;
    };
    let allocators = rows(&report, "allocators");
    let found = |it: &Value| it.as_str().unwrap().contains("libjemalloc");
    assert!(allocators.iter().any(found), "{report}");
    let site = line_of("cpu_sites.c", "free");
    assert!(site_lines(&report).contains(&site), "{report}");
}

#[test]
fn a_running_process_is_sampled_until_its_end() {
    let mut child = Command::new(compiled("cpu_sites.c"));
    let mut child = Started::new(child.args(["pairs", "400"]));
    let mut command = crate::support::record::command();
    command.args(["cpu", "--format", "json"]);
    // Options may stand behind a process, too.
    command
        .arg(child.id().to_string())
        .args(["--seconds", "60"]);
    let output = run(&mut command, b"");
    child.kill();
    let errors = output.errors();
    if errors.contains("perf_event") {
        return skip("the kernel refuses perf_event_open");
    }
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let report: Value = output.json();
    let site = line_of("cpu_sites.c", "malloc");
    assert!(site_lines(&report).contains(&site), "{report}");
}

/// `pairs 10`: a million pairs of malloc and free; nothing else allocates but, perhaps, the start
/// of the process.
#[test]
fn calls_are_counted_in_a_second_run_or_taken_from_a_recording() {
    let command = [program("pairs"), vec!["10".to_owned()]].concat();
    let folder = tempfile::tempdir().expect("a folder");
    let counted = folder.path().join("counts");
    let whole = folder.path().join("whole");
    for (file, option) in [(&counted, Some("--counts-only")), (&whole, None)] {
        let mut recording = crate::support::record(&command[0])
            .args(&command[1..])
            .output(file);
        if let Some(option) = option {
            recording = recording.option(option);
        }
        recording.run().code(7);
    }
    let from = |path: &std::path::Path| ["--recording".to_owned(), path.display().to_string()];
    for (options, source) in [
        (vec!["--count".to_owned()], "second run"),
        (from(&counted).to_vec(), "recording"),
        (from(&whole).to_vec(), "recording"),
        (
            vec!["--divide-by".to_owned(), "2000000".to_owned()],
            "given",
        ),
    ] {
        let Some(report) = sampled_with(&options, &command, 7) else {
            return;
        };
        let operations = report["operations"].as_u64().expect("they are known");
        assert!((2_000_000..2_000_050).contains(&operations), "{operations}");
        assert_eq!(report["operations_source"], source);
        let inside = report["inside"]["samples"].as_u64();
        if report["clock"] == "cpu-clock" && inside > Some(0) {
            assert!(report["nanoseconds_per_operation"].as_f64() > Some(0.0));
        }
        for counter in report["counters"].as_object().expect("counters").values() {
            assert_ne!(counter["per_operation"], 0.0, "{counter}");
        }
    }
    let Some(report) = sampled(&command, 7) else {
        return;
    };
    assert!(report["operations"].is_null() && report["operations_source"].is_null());
    for counter in report["counters"].as_object().expect("counters").values() {
        assert!(counter["per_operation"].is_null(), "{counter}");
    }
}

/// What `programs/thread_chain.c` does: each thread lives for a tenth of a millisecond, so that
/// it has ended, and another one has begun, when the list of threads has been read.
#[test]
fn no_thread_is_missed_that_begins_while_others_are_opened() {
    let child = Started::new(&mut Command::new(compiled("thread_chain.c")));
    let mut command = crate::support::record::command();
    command.args(["cpu", "--seconds", "60", "--format", "json"]);
    let output = run(command.arg(child.id().to_string()), b"");
    let ended = child.end();
    let errors = output.errors();
    if errors.contains("perf_event") {
        return skip("the kernel refuses perf_event_open");
    }
    let ended = ended.code(7);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let report: Value = output.json();
    let site = line_of("thread_chain.c", "malloc");
    assert!(
        site_lines_of("thread_chain.c", &report).contains(&site),
        "{report}"
    );
    // A thread that was opened and has inherited, too, is counted once.
    let printed = ended.text();
    let used: f64 = printed.trim().parse().expect("a number");
    if let Some(seconds) = report["cpu_seconds"].as_f64() {
        assert!(seconds <= used / 1e6 * 1.2 + 0.05, "{seconds} of {used}");
    }
}

/// What `programs/page_faults.c` does: at least 52,000 page faults, and some hundred of the
/// start. Every fault wrote a sample with its stack, and most were lost.
///
/// Reported: `cpu` has far too few page faults, and loses samples.
#[test]
fn page_faults_are_counted_exactly_and_no_record_is_lost() {
    let program = compiled("page_faults.c");
    let Some(report) = sampled(&[program], 7) else {
        return;
    };
    assert_eq!(report["lost"], 0, "{report}");
    let faults = report["counters"]["page-faults"]["total"].as_u64();
    let faults = faults.expect("every kernel counts them");
    assert!((52_000..54_000).contains(&faults), "{faults}");
}

/// What `programs/thread_relay.c` does. A thread of the list that has ended is no reason to say
/// that the process does not exist.
///
/// Reported: `cpu PID` says that a process with short threads does not exist.
#[test]
fn a_process_whose_threads_live_for_microseconds_is_sampled() {
    for _ in 0..3 {
        let mut child = Started::new(&mut Command::new(compiled("thread_relay.c")));
        std::thread::sleep(std::time::Duration::from_millis(100));
        let mut command = crate::support::record::command();
        command.args(["cpu", "--seconds", "1", "--format", "json"]);
        let output = run(command.arg(child.id().to_string()), b"");
        child.kill();
        let errors = output.errors();
        if errors.contains("perf_event") {
            return skip("the kernel refuses perf_event_open");
        }
        errors.lacks("there is no process");
        // Another sentence is possible on a machine that is slow enough.
        if output.status.code() == Some(2) {
            errors.has("end before they can be sampled");
        } else {
            assert_eq!(output.status.code(), Some(0), "{errors}");
            let _: Value = output.json();
        }
    }
}

/// Reported: `cpu PID` blames a setting for another user's process.
#[test]
fn another_users_process_is_refused_for_that_reason() {
    use std::os::unix::process::CommandExt;
    if !crate::support::is_root() {
        return skip("only root can be two users");
    }
    let setting = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if !setting.trim().parse().is_ok_and(|it: i32| it <= 2) {
        return skip("the kernel lets no other user sample");
    }
    let own = std::process::id();
    let mut command = command();
    command
        .args(["cpu", &own.to_string()])
        .uid(65534)
        .gid(65534);
    let errors = run(&mut command, b"").code(2).errors();
    let sentence = format!("process {own} belongs to another user, with the id 0");
    errors.has(&sentence);
    errors.lacks("sysctl");
}

#[test]
fn text_names_clock_skid_and_missing_counters() {
    let mut command = crate::support::record::command();
    command
        .env("COLUMNS", "80")
        .args(["cpu", "--divide-by", "20000000", "--"]);
    let output = run(command.args(program("pairs")), b"");
    let text = output.errors();
    if text.contains("perf_event_open") {
        return skip("the kernel refuses perf_event_open");
    }
    assert_eq!(output.status.code(), Some(7), "{text}");
    text.has_all([
        "CPU inside the allocator: ",
        "clock: ",
        "skid: ",
        "by calling site",
        "page-faults",
        "20,000,000 operations, as given",
    ]);
    text.fits(80);
}

#[test]
fn statuses_of_what_cannot_be_sampled() {
    let status = |arguments: &[&str]| {
        let mut command = crate::support::record::command();
        let output = run(command.arg("cpu").args(arguments), b"");
        let errors = output.errors();
        (output.status.code(), errors)
    };
    let (code, errors) = status(&["4000000"]);
    assert_eq!(code, Some(2));
    errors.has("no process 4000000");
    assert_eq!(status(&["--", "./no-such-program"]).0, Some(127));
    assert_eq!(status(&["--", "/etc/passwd"]).0, Some(126));
    assert_eq!(status(&["--frequency", "0", "true"]).0, Some(2));
    assert_eq!(status(&["1", "2"]).0, Some(2));
    assert_eq!(status(&[]).0, Some(2));
    // Calls of a run can only be counted of a run.
    let own = std::process::id().to_string();
    for option in [&["--count"][..], &["--recording", "x"]] {
        let (code, errors) = status(&[option, &[&own]].concat());
        assert_eq!(code, Some(2), "{errors}");
        errors.has("counts the calls of a whole run");
    }
    let (code, errors) = status(&["--recording", "/etc/passwd", "true"]);
    assert_eq!(code, Some(2), "{errors}");
    let (code, errors) = status(&["--paths", "/etc/passwd", "true"]);
    assert_eq!(code, Some(2), "{errors}");
    errors.has("is no report of `allotrope paths -o`");
    let (code, errors) = status(&["--score", "x", &own]);
    assert_eq!(code, Some(2), "{errors}");
    let (code, _) = status(&["--group", "x", "true"]);
    assert_eq!(code, Some(2));
    assert_eq!(status(&["--annotate", "", "true"]).0, Some(2));
    let same = ["-o", "/tmp/x.svg", "--flamegraph", "/tmp/x.svg", "true"];
    let (code, errors) = status(&same);
    assert_eq!(code, Some(2), "{errors}");
    errors.has("name the same file");
    let (code, _) = status(&["--count", "--divide-by", "3", "true"]);
    assert_eq!(code, Some(2));
}

fn share(report: &Value, table: &str) -> f64 {
    report[table]["share"].as_f64().expect("a share")
}

/// The truth is the same program whose functions call instead of jumping: then every sample of the
/// allocator has the frame of `malloc` or `free`.
///
/// Reported: `cpu` says 1 % of a program with its allocator linked in, where it is 90 %.
#[test]
fn an_allocator_that_tail_calls_hide_is_inside() {
    let rounds = "20000";
    let sampled = |flags: &[&str]| {
        let program = linked_bench(flags).to_str().expect("UTF-8").to_owned();
        sampled(&[program, rounds.to_owned()], 7)
    };
    let (Some(jumps), Some(calls)) = (sampled(&[]), sampled(&["-fno-optimize-sibling-calls"]))
    else {
        return;
    };
    let (found, truth) = (share(&jumps, "inside"), share(&calls, "inside"));
    assert!(truth > 0.6, "{calls}");
    assert!((found - truth).abs() < 0.08, "{found} {truth}: {jumps}");
    // By proof: nothing is guessed.
    assert_eq!(jumps["inside"], jumps["inside_with_guesses"]);
    // The entry points are those that the program calls, not those that they jump to.
    let names = |report: &Value, table: &str| -> Vec<String> {
        let rows = rows(report, table).iter();
        let names = rows.map(|it| it["function"].as_str().unwrap().to_owned());
        names.collect()
    };
    let mut entries = names(&jumps, "entry_points");
    entries.sort();
    assert_eq!(entries, ["free", "malloc"]);
    // `rand` is the benchmark's.
    let functions = names(&jumps, "functions");
    assert!(functions.iter().any(|it| it == "getenv"), "{functions:?}");
    assert!(
        !functions.iter().any(|it| it.contains("rand")),
        "{functions:?}"
    );
    let site = line_of("linked_bench.c", "lifo");
    let lines = site_lines_of("linked_bench.c", &jumps);
    assert!(
        lines.iter().any(|it| (site..site + 5).contains(it)),
        "{lines:?}"
    );
}

/// About half of the time, the program walks the allocator's lists by a function that is no entry
/// point, stands in their source file, and is not reached from them.
#[test]
fn what_only_its_source_file_tells_is_a_guess_beside_the_proof() {
    let program = linked_bench(&[]).to_str().expect("UTF-8").to_owned();
    let command = [program, "8000".to_owned(), "statistics".to_owned()];
    let Some(report) = sampled(&command, 7) else {
        return;
    };
    let (proven, guessed) = (
        share(&report, "inside"),
        share(&report, "inside_with_guesses"),
    );
    assert!((0.25..0.65).contains(&proven), "{report}");
    assert!(guessed > proven + 0.2, "{report}");
    let guess = &rows(&report, "guesses")[0];
    assert_eq!(guess["function"], "pool_statistics");
    assert_eq!(
        guess["reason"],
        "it is in a source file of the allocator's entry points"
    );
    for pattern in ["pool_*", "file:linked_pools.c"] {
        let options = ["--allocator-functions".to_owned(), pattern.to_owned()];
        let Some(report) = sampled_with(&options, &command, 7) else {
            return;
        };
        assert!(share(&report, "inside") > 0.75, "{pattern}: {report}");
        assert_eq!(report["inside"], report["inside_with_guesses"], "{pattern}");
    }
}

/// Reported: `LD_PRELOAD=mine.so allotrope cpu` measures glibc without a word.
#[test]
fn a_preloaded_allocator_is_measured() {
    let library = crate::support::compiled_with("linked_pools.c", &["-shared", "-fPIC", "-O2"]);
    let program = crate::support::compiled_with("linked_bench.c", &["-Dpool_statistics=rand"]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cpu.json");
    let mut allotrope = crate::support::record::command();
    allotrope.env("LD_PRELOAD", &library);
    allotrope.args(["cpu", "--format", "json", "-o"]).arg(&file);
    let output = run(allotrope.arg("--").arg(&program).arg("5000"), b"");
    let errors = output.errors();
    if errors.contains("perf_event") {
        return skip("the kernel refuses perf_event_open");
    }
    assert_eq!(output.status.code(), Some(7), "{errors}");
    let report: Value = serde_json::from_slice(&fs::read(&file).unwrap()).expect("JSON");
    let found = |it: &Value| it.as_str().unwrap().ends_with("/linked_pools");
    assert!(rows(&report, "allocators").iter().any(found), "{report}");
    assert!(share(&report, "inside") > 0.6, "{report}");
}

/// 4 tests of 500 rounds with 256 blocks: 1,024,000 calls, and a few of the start.
///
/// Reported: `cpu --count -- env LD_PRELOAD=…` counts `env`.
#[test]
fn env_is_not_counted_instead_of_the_program() {
    let library = crate::support::compiled_with("linked_pools.c", &["-shared", "-fPIC", "-O2"]);
    let program = crate::support::compiled_with("linked_bench.c", &["-Dpool_statistics=rand"]);
    let preload = format!("LD_PRELOAD={}", library.display());
    let command = ["env", &preload, program.to_str().unwrap(), "500"];
    let Some(report) = sampled_with(&["--count".to_owned()], &command, 7) else {
        return;
    };
    let operations = report["operations"].as_u64().expect("they are known");
    assert!((1_024_000..1_024_100).contains(&operations), "{operations}");
    assert_eq!(report["operations_again"], operations);
    assert_eq!(report["doubts"], Value::Array(Vec::new()));
}

#[test]
fn json_of_a_program_that_is_started_needs_a_file() {
    let mut command = crate::support::record::command();
    let output = run(command.args(["cpu", "--format", "json", "--", "true"]), b"");
    assert_eq!(output.status.code(), Some(2));
    output.errors().has("give -o FILE");
    assert!(output.text().is_empty());
    let mut command = crate::support::record::command();
    let output = run(
        command.args(["cpu", "--format", "folded", "--", "true"]),
        b"",
    );
    assert_eq!(output.status.code(), Some(2));
    output
        .errors()
        .has("the folded text of a program that is started");
}

/// What `--annotate` says of the functions of `programs/same_names.c`, by the names that are given.
fn annotated(names: &[&str]) -> Option<Vec<Value>> {
    let options: Vec<String> = names
        .iter()
        .flat_map(|it| ["--annotate".to_owned(), (*it).to_owned()])
        .collect();
    let report = sampled_with(&options, &[compiled("same_names.c")], 7)?;
    Some(rows(&report, "annotations").clone())
}

/// One clear sentence where a function has no samples, or where a name means several functions.
#[test]
fn a_function_that_cannot_be_annotated_has_a_sentence() {
    let names = ["spin", "little", "caller", "never", "no_such_function"];
    let Some(found) = annotated(&names) else {
        return;
    };
    let sentences = [
        "2 functions of this name have samples; ask for one of spin@0x",
        "it is inlined; ask for spin",
        "no sample is in an instruction of its own; ",
        "it has no samples, neither of its own nor in what it calls",
        "no function of this name is in what was sampled; the most samples are in spin",
    ];
    for ((annotation, name), sentence) in found.iter().zip(names).zip(sentences) {
        assert_eq!(annotation["wanted"], name);
        assert!(annotation["function"].is_null(), "{annotation}");
        annotation["problem"].to_string().has(sentence);
    }
    // Of the two, each address of the sentence is one.
    let problem = found[0]["problem"].as_str().unwrap();
    let words = problem.split([' ', ',']);
    let both: Vec<&str> = words.filter(|it| it.starts_with("spin@0x")).collect();
    assert_eq!(both.len(), 2, "{problem}");
    let Some(found) = annotated(&[both[0], both[1], "spin.0"]) else {
        return;
    };
    let function = |at: usize| &found[at]["function"];
    assert_ne!(function(0)["address"], function(1)["address"]);
    let first = [0, 1].map(function).map(|it| &it["address"]);
    assert!(first.contains(&&function(2)["address"]), "{found:?}");
    // What is inlined has its own name, and the line of its own text.
    let line = line_of("same_names.c", "little");
    let instructions = rows(function(2), "instructions");
    let inlined = instructions.iter().filter(|it| it["inlined"] == "little");
    let inlined: Vec<&Value> = inlined.collect();
    assert!(!inlined.is_empty(), "{instructions:?}");
    assert!(
        inlined
            .iter()
            .all(|it| [line, line + 1].contains(&it["line"].as_u64().unwrap()))
    );
    let hot = instructions.iter().filter(|it| it["hot"] == true);
    assert!(hot.count() > 0, "{instructions:?}");
    // The loop jumps back into the function itself.
    let back = instructions.iter().filter_map(|it| it["target"].as_str());
    assert!(back.into_iter().any(|it| it.starts_with("spin+0x")));
}

/// A function to which `malloc` jumps by way of another one.
#[test]
fn a_function_that_is_jumped_to_is_annotated_in_text_and_markdown() {
    let program = linked_bench(&[]);
    for format in ["text", "markdown"] {
        let mut allotrope = crate::support::record::command();
        allotrope.env("COLUMNS", "80");
        allotrope.args(["cpu", "--annotate", "pool_large_alloc"]);
        allotrope.args(["--format", format, "--"]);
        let output = run(allotrope.arg(&program).arg("10000"), b"");
        let text = output.errors();
        if text.contains("perf_event") {
            return skip("the kernel refuses perf_event_open");
        }
        assert_eq!(output.status.code(), Some(7), "{text}");
        // Markdown escapes underscores in its headings.
        let text = text.replace("\\_", "_");
        let section = text.split("instructions of pool_large_alloc").nth(1);
        let section = section.unwrap_or_else(|| panic!("{text}"));
        section.has("linked_pools.c:").has("> marks 5%");
        let marked = section.lines().filter(|it| it.starts_with("> "));
        assert!(marked.count() > 0, "{section}");
        if format == "text" {
            section.fits(80);
        }
    }
}

/// Each line of folded text is a stack, and all samples are in them.
#[test]
fn folded_stacks_have_all_samples() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cpu.folded");
    for _ in 0..2 {
        // It is replaced, as its own.
        let mut allotrope = crate::support::record::command();
        allotrope
            .args(["cpu", "--format", "folded", "-o"])
            .arg(&file);
        allotrope.arg("--").args(program("pairs"));
        let output = run(&mut allotrope, b"");
        let errors = output.errors();
        if errors.contains("perf_event") {
            return skip("the kernel refuses perf_event_open");
        }
        assert_eq!(output.status.code(), Some(7), "{errors}");
    }
    let text = fs::read_to_string(&file).expect("folded text");
    let mut samples = 0;
    for line in text.lines() {
        let (stack, number) = line.rsplit_once(' ').expect("a stack and its samples");
        assert!(!stack.is_empty());
        samples += number.parse::<u64>().expect("a number");
    }
    assert!(samples > 20, "{text}");
    text.has(";main;").has("malloc");
}

#[test]
fn reports_that_cannot_be_compared_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("it is written");
        path
    };
    let json = write("a.json", "{\"format\":\"allotrope-cpu/1\"}");
    let newer = write("b.json", "{\"format\":\"allotrope-cpu/9\"}");
    let text = write("c.txt", "CPU inside the allocator: 5.0%\n");
    let other = write("d.txt", "a;b 7\n");
    for (before, after, options, sentence) in [
        (&json, &json, &[][..], "missing field"),
        (&newer, &newer, &[], "this version reads allotrope-cpu/1"),
        (&text, &text, &[], "it is a report for people"),
        (&newer, &other, &[], "cannot use"),
        (&json, &json, &["--filter", "x"], "--filter is for stacks"),
        (
            &json,
            &json,
            &["--fail-on", "bytes>+2%"],
            "write --fail-on 'cpu-time>+5%'",
        ),
        (
            &other,
            &other,
            &["--fail-on", "cpu-time>+2%"],
            "neither instructions nor CPU time",
        ),
        (
            &other,
            &other,
            &["--format", "markdown"],
            "--format markdown is for two reports",
        ),
    ] {
        let mut diff = crate::support::record::command();
        let ended = run(diff.arg("diff").arg(before).arg(after).args(options), b"");
        assert_eq!(ended.status.code(), Some(2), "{sentence}");
        ended.errors().has(sentence);
    }
}

/// An operation of a millisecond is no operation.
#[test]
fn an_absurd_time_of_an_operation_is_said() {
    let options = ["--divide-by".to_owned(), "100".to_owned()];
    let Some(report) = sampled_with(&options, &program("pairs"), 7) else {
        return;
    };
    if report["clock"] == "cpu-clock" {
        let doubt = report["doubts"][0].as_str().expect("a sentence");
        assert!(doubt.contains("µs an operation cannot be right"), "{doubt}");
    }
}
