//! `report`, `show`, `diff` and `export` of sampled profiles. The figures follow from the
//! stories: huge blocks are sampled for certain, so their estimates are exact.

use std::io::Read;
use std::path::Path;

use allotrope_sampling::Period;
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::story::{BEGAN, HUGE, Story, huge_blocks, save_all};
use crate::support::{Text, command, run, schema};

struct Ended {
    status: Option<i32>,
    out: String,
    errors: String,
}

fn allotrope(folder: &Path, arguments: &[&str]) -> Ended {
    let output = run(command().args(arguments).current_dir(folder), b"");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended {
        status: output.status.code(),
        out: text(&output.stdout),
        errors: text(&output.stderr),
    }
}

fn fine(folder: &Path, arguments: &[&str]) -> String {
    let output = allotrope(folder, arguments);
    assert_eq!(output.status, Some(0), "{arguments:?}: {}", output.errors);
    output.out
}

/// A folder with `huge.allotrope`, the story of huge blocks.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    save_all(&folder.path().join("huge.allotrope"), &[&huge_blocks()]);
    folder
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn the_report_has_the_totals_and_the_stacks() {
    let folder = folder();
    let text = fine(folder.path(), &["report", "huge.allotrope"]);
    text.has_all([
        "server --quiet",
        "one byte of 512.0 KiB is a hit",
        "live       832.0 MiB (832.0 MiB–",
        "allocated  960.0 MiB",
        "freed      128.0 MiB",
        "640.0 MiB (640.0 MiB–",
        "server+0x1000",
    ]);
    let by_blocks = ["report", "huge.allotrope", "--metric", "leaked-allocations"];
    assert!(fine(folder.path(), &by_blocks).contains("Stacks by live blocks"));
    let shown = fine(folder.path(), &["show", "huge.allotrope", "site:2"]);
    shown.has_all(["192.0 MiB", "server+0x1010"]);
    let shown = fine(folder.path(), &["show", "huge.allotrope", "server+0x1000"]);
    shown.has("Site 1").lacks("Site 2");
}

#[test]
fn json_has_the_ends_of_intervals_beside_each_figure() {
    let folder = folder();
    let report = json(&fine(
        folder.path(),
        &["report", "huge.allotrope", "--format", "json"],
    ));
    schema::check_sampled(&report);
    assert_eq!(report["format"], "allotrope-sampled/1");
    let process = &report["processes"][0];
    let site = &process["sites"][0];
    for (figures, live) in [
        (&report["totals"], 13),
        (&process["totals"], 13),
        (site, 10),
    ] {
        assert_eq!(figures["live_bytes"], live * HUGE);
        assert_eq!(figures["live_bytes_low"], live * HUGE);
        let high = figures["live_bytes_high"].as_u64().expect("a number");
        assert!(
            high > live * HUGE && high < live * HUGE + (4 << 20),
            "{high}"
        );
        assert_eq!(figures["live_blocks"], live);
        assert!(figures["peak_bytes"].is_null());
    }
    assert_eq!(report["totals"]["deallocations"], 2);
    assert_eq!(process["sampling"]["period_bytes"], 512 << 10);
}

/// A further block like the one that was freed would have been sampled for certain.
#[test]
fn a_stack_whose_blocks_were_freed_has_none_live() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut story = Story::new(1, Some(Period::DEFAULT));
    let block = story.allocate(1, HUGE);
    story.free(block);
    save_all(&folder.path().join("freed.allotrope"), &[&story]);
    let report = fine(
        folder.path(),
        &["report", "freed.allotrope", "--format", "json"],
    );
    let site = &json(&report)["processes"][0]["sites"][0];
    assert_eq!(
        (&site["allocations"], &site["live_blocks"]),
        (&1.into(), &0.into())
    );
    // The end is rounded outwards.
    assert!(site["live_blocks_high"].as_u64() <= Some(1), "{site:#}");
}

#[test]
fn diff_tells_what_may_be_chance() {
    let folder = folder();
    let mut more = huge_blocks();
    (0..5).for_each(|_| _ = more.allocate(1, HUGE));
    // One small block more, which may or may not have been sampled.
    more.allocate(2, 16);
    save_all(&folder.path().join("more.allotrope"), &[&more]);
    let files = [
        "diff",
        "huge.allotrope",
        "more.allotrope",
        "--metric",
        "leaked",
    ];
    let diff = json(&fine(
        folder.path(),
        &[&files[..], &["--format", "json"]].concat(),
    ));
    assert_eq!(diff["difference"], 5 * HUGE);
    assert_eq!(diff["may_be_chance"], false);
    let low = diff["difference_low"].as_i64().expect("a number");
    let high = diff["difference_high"].as_i64().expect("a number");
    assert!(
        low <= 5 * HUGE as i64 && 5 * HUGE as i64 <= high,
        "{low} {high}"
    );
    let entry = &diff["entries"][0];
    for (of, side, live) in [
        (&diff, "before", 13),
        (&diff, "after", 18),
        (entry, "after", 8),
    ] {
        assert_eq!(of[side], live * HUGE, "{side}");
        assert_eq!(of[format!("{side}_low")], live * HUGE, "{side}");
        let high = of[format!("{side}_high")].as_u64().expect("a number");
        assert!((live * HUGE + 1..live * HUGE + (4 << 20)).contains(&high));
    }
    assert_eq!(entry["difference"], 5 * HUGE);
    assert_eq!(entry["may_be_chance"], false);
    let same = [
        "diff",
        "huge.allotrope",
        "huge.allotrope",
        "--metric",
        "leaked",
    ];
    let text = fine(folder.path(), &same);
    text.has("not distinguishable from chance");
}

