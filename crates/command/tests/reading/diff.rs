//! `allotrope diff` and `allotrope export` on recordings of programs whose sources
//! state the expected counts, and on files of other tools that contain them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::support::{
    Ended, Recording, Text, allotrope, check_each, command, compiled, compiled_with, line_of,
    record, run,
};
use serde_json::Value;
use tempfile::TempDir;

/// Stated at the head of `changed.c`.
const STEADY: u64 = 500;
const GROWN: [u64; 2] = [999, 1001];
const PLANTED: u64 = 700;

static BEFORE: LazyLock<Recording> = LazyLock::new(|| record(compiled("changed.c")).run().ok());
static AFTER: LazyLock<Recording> = LazyLock::new(|| {
    let program = compiled_with("changed.c", &["-DAFTER"]);
    record(program).run().ok()
});

/// Stacks of SwiftNIO's documentation, shortened; the counts are in the files.
fn swift(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/reading/diff_stacks")
        .join(name)
}

fn diff(before: &Path, after: &Path, options: &[&str]) -> Ended {
    let mut command = command();
    command.arg("diff").arg(before).arg(after).args(options);
    run(&mut command, b"")
}

#[track_caller]
fn text(before: &Path, after: &Path, options: &[&str]) -> String {
    diff(before, after, options).ok().text()
}

/// The difference as JSON in the documented form: exactly its keys, indexes in
/// range, sums that add up.
#[track_caller]
fn json(before: &Path, after: &Path, options: &[&str]) -> Value {
    let options = [options, &["--format", "json"]].concat();
    let printed = text(before, after, &options);
    let value: Value = serde_json::from_str(&printed).expect("JSON");
    check(&value);
    value
}

#[track_caller]
fn keys(value: &Value, expected: &[&str]) {
    let object = value.as_object().expect("an object");
    let keys: BTreeSet<&str> = object.keys().map(String::as_str).collect();
    assert_eq!(keys, expected.iter().copied().collect());
}

#[track_caller]
fn check(diff: &Value) {
    keys(
        diff,
        &[
            "format",
            "metric",
            "before",
            "after",
            "difference",
            "frames",
            "entries",
        ],
    );
    assert_eq!(diff["format"], "allotrope-diff/1");
    let frames = array(&diff["frames"]);
    for frame in frames {
        keys(
            frame,
            &[
                "function",
                "signature",
                "module",
                "file",
                "line",
                "column",
                "offset",
                "inlined",
            ],
        );
        assert!(frame["offset"].is_u64());
    }
    let (mut sum, mut folded, mut last) = (0, false, u64::MAX);
    for entry in array(&diff["entries"]) {
        keys(
            entry,
            &[
                "kind",
                "before",
                "after",
                "difference",
                "confidence",
                "blame",
                "stacks",
            ],
        );
        let kind = entry["kind"].as_str().expect("a word");
        assert!(
            ["new", "gone", "changed", "moved", "jitter"].contains(&kind),
            "{kind}"
        );
        let difference = entry["difference"].as_i64().expect("a number");
        assert_eq!(
            number(&entry["after"]) as i64 - number(&entry["before"]) as i64,
            difference
        );
        assert!(!folded || kind == "moved", "folded ones stand last");
        if kind == "moved" {
            folded = true;
            assert_eq!(difference, 0);
        } else {
            assert!(difference.unsigned_abs() <= last, "the largest first");
            last = difference.unsigned_abs();
        }
        sum += difference;
        let confidence = entry["confidence"].as_f64().expect("a number");
        assert!((0.0..=1.0).contains(&confidence));
        assert!(number(&entry["blame"]) < frames.len() as u64);
        for (side, total) in ["before", "after"].map(|side| (side, number(&entry[side]))) {
            let stacks = array(&entry["stacks"]).iter();
            assert_eq!(stacks.map(|stack| number(&stack[side])).sum::<u64>(), total);
        }
        for stack in array(&entry["stacks"]) {
            keys(stack, &["before", "after", "stack"]);
            let mut indexes = array(&stack["stack"]).iter().map(number);
            assert!(indexes.all(|index| index < frames.len() as u64));
        }
    }
    assert_eq!(diff["difference"], sum, "the entries add up");
}

