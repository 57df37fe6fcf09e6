//! The analysis of an allocator (hakmem): where the CPU time of a benchmark goes that has the
//! allocator linked into it, which call costs most of it, and how much its fix gains. The numbers are
//! those of `documents-lines.md`. The program is `programs/linked_bench.c` with the allocator of
//! `programs/linked_pools.c`, which asks the environment in each `free`, or with `-DASK_ONCE` once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::record::command;
use crate::support::{
    Ended, Text, allotrope, compiled_with, is_installed, line_of, linked_bench, record, run, skip,
    source_text,
};

/// Rounds of each test of the benchmark.
const ROUNDS: u64 = 20_000;
/// Its four tests make 256 blocks a round, and free them.
const OPERATIONS: u64 = 4 * 2 * 256 * ROUNDS;

/// What the analysis of the program wrote, before and after the fix.
struct Analysis {
    folder: TempDir,
    before: Value,
    after: Value,
    markdown: String,
}

impl Analysis {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Samples the program; `None` if the kernel forbids it here.
fn cpu(program: &Path, options: &[&str], file: &Path) -> Option<()> {
    let mut cpu = command();
    cpu.args(["cpu", "--frequency", "2000", "--score", "M ops/sec", "-o"]);
    cpu.arg(file).args(options).arg("--").arg(program);
    let ended = run(cpu.arg(ROUNDS.to_string()), b"");
    let errors = ended.errors();
    if errors.contains("perf_event") {
        return None;
    }
    assert_eq!(ended.status.code(), Some(7), "{errors}");
    Some(())
}

fn json(path: &Path) -> Value {
    let report = serde_json::from_slice(&fs::read(path).expect("a report")).expect("JSON");
    crate::support::schema::check_with(include_str!("../../../../docs/cpu.schema.json"), &report);
    report
}

static ANALYSIS: LazyLock<Option<Analysis>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let operations = OPERATIONS.to_string();
    let svg = path("before.svg");
    let options = ["--divide-by", &operations, "--group", "pool=pool_*"];
    let whole = [
        "--format",
        "json",
        "--annotate",
        "pool_free_at",
        "--flamegraph",
        svg.to_str().expect("UTF-8"),
    ];
    let (slow, fixed) = (linked_bench(&[]), linked_bench(&["-DASK_ONCE"]));
    cpu(
        &slow,
        &[&options[..], &whole].concat(),
        &path("before.json"),
    )?;
    let json_only = [&options[..], &["--format", "json"]].concat();
    cpu(&fixed, &json_only, &path("after.json"))?;
    let markdown = [&options[..], &["--format", "markdown"]].concat();
    cpu(&slow, &markdown, &path("before.md"))?;
    Some(Analysis {
        before: json(&path("before.json")),
        after: json(&path("after.json")),
        markdown: fs::read_to_string(path("before.md")).expect("a report"),
        folder,
    })
});

/// What was analysed.
fn analysis() -> Option<&'static Analysis> {
    if ANALYSIS.is_none() {
        skip("the kernel refuses perf_event_open");
    }
    ANALYSIS.as_ref()
}

#[track_caller]
fn rows<'a>(report: &'a Value, table: &str) -> &'a Vec<Value> {
    report[table].as_array().expect("a table")
}

#[track_caller]
fn named<'a>(rows: &'a [Value], key: &str, name: &str) -> &'a Value {
    let found = rows.iter().find(|it| it[key] == name);
    found.unwrap_or_else(|| panic!("no {name}: {rows:?}"))
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

fn samples(row: &Value) -> u64 {
    row["samples"].as_u64().expect("samples")
}

fn names<'a>(rows: &'a [Value], key: &str) -> Vec<&'a str> {
    rows.iter()
        .map(|it| it[key].as_str().expect("a name"))
        .collect()
}

/// A report on the allocator's instructions, step by step: the allocator as a library, with the calls
/// that the benchmark makes without it. `None` if this machine cannot step.
static PATHS: LazyLock<Option<(Value, String)>> = LazyLock::new(|| {
    let library = compiled_with("linked_pools.c", &["-shared", "-fPIC", "-O2"]);
    let program = compiled_with("linked_bench.c", &["-Dpool_statistics=rand"]);
    let recording = record(program).arg("20").run().code(7);
    let alloc = format!("pools={}", library.display());
    let paths = |format: &str| -> Ended {
        let mut paths = command();
        paths.arg("paths").arg(&recording.trace);
        paths.args(["--alloc", &alloc, "--sample", "1000", "--format", format]);
        run(&mut paths, b"")
    };
    let whole = paths("json");
    if whole.errors().contains("cannot be stepped") {
        return None;
    }
    Some((whole.ok().json(), paths("text").ok().text()))
});

