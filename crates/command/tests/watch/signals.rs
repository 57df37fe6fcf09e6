//! Poireau's lines and signals.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use crate::process::{Program, Watcher};

/// The next line that begins a list, and the lines of the list up to `last`.
fn list(watcher: &mut Watcher, head: &str, lines: usize) -> Vec<String> {
    while !watcher.line().ends_with(head) {}
    (0..lines).map(|_| watcher.line()).collect()
}

/// The value of a field of a line.
fn field<'l>(line: &'l str, name: &str) -> &'l str {
    let mut fields = line.trim_start().split(' ');
    let found = fields.find_map(|it| it.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {name} in {line:?}"))
}

#[test]
fn signals_print_what_is_live_old_and_freed() {
    let mut program = Program::new("prepared");
    program.tell("alloc leak 2 1000 20");
    program.tell("alloc cache 2 500 0");
    program.tell("free cache 1");
    let options = ["--format", "poireau", "--old", "10s", "--every", "1h"];
    let mut watcher = program.start_watch(&options);
    program.wait_for_watcher();
    watcher.signal(Signal::HUP);
    let live = list(&mut watcher, " live allocations", 3);
    let sizes: Vec<&str> = live.iter().map(|it| field(it, "size")).collect();
    assert_eq!(sizes, ["1000", "1000", "500"]);
    watcher.signal(Signal::USR2);
    let freed = list(&mut watcher, " recently freed regions", 1);
    assert_eq!(field(&freed[0], "size"), "500");
    assert!(freed[0].starts_with("\tptr=1000"), "{freed:?}");
    assert!(
        field(&freed[0], "free").contains("story_free;"),
        "{freed:?}"
    );
    assert!(
        field(&freed[0], "alloc").contains("story_cache;"),
        "{freed:?}"
    );
    let [freed_at, allocated_at] =
        ["f_time", "ctime"].map(|it| field(&freed[0], it).parse::<f64>().expect("a time"));
    assert!(freed_at >= allocated_at);
    watcher.signal(Signal::USR1);
    for line in list(&mut watcher, " old allocations", 2) {
        assert!(line.starts_with("\tsize=1000 c_age="), "{line:?}");
        assert!(field(&line, "c_age").parse::<f64>().expect("an age") >= 20.0);
        let names: Vec<&str> = field(&line, "alloc").split(';').collect();
        let leak = names.iter().position(|it| it.ends_with("story_leak"));
        let main = names.iter().position(|it| it.ends_with("story_main"));
        assert!(leak.is_some() && leak < main, "{line:?}");
    }
    // What USR1 has printed is no longer reported as old.
    program.tell("alloc leak 1 77 20");
    watcher.signal(Signal::USR1);
    let old = list(&mut watcher, " old allocations", 1);
    assert_eq!(field(&old[0], "size"), "77");
    watcher.signal(Signal::USR1);
    assert!(watcher.line().ends_with(" old allocations"));
    watcher.signal(Signal::HUP);
    list(&mut watcher, " live allocations", 4);
    watcher.signal(Signal::TERM);
    assert_eq!(watcher.wait(), Some(128 + 15));
}

