//! `record --counts-only`: the counts are exact, values that are not measured are
//! marked so, and commands that need call stacks refuse. The programs are
//! `programs/counts.c` and those of other tests; full recordings must give the same
//! counts.

use std::path::Path;

use crate::support::{
    Record, Recording, Report, Text, allotrope, compile, compiled, compiled_with, record,
};
use serde_json::Value;

/// Allocations, bytes, deallocations, reallocations.
type Counts = [u64; 4];

const COUNTED: [&str; 4] = [
    "allocations",
    "allocated_bytes",
    "deallocations",
    "reallocations",
];

fn counts(object: &Value) -> Counts {
    COUNTED.map(|name| object[name].as_u64().unwrap_or_else(|| panic!("{name}")))
}

fn counted(program: Record) -> Recording {
    program.option("--counts-only").run()
}

fn case(name: &str) -> Record {
    record(compiled("counts.c")).arg(name)
}

/// The totals of each image, in order of start.
fn totals(report: &Report) -> Vec<Counts> {
    let processes = report.processes();
    for process in &processes {
        assert_eq!(process.number("lost_events"), 0, "{}", report.summary());
    }
    let all = processes.iter().map(|it| counts(&it.json["totals"]));
    all.collect()
}

/// The counts of a case without those of `nothing`, which are part of every case.
fn beyond(totals: &Counts, nothing: &Counts) -> Counts {
    std::array::from_fn(|index| totals[index] - nothing[index])
}

fn nothing() -> Counts {
    let recording = counted(case("nothing")).ok();
    totals(&recording.report())[0]
}

#[test]
fn a_killed_program_has_counted_everything() {
    let report = counted(case("killed")).code(128 + 9).report();
    let found = beyond(&totals(&report)[0], &nothing());
    assert_eq!(found, [12346, 12345 * 20 + 7, 12345, 0]);
}

#[test]
fn handlers_that_interrupt_a_count_lose_nothing() {
    let allocator = compiled_with("handler_safe.c", &["-shared", "-fPIC"]);
    let under = |program: Record| counted(program.env("LD_PRELOAD", &allocator)).ok();
    let nothing = totals(&under(case("nothing")).report())[0];
    let recording = under(case("signals"));
    let handled: u64 = recording
        .text()
        .parse()
        .expect("the program writes a number");
    let pairs = 3_000_000;
    let found = beyond(&totals(&recording.report())[0], &nothing);
    let all = pairs + handled;
    assert_eq!(found, [all, pairs * 100 + handled * 10, all, 0]);
}

#[test]
fn threads_that_follow_one_another_are_counted_apart() {
    let report = counted(case("reuse")).ok().report();
    let process = report.only();
    let threads = process.json["threads"].as_array().expect("it is counted");
    let main = process.number("pid");
    let mut found: Vec<[u64; 3]> = threads
        .iter()
        .filter(|thread| thread["tid"] != main)
        .map(|thread| {
            ["allocations", "allocated_bytes", "deallocations"]
                .map(|name| thread[name].as_u64().expect("a number"))
        })
        .collect();
    found.sort_unstable();
    let expected: Vec<[u64; 3]> = (1..=40).map(|n| [n, 16 * n, n]).collect();
    assert_eq!(found, expected);
    let sum: u64 = threads
        .iter()
        .map(|thread| thread["allocations"].as_u64().expect("a number"))
        .sum();
    assert_eq!(sum, process.total("allocations"));
}

/// The C library caches what it allocates for a thread together with the thread's
/// stack. So deallocations are exact, and allocations may be a few more.
#[test]
fn forked_children_count_for_themselves() {
    let report = counted(case("forks")).ok().report();
    let all = totals(&report);
    assert_eq!(all.len(), 21, "{}", report.summary());
    for [allocations, bytes, deallocations, _] in &all[1..] {
        assert_eq!(*deallocations, 3 + 5, "{}", report.summary());
        assert!((8..10).contains(allocations), "{}", report.summary());
        assert!(*bytes >= 3 * 48 + 5 * 16);
    }
    let [allocations, _, deallocations, _] = beyond(&all[0], &nothing());
    assert_eq!(deallocations, 400_000, "{}", report.summary());
    let of_threads = allocations - 400_000;
    assert!(of_threads <= 4, "{}", report.summary());
}

#[test]
fn counts_begin_at_zero_after_exec() {
    let report = counted(case("again")).ok().report();
    let all = totals(&report);
    assert_eq!(all.len(), 2, "{}", report.summary());
    for image in &all {
        assert_eq!(beyond(image, &nothing()), [100, 800, 100, 0]);
    }
}

/// The totals of all images in ascending order: concurrent images start in any.
fn sorted(report: &Report) -> Vec<Counts> {
    let mut all = totals(report);
    all.sort_unstable();
    all
}

#[track_caller]
fn agree(program: impl Fn() -> Record, what: &str) {
    let full = program().run();
    let counted = counted(program());
    assert_eq!(full.status, counted.status, "{what}");
    assert_eq!(sorted(&counted.report()), sorted(&full.report()), "{what}");
}

#[test]
fn every_entry_point_counts_as_it_is_recorded() {
    let text = compile::source_text("entry_points.c");
    let cases: Vec<&str> = text
        .lines()
        .filter_map(|line| Some(line.split_once("truth ")?.1.split_once(':')?.0))
        .collect();
    assert!(cases.len() > 15, "{cases:?}");
    for case in cases {
        agree(|| record(compiled("entry_points.c")).arg(case), case);
    }
}

#[test]
fn process_trees_count_as_they_are_recorded() {
    for case in ["inherited", "generations", "vfork", "spawn", "system"] {
        agree(|| record(compiled("processes.c")).arg(case), case);
    }
}

#[test]
fn threads_count_as_they_are_recorded() {
    for case in ["exact", "handover", "many", "keys", "small_stack"] {
        agree(|| record(compiled("threads.c")).arg(case), case);
    }
}

/// Operators of an allocator that call its own `malloc` count each call once.
#[test]
fn operators_of_an_allocator_count_once() {
    let library = Path::new("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2");
    if !library.exists() {
        return crate::support::skip("install Debian's libjemalloc2");
    }
    for source in ["allocator_operators.cc", "mallocx.c"] {
        agree(
            || record(compiled(source)).env("LD_PRELOAD", library),
            source,
        );
    }
}

#[test]
fn what_is_not_measured_is_null_in_json_and_marked_in_text() {
    let recording = counted(case("once")).ok();
    let report = recording.report();
    let totals = &report.only().json["totals"];
    for name in ["temporary_allocations", "leaked_bytes", "peak_bytes"] {
        assert!(totals[name].is_null(), "{name}: {}", totals[name]);
    }
    assert!(report.only().json["sites"].is_null());
    recording.stderr.has("not measured");
    let text = allotrope([Path::new("report"), &recording.trace]).text();
    for line in ["temporary", "leaked", "peak"] {
        let line = text.lines().find(|it| it.trim_start().starts_with(line));
        assert!(line.is_some_and(|it| it.contains("not measured")), "{text}");
    }
}

#[test]
fn commands_that_need_stacks_refuse() {
    let recording = counted(case("once")).ok();
    let trace = recording.trace.to_str().expect("a plain path");
    for arguments in [
        vec!["diff", trace, trace],
        vec!["export", "--format", "folded", trace],
        vec!["report", "--tree", trace],
        vec!["report", "--by", "size", trace],
        vec!["report", "--site", "1", trace],
    ] {
        let printed = allotrope(&arguments).fails(2, "--counts-only").errors();
        assert_eq!(printed.lines().count(), 1, "{arguments:?}: {printed}");
    }
}
