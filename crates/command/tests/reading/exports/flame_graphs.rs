//! `report --flamegraph`, and `diff --flamegraph` where one side or both have nothing.

use std::path::Path;

use crate::exports::{METRICS, fine, folder, steps};
use crate::support::{Recording, Text, compiled, record};

/// The graph that a command writes; it must print no report.
fn graph(arguments: &[&str]) -> String {
    let folder = folder();
    let path = folder.path().join("out.svg");
    let file = path.to_str().expect("a plain name");
    fine(&[arguments, &["--flamegraph", file]].concat());
    let svg = std::fs::read_to_string(&path).expect("it was written");
    assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"));
    svg
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain name")
}

fn recorded(case: &str) -> Recording {
    record(compiled("metrics.c")).arg(case).run().ok()
}

#[test]
fn a_recording_is_drawn_by_any_metric() {
    let trace = text(&METRICS.trace);
    for (options, parts) in [
        (
            &[][..],
            &["first (10 allocations, 83.33%)", "12 allocations"][..],
        ),
        (
            &["--metric", "leaked"],
            &["first (10,000 leaked bytes, 66.67%)", "15,000 leaked bytes"],
        ),
        (
            &["--metric", "peak"],
            &["second (20,000 bytes at the peak, 66.67%)"],
        ),
        (
            &["--metric", "bytes", "--filter", "third"],
            &[
                "third (5,000 allocated bytes, 100.00%)",
                "stacks with third",
            ],
        ),
    ] {
        let svg = graph(&[&["report", trace], options].concat());
        for part in parts {
            assert!(svg.contains(part), "{options:?}: {part}");
        }
        assert_eq!(svg, graph(&[&["report", trace], options].concat()));
    }
    let filtered = graph(&["report", trace, "--filter", "third"]);
    assert!(!filtered.contains("second ("));
}

#[test]
fn a_moment_is_drawn() {
    let moment = format!("{}@between", text(&steps()));
    let svg = graph(&["report", &moment, "--metric", "bytes"]);
    svg.has("first_step (10,000 allocated bytes, 100.00%)");
}

#[test]
fn an_empty_side_is_drawn() {
    let nothing = recorded("nothing");
    let (nothing, some) = (text(&nothing.trace), text(&METRICS.trace));
    let appeared = graph(&["diff", nothing, some]);
    appeared.has("first (0 → 10, +10)");
    let vanished = graph(&["diff", some, nothing]);
    vanished.has("first (10 → 0, -10)");
    let neither = graph(&["diff", nothing, nothing]);
    neither.has("nothing to compare");
    let same = graph(&["diff", some, some]);
    same.has("first (10, no change)");
    let alone = graph(&["report", nothing]);
    alone.has("no allocations (0 allocations");
}

#[test]
fn the_filter_of_a_diff_selects_what_is_drawn() {
    let nothing = recorded("nothing");
    let (nothing, some) = (text(&nothing.trace), text(&METRICS.trace));
    let svg = graph(&["diff", nothing, some, "--filter", "third"]);
    svg.has("third (0 → 1, +1)");
    svg.lacks("first (");
}

/// `attribution.c` recurses to the depth that it is told, and allocates in the innermost frame.
#[test]
fn a_graph_says_that_deeper_frames_are_left_out() {
    let deep = |depth: &str| {
        let program = record(compiled("attribution.c"));
        program.args(["recurse", depth]).run().ok()
    };
    let note = "frames deeper than 1000 are left out";
    assert!(graph(&["report", text(&deep("1200").trace)]).contains(note));
    assert!(!graph(&["report", text(&deep("50").trace)]).contains(note));
}

#[test]
fn a_graph_can_be_printed() {
    let trace = text(&METRICS.trace);
    let printed = fine(&["report", trace, "--flamegraph", "-"]);
    assert_eq!(printed, graph(&["report", trace]).into_bytes());
    let folded = fine(&["export", trace, "--format", "folded", "-o", "-"]);
    assert_eq!(folded, fine(&["export", trace, "--format", "folded"]));
    assert!(!Path::new("-").exists());
}