fn stepped() -> Option<&'static (Value, String)> {
    if PATHS.is_none() {
        skip("the kernel refuses ptrace");
    }
    PATHS.as_ref()
}

#[test]
fn line_97_report_header_with_date_command_environment_and_samples() {
    let Some(analysis) = analysis() else { return };
    let origin = &analysis.before["origin"];
    assert!(origin["date"].as_str().unwrap().ends_with(" UTC"));
    let command = rows(origin, "command");
    assert!(command[0].as_str().unwrap().ends_with("linked_bench"));
    assert_eq!(command[1], ROUNDS.to_string());
    assert!(origin["environment"]["variables"].as_u64() > Some(0));
    assert!(origin["machine"]["processors"].as_u64() > Some(0));
    assert!(samples(&analysis.before) > 100);
    let head = analysis.markdown.split("## Summary").next().unwrap();
    head.has_all([
        "date: ",
        "command: ",
        "machine: ",
        "environment: ",
        "samples: ",
    ]);
}

#[test]
fn line_98_ranked_functions_with_share_dso_and_note() {
    let Some(analysis) = analysis() else { return };
    let functions = rows(&analysis.before, "functions");
    let ranked: Vec<u64> = functions.iter().map(samples).collect();
    assert!(ranked.is_sorted_by(|a, b| a >= b), "{ranked:?}");
    assert_eq!(functions[0]["function"], "getenv");
    let getenv = functions[0]["module"].as_str().unwrap();
    assert!(getenv.contains("libc.so"), "{getenv}");
    let own = named(functions, "function", "pool_free_at");
    assert!(own["module"].as_str().unwrap().ends_with("linked_bench"));
    let table = analysis.markdown.split("## Functions inside the allocator");
    let table = table.last().unwrap().split("## ").next().unwrap();
    let note = |function: &str| {
        let line = table.lines().find(|it| it.contains(function));
        line.unwrap_or_else(|| panic!("{table}")).to_owned()
    };
    note("getenv").has("environment");
    note("mid").has("the allocator's");
}

#[test]
fn line_99_group_symbols_getenv_and_what_it_calls() {
    let Some(analysis) = analysis() else { return };
    let group = named(rows(&analysis.before, "groups"), "name", "environment");
    let getenv = named(rows(&analysis.before, "functions"), "function", "getenv");
    let compares = rows(&analysis.before, "functions").iter();
    let compares = compares.filter(|it| {
        let name = it["function"].as_str().unwrap();
        name.contains("strncmp") || name.contains("strlen")
    });
    let sum: u64 = samples(getenv) + compares.map(samples).sum::<u64>();
    // What the allocator itself compares is little, and string functions of its own.
    let group = samples(group);
    assert!(
        group >= samples(getenv) && group <= sum + sum / 50,
        "{group} {sum}"
    );
}

#[test]
fn line_100_subtotals_of_all_functions_of_a_pattern() {
    let Some(analysis) = analysis() else { return };
    let group = named(rows(&analysis.before, "groups"), "name", "pool");
    let tables = ["functions", "outside"].map(|it| rows(&analysis.before, it).iter());
    let own = tables.into_iter().flatten().filter(|it| {
        let name = it["function"].as_str().unwrap();
        name.starts_with("pool_")
    });
    assert_eq!(samples(group), own.map(samples).sum::<u64>());
    assert!(samples(group) > 0);
}

#[test]
fn line_101_benchmark_overhead_apart() {
    let Some(analysis) = analysis() else { return };
    let outside = rows(&analysis.before, "outside");
    let outside = names(outside, "function");
    assert!(
        outside.iter().any(|it| it.contains("random")),
        "{outside:?}"
    );
    let inside = names(rows(&analysis.before, "functions"), "function");
    assert!(!inside.iter().any(|it| it.contains("random")), "{inside:?}");
    let of = |table: &str| -> u64 { rows(&analysis.before, table).iter().map(samples).sum() };
    assert_eq!(of("functions") + of("outside"), samples(&analysis.before));
}

