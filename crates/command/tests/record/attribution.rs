//! The stacks of allocations in the report: function, file, line, column, inlined
//! frames, and all callers out to `_start`.

use crate::support::report::text;
use crate::support::{Process, Recording, column_of, compiled, compiled_with, line_of, record};
use serde_json::Value;

const C: &str = "attribution.c";

fn recorded(arguments: &[&str]) -> Recording {
    record(compiled(C)).args(arguments).run().ok()
}

/// The functions of a site's stack, from the innermost to `main`.
fn own<'a>(process: &Process<'a>, site: &Value) -> Vec<&'a str> {
    let functions = process.functions(site);
    let end = functions
        .iter()
        .position(|f| *f == "main")
        .unwrap_or_else(|| panic!("no main in {functions:?}"));
    functions[..=end].to_vec()
}

fn frame<'a>(process: &Process<'a>, site: &Value, function: &str) -> &'a Value {
    let stack = process.stack(site);
    stack
        .iter()
        .find(|frame| text(frame, "function") == function)
        .unwrap_or_else(|| panic!("no {function} in {:?}", process.functions(site)))
}

#[track_caller]
fn expect_location(frame: &Value, source: &str, mark: &str, word: &str) {
    let file = text(frame, "file");
    assert!(
        file.ends_with(&format!("tests/programs/{source}")),
        "file {file}"
    );
    assert_eq!(frame["line"], line_of(source, mark), "{frame}");
    let column = frame["column"].as_u64().expect("checked");
    let start = column_of(source, mark, word);
    let end = start + word.len() as u64;
    assert!(
        (start..=end).contains(&column),
        "column of {mark}, {start} to {end}: {frame}"
    );
}

#[test]
fn functions_files_lines_and_columns() {
    let recording = recorded(&["chain"]);
    let report = recording.report();
    let process = report.only();

    let through_middle = process.sites_under("middle");
    assert_eq!(through_middle.len(), 1);
    let site = through_middle[0];
    assert_eq!(own(&process, site), ["leaf", "middle", "outer", "main"]);
    assert_eq!(site["allocations"], 3);
    assert_eq!(site["allocated_bytes"], 3 * 11);
    expect_location(frame(&process, site, "leaf"), C, "leaf", "malloc");
    expect_location(frame(&process, site, "middle"), C, "middle", "leaf");
    expect_location(frame(&process, site, "outer"), C, "outer-middle", "middle");
    expect_location(frame(&process, site, "main"), C, "main-outer", "outer");
    for own in process.stack(site).iter().take(4) {
        assert_eq!(text(own, "module"), "attribution");
        assert_eq!(own["inlined"], false);
        assert_ne!(own["offset"], 0, "a return address is not the first byte");
    }

    // Two calls in one function are two sites.
    for mark in ["outer-first", "outer-second"] {
        let found = process.where_stack(|stack| {
            stack
                .iter()
                .any(|f| text(f, "function") == "outer" && f["line"] == line_of(C, mark))
        });
        assert_eq!((found.allocations, found.bytes), (1, 13), "{mark}");
    }
    assert_eq!(process.by("attribution", "leaf").allocations, 5);
}

#[test]
fn stacks_reach_the_start_of_the_program() {
    let recording = recorded(&["chain"]);
    let report = recording.report();
    let process = report.only();
    for site in process.sites_under("leaf") {
        let functions = process.functions(site);
        assert_eq!(functions.last(), Some(&"_start"), "{functions:?}");
    }
}

/// With gaps between the segments, the loader knows only the segment that an
/// address is in; the unwind information is in another one. (Node is built so.)
#[test]
fn programs_whose_segments_leave_gaps_are_walked_through() {
    let gaps = [
        "-no-pie",
        "-Wl,--build-id",
        "-Wl,-z,separate-code",
        "-Wl,--section-start=.text=0xb00000",
    ];
    let program = compiled_with(C, &gaps);
    let recording = record(program).args(["chain"]).run().ok();
    let report = recording.report();
    let process = report.only();
    let site = process.sites_under("middle")[0];
    assert_eq!(own(&process, site), ["leaf", "middle", "outer", "main"]);
    assert_eq!(process.functions(site).last(), Some(&"_start"));
}

#[test]
fn recursion_shows_every_frame() {
    for depth in [10, 1000, 3000] {
        let recording = recorded(&["recurse", &depth.to_string()]);
        let report = recording.report();
        let process = report.only();
        let site = process.site_under("recurse");
        let functions = process.functions(site);
        let frames = functions.iter().filter(|f| **f == "recurse").count();
        assert_eq!(frames, depth + 1);
        assert_eq!(site["allocations"], 1);
        assert_eq!(site["allocated_bytes"], 17);
        assert_eq!(functions.last(), Some(&"_start"));
    }
}

#[test]
fn a_stack_cut_at_the_limit_ends_with_truncated() {
    let recording = recorded(&["recurse", "6000"]);
    let report = recording.report();
    let process = report.only();
    let site = process.site_under("recurse");
    let functions = process.functions(site);
    assert_eq!(functions.last(), Some(&"[truncated]"));
    let frames = functions.iter().filter(|f| **f == "recurse").count();
    assert_eq!(frames, 4096, "the documented limit");
}

#[test]
fn frames_that_move_or_align_the_stack() {
    let recording = recorded(&["aligned"]);
    let report = recording.report();
    let process = report.only();
    let site = process.site_under("aligned");
    assert_eq!(own(&process, site), ["leaf", "moving", "aligned", "main"]);
}