fn array(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// Kind, blamed function and difference of every entry that is not folded (moved).
fn entries(diff: &Value) -> Vec<(String, String, i64)> {
    let entries = array(&diff["entries"]).iter();
    entries
        .filter(|entry| entry["kind"] != "moved")
        .map(|entry| {
            let blame = &diff["frames"][number(&entry["blame"]) as usize];
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            let difference = entry["difference"].as_i64().expect("a number");
            (text(&entry["kind"]), text(&blame["function"]), difference)
        })
        .collect()
}

fn file(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("the folder is ours");
    path
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn expected() -> [(String, String, i64); 2] {
    let planted = PLANTED as i64;
    let grown = GROWN[1] as i64 - GROWN[0] as i64;
    [
        ("new".to_owned(), "planted".to_owned(), planted),
        ("changed".to_owned(), "grown".to_owned(), grown),
    ]
}

#[test]
fn the_planted_site_comes_first_and_a_change_of_two_is_exact() {
    let diff = json(&BEFORE.trace, &AFTER.trace, &[]);
    assert_eq!(entries(&diff), expected());
    let blame = &diff["frames"][number(&diff["entries"][0]["blame"]) as usize];
    assert_eq!(blame["line"], line_of("changed.c", "planted"));
    assert_eq!(diff["metric"], "allocations");
    let before = STEADY + GROWN[0];
    let others = number(&diff["before"]) - before;
    assert_eq!(number(&diff["after"]), STEADY + GROWN[1] + PLANTED + others);
}

#[test]
fn every_metric_adds_up() {
    for (metric, planted) in [("allocations", 1), ("bytes", 40), ("temporary", 1)] {
        let diff = json(&BEFORE.trace, &AFTER.trace, &["--metric", metric]);
        assert_eq!(diff["metric"], metric);
        assert_eq!(entries(&diff)[0].2, (PLANTED * planted) as i64, "{metric}");
    }
    for metric in ["leaked", "peak", "leaked-allocations", "peak-allocations"] {
        json(&BEFORE.trace, &AFTER.trace, &["--metric", metric]);
    }
}

#[test]
fn the_text_has_counts_functions_and_lines() {
    let allocations = ["--per", "100", "--metric", "allocations"];
    let printed = text(&BEFORE.trace, &AFTER.trace, &allocations);
    printed.has_all([
        "new +700 (+7.00 each)  planted",
        "0 before, 700 after",
        &format!("changed.c:{}", line_of("changed.c", "planted")),
        "changed +2 (+0.0200 each)  grown",
        "999 before, 1,001 after",
        "Noise is unknown with one run a side",
        "+702",
    ]);
    let (_, entries) = printed.split_once("\nAllocations").expect("a table");
    assert!(!entries.contains('%'), "no ratio: {printed}");
    assert!(!printed.contains('\u{1b}'), "no colour in a pipe");
    let whole = text(&BEFORE.trace, &AFTER.trace, &["--all-frames"]);
    whole.has_all(["planted", "times", "main"]);
}

/// A file of one stack with so many allocations and bytes at the peak.
fn one_stack(folder: &TempDir, name: &str, [allocations, peak]: [u64; 2]) -> PathBuf {
    let text = format!(
        r#"{{"format":"allotrope-stacks/1","title":"","metrics":["allocations","bytes_at_peak"],
        "frames":[{{"function":"f","signature":"","module":"","file":"","line":0,"column":0,"offset":0,"inlined":false}}],
        "stacks":[{{"stack":[0],"figures":[{allocations},{peak}]}}]}}"#
    );
    file(folder, name, text.as_bytes())
}