fn annotated(report: &Value) -> &Value {
    let annotation = &rows(report, "annotations")[0];
    assert!(annotation["problem"].is_null(), "{annotation}");
    &annotation["function"]
}

/// The truth is objdump's: addresses and bytes of all instructions of the function.
#[test]
fn line_102_line_and_instruction_hotspots() {
    let Some(analysis) = analysis() else { return };
    let function = annotated(&analysis.before);
    let instructions = rows(function, "instructions");
    let line = line_of("linked_pools.c", "getenv");
    let calls = instructions.iter().filter(|it| it["line"] == line);
    let call = calls.into_iter().find(|it| it["target"] == "getenv");
    let call = call.unwrap_or_else(|| panic!("{instructions:?}"));
    assert!(
        call["text"].as_str().unwrap().starts_with("call 0x"),
        "{call}"
    );
    assert!(
        call["source"]
            .as_str()
            .unwrap()
            .contains("POOL_INVALID_FREE")
    );
    assert!(instructions.iter().any(|it| it["hot"] == true));
    if !is_installed("objdump") {
        return skip("objdump is not installed");
    }
    let mut objdump = Command::new("objdump");
    objdump.args(["-d", "--disassemble=pool_free_at", "-w"]);
    let listing = run(objdump.arg(linked_bench(&[])), b"").ok().text();
    // `    1240:	48 83 ec 08          	sub    $0x8,%rsp`
    let truth = listing.lines().filter_map(|line| {
        let mut parts = line.split('\t');
        let address = parts.next()?.trim().strip_suffix(':')?;
        let address = u64::from_str_radix(address, 16).ok()?;
        Some((address, parts.next()?.replace(' ', "")))
    });
    let truth: Vec<(u64, String)> = truth.collect();
    assert!(truth.len() > 10, "{listing}");
    let found = instructions.iter().map(|it| {
        let bytes = it["bytes"].as_str().unwrap().to_owned();
        (it["address"].as_u64().unwrap(), bytes)
    });
    let found: Vec<(u64, String)> = found.collect();
    // objdump goes on in the padding.
    assert_eq!(found, truth[..found.len().min(truth.len())]);
    assert!(truth.len() - found.len() < 4, "{truth:?}");
}

#[test]
fn line_103_sums_of_the_hot_path_properly_sorted() {
    let Some(analysis) = analysis() else { return };
    let function = annotated(&analysis.before);
    let instructions = rows(function, "instructions");
    let sum: u64 = instructions.iter().map(samples).sum();
    assert_eq!(sum, samples(function));
    let functions = rows(&analysis.before, "functions");
    assert_eq!(sum, samples(named(functions, "function", "pool_free_at")));
    let addresses: Vec<u64> = instructions
        .iter()
        .map(|it| it["address"].as_u64().unwrap())
        .collect();
    assert!(addresses.is_sorted());
    let shares: f64 = instructions.iter().map(|it| number(&it["share"])).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    let lines: Vec<u64> = rows(&analysis.before, "lines")
        .iter()
        .map(samples)
        .collect();
    assert!(lines.is_sorted_by(|a, b| a >= b), "{lines:?}");
}

/// The calls of a test with their depths.
fn calls<'a>(report: &'a Value, test: &str) -> &'a Vec<Value> {
    rows(named(rows(report, "tests"), "function", test), "calls")
}

/// free 15.39 → hak_free_at 15.15 → getenv 10.04 → strncmp 5.50: as a table, and as a flame graph.
#[test]
fn line_104_call_graph_with_shares_of_edges() {
    let Some(analysis) = analysis() else { return };
    let calls = calls(&analysis.before, "test_random_free");
    let at = |depth: u64, function: &str| {
        let mut found = calls.iter();
        let found = found.find(|it| it["depth"] == depth && it["function"] == function);
        samples(found.unwrap_or_else(|| panic!("{function}: {calls:?}")))
    };
    let (free, inner, getenv) = (at(0, "free"), at(1, "pool_free_at"), at(2, "getenv"));
    assert!(free >= inner && inner >= getenv && getenv > 0);
    let svg = fs::read_to_string(analysis.path("before.svg")).expect("a flame graph");
    svg.has_all([
        "free (",
        "pool_free_at (",
        "getenv (",
        "red and yellow: the allocator",
    ]);
    svg.has(format!("total_samples=\"{}\"", samples(&analysis.before)));
}