#[test]
fn different_samples_of_equal_programs_are_chance() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut held = 0;
    for run in 0..100_u64 {
        for (name, seed) in [("a.allotrope", 2 * run), ("b.allotrope", 2 * run + 1)] {
            let mut story = Story::new(seed, Some(Period::DEFAULT));
            (0..2000).for_each(|_| _ = story.allocate(0, 8 << 10));
            save_all(&folder.path().join(name), &[&story]);
        }
        let files = ["diff", "a.allotrope", "b.allotrope", "--metric", "leaked"];
        let diff = json(&fine(
            folder.path(),
            &[&files[..], &["--format", "json"]].concat(),
        ));
        held += u32::from(diff["may_be_chance"] == true);
    }
    assert!(held >= 90, "{held}");
}

#[test]
fn exports_have_the_estimates() {
    let folder = folder();
    let folded = [
        "export",
        "huge.allotrope",
        "--format",
        "folded",
        "--metric",
        "leaked",
    ];
    let output = allotrope(folder.path(), &folded);
    output.errors.has("95 % interval");
    let count = format!(" {}", 10 * HUGE);
    assert!(
        output.out.lines().any(|line| line.ends_with(&count)),
        "{}",
        output.out
    );
    let stacks = json(&fine(
        folder.path(),
        &["export", "huge.allotrope", "--format", "json"],
    ));
    assert_eq!(stacks["sampled"]["period_bytes"], 512 << 10);
    let totals = &stacks["sampled"]["totals"];
    assert_eq!(totals["leaked_bytes"], 13 * HUGE);
    assert_eq!(totals["leaked_bytes_low"], 13 * HUGE);
    assert!(totals["leaked_bytes_high"].as_u64() > Some(13 * HUGE));
    let metrics = stacks["metrics"].as_array().expect("a list");
    let leaked = metrics.iter().position(|it| it == "leaked_bytes");
    let leaked = leaked.expect("leaked bytes");
    let all = stacks["stacks"].as_array().expect("a list");
    let stack = all.iter().find(|it| it["figures"][leaked] == 10 * HUGE);
    let stack = stack.expect("the stack of ten blocks");
    assert_eq!(stack["figures_low"][leaked], 10 * HUGE);
    assert!(stack["figures_high"][leaked].as_u64() > Some(10 * HUGE));
    let table = fine(
        folder.path(),
        &["export", "huge.allotrope", "--format", "csv"],
    );
    let rows: Vec<Vec<&str>> = table.lines().map(|it| it.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|it| *it == name).expect(name);
    let of = |row: &[&str], name: &str| row[column(name)].parse::<u64>().expect(name);
    let row = rows[1..]
        .iter()
        .find(|it| of(it, "leaked_bytes") == 10 * HUGE);
    let row = row.expect("the row of ten blocks");
    assert_eq!(of(row, "leaked_bytes_low"), 10 * HUGE);
    assert!(of(row, "leaked_bytes_high") > 10 * HUGE);
    assert!(of(row, "allocations_low") <= of(row, "allocations"));
    for format in ["pprof", "dhat", "stacks", "speedscope", "perfetto", "csv"] {
        let out = format!("out.{format}");
        let arguments = ["export", "huge.allotrope", "--format", format, "-o", &out];
        fine(folder.path(), &arguments);
        assert!(folder.path().join(out).metadata().expect("a file").len() > 0);
    }
    let graph = ["report", "huge.allotrope", "--flamegraph", "out.svg"];
    fine(folder.path(), &graph);
    let svg = std::fs::read_to_string(folder.path().join("out.svg")).expect("a file");
    svg.has("leaked bytes");
    // Samples have no times.
    for format in ["firefox", "heaptrack"] {
        let output = allotrope(
            folder.path(),
            &["export", "huge.allotrope", "--format", format],
        );
        assert_eq!(output.status, Some(2), "{format}");
        output.errors.has("no times");
    }
    let peak = [
        "export",
        "huge.allotrope",
        "--format",
        "folded",
        "--metric",
        "peak",
    ];
    assert_eq!(allotrope(folder.path(), &peak).status, Some(2));
}