#[test]
fn the_metric_that_changed_most_leads() {
    let folder = folder();
    let before = one_stack(&folder, "before", [12_000, 20_000_000]);
    let after = one_stack(&folder, "after", [11_842, 280_000]);
    let printed = text(&before, &after, &[]);
    let lines: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
    let title = lines
        .iter()
        .position(|it| *it == "What changed             before    after   change");
    let title = title.unwrap_or_else(|| panic!("no head: {printed}"));
    assert_eq!(
        lines[title + 1],
        "  bytes at the peak  20,000,000  280,000  -98.6 %"
    );
    assert_eq!(
        lines[title + 2],
        "  allocations            12,000   11,842   -1.3 %"
    );
    assert!(
        lines[title + 3].starts_with("Bytes at the peak"),
        "{printed}"
    );
    // An option has the last word, and what programs read stays.
    let asked = text(&before, &after, &["--metric", "allocations"]);
    asked.has_all(["\nAllocations", "bytes at the peak"]);
    assert_eq!(json(&before, &after, &[])["metric"], "allocations");
    // If nothing else changed, the table of the metric says it.
    let other = one_stack(&folder, "other", [11_842, 20_000_000]);
    text(&before, &other, &[]).lacks("What changed");
}

#[test]
fn thresholds_hide_and_do_not_change_sums() {
    let printed = text(&BEFORE.trace, &AFTER.trace, &["--min", "10"]);
    printed.lacks("  grown\n");
    printed.has_all(["1 more entry below 10 with +2", "+702"]);
    let one = ["--top", "1", "--metric", "allocations"];
    let printed = text(&BEFORE.trace, &AFTER.trace, &one);
    printed.has("1 more entry with +2");
    let all = json(&BEFORE.trace, &AFTER.trace, &["--min", "10", "--top", "1"]);
    assert_eq!(entries(&all), expected());
}

#[test]
fn filter_selects_stacks() {
    let options = ["--filter", "grow"];
    let printed = text(&BEFORE.trace, &AFTER.trace, &options);
    assert!(printed.contains("with `grow` in the stack: 999 before, 1,001 after, +2 in 1 entry"));
    printed.lacks("planted");
    let older_name = ["--stack", "grow"];
    assert_eq!(printed, text(&BEFORE.trace, &AFTER.trace, &older_name));
    let some = json(&BEFORE.trace, &AFTER.trace, &options);
    assert_eq!(
        (number(&some["before"]), number(&some["after"])),
        (GROWN[0], GROWN[1])
    );
    let capital = text(&BEFORE.trace, &AFTER.trace, &["--filter", "G*OW"]);
    capital.has("999 before, 1,001 after");
    for (pattern, nearest) in [
        (&["--filter", "plantde"][..], "nearest: planted"),
        (
            &["--filter", "Planted", "--filter-case"],
            "nearest: planted",
        ),
        (&["--filter", "%%%"], "no function has a similar name"),
    ] {
        diff(&BEFORE.trace, &AFTER.trace, pattern)
            .code(2)
            .says("nothing matches --filter")
            .says(nearest);
    }
    let none = text(&BEFORE.trace, &AFTER.trace, &["--filter", "steady"]);
    none.has("Nothing that was asked for is different.");
}

#[test]
fn exit_statuses() {
    let cases = [
        ("--fail-on allocations>+0", 3),
        ("--fail-on allocations>+702", 0),
        ("--fail-on allocations>+701", 3),
        ("--fail-on bytes>+1000%", 0),
        ("--fail-on allocations>+9999 --fail-on bytes>+2%", 3),
        ("--fail-on allocations>+2 --filter grown", 0),
        ("--fail-on allocations>+1 --filter grown", 3),
        ("--fail-on leaked-allocations>+0 --filter planted", 0),
        ("--fail-on allocations>0", 2),
        ("--fail-on speed>+0", 2),
        ("--per 0", 2),
        ("--per -1", 2),
        ("--top 0", 2),
        ("--flamegraph /no/such/folder/out.svg", 1),
    ];
    check_each(cases, |(options, status)| {
        let options: Vec<&str> = options.split(' ').collect();
        let output = diff(&BEFORE.trace, &AFTER.trace, &options).code(status);
        let words = output.errors();
        assert_eq!(words.contains("--fail-on '"), status == 3, "{words}");
    });
    // Less than before is never too much.
    let options = ["--fail-on", "allocations>+0"];
    diff(&AFTER.trace, &BEFORE.trace, &options).ok();
}

