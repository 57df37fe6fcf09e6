//! `allotrope allocators`: one report of an allocator whose mistake is known, before and after
//! the change. No time is compared, only instructions and numbers of calls.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use crate::support::{Ended, Recording, Text, command, compiled, record, run, skip};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The folder of the example: `words.allotrope`, `old.so` that asks the environment in each
/// `free`, and `new.so` that does not.
struct Example {
    folder: tempfile::TempDir,
}

impl Example {
    fn new() -> Self {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/allocator-getenv");
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["allocator.c", "words.c", "ask-once.patch"] {
            fs::copy(example.join(name), folder.path().join(name)).expect("it is there");
        }
        let this = Self { folder };
        let flags =
            "-O2 -g -fPIC -shared -ftls-model=initial-exec -fno-builtin-malloc allocator.c -o";
        let build = |library| {
            let words: Vec<&str> = flags.split(' ').chain([library]).collect();
            this.run("cc", &words);
        };
        this.run("cc", &["-O2", "-g", "words.c", "-o", "words"]);
        build("old.so");
        this.run("git", &["apply", "ask-once.patch"]);
        build("new.so");
        let recording = record(this.folder.path().join("words")).run();
        let recording = recording.ok();
        fs::copy(&recording.trace, this.folder.path().join("words.allotrope")).expect("copied");
        this
    }

    fn run(&self, program: &str, words: &[&str]) {
        let mut command = Command::new(program);
        let status = command.args(words).current_dir(self.folder.path()).status();
        assert!(status.expect("it starts").success(), "{program} {words:?}");
    }

    /// Few operations and runs: no figure of time is looked at.
    fn report(&self, more: &[&str]) -> Ended {
        let few = "allocators words.allotrope -q --runs 2 --sample 300";
        run(
            command()
                .args(few.split(' '))
                .args(more)
                .env("COLUMNS", "80")
                .current_dir(self.folder.path()),
            b"",
        )
    }
}

/// Whether this machine cannot step.
fn cannot_step(output: &Ended) -> bool {
    let cannot = output.errors().contains("cannot be stepped");
    if cannot {
        skip("the kernel refuses ptrace");
    }
    cannot
}

#[track_caller]
fn json(output: &Ended) -> Value {
    let report = output.json();
    let schema = include_str!("../../../../docs/allocators.schema.json");
    crate::support::schema::check_with(schema, &report);
    report
}

#[track_caller]
fn named<'a>(list: &'a Value, key: &str, name: &str) -> &'a Value {
    let rows = list.as_array().expect("a list");
    let row = rows.iter().find(|row| row[key] == name);
    row.unwrap_or_else(|| panic!("no {name} in {list}"))
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// The JSON in a page, as `docs/page-data.md` describes it.
#[track_caller]
fn data_of(page: &str) -> String {
    let parts: Vec<&str> = page
        .split("<script type=\"text/plain\" id=\"data-")
        .skip(1)
        .collect();
    assert_eq!(parts.len(), 1);
    let (name, rest) = parts[0].split_once("\">").expect("an element");
    assert_eq!(name, "allocators");
    let (data, _) = rest.split_once("</script>").expect("its end");
    let deflated = STANDARD.decode(data).expect("base64");
    let mut text = String::new();
    let mut inflated = flate2::read::DeflateDecoder::new(&deflated[..]);
    inflated.read_to_string(&mut text).expect("deflate");
    text
}