/// Each block is larger than the small pool's. The first ones are mapped, the others come from a
/// list.
#[test]
fn line_105_path_classes_fast_medium_and_slow() {
    let Some((report, _)) = stepped() else { return };
    let paths = rows(&report["allocators"][0], "paths");
    let of = |entry: &str| -> Vec<&Value> {
        paths
            .iter()
            .filter(|it| it["entry_point"] == entry)
            .collect()
    };
    for entry in ["malloc", "free"] {
        let shares: f64 = of(entry)
            .iter()
            .map(|it| number(&it["share_of_operations"]))
            .sum();
        assert!((shares - 1.0).abs() < 1e-6, "{entry}: {shares}");
    }
    let first = of("malloc")[0]["functions"].to_string();
    first.has("pool_large_alloc");
    assert!(
        of("free")
            .iter()
            .all(|it| it["functions"].to_string().contains("getenv"))
    );
}

#[test]
fn line_106_breakdown_of_each_sub_test() {
    let Some(analysis) = analysis() else { return };
    for test in [
        "sequential_lifo",
        "sequential_fifo",
        "random_free",
        "interleaved",
    ] {
        let test = format!("test_{test}");
        let found = named(rows(&analysis.before, "tests"), "function", &test);
        let getenv = named(rows(found, "functions"), "function", "getenv");
        // Its share in this test, as in the document's "40 to 43 % in every test".
        let share = samples(getenv) as f64 / samples(found) as f64;
        assert!((number(&getenv["share"]) - share).abs() < 1e-9);
        assert!(share > 0.1, "{test}: {share}");
    }
}

/// A counter that the machine has, with its rate; one that it lacks, with the reason.
#[track_caller]
fn check_counter(report: &Value, name: &str, of: Option<&str>) {
    let counters = &report["counters"];
    let counter = &counters[name];
    if counter.is_null() {
        let why = report["unavailable"][name].as_str();
        let why = why.unwrap_or_else(|| panic!("{name} has no reason: {report}"));
        assert!(!why.is_empty());
        return;
    }
    assert!(report["unavailable"][name].is_null());
    assert!(counter["total"].as_u64() > Some(0), "{counter}");
    let part = number(&counter["counted_part"]);
    assert!(part > 0.0 && part <= 1.0, "{counter}");
    if let Some(of) = of.filter(|of| !counters[*of].is_null()) {
        let rate = number(&counter["total"]) / number(&counters[of]["total"]);
        assert!((number(&counter["rate"]) - rate).abs() < 1e-9, "{counter}");
    }
}

#[test]
fn line_107_cache_counters_and_their_rates() {
    let Some(analysis) = analysis() else { return };
    check_counter(&analysis.before, "cache-references", None);
    check_counter(&analysis.before, "cache-misses", Some("cache-references"));
    check_counter(&analysis.before, "L1-dcache-loads", None);
    check_counter(
        &analysis.before,
        "L1-dcache-load-misses",
        Some("L1-dcache-loads"),
    );
    let section = analysis.markdown.split("## counters").last().unwrap();
    section.has_all([
        "cache-references",
        "L1-dcache-loads",
        "L1-dcache-load-misses",
    ]);
}

/// 2,625 loads of a pair are believed in the document. What is a thousand times too much is said
/// here; what the exact number of instructions excludes, a unit test has.
#[test]
fn line_108_figures_of_an_operation_that_cannot_be_are_said() {
    let Some(analysis) = analysis() else { return };
    let report = &analysis.before;
    assert_eq!(report["operations"], OPERATIONS);
    if report["clock"] != "cpu-clock" {
        return;
    }
    let inside = number(&report["inside"]["share"]) * number(&report["cpu_seconds"]);
    let ns = number(&report["nanoseconds_per_operation"]);
    assert!(
        (ns / (inside * 1e9 / OPERATIONS as f64) - 1.0).abs() < 0.05,
        "{ns}"
    );
    assert_eq!(report["doubts"], Value::Array(Vec::new()));
    let file = analysis.path("absurd.json");
    let options = ["--divide-by", "1000", "--format", "json"];
    cpu(&linked_bench(&[]), &options, &file).expect("as before");
    let doubts = &json(&file)["doubts"];
    doubts.to_string().has("an operation cannot be right");
    // The other check needs the steps of the same calls.
    allotrope(["cpu", "--help"]).ok().has("--paths");
}

#[test]
fn line_109_branches_and_their_misses() {
    let Some(analysis) = analysis() else { return };
    check_counter(&analysis.before, "branches", None);
    check_counter(&analysis.before, "branch-misses", Some("branches"));
}