#[test]
fn several_runs_a_side_measure_noise() {
    let again = record(compiled("changed.c")).run().ok();
    let mut command = command();
    command
        .arg("diff")
        .arg("--before")
        .arg(&BEFORE.trace)
        .arg(&again.trace);
    command.arg("--after").arg(&AFTER.trace);
    run(&mut command, b"")
        .ok()
        .has("Noise: 2 runs before of")
        .has("planted");
}

#[test]
fn jitter_is_no_regression() {
    let folder = folder();
    let run = |name: &str, jitter: u64| {
        let text = format!("main;work;take 1000\nthread_main;poll;wait {jitter}\n");
        file(&folder, name, text.as_bytes())
    };
    let mut command = command();
    command.arg("diff").arg("--before");
    command
        .args([run("a", 10), run("b", 30), run("c", 20)])
        .arg("--after");
    command.args([run("d", 25), run("e", 15), run("f", 35)]);
    command.args(["--fail-on", "allocations>+0"]);
    let printed = crate::support::run(&mut command, b"").ok().text();
    let printed = printed.replace('\n', " ");
    // 20 and 25 are the runs in the middle.
    printed.has("jitter +5  thread thread_main");
    printed.has("stacks: 1 deterministic, 1 jittering");
}

#[test]
fn the_golden_stacks() {
    let (before, after) = (swift("before.txt"), swift("after.txt"));
    let diff = json(&before, &after, &[]);
    let new = (
        "new",
        "curry thunk of SocketProtocol.read(pointer:)",
        22_022,
    );
    let changed = ("changed", "doRequests(group:number:)", 10_000);
    let expected = [new, changed].map(|(k, f, d)| (k.to_owned(), f.to_owned(), d));
    assert_eq!(entries(&diff), expected);
    let printed = text(&before, &after, &[]);
    printed.has_all([
        "at +0x66",
        "at +0x1c4",
        "$s3NIO7Channel_TRTA.33 → $s3NIO7Channel_TRTA.18",
        "→ specialized BaseStreamSocketChannel.readFromSocket()",
        "confidence 0.9",
    ]);
    let folded = printed.split("Moved or renamed").nth(1).expect("a list");
    assert_eq!(folded.matches("confidence").count(), 2, "{printed}");
    let unfolded = text(&before, &after, &["--expand"]);
    unfolded.has("11,000 → 0");
}