#[test]
fn the_example_is_explained_and_its_change_is_measured_beside_the_estimate() {
    let example = Example::new();
    let before = example.report(&["--alloc", "glibc,mine=./old.so", "--format", "json"]);
    if cannot_step(&before) {
        return;
    }
    assert_eq!(before.status.code(), Some(0), "{}", before.errors());
    let before = json(&before);
    // The report names the callee, its line and its part of the operations.
    let mine = named(&before["allocators"], "name", "mine");
    let getenv = named(&mine["callees"], "function", "getenv");
    let source = include_str!("../../../../examples/allocator-getenv/allocator.c");
    let line = source.lines().position(|it| it.contains("getenv("));
    let line = line.expect("it asks") + 1;
    assert_eq!(getenv["line"].as_u64(), Some(line as u64));
    assert_eq!(getenv["entry_points"][0]["share_of_operations"], 1.0);
    let findings = mine["findings"].to_string();
    findings.has("free looks up the environment");
    let summary = before["summary"].to_string();
    summary.has("mine: getenv, which free calls,");
    let estimate = named(&mine["what_if"], "function", "getenv");
    let functions = named(&mine["functions"], "function", "getenv");
    assert_eq!(functions["allocator"], false);
    assert!(number(&functions["instructions"]) <= number(&estimate["saved_instructions"]));

    let pair = [
        "--alloc",
        "mine=./new.so",
        "--earlier",
        "mine=./old.so",
        "--format",
        "json",
        "--html",
        "out.html",
    ];
    let output = example.report(&pair);
    let after = json(&output);
    output.errors().has("wrote the page out.html");
    // What the earlier version did is what it did when it was measured alone.
    let earlier = &after["changes"][0]["before"];
    for list in ["instructions", "paths", "callees", "lines"] {
        assert_eq!(earlier[list], mine[list], "{list}");
    }
    let page = fs::read_to_string(example.folder.path().join("out.html")).expect("it was written");
    assert_eq!(format!("{}\n", data_of(&page)), output.text());
    let change = &after["changes"][0];
    let (estimated, measured) = (
        number(&change["estimated_saving"]),
        number(&change["measured_saving"]),
    );
    // The bound that docs/allocators.md states.
    assert!(estimated > 0.0 && measured >= estimated, "{change}");
    assert!(measured <= 1.5 * estimated, "{change}");
    let alone = number(&estimate["saved_instructions"]);
    assert!((estimated - alone).abs() < 1e-9, "{estimated} {alone}");
    assert_eq!(change["removed"][0]["function"], "getenv");
    // Which version is faster is not checked, but that both were replayed and compared.
    let time = &change["time"];
    assert!(change["not_timed"].is_null(), "{change}");
    let median = |key: &str| number(&time[key]["median"]);
    let saved = median("before_ns_per_operation") - median("after_ns_per_operation");
    assert_eq!(number(&time["measured_saving_ns"]), saved);
    let mine = named(&after["allocators"], "name", "mine");
    assert_eq!(
        time["after_ns_per_operation"], mine["ns_per_operation"],
        "{time}"
    );
    let verdict = match number(&time["measured_saving_ns_error"]) {
        error if saved.abs() <= error => "tied",
        _ if saved > 0.0 => "faster",
        _ => "slower",
    };
    assert_eq!(time["verdict"], verdict, "{time}");
    // The earlier version is none to switch to, nor a row of its own.
    assert_eq!(after["allocators"].as_array().map(Vec::len), Some(1));
    let summary = after["summary"].to_string();
    summary.has("ns an operation");
    let rows = &change["rows"];
    assert!(number(&named(rows, "entry_point", "free")["before"]) > 0.0);
    let malloc = named(rows, "entry_point", "malloc");
    assert_eq!(malloc["before"], malloc["after"]);
}

