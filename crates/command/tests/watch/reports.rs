//! What is reported: live, old, grown since the mark, suppressed, the high-water mark.

use std::fs;

use crate::process::{Program, assert_holds, has_function, site};
use crate::support::record::command;
use crate::support::{Text, run};

/// Blocks of 64 MiB are all sampled with a period of 512 KiB, but for one in e^128.
const LARGE: i64 = 64 << 20;

#[test]
fn live_blocks_are_grouped_by_stack() {
    let mut program = Program::new("sampled");
    program.tell(&format!("alloc cache 3 {LARGE} 0"));
    program.tell(&format!("alloc leak 5 {LARGE} 0"));
    program.tell("free leak 1");
    let report = program.report(&[]);
    assert_eq!(report["format"], "allotrope-watch/1");
    assert_eq!(report["sites"].as_array().map(Vec::len), Some(2));
    for (function, blocks) in [("story_cache", 3), ("story_leak", 4)] {
        let site = site(&report, function);
        assert_eq!(site["samples"], blocks, "{site:#}");
        assert_holds(site, "live_blocks", blocks);
        assert_holds(site, "live_bytes", blocks * LARGE);
        assert_eq!(site["live_bytes"], blocks * LARGE);
        assert!(has_function(site, "story_main"), "{site:#}");
    }
    assert_holds(&report, "live_blocks", 7);
    // Nothing is suppressed.
    for figure in ["live_bytes", "live_bytes_high", "live_blocks"] {
        assert_eq!(report["suppressed"][figure], 0, "{report:#}");
    }
    assert_holds(&report, "live_bytes", 7 * LARGE);
    let process = &report["processes"][0];
    assert_eq!(process["pid"], program.id());
    assert_eq!(process["name"], "story");
    assert_eq!(process["period_bytes"], 512 << 10);
    assert_eq!(
        (&process["sampled"], &process["freed"]),
        (&8.into(), &1.into())
    );
    let text = program.watch(&["--once"]).text();
    text.has_all(["story_leak", "448.0 MiB"]);
}

/// On average, 30 of 3,855 blocks of 4 KiB are sampled: 3,855 × (1 − e^(−4/512)) = 30.0.
#[test]
fn small_blocks_are_estimated() {
    let mut program = Program::new("sampled");
    program.tell("alloc cache 30 4096 0");
    let report = program.report(&[]);
    let site = site(&report, "story_cache");
    assert_holds(site, "live_blocks", 3_855);
    assert_holds(site, "live_bytes", 3_855 * 4096);
    let estimate = site["live_blocks"].as_i64().expect("a number");
    assert!((3_850..3_860).contains(&estimate), "{site:#}");
    // With 30 samples nobody knows the number to a tenth.
    let low = site["live_blocks_low"].as_i64().expect("a number");
    assert!(low < 3_855 * 9 / 10, "{site:#}");
}

#[test]
fn a_block_is_old_from_its_last_reallocation_on() {
    let mut program = Program::new("sampled");
    program.tell(&format!("alloc cache 3 {LARGE} 20"));
    program.tell(&format!("alloc leak 5 {LARGE} 20"));
    program.tell(&format!("alloc leak 1 {LARGE} 0"));
    program.tell("realloc cache");
    let report = program.report(&["--old", "10s"]);
    assert_eq!(site(&report, "story_cache")["old_blocks"], 0);
    assert_eq!(site(&report, "story_leak")["old_blocks"], 5);
    assert_holds(site(&report, "story_leak"), "old_bytes", 5 * LARGE);
    assert_holds(&report, "old_blocks", 5);
    assert_eq!(program.report(&["--old", "2h"])["old_blocks"], 0);
}

#[test]
fn growth_counts_from_the_first_report_on() {
    let mut program = Program::new("sampled");
    program.tell(&format!("alloc cache 10 {LARGE} 0"));
    program.tell(&format!("alloc leak 2 {LARGE} 0"));
    let mut watcher = program.start_watch(&["--every", "100ms", "--format", "json"]);
    let first = watcher.report(|_| true);
    assert_eq!(first["grown_blocks"], 0);
    assert_eq!(site(&first, "story_cache")["trend"], "unknown");
    program.tell(&format!("alloc leak 4 {LARGE} 0"));
    program.tell("free cache 1");
    let later = watcher.report(|it| it["samples"] == 15);
    assert_eq!(site(&later, "story_leak")["grown_blocks"], 4);
    assert_holds(site(&later, "story_leak"), "grown_bytes", 4 * LARGE);
    assert_eq!(site(&later, "story_cache")["grown_blocks"], -1);
    assert_eq!(later["grown_bytes"], 3 * LARGE);
    assert_eq!(later["mark_time"], first["time"]);
}