#[test]
fn line_110_source_context_of_the_culprit() {
    let line = "const char *invalid = getenv(\"POOL_INVALID_FREE\");";
    assert!(source_text("linked_pools.c").contains(line));
    if let Some((_, text)) = stepped() {
        text.has(line);
        text.has("linked_pools.c:");
    }
    let Some(analysis) = analysis() else { return };
    let lines = analysis.markdown.split("## Lines").last().unwrap();
    lines.replace('\\', "").has("linked_pools.c:");
    let instructions = rows(annotated(&analysis.before), "instructions");
    let sources = instructions.iter().filter_map(|it| it["source"].as_str());
    assert!(sources.into_iter().any(|it| it.contains(line)));
}

#[test]
fn line_111_costly_calls_inside_the_allocator_are_detected() {
    let Some((report, _)) = stepped() else { return };
    let allocator = &report["allocators"][0];
    let getenv = named(rows(allocator, "callees"), "function", "getenv");
    assert_eq!(getenv["line"], line_of("linked_pools.c", "getenv"));
    let free = named(rows(getenv, "entry_points"), "entry_point", "free");
    assert_eq!(free["share_of_operations"], 1.0);
    allocator["findings"]
        .to_string()
        .has("free looks up the environment");
}

/// 100 / 56.04 = 1.78x.
#[test]
fn line_112_amdahl_as_a_factor_for_the_program() {
    let Some(analysis) = analysis() else { return };
    let group = named(rows(&analysis.before, "groups"), "name", "environment");
    let what_if = &group["what_if"];
    let factor = 1.0 / (1.0 - number(&group["share"]));
    assert!((number(&what_if["factor"]) - factor).abs() < 1e-9);
    assert!(number(&what_if["low"]) < factor && factor < number(&what_if["high"]));
    analysis
        .markdown
        .has(format!("{factor:.1}").get(..2).unwrap());
}

#[test]
fn line_113_secondary_items_after_the_first_fix() {
    let Some(analysis) = analysis() else { return };
    let after = &analysis.before["after_first"];
    assert_eq!(after["group"], "environment");
    let functions = rows(after, "functions");
    let getenv = functions.iter().find(|it| it["function"] == "getenv");
    assert!(
        getenv.is_none_or(|it| number(&it["share"]) < 0.02),
        "{after}"
    );
    let own = named(functions, "function", "pool_free_at");
    let before = named(
        rows(&analysis.before, "functions"),
        "function",
        "pool_free_at",
    );
    // Of what is left, its share is larger.
    assert!(number(&own["share"]) > number(&before["share"]));
}

#[test]
fn line_114_how_sure_the_figures_are() {
    let Some(analysis) = analysis() else { return };
    let inside = &analysis.before["inside"];
    let share = number(&inside["share"]);
    assert!(number(&inside["low"]) < share && share < number(&inside["high"]));
    for row in rows(&analysis.before, "functions") {
        let share = number(&row["share"]);
        assert!(
            number(&row["low"]) <= share && share <= number(&row["high"]),
            "{row}"
        );
    }
}

fn compared(format: &str, more: &[&str]) -> Ended {
    let analysis = ANALYSIS.as_ref().expect("it was sampled");
    let mut diff = command();
    diff.arg("diff")
        .args(["before.json", "after.json"].map(|it| analysis.path(it)));
    run(
        diff.args(["--format", format])
            .args(more)
            .env("COLUMNS", "80"),
        b"",
    )
}

/// "getenv should drop from 17.55 % to ~0 %".
#[test]
fn line_115_the_fix_is_verified_by_a_second_record() {
    let Some(analysis) = analysis() else { return };
    let diff = compared("json", &[]).ok().json();
    let getenv = named(rows(&diff, "functions"), "function", "getenv");
    assert_eq!(getenv["verdict"], "less", "{getenv}");
    assert!(number(&getenv["after"]["share"]) < 0.01, "{getenv}");
    let before = named(rows(&analysis.before, "functions"), "function", "getenv");
    assert_eq!(getenv["before"]["samples"], before["samples"]);
    let [of_before, of_after] = [&analysis.before, &analysis.after].map(samples);
    assert_eq!(diff["before"]["samples"], of_before);
    assert_eq!(diff["after"]["samples"], of_after);
    let group = named(rows(&diff, "groups"), "name", "environment");
    assert_eq!(group["verdict"], "less");
    assert_eq!(diff["inside"]["verdict"], "less");
    // The two programs are two files.
    diff["notes"].to_string().has("the command differs");
    let text = compared("text", &[]).ok().text();
    text.fits(80);
    text.has("getenv (libc.so.6)").has("less");
    compared("markdown", &[])
        .ok()
        .text()
        .has("# CPU time, before and after");
    if diff["basis"] == "time an operation" {
        compared("text", &["--fail-on", "cpu-time>+2%"]).ok();
    }
}