#[test]
fn callbacks_of_the_c_library() {
    let recording = recorded(&["qsort"]);
    let report = recording.report();
    let process = report.only();
    let site = process.site_under("compare");
    let own = own(&process, site);
    assert_eq!(own[..2], ["leaf", "compare"]);
    assert_eq!(own[own.len() - 2..], ["sorting", "main"]);
    assert!(
        process
            .stack(site)
            .iter()
            .any(|f| text(f, "module").starts_with("libc.so")),
        "qsort lies in between"
    );
}

#[test]
fn a_signal_handler_on_another_stack() {
    let recording = recorded(&["signal"]);
    let report = recording.report();
    let process = report.only();
    let site = process.site_under("handler");
    let own = own(&process, site);
    assert_eq!(own[..2], ["leaf", "handler"]);
    assert_eq!(own[own.len() - 2..], ["raising", "main"]);
}

/// Frames that `longjmp` left must not reappear in later stacks.
#[test]
fn after_longjmp() {
    let recording = recorded(&["longjmp"]);
    let report = recording.report();
    let process = report.only();
    let site = process.site_under("after_jump");
    assert_eq!(
        own(&process, site),
        ["leaf", "after_jump", "jumping", "main"]
    );
    assert_eq!(process.under("jump").allocations, 3);
}

#[test]
fn a_coroutine_ends_where_its_stack_ends() {
    let recording = recorded(&["context"]);
    let report = recording.report();
    let process = report.only();
    let site = process.site_under("coroutine");
    let functions = process.functions(site);
    assert_eq!(functions[..2], ["leaf", "coroutine"]);
    assert!(!functions.contains(&"[truncated]"), "{functions:?}");
    assert!(!functions.contains(&"main"), "{functions:?}");
}

#[test]
fn cxx_names_and_inlined_frames() {
    const SOURCE: &str = "inlined.cc";
    let recording = record(compiled_with(SOURCE, &["-O2"])).run().ok();
    let report = recording.report();
    let process = report.only();

    let site = process.site_under("deep::innermost");
    assert_eq!(
        own(&process, site),
        [
            "deep::innermost",
            "deep::Thing::inlined_method",
            "deep::Thing::method",
            "calls",
            "main"
        ]
    );
    assert_eq!(site["allocations"], 5);
    assert_eq!(site["allocated_bytes"], 5 * 41);
    let inlined: Vec<bool> = process.stack(site)[..5]
        .iter()
        .map(|frame| frame["inlined"] == true)
        .collect();
    assert_eq!(inlined, [true, true, false, false, false]);
    let at = |function| frame(&process, site, function);
    expect_location(at("deep::innermost"), SOURCE, "innermost", "malloc(");
    expect_location(
        at("deep::Thing::inlined_method"),
        SOURCE,
        "inlined-method",
        "innermost(",
    );
    expect_location(
        at("deep::Thing::method"),
        SOURCE,
        "method",
        "inlined_method(",
    );
    assert_eq!(
        text(at("deep::Thing::method"), "signature"),
        "deep::Thing::method(int)"
    );

    let built = process.site_under("deep::build<long>");
    assert_eq!(built["allocated_bytes"], 43 * 8);
    let build = frame(&process, built, "deep::build<long>");
    assert_eq!(text(build, "signature"), "long* deep::build<long>(int)");
    expect_location(build, SOURCE, "build", "malloc(");

    assert_eq!(process.under("(anonymous namespace)::hidden").bytes, 47);
    let in_lambda = process.where_stack(|stack| text(stack[0], "function").contains("lambda"));
    assert_eq!((in_lambda.allocations, in_lambda.bytes), (1, 53));
}

#[test]
fn rust_names_and_inlined_frames() {
    const SOURCE: &str = "inlined_rust.rs";
    let recording = record(compiled(SOURCE)).run().ok();
    let report = recording.report();
    let process = report.only();

    let worked = process.where_stack(|stack| {
        let inner = stack
            .iter()
            .position(|f| text(f, "function") == "inlined_rust::deep::innermost");
        let outer = stack.iter().position(|f| {
            text(f, "function").contains("inlined_rust::deep::Thing as inlined_rust::deep::Work")
        });
        matches!((inner, outer), (Some(inner), Some(outer)) if inner < outer
            && stack[inner]["inlined"] == true
            && stack[inner]["line"] == line_of(SOURCE, "innermost")
            && stack[outer]["line"] == line_of(SOURCE, "work")
            && stack[outer]["inlined"] == false)
    });
    assert_eq!((worked.allocations, worked.bytes), (5, 5 * 61));
    assert_eq!((worked.temporary, worked.leaked), (5, 0));

    let kept = process.under("inlined_rust::kept");
    assert_eq!((kept.allocations, kept.bytes), (1, 67));
    assert_eq!((kept.leaked, kept.leaked_bytes), (1, 67));
    let site = process.site_under("inlined_rust::kept");
    let kept = frame(&process, site, "inlined_rust::kept");
    assert_eq!(kept["line"], line_of(SOURCE, "kept"));
    assert!(process.functions(site).contains(&"main"));
}

/// Without debug information, frames still have function names; without a symbol
/// table, module and offset.
#[test]
fn stripped_programs() {
    let named = compiled_with(C, &["-g0"]);
    let report = record(named).arg("chain").run().ok().report();
    let process = report.only();
    let site = process.site_under("middle");
    assert_eq!(own(&process, site), ["leaf", "middle", "outer", "main"]);
    assert_eq!(process.stack(site)[0]["line"], 0);

    let stripped = compiled_with(C, &["-g0", "-s"]);
    let report = record(stripped).arg("chain").run().ok().report();
    let process = report.only();
    let found =
        process.where_stack(|stack| text(stack[0], "function").starts_with("attribution+0x"));
    assert_eq!((found.allocations, found.bytes), (5, 3 * 11 + 2 * 13));
}