#[test]
fn what_grows_is_told_from_what_does_not() {
    let mut program = Program::new("sampled");
    program.tell(&format!("alloc cache 10 {LARGE} 0"));
    program.tell(&format!("alloc leak 1 {LARGE} 0"));
    let mut watcher = program.start_watch(&["--every", "100ms", "--format", "json"]);
    for samples in 11..31 {
        watcher.report(|it| it["samples"] == samples);
        program.tell(&format!("alloc leak 1 {LARGE} 0"));
    }
    let report = watcher.report(|it| it["samples"] == 31);
    assert_eq!(site(&report, "story_leak")["trend"], "growing");
    assert_eq!(site(&report, "story_cache")["trend"], "flat");
}

#[test]
fn suppressed_stacks_are_counted_and_not_listed() {
    let mut program = Program::new("sampled");
    program.tell(&format!("alloc cache 3 {LARGE} 0"));
    program.tell(&format!("alloc leak 5 {LARGE} 0"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("known.supp");
    fs::write(&file, "# known\nleak:story_cache\n").expect("a file");
    let report = program.report(&["--suppressions", file.to_str().expect("a path")]);
    let sites = report["sites"].as_array().expect("sites");
    assert_eq!(sites.len(), 1);
    assert_eq!(site(&report, "story_leak")["samples"], 5);
    assert_eq!(report["suppressed"]["sites"], 1);
    assert_holds(&report["suppressed"], "live_bytes", 3 * LARGE);
    // They are live all the same.
    assert_holds(&report, "live_blocks", 8);
}

#[test]
fn the_high_water_mark_is_kept() {
    let mut program = Program::new("sampled");
    program.tell(&format!("alloc cache 9 {LARGE} 0"));
    let options = [
        "--every",
        "100ms",
        "--format",
        "json",
        "--track-high-water-mark=1MiB",
    ];
    let mut watcher = program.start_watch(&options);
    // The report's own look counts.
    let first = watcher.report(|_| true);
    assert_eq!(first["high_water"]["samples"], 9, "{first:#}");
    assert_eq!(first["high_water"]["is_new"], true);
    program.tell(&format!("alloc leak 1 {LARGE} 0"));
    let next = watcher.report(|it| it["samples"] == 10);
    assert_eq!(next["high_water"]["live_bytes"], next["live_bytes"]);
    program.tell("free leak 1");
    program.tell("free cache 7");
    let report = watcher.report(|it| it["samples"] == 2);
    let mark = &report["high_water"];
    assert_eq!(
        (&mark["samples"], &mark["is_new"]),
        (&10.into(), &false.into())
    );
    assert_eq!(site(mark, "story_cache")["live_bytes"], 9 * LARGE);
    let too_small = program.report(&["--take-over", "--track-high-water-mark=1TiB"]);
    assert!(too_small["high_water"].is_null());
}

#[test]
fn lines_of_text_fit_the_terminal() {
    let mut program = Program::new("sampled");
    program.tell(&format!("alloc leak 1 {LARGE} 20"));
    program.tell("alloc cache 30 4096 20");
    for columns in [50, 80] {
        let text = run(
            command()
                .args(["watch", &program.id().to_string(), "--once", "--old", "10s"])
                .env("COLUMNS", columns.to_string()),
            b"",
        )
        .text();
        // Names of functions and files are as long as they are.
        let is_figure = |it: &&str| it.contains(" to ") || it.contains("oldest");
        let lines: Vec<&str> = text.lines().filter(is_figure).collect();
        assert!(lines.len() > 5, "{text}");
        let widest = lines.iter().map(|it| it.chars().count()).max();
        assert!(widest <= Some(columns), "{text}");
        text.has("1 block (").lacks("1 blocks");
    }
}

#[test]
fn only_the_largest_stacks_are_listed() {
    let mut program = Program::new("sampled");
    program.tell(&format!("alloc cache 3 {LARGE} 0"));
    program.tell(&format!("alloc leak 5 {LARGE} 0"));
    let report = program.report(&["--top", "1"]);
    assert_eq!(report["sites"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["more_sites"], 1);
    site(&report, "story_leak");
}

#[test]
fn reports_are_appended_to_a_log() {
    let program = Program::new("sampled");
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("watch.log");
    for _ in 0..2 {
        let options = [
            "--once",
            "--format",
            "json",
            "--log",
            log.to_str().expect("a path"),
        ];
        let output = program.watch(&options);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    }
    let text = fs::read_to_string(&log).expect("the log");
    assert_eq!(text.lines().count(), 2);
}