#[test]
fn a_reallocated_block_has_both_ages_and_stacks() {
    let mut program = Program::new("prepared");
    program.tell("alloc leak 2 1000 20");
    program.tell("alloc cache 1 500 20");
    program.tell("realloc leak");
    let mut watcher = program.start_watch(&["--format", "poireau", "--every", "1h"]);
    program.wait_for_watcher();
    watcher.signal(Signal::HUP);
    let lines = list(&mut watcher, " live allocations", 3);
    let order = |line: &str| {
        let fields = line.trim_start().split(' ').filter(|it| it.contains('='));
        let names = fields.map(|it| it.split('=').next().unwrap_or_default().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(order(&lines[0]), ["size", "c_age", "alloc"]);
    for line in &lines[1..] {
        assert_eq!(order(line), ["size", "c_age", "alloc", "m_age", "realloc"]);
        let [since_first, since_last] =
            ["c_age", "m_age"].map(|it| field(line, it).parse::<f64>().expect("an age"));
        assert!(since_first >= 20.0 && since_last < since_first, "{line:?}");
        for stack in ["alloc", "realloc"] {
            assert!(field(line, stack).contains("story_leak;"), "{line:?}");
        }
    }
    drop(watcher);
    let mut watcher = program.start_watch(&["--format", "json", "--every", "200ms"]);
    watcher.report(|_| true);
    watcher.signal(Signal::HUP);
    let block = watcher.object(|it| it["kind"] == "live_block" && it["size"] == 1000);
    assert!(block["first_age_seconds"].as_f64() > block["age_seconds"].as_f64());
    assert_eq!(block["first_stack"], block["stack"]);
}

#[test]
fn the_high_water_mark_in_poireaus_lines() {
    let mut program = Program::new("sampled");
    program.tell("alloc leak 3 67108864 0");
    let options = [
        "--format",
        "poireau",
        "--every",
        "200ms",
        "--track-high-water-mark",
    ];
    let mut watcher = program.start_watch(&options);
    let head = "allocations at new high water mark 201.326592 MB";
    let at_mark = list(&mut watcher, head, 3);
    assert!(at_mark.iter().all(|it| field(it, "size") == "67108864"));
    program.tell("free leak 2");
    watcher.signal(Signal::HUP);
    list(&mut watcher, " live allocations", 1);
    let head = "allocations at current high water mark 201.326592 MB";
    list(&mut watcher, head, 3);
}

#[test]
fn each_process_has_its_own_part_of_the_high_water_mark() {
    let [mut one, mut two] = [Program::new("sampled"), Program::new("sampled")];
    one.tell("alloc leak 3 67108864 0");
    two.tell("alloc leak 1 67108864 0");
    let [first, second] = [one.id(), two.id()].map(|it| it.to_string());
    let mut arguments = vec!["watch", &first, &second, "--format", "poireau"];
    arguments.extend(["--every", "200ms", "--track-high-water-mark"]);
    let mut watcher = Watcher::new(&arguments);
    let mut heads: Vec<String> = Vec::new();
    while heads.len() < 2 {
        let line = watcher.line();
        heads.extend(line.split_once("mark ").map(|it| it.1.to_owned()));
    }
    heads.sort();
    let expected = [
        format!("201.326592 MB of process {first} (story)"),
        format!("67.108864 MB of process {second} (story)"),
    ];
    assert_eq!(heads, expected);
}

#[test]
fn suppressed_blocks_are_not_listed_as_old() {
    let mut program = Program::new("sampled");
    program.tell("alloc leak 2 1000 20");
    program.tell("alloc cache 3 500 30");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("known.supp");
    std::fs::write(&file, "leak:story_cache\n").expect("a file");
    let file = file.to_str().expect("a path");
    let options = ["--old", "10s", "--suppressions", file, "--format"];
    let mut watcher =
        program.start_watch(&[&options[..], &["poireau", "--every", "100ms"]].concat());
    for line in list(&mut watcher, " old allocations", 2) {
        assert_eq!(field(&line, "size"), "1000");
    }
    assert!(watcher.line().ends_with(" old allocations"));
    // All live ones are all.
    watcher.signal(Signal::HUP);
    let live = list(&mut watcher, " live allocations", 5);
    assert_eq!(field(&live[0], "size"), "500");
    drop(watcher);
    let mut watcher = program.start_watch(&[&options[..], &["json", "--every", "200ms"]].concat());
    watcher.report(|_| true);
    watcher.signal(Signal::USR1);
    for _ in 0..2 {
        let block = watcher.object(|it| it["kind"] == "old_block");
        assert_eq!(block["size"], 1000);
    }
    let after = watcher.object(|it| it["kind"] == "old_block" || it["old_blocks"] == 0);
    assert_eq!(after["kind"], "report");
}

#[test]
fn signals_print_blocks_in_json() {
    let mut program = Program::new("sampled");
    program.tell("alloc leak 2 1000 20");
    program.tell("alloc cache 1 500 0");
    program.tell("free cache 1");
    let mut watcher =
        program.start_watch(&["--format", "json", "--every", "200ms", "--old", "10s"]);
    watcher.report(|_| true);
    for (signal, kind, size) in [
        (Signal::HUP, "live_block", 1000),
        (Signal::USR1, "old_block", 1000),
        (Signal::USR2, "freed_block", 500),
    ] {
        watcher.signal(signal);
        let block = watcher.object(|it| it["kind"] == kind);
        assert_eq!(
            (&block["size"], &block["pid"]),
            (&size.into(), &program.id().into())
        );
        assert_eq!(block["free_stack"].is_array(), kind == "freed_block");
    }
    // Hidden blocks are live, but not reported as old.
    let report = watcher.report(|it| it["old_blocks"] == 0);
    assert_eq!(report["samples"], 2);
}

#[test]
fn the_blocks_of_the_high_water_mark_in_json() {
    let mut program = Program::new("sampled");
    program.tell("alloc leak 3 67108864 0");
    let options = [
        "--format",
        "json",
        "--every",
        "200ms",
        "--track-high-water-mark",
    ];
    let mut watcher = program.start_watch(&options);
    let mark = watcher.report(|it| it["high_water"]["samples"] == 3)["high_water"].clone();
    program.tell("free leak 2");
    watcher.report(|it| it["samples"] == 1);
    watcher.signal(Signal::HUP);
    let live = watcher.object(|it| it["kind"] == "live_block");
    assert_eq!(live["size"], 67_108_864);
    for _ in 0..3 {
        let block = watcher.object(|_| true);
        assert_eq!(block["kind"], "high_water_block");
        assert_eq!(
            (&block["size"], &block["pid"], &block["time"]),
            (&67_108_864.into(), &program.id().into(), &mark["time"])
        );
        assert!(block["stack"].to_string().contains("story_leak"));
    }
    watcher.report(|_| true);
}

/// The program frees it after the first of these moments and before the second.
#[test]
fn a_freed_block_has_the_time_of_its_deallocation() {
    let now = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.expect("1970").as_secs_f64()
    };
    let mut program = Program::new("sampled");
    program.tell("alloc cache 1 500 0");
    let before = now();
    program.tell("free cache 1");
    let after = now();
    let mut watcher = program.start_watch(&["--format", "json", "--every", "200ms"]);
    watcher.report(|_| true);
    watcher.signal(Signal::USR2);
    let block = watcher.object(|it| it["kind"] == "freed_block");
    let freed = block["freed_time"].as_f64().expect("a time");
    // The two clocks are not read at the same instant.
    assert!(
        (before - 0.5..after + 0.5).contains(&freed),
        "{before} {freed} {after}"
    );
}