#[test]
fn sections_are_those_of_stackdiff() {
    let options = ["--format", "sections"];
    let printed = text(&swift("before.txt"), &swift("after.txt"), &options);
    let position = |part: &str| {
        printed
            .find(part)
            .unwrap_or_else(|| panic!("{part} in\n{printed}"))
    };
    let order = [
        "### only in AFTER\n22022\nlibsystem_malloc.dylib`malloc\n",
        "\n    22022\n        libsystem_malloc.dylib`malloc\n        libswiftCore.dylib`swift_slowAlloc+0x19\n",
        "### only in BEFORE\n",
        "### different numbers\nbefore: 10000, after: 20000\n",
        "  AFTER\n    10000\n",
        "  BEFORE\n    10000\n",
        "Total of _EVERYTHING_ BEFORE:  257000,  AFTER:  289022,  DIFFERENCE:  32022\n",
    ]
    .map(position);
    assert!(order.is_sorted(), "{printed}");
    printed.lacks("TRTA.33");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    // Without one it is 100 columns.
    let (before, after) = (swift("before.txt"), swift("after.txt"));
    for options in [
        &[][..],
        &["--expand"],
        &["--all-frames"],
        &["--filter", "run"],
    ] {
        for line in text(&before, &after, options).lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn a_glue_list_moves_the_blame() {
    let folder = folder();
    let list = file(&folder, "glue", b"# ours\nplanted\n");
    let list = list.to_str().expect("a plain name");
    let listed = json(&BEFORE.trace, &AFTER.trace, &["--glue", list]);
    assert_eq!(entries(&listed)[0].1, "times");
    let bad = file(&folder, "bad", b"fine\nnot*fine\n");
    let bad = bad.to_str().expect("a plain name");
    diff(&BEFORE.trace, &AFTER.trace, &["--glue", bad]).fails(2, "line 2");
}

#[test]
fn the_flame_graph_shows_what_vanished() {
    let folder = folder();
    let svg = folder.path().join("out.svg");
    diff(
        &AFTER.trace,
        &BEFORE.trace,
        &["--flamegraph", svg.to_str().expect("a plain name")],
    )
    .ok();
    let drawn = std::fs::read_to_string(&svg).expect("it was written");
    assert!(drawn.starts_with("<?xml") && drawn.trim_end().ends_with("</svg>"));
    for part in [
        "planted (700 → 0, -700)",
        "grown (1,001 → 999, -2)",
        "steady (500, no change)",
    ] {
        assert!(drawn.contains(part), "{part}");
    }
}

#[test]
fn an_input_file_is_not_overwritten() {
    let folder = folder();
    let words = b"main;f 5\n";
    let path = file(&folder, "folded", words);
    let same = path.to_str().expect("a plain name");
    diff(&swift("before.txt"), &path, &["--flamegraph", same]).code(2);
    assert_eq!(std::fs::read(&path).expect("it is there"), words);
}

#[test]
fn stacks_may_come_through_a_pipe() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "cat \"$1\" | \"$0\" diff /dev/stdin \"$1\""]);
    shell
        .arg(env!("CARGO_BIN_EXE_allotrope"))
        .arg(swift("before.txt"));
    let output = run(&mut shell, b"");
    assert!(
        output.text().contains("Nothing is different."),
        "{}",
        output.errors()
    );
}

/// Reported: "Nothing is different." stood above a new function.
#[test]
fn a_renamed_function_is_not_nothing() {
    let folder = folder();
    let stacks = |name: &str| {
        file(
            &folder,
            name,
            format!("main;run;{name};grow 5\n").as_bytes(),
        )
    };
    diff(&stacks("read_line"), &stacks("read_a_line"), &[])
        .ok()
        .has("No figure is different, but the names in 1 entry are.")
        .has("read_a_line")
        .lacks("Nothing is different");
}

#[track_caller]
fn expect_refusal(before: &Path, after: &Path, parts: &[&str]) {
    let output = diff(before, after, &[]).code(2);
    let words = output.errors();
    assert!(output.stdout.is_empty());
    assert_eq!(words.trim_end().lines().count(), 1, "one sentence: {words}");
    words.has_all(parts);
}