/// `words.c` makes 100 rounds of 100 pairs of `malloc` and `calloc`, and frees both.
/// The program took 1,000 ns an operation, of which the change saves what the replay has measured.
#[test]
fn the_gain_of_the_whole_program_is_computed_from_its_own_time() {
    let example = Example::new();
    let cpu = example.folder.path().join("cpu.json");
    let share =
        serde_json::json!({"samples": 0, "kernel_samples": 0, "share": 0, "low": 0, "high": 0});
    let mut report = serde_json::json!({
        "format": "allotrope-cpu/1", "clock": "cpu-clock", "kernel": true, "samples": 1000,
        "lost": 0, "cpu_seconds": 1.0, "allocators": [], "inside": share, "functions": [],
        "outside": [], "groups": [], "operations": 1_000_000, "scores": [], "doubts": [],
        "origin": {"date": "", "command": [], "process": null,
            "machine": {"processor": "", "processors": 1, "memory_bytes": 1, "kernel": ""},
            "environment": {"variables": 0, "bytes": 0, "of_allocators": []}},
    });
    fs::write(&cpu, report.to_string()).unwrap();
    let path = cpu.to_str().expect("UTF-8");
    let words = [
        "--alloc",
        "mine=./new.so",
        "--earlier",
        "mine=./old.so",
        "--cpu",
        path,
    ];
    let output = example.report(&[&words[..], &["--format", "json"]].concat());
    if cannot_step(&output) {
        return;
    }
    let found = json(&output);
    let change = &found["changes"][0];
    let program = &change["program"];
    let saving = number(&change["time"]["measured_saving_ns"]);
    assert!((number(&program["before_ns_per_operation"]) - 1000.0).abs() < 1e-6);
    let after = number(&program["after_ns_per_operation"]);
    assert!((after - (1000.0 - saving)).abs() < 1e-6);
    assert!((number(&program["factor"]) - 1000.0 / after).abs() < 1e-9);
    example
        .report(&words)
        .ok()
        .has("the program took 1000.0 ns of CPU time an operation");
    // Without the number of operations nothing can be said.
    report["operations"] = Value::Null;
    fs::write(&cpu, report.to_string()).unwrap();
    let refused = example.report(&words);
    assert_eq!(refused.status.code(), Some(2));
    refused.errors().has("sample the program with --count");
}

#[test]
fn figures_are_counted_in_two_ways_and_counters_have_a_source() {
    let example = Example::new();
    let output = example.report(&["--alloc", "mine=./new.so", "--format", "json"]);
    if cannot_step(&output) {
        return;
    }
    let report = json(&output);
    let mine = &report["allocators"][0];
    for (call, least) in [("calls of calloc", 10_000.0), ("calls of free", 20_000.0)] {
        let check = named(&mine["verification"], "what", call);
        assert!(number(&check["counted"]) >= least, "{check}");
        assert_eq!(check["counted"], check["again"]);
        assert_eq!(check["agrees"], true);
    }
    let stepped = named(&mine["verification"], "what", "stepped operations");
    assert_eq!(stepped["agrees"], true);
    assert_eq!(
        stepped["counted"],
        report["stepping"]["operations"].as_f64().unwrap()
    );
    for counter in mine["counters"].as_array().expect("a list") {
        let is_there = counter["source"] != "unavailable";
        assert_eq!(counter["per_operation"].is_number(), is_there, "{counter}");
        assert_eq!(counter["why"].is_string(), !is_there, "{counter}");
        if counter["source"] == "PMU" {
            assert_ne!(counter["per_operation"], 0.0);
        }
    }
    let all = named(&mine["instructions"], "entry_point", "all");
    let counted = named(&mine["counters"], "counter", "instructions");
    assert_eq!(all["mean"], counted["per_operation"]);
    // Own instructions of all functions are all instructions.
    let functions = mine["functions"].as_array().expect("a list");
    let sum: f64 = functions.iter().map(|it| number(&it["instructions"])).sum();
    assert!((sum - number(&all["mean"])).abs() < 1e-6, "{sum} {all}");
    // The program used glibc, which is not measured here.
    assert!(report["switching"]["unknown"].is_string());
    let summary = report["summary"][0].as_str().expect("a sentence");
    summary.has("Not known");
}

