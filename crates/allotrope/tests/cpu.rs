//! `allotrope cpu`: its samples name the code that the program's source says runs. Shares
//! that depend on the machine are not checked; that all or nothing of a loop is inside the
//! allocator is.

mod support;

use std::ffi::OsStr;
use std::fs;
use std::process::Stdio;

use serde_json::Value;
use support::{compiled, line_of, run, skip};

/// The report of a run, as JSON; `None` if the kernel forbids sampling here.
#[track_caller]
fn sampled<S: AsRef<OsStr>>(command: &[S], status: i32) -> Option<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cpu.json");
    let mut allotrope = support::record::command();
    allotrope.args(["cpu", "--format", "json", "-o"]).arg(&file);
    allotrope.arg("--").args(command);
    let output = run(&mut allotrope, b"");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if errors.contains("perf_event") {
        assert_eq!(output.status.code(), Some(2), "{errors}");
        skip("the kernel refuses perf_event_open");
        return None;
    }
    assert_eq!(output.status.code(), Some(status), "{errors}");
    let report = fs::read(&file).expect("a report");
    let report = serde_json::from_slice(&report).expect("it is JSON");
    support::schema::check_with(include_str!("../../../docs/cpu.schema.json"), &report);
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
    let rows = rows(report, "sites").iter();
    let own = rows.filter(|row| row["file"].as_str().unwrap().ends_with("cpu_sites.c"));
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
    for name in ["instructions", "cycles", "cache-misses", "branch-misses"] {
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
    let mut child = std::process::Command::new(compiled("cpu_sites.c"))
        .args(["pairs", "400"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut command = support::record::command();
    command.args(["cpu", "--format", "json"]);
    // Options may stand behind a process, too.
    command
        .arg(child.id().to_string())
        .args(["--seconds", "60"]);
    let output = run(&mut command, b"");
    let _ = child.kill();
    let _ = child.wait();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if errors.contains("perf_event") {
        return skip("the kernel refuses perf_event_open");
    }
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let site = line_of("cpu_sites.c", "malloc");
    assert!(site_lines(&report).contains(&site), "{report}");
}

#[test]
fn text_names_clock_skid_and_missing_counters() {
    let mut command = support::record::command();
    command
        .env("COLUMNS", "80")
        .args(["cpu", "--operations", "20000000", "--"]);
    let output = run(command.args(program("pairs")), b"");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if text.contains("perf_event_open") {
        return skip("the kernel refuses perf_event_open");
    }
    assert_eq!(output.status.code(), Some(7), "{text}");
    for part in [
        "CPU inside the allocator: ",
        "clock: ",
        "skid: ",
        "by calling site",
        "page-faults",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn statuses_of_what_cannot_be_sampled() {
    let status = |arguments: &[&str]| {
        let mut command = support::record::command();
        let output = run(command.arg("cpu").args(arguments), b"");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), errors)
    };
    let (code, errors) = status(&["4000000"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("no process 4000000"), "{errors}");
    assert_eq!(status(&["--", "./no-such-program"]).0, Some(127));
    assert_eq!(status(&["--", "/etc/passwd"]).0, Some(126));
    assert_eq!(status(&["--frequency", "0", "true"]).0, Some(2));
    assert_eq!(status(&["1", "2"]).0, Some(2));
    assert_eq!(status(&[]).0, Some(2));
}