/// The program's own "M ops/sec" is in the comparison, beside what was estimated.
#[test]
fn line_116_throughput_in_the_comparison() {
    let Some(_) = analysis() else { return };
    let diff = compared("json", &[]).ok().json();
    let score = &rows(&diff, "scores")[0];
    score["line"].to_string().has("M ops/sec");
    let ratio = number(&score["after"]) / number(&score["before"]);
    assert!((number(&score["ratio"]) - ratio).abs() < 1e-9);
    if diff["basis"] == "time an operation" {
        assert!(number(&diff["factor"]) > 1.2, "{diff}");
        compared("text", &[]).ok().has("was estimated to be");
    }
}

/// Unwinding needs no frame pointers: the optimised program has none, and tail calls besides.
#[test]
fn line_117_call_graphs_by_dwarf() {
    let Some(analysis) = analysis() else { return };
    let calls = calls(&analysis.before, "test_sequential_lifo");
    let deepest = calls.iter().map(|it| it["depth"].as_u64().unwrap()).max();
    assert!(deepest >= Some(2), "{calls:?}");
    let unknown = number(&analysis.before["samples_without_stack"]);
    assert!(unknown < 0.05 * samples(&analysis.before) as f64);
}

#[test]
fn line_118_larson_runner_with_profiles() {
    allotrope(["bench", "--profile", "list"])
        .ok()
        .text()
        .has_all(["tiny", "mid", "mt"]);
    let library = compiled_with("linked_pools.c", &["-shared", "-fPIC", "-O2"]);
    let alloc = format!("pools={}", library.display());
    let words = "bench --profile tiny,mt --seconds 0.05 --runs 1 --format json --alloc";
    let bench = allotrope(words.split(' ').chain([&*alloc])).ok().json();
    let cases = rows(&bench["allocators"][1], "cases");
    assert_eq!(names(cases, "profile"), ["tiny", "mt"]);
    assert_eq!(cases[1]["threads"], 4);
}

#[test]
fn line_119_read_the_environment_once() {
    let Some((report, _)) = stepped() else { return };
    let findings = report["allocators"][0]["findings"].to_string();
    findings.has("read it once, at the start or in the first call");
}

#[test]
fn line_120_markdown_report_with_appendix_and_verification_plan() {
    let Some(analysis) = analysis() else { return };
    let mut rest = &analysis.markdown[..];
    for part in [
        "# CPU time and the allocator",
        "command: ",
        "machine: ",
        "## Summary",
        "## Functions inside the allocator",
        "## Functions outside of the allocator",
        "## Groups, and the program without them",
        "environment: getenv",
        "## After the first fix: without environment",
        "## Entry points",
        "## Calling sites",
        "## Parts of the program",
        "## Call graph",
        "→ free",
        "→ pool_free_at",
        "## Lines",
        "## counters",
        "## How to check a change",
        "allotrope diff before.json after.json",
    ] {
        let at = rest
            .find(part)
            .unwrap_or_else(|| panic!("no {part}:\n{}", analysis.markdown));
        rest = &rest[at..];
    }
    // It is replaced without --force, as a report of ours.
    let options = ["--format", "markdown"];
    cpu(
        &linked_bench(&["-DASK_ONCE"]),
        &options,
        &analysis.path("before.md"),
    )
    .expect("as before");
}

/// Each line of the document has a test.
#[test]
fn every_line_of_the_document_has_a_test() {
    let text = include_str!("hakmem.rs");
    let mut found: BTreeMap<u32, usize> = BTreeMap::new();
    for line in text.lines() {
        let name = line.strip_prefix("fn line_").unwrap_or_default();
        if let Ok(number) = name.split('_').next().unwrap_or_default().parse() {
            *found.entry(number).or_default() += 1;
        }
    }
    let expected: Vec<u32> = (97..=120).collect();
    assert_eq!(found.into_keys().collect::<Vec<_>>(), expected);
}
