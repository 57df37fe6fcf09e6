//! Which blocks are lost at the exit: `record --reachability`. The expected numbers are those of
//! `programs/reachability.c` and `programs/reachability.cc`.

use std::path::Path;

use serde_json::Value;

use crate::support::{Process, Recording, Report, allotrope, check_each, compiled_with, record};

/// Without optimisation, so that no register has what the source has in no variable.
fn program() -> std::path::PathBuf {
    compiled_with("reachability.c", &["-O0"])
}

fn recorded(arguments: &[&str]) -> Recording {
    let program = record(program()).option("--reachability");
    program.args(arguments).run().ok()
}

/// Blocks by what was found of them.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Found {
    reachable: u64,
    definitely: u64,
    indirectly: u64,
    possibly: u64,
}

const NONE: Found = Found {
    reachable: 0,
    definitely: 0,
    indirectly: 0,
    possibly: 0,
};

const fn reachable(reachable: u64) -> Found {
    Found { reachable, ..NONE }
}

const fn lost(definitely: u64, indirectly: u64) -> Found {
    Found {
        definitely,
        indirectly,
        ..NONE
    }
}

const fn possibly(possibly: u64) -> Found {
    Found { possibly, ..NONE }
}

/// What was found of the live blocks that a function, or one that it called, has allocated.
#[track_caller]
fn found(process: &Process<'_>, function: &str) -> Found {
    let mut all = NONE;
    for site in process.sites_under(function) {
        let part = |name: &str| site["lost"][name]["allocations"].as_u64().unwrap_or(0);
        let [definitely, indirectly, possibly] = ["definitely", "indirectly", "possibly"].map(part);
        all.definitely += definitely;
        all.indirectly += indirectly;
        all.possibly += possibly;
        let live = site["leaked_allocations"].as_u64().expect("checked");
        all.reachable += live - definitely - indirectly - possibly;
    }
    all
}

/// The scan of a process: it has ended, and its sums are those of the sites.
#[track_caller]
fn scan<'a>(process: &Process<'a>) -> &'a Value {
    let scan = &process.json["reachability"];
    assert_eq!(scan["outcome"], "finished", "{scan}");
    scan
}

#[track_caller]
fn expect(report: &Report, expected: &[(&str, Found)]) {
    let process = report.only();
    let scan = scan(&process);
    for (function, expected) in expected {
        let found = found(&process, function);
        assert_eq!(found, *expected, "{function}: {scan}");
    }
}

#[test]
fn what_is_lost_is_what_the_source_has_lost() {
    check_each(
        [
            ("list", "make_node", reachable(10)),
            ("dropped", "make_node", lost(1, 9)),
            ("circle", "make_node", lost(1, 4)),
            ("both-ways", "make_node", lost(1, 7)),
            ("own-address", "make_node", lost(1, 0)),
            ("interior", "make_bytes", reachable(1)),
            ("behind", "make_bytes", lost(1, 0)),
            ("empty", "make_bytes", reachable(1)),
            ("empty", "make_node", lost(1, 0)),
            ("thread-local", "make_bytes", reachable(1)),
            ("moved", "moved", reachable(2)),
            ("not-moved", "make_bytes", reachable(1)),
            ("unreadable", "make_aligned", reachable(1)),
            ("unreadable", "make_node", reachable(1)),
            ("unmapped", "make_node", lost(3, 0)),
            ("own-memory", "make_node", possibly(4)),
            ("in-freed", "make_node", lost(2, 0)),
            ("before-free-memory", "make_bytes", lost(3, 0)),
            ("thread-ended", "make_node", lost(1, 2)),
            ("first-thread-ended", "make_node", lost(1, 1)),
        ],
        |(case, function, expected)| {
            expect(&recorded(&[case]).report(), &[(function, expected)]);
        },
    );
}

#[test]
fn objects_of_cpp_are_reached_by_their_inner_addresses() {
    let program = || compiled_with("reachability.cc", &["-O0"]);
    check_each(
        [
            ("array", "make_array", reachable(1)),
            ("lost-array", "make_array", lost(1, 0)),
            ("strings", "make_strings", reachable(12)),
            ("lost-strings", "make_strings", lost(1, 11)),
            ("second-base", "make_both", reachable(1)),
            ("owners", "make_parent", lost(1, 3)),
            ("lost-map", "make_map", lost(1, 14)),
        ],
        |(case, function, expected)| {
            let run = record(program()).option("--reachability").arg(case).run();
            expect(&run.ok().report(), &[(function, expected)]);
        },
    );
}

/// Where Debian puts other allocators.
const ALLOCATORS: [&str; 3] = [
    "libjemalloc.so.2",
    "libtcmalloc_minimal.so.4",
    "libmimalloc.so.2",
];