#[test]
fn text_and_markdown_have_all_sections() {
    let example = Example::new();
    let pair = ["--alloc", "mine=./new.so", "--earlier", "mine=./old.so"];
    let output = example.report(&pair);
    if cannot_step(&output) {
        return;
    }
    let text = output.text();
    text.fits(80);
    text.has("Measured: time ");
    let markdown = example
        .report(&[&pair[..], &["--format", "markdown"]].concat())
        .text();
    for section in [
        "Summary",
        "Time and memory",
        "Allocator mine",
        "Hot functions",
        "Hot lines",
        "Paths",
        "Callees",
        "Counters an operation",
        "What if",
        "Verification",
        "Before and after",
        "Appendix: commands",
    ] {
        let is_title = |it: &str| it.trim_start_matches(['#', ' ']) == section;
        assert!(
            text.lines()
                .any(|it| it.trim_start_matches("- ") == section),
            "{section}: {text}"
        );
        let heading = markdown
            .lines()
            .find(|it| it.starts_with('#') && is_title(it));
        assert!(heading.is_some(), "{section}: {markdown}");
    }
    assert_eq!(
        markdown.lines().filter(|it| it.starts_with("# ")).count(),
        1
    );
    // Each row of a table has as many cells as its heading.
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let lines: Vec<&str> = markdown.lines().collect();
    let tables = lines
        .split(|it| !it.starts_with('|'))
        .filter(|it| !it.is_empty());
    for table in tables {
        assert!(
            table.len() >= 2 && table[1].starts_with("| --"),
            "{table:?}"
        );
        assert!(
            table.iter().all(|it| cells(it) == cells(table[0])),
            "{table:?}"
        );
    }
    assert_eq!(markdown.matches("```").count() % 2, 0);
    // The appendix has commands that this program takes.
    let command = lines
        .iter()
        .find(|it| it.starts_with("allotrope paths"))
        .expect("one");
    let words: Vec<&str> = command.split(' ').skip(1).chain(["-q"]).collect();
    example.run(env!("CARGO_BIN_EXE_allotrope"), &words);
}

#[test]
fn allocators_that_cannot_be_used_leave_the_others() {
    let example = Example::new();
    fs::write(example.folder.path().join("none.so"), "no library").expect("it is written");
    let list = [
        "--alloc",
        "nosuch,./none.so,mine=./new.so",
        "--format",
        "json",
    ];
    let output = example.report(&[&list[..], &["--earlier", "mine=./none.so"]].concat());
    if cannot_step(&output) {
        return;
    }
    let errors = output.errors();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    errors.has("there is no allocator called nosuch");
    errors.has("none.so cannot be used: it is not a shared library");
    errors.has("mine: the earlier version cannot be used");
    let report = json(&output);
    assert!(report["allocators"][0]["refused"].is_string());
    let mine = named(&report["allocators"], "name", "mine");
    assert!(mine["refused"].is_null() && mine["instructions"].is_array());
    let change = &report["changes"][0];
    assert!(change["measured_saving"].is_null() && change["before"].is_null());
    assert!(change["time"].is_null() && change["not_timed"].is_string());
}

/// What is read stays as it is: nothing is measured before a page would replace it.
#[test]
fn a_page_replaces_neither_the_recording_nor_a_library() {
    let example = Example::new();
    for out in ["words.allotrope", "./new.so", "old.so"] {
        let before = fs::read(example.folder.path().join(out)).expect("it is there");
        let pair = ["--alloc", "mine=./new.so", "--earlier", "mine=./old.so"];
        let output = example
            .report(&[&pair[..], &["--html", out]].concat())
            .fails(2, "is read by this command");
        assert!(output.stdout.is_empty(), "{output:?}");
        assert!(fs::read(example.folder.path().join(out)).expect("it is there") == before);
    }
}

#[test]
fn what_cannot_be_replayed_is_refused_with_a_sentence() {
    let recorded = |option: Option<&str>| -> Recording {
        let recording = record(compiled("stepped_pairs.c"));
        match option {
            Some(option) => recording.option(option).run().ok(),
            None => recording.run().ok(),
        }
    };
    let counts = recorded(Some("--counts-only"));
    let trace = counts.trace.to_str().expect("UTF-8").to_owned();
    let whole = recorded(None);
    let good = whole.trace.to_str().expect("UTF-8").to_owned();
    for (words, sentence) in [
        (vec![&*trace], "--counts-only"),
        (vec!["/nonexistent.allotrope"], "nonexistent"),
        (vec![&*good, "--pid", "1"], "has no process 1"),
        (
            vec![&*good, "--alloc", "glibc,x=./y.so", "--earlier", "z=./y.so"],
            "--earlier z has no later version",
        ),
        (
            vec![&*good, "--recorded-with", "nosuch"],
            "--recorded-with nosuch",
        ),
    ] {
        let output =
            crate::support::allotrope([&["allocators"], &words[..]].concat()).fails(2, sentence);
        assert!(output.stdout.is_empty());
    }
}