#[test]
fn what_samples_cannot_give_is_refused_in_one_sentence() {
    let folder = folder();
    let mut story = Story::new(1, None);
    story.allocate(0, HUGE);
    save_all(&folder.path().join("off.allotrope"), &[&story]);
    for arguments in [
        &["report", "huge.allotrope", "--tree"][..],
        &["report", "huge.allotrope", "--by", "thread"],
        &["report", "huge.allotrope", "--from", "1s"],
        &["report", "huge.allotrope@1s"],
        &["report", "huge.allotrope", "--metric", "peak"],
        &["report", "huge.allotrope", "--window", "w"],
        &["report", "huge.allotrope", "--process", "9"],
        &["show", "huge.allotrope", "1"],
        &["show", "huge.allotrope", "site:9"],
        &["show", "huge.allotrope", "site:x"],
        &[
            "diff",
            "huge.allotrope",
            "huge.allotrope",
            "--metric",
            "peak",
        ],
        &[
            "diff",
            "huge.allotrope",
            "huge.allotrope",
            "--fail-on",
            "bytes>+0",
        ],
        &["diff", "huge.allotrope", "huge.allotrope", "--per", "2"],
        &["diff", "huge.allotrope", "off.allotrope"],
        &[
            "export",
            "huge.allotrope",
            "--format",
            "folded",
            "--per",
            "2",
        ],
        &["symbolize", "huge.allotrope"],
    ] {
        let output = allotrope(folder.path(), arguments);
        assert_eq!(output.status, Some(2), "{arguments:?}: {}", output.errors);
        assert_eq!(output.out, "", "{arguments:?}");
    }
    // Never sampled: the report says so.
    let text = fine(folder.path(), &["report", "off.allotrope"]);
    text.has("nothing is known");
}

/// A process that was sampled from the third second on: 3 huge blocks before that are in no figure.
fn late(folder: &Path) {
    let mut story = Story::new(1, None);
    for _ in 0..3 {
        story.allocate(0, HUGE);
    }
    story.set(Some(Period::DEFAULT));
    story.pages.now.set(BEGAN + 2_000_000_000);
    // The thread looks after 64 KiB.
    story.allocate(1, 64 << 10);
    for _ in 0..2 {
        story.allocate(0, HUGE);
    }
    save_all(&folder.join("late.allotrope"), &[&story]);
}

#[test]
fn all_outputs_say_since_when_a_process_was_sampled() {
    let folder = folder();
    late(folder.path());
    let since = "process 101 was sampled since 2023-11-14 22:13:22 UTC, 2.00 s after its start; nothing is known of blocks from other times";
    let report = allotrope(folder.path(), &["report", "late.allotrope"]);
    let text = format!("{}{}", report.out, report.errors);
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").has(since);
    text.has("128.0 MiB (128.0 MiB–?");
    // What was allocated is what was allocated while sampling was on.
    text.lacks("allocated  128.0 MiB (128.0 MiB–?");
    let report = json(&fine(
        folder.path(),
        &["report", "late.allotrope", "--format", "json"],
    ));
    schema::check_sampled(&report);
    let totals = &report["totals"];
    assert_eq!(totals["live_bytes"], 2 * HUGE);
    assert!(totals["live_bytes_high"].is_null() && totals["live_blocks_high"].is_null());
    assert!(totals["allocated_bytes_high"].is_u64());
    let process = &report["processes"][0];
    assert!(process["sites"][0]["live_bytes_high"].is_null());
    let sampling = &process["sampling"];
    assert_eq!(sampling["since_us"], 2_000_000);
    assert!(sampling["until_us"].is_null() && sampling["is_complete"] == false);
    assert!(report["warnings"].to_string().contains(since));
    let export = |format: &str| {
        let arguments = ["export", "late.allotrope", "--format", format, "-o", format];
        fine(folder.path(), &[&arguments[..], &["--force"]].concat());
        std::fs::read(folder.path().join(format)).expect("a file")
    };
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut pprof = Vec::new();
    let zipped = export("pprof");
    let mut unzipped = GzDecoder::new(&*zipped);
    unzipped.read_to_end(&mut pprof).expect("gzip");
    lossy(&pprof).has_all([since, "128.0 MiB–?"]);
    lossy(&export("json")).has(since);
    lossy(&export("csv")).has(format!(",{},,", 2 * HUGE));
    // A difference from it may be any amount.
    let arguments = ["diff", "huge.allotrope", "late.allotrope"];
    let diff = [&arguments[..], &["--metric", "leaked", "--format", "json"]].concat();
    let diff = allotrope(folder.path(), &diff);
    let diff = json(&diff.out);
    assert!(
        diff["difference_high"].is_null() && diff["after_high"].is_null(),
        "{diff:#}"
    );
    assert!(diff["difference_low"].is_i64() && diff["before_high"].is_u64());
    let page = [
        "diff",
        "huge.allotrope",
        "late.allotrope",
        "--html",
        "diff.html",
    ];
    fine(folder.path(), &page);
    fine(
        folder.path(),
        &["report", "late.allotrope", "--html", "late.html"],
    );
    // One that was sampled from its start says nothing of the kind.
    let whole = json(&fine(
        folder.path(),
        &["report", "huge.allotrope", "--format", "json"],
    ));
    assert_eq!(whole["processes"][0]["sampling"]["is_complete"], true);
    whole["warnings"].to_string().lacks("was sampled since");
}