#[test]
fn other_allocators_too() {
    for file in ALLOCATORS {
        let library = Path::new("/usr/lib/x86_64-linux-gnu").join(file);
        if !library.exists() {
            println!("skipped: {file} is not installed");
            continue;
        }
        let found_in = |case: &str, function: &str| {
            let run = record(program()).option("--reachability").arg(case);
            let report = run.env("LD_PRELOAD", &library).run().ok().report();
            found(&report.only(), function)
        };
        for (case, function, blocks) in [
            ("list", "make_node", 10),
            ("interior", "make_bytes", 1),
            ("thread-local", "make_bytes", 1),
            ("moved", "moved", 2),
            ("unreadable", "make_node", 1),
        ] {
            assert_eq!(
                found_in(case, function),
                reachable(blocks),
                "{file}: {case}"
            );
        }
        // The allocator's own memory may have addresses of any block: nothing is worse than possibly lost.
        for (case, definitely, all) in [("dropped", 1, 10), ("circle", 1, 5)] {
            let found = found_in(case, "make_node");
            assert_eq!(found.reachable, 0, "{file}: {case}: {found:?}");
            assert!(found.definitely <= definitely, "{file}: {case}: {found:?}");
            let sum = found.definitely + found.indirectly + found.possibly;
            assert_eq!(sum, all, "{file}: {case}: {found:?}");
        }
    }
}

/// `many`: two million blocks. Whether a second is enough depends on the machine; if it is not, nothing is
/// claimed.
#[test]
fn two_million_blocks_are_told_apart_or_nothing_is_said() {
    let recording = recorded(&["many"]);
    let report = recording.report();
    let process = report.only();
    let scan = &process.json["reachability"];
    match scan["outcome"].as_str() {
        Some("finished") => {
            let expected = Found {
                reachable: 1_000_000,
                ..lost(1, 999_999)
            };
            assert_eq!(found(&process, "make_node"), expected);
        }
        Some("out-of-time") => {
            assert!(
                scan.get("lost").is_none() && scan.get("reachable").is_none(),
                "{scan}"
            );
            assert_eq!(found(&process, "make_node"), reachable(2_000_000));
            let report = allotrope(["report".as_ref(), recording.trace.as_os_str()]).ok();
            report.has("Reachability at exit: not finished within a second");
        }
        _ => panic!("{scan}"),
    }
}

#[test]
fn the_reports_say_what_is_lost() {
    let recording = recorded(&["dropped"]);
    let trace = recording.trace.as_os_str();
    const SUM: &str = "1 block (24 B) definitely lost, 9 blocks (216 B) indirectly lost";
    allotrope(["report".as_ref(), trace])
        .ok()
        .has(format!("Reachability at exit: {SUM}."));
    allotrope(["show".as_ref(), trace, "site:1".as_ref()])
        .ok()
        .has(format!("at exit      {SUM}"));
    allotrope(["report".as_ref(), trace, "--site".as_ref(), "1".as_ref()])
        .ok()
        .has(format!("at exit      {SUM}"));
    allotrope(["report".as_ref(), trace, "--lists".as_ref()])
        .ok()
        .has("definitely lost   1   10.0 %   24 B");
}

#[test]
fn without_the_option_nothing_is_said() {
    let report = record(program()).arg("dropped").run().ok().report();
    let process = report.only();
    assert!(process.json.get("reachability").is_none());
    assert!(
        process
            .sites()
            .iter()
            .all(|site| site.get("lost").is_none())
    );
}

#[test]
fn stacks_of_deallocations_can_be_recorded_besides() {
    let run = record(program())
        .option("--reachability")
        .option("--free-stacks");
    let report = run.arg("in-freed").run().ok().report();
    expect(&report, &[("make_node", lost(2, 0))]);
    let process = report.only();
    let freed = |site: &&Value| site.get("free_stacks").is_some();
    assert_eq!(process.sites().iter().filter(freed).count(), 1);
}

#[test]
fn what_it_cannot_work_with_is_refused() {
    for (option, sentence) in [
        (vec!["--counts-only"], "which blocks are live"),
        (
            vec!["--allocator", "alloc=a:1,free=b:1"],
            "what they hold is unknown",
        ),
    ] {
        let words = ["record", "--reachability"].into_iter().chain(option);
        allotrope(words.chain(["true"])).fails(125, sentence);
    }
}

#[test]
fn every_way_to_exit_is_examined() {
    check_each(["", "exit", "_exit", "_Exit", "quick_exit"], |way| {
        let report = recorded(&["dropped", way]).report();
        expect(&report, &[("make_node", lost(1, 9))]);
    });
    check_each(["exit", "_exit", "quick_exit"], |way| {
        let report = recorded(&["from-main", way]).report();
        expect(&report, &[("make_bytes", reachable(1))]);
    });
}

#[test]
fn with_other_threads_a_lost_block_is_only_possibly_lost() {
    let report = recorded(&["thread-stack", "exit"]).report();
    let expected = [("make_bytes", reachable(1)), ("make_node", possibly(1))];
    expect(&report, &expected);
    assert_eq!(scan(&report.only())["other_threads"], 1);
}

#[test]
fn a_forked_child_is_examined_for_its_own_blocks() {
    check_each(["exit", "_exit", "quick_exit"], |way| {
        let report = recorded(&["forked", way]).report();
        let processes = report.processes();
        let [parent, child] = processes.as_slice() else {
            panic!("{}", report.summary());
        };
        assert_eq!(found(parent, "make_node"), reachable(10));
        assert_eq!(found(child, "make_node"), lost(1, 2));
        scan(parent);
        scan(child);
    });
}