#[test]
fn bad_input_is_refused_in_one_sentence() {
    let folder = folder();
    let good = swift("before.txt");
    let bad = |name: &str, bytes: &[u8]| file(&folder, name, bytes);
    expect_refusal(&good, &folder.path().join("missing"), &["missing"]);
    expect_refusal(folder.path(), &good, &["is a folder"]);
    expect_refusal(&bad("empty", b""), &good, &["empty", "the file is empty"]);
    expect_refusal(
        &good,
        &bad("words", b"hello\nworld\n"),
        &["words", "no known form"],
    );
    expect_refusal(
        &bad("noise", &[0x7f, 0, 1, 2, 0xff]),
        &good,
        &["noise", "no known form"],
    );
    expect_refusal(&bad("cut", b"ALLOTROP"), &good, &["cut"]);
    let long = vec![b'x'; 20 << 20];
    expect_refusal(&bad("long", &long), &good, &["long, line 1"]);
    let bytes = br#"{"format":"allotrope-stacks/1","title":"","metrics":["allocated_bytes"],
        "frames":[{"function":"f","signature":"","module":"","file":"","line":0,"column":0,"offset":0,"inlined":false}],
        "stacks":[{"stack":[0],"figures":[5]}]}"#;
    let only_bytes = bad("bytes.json", bytes);
    let folded = bad("folded", b"main;f 5\n");
    expect_refusal(&only_bytes, &folded, &["bytes.json", "nothing to compare"]);
    let json = ["--format", "json"];
    diff(&only_bytes, &only_bytes, &json).fails(2, "all files give: bytes");
    // Text compares what both give.
    text(&only_bytes, &only_bytes, &[]).has("Allocated bytes");
    allotrope(["diff".as_ref(), good.as_os_str()]).code(2);
}

#[test]
fn a_closed_pipe_is_no_error() {
    for command in [
        "diff \"$1\" \"$2\" --all-frames",
        "export \"$1\" --format stacks",
    ] {
        let script = format!("\"$0\" {command} | head -n 1");
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(script)
            .arg(env!("CARGO_BIN_EXE_allotrope"));
        shell.arg(&BEFORE.trace).arg(&AFTER.trace);
        let output = run(&mut shell, b"");
        assert!(output.stderr.is_empty(), "{}", output.errors());
    }
}

/// An export equals its recording, whatever the format: a diff of the two finds at
/// most frames with less detail.
#[test]
fn exports_equal_their_recording() {
    let folder = folder();
    for format in ["folded", "stacks", "dhat", "pprof", "json"] {
        let path = folder.path().join(format);
        allotrope([
            "export".as_ref(),
            AFTER.trace.as_os_str(),
            "--format".as_ref(),
            format.as_ref(),
            "-o".as_ref(),
            path.as_os_str(),
        ])
        .ok();
        let same = json(&AFTER.trace, &path, &[]);
        assert_eq!(entries(&same), [], "{format}");
        let again = json(&path, &path, &[]);
        assert_eq!(array(&again["entries"]).len(), 0, "{format}");
        let mixed = json(&BEFORE.trace, &path, &[]);
        assert_eq!(entries(&mixed), expected(), "{format} against a recording");
    }
}

/// `--filter` leaves the stacks with the name, as in `diff` and `report`.
#[test]
fn exports_of_some_stacks() {
    let trace = AFTER.trace.to_str().expect("a plain name");
    let options = ["export", trace, "--format", "folded", "--filter", "grown"];
    let output = allotrope(options);
    let folded = output.text();
    assert!(folded.lines().count() > 0, "{}", output.errors());
    let mut sum = 0;
    for line in folded.lines() {
        line.has("grown");
        let count = line.rsplit(' ').next().and_then(|count| count.parse().ok());
        sum += count.unwrap_or(0u64);
    }
    assert_eq!(sum, GROWN[1]);
}

#[test]
fn export_refuses_bad_arguments() {
    let trace = AFTER.trace.to_str().expect("a plain name");
    let stacks = swift("before.txt");
    let stacks = stacks.to_str().expect("a plain name");
    for arguments in [
        &["export", trace, "--format", "nonsense"][..],
        &["export", trace],
        &["export", stacks, "--format", "folded", "--metric", "bytes"],
        &["export", "/no/such/file", "--format", "folded"],
        &["export", trace, "--format", "json", "-o", trace],
    ] {
        let output = allotrope(arguments).code(2);
        assert!(!output.stderr.is_empty());
    }
    let listed = allotrope(["export", "--list"]).ok();
    for name in ["folded", "stacks", "dhat", "pprof", "json"] {
        listed.text().has(name);
    }
}
