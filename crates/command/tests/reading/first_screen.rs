//! The first screen of `report`, `allotrope PROGRAM`, the lists by function, and `show`.

use std::sync::LazyLock;

use crate::support::{Ended, Recording, Text, compiled, record};

/// `attribution chain`: 3 blocks of 11 bytes through `middle`, 2 of 13 from `outer`.
static CHAIN: LazyLock<Recording> =
    LazyLock::new(|| record(compiled("attribution.c")).arg("chain").run().ok());

/// Eight functions allocate through `grab`, and 48 bytes through `make_node`.
static FORWARDING: LazyLock<Recording> =
    LazyLock::new(|| record(compiled("forwarding.c")).run().ok());

fn run(recording: &Recording, command: &str, options: &[&str], columns: &str) -> Ended {
    let mut allotrope = crate::support::record::command();
    allotrope.arg(command).arg(&recording.trace).args(options);
    crate::support::run(allotrope.env("COLUMNS", columns), b"")
}

#[track_caller]
fn printed(recording: &Recording, command: &str, options: &[&str]) -> String {
    run(recording, command, options, "80").ok().text()
}

#[test]
fn the_first_screen_fits_a_terminal() {
    for recording in [&*CHAIN, &*FORWARDING] {
        for columns in [40, 60, 80, 160] {
            let text = run(recording, "report", &[], &columns.to_string()).text();
            assert!(text.lines().count() <= 23, "{text}");
            let widths = text.lines().map(|line| line.chars().count());
            assert!(widths.max().unwrap_or(0) <= columns, "{columns}\n{text}");
        }
    }
    let text = printed(&CHAIN, "report", &[]);
    text.has_all([
        "attribution",
        "5 allocations",
        "exit 0",
        "▲",
        "leaf",
        "--lists",
    ]);
}

#[test]
fn a_program_without_allocations_has_a_screen() {
    let nothing = record(compiled("attribution.c")).arg("nothing").run();
    let text = printed(&nothing, "report", &[]);
    assert!(text.lines().count() <= 23, "{text}");
}

/// The caller heads what a wrapper allocated; the wrapper stays visible.
#[test]
fn a_function_that_only_passes_requests_on_heads_nothing() {
    let functions = printed(&FORWARDING, "report", &["--by", "function"]);
    for n in 1..=8 {
        functions.has(format!("caller_{n}"));
    }
    functions.lacks("grab");
    // It makes one kind of object.
    functions.has("make_node");
    let lists = printed(&FORWARDING, "report", &["--lists"]);
    lists.has("(through grab)");
    let shown = printed(&FORWARDING, "show", &["caller_8"]);
    shown.has_all(["grab", "10,800 B ×1"]);
}

#[test]
fn lists_by_module_thread_size_and_process() {
    for by in ["module", "process"] {
        let text = printed(&CHAIN, "report", &["--by", by]);
        assert!(text.contains("attribution"), "{by}: {text}");
    }
    let threads = printed(&CHAIN, "report", &["--by", "thread"]);
    threads.has("59 B");
    // What it held over time.
    assert!(
        threads.contains("live bytes") && threads.contains('█'),
        "{threads}"
    );
    let sizes = printed(&CHAIN, "report", &["--by", "size"]);
    sizes.has("9 B to 16 B");
    let entries = printed(&CHAIN, "report", &["--by", "entry"]);
    entries.has("malloc");
}

#[test]
fn a_site_and_a_function_in_full() {
    let site = printed(&CHAIN, "show", &["site:1"]);
    site.has_all(["3 blocks, 33 B", "11 B ×3", "3 live at the end", "middle"]);
    for (what, sentence) in [
        ("99", "no finding 99"),
        ("site:99", "no site 99"),
        ("site:x", "site:7"),
        ("laef", "nearest: leaf"),
    ] {
        run(&CHAIN, "show", &[what], "80").fails(2, sentence);
    }
}

#[test]
fn show_is_about_the_whole_run() {
    let at = |moment: &str| {
        let mut file = CHAIN.trace.clone().into_os_string();
        file.push(moment);
        let mut command = crate::support::record::command();
        crate::support::run(command.arg("show").arg(file).arg("site:1"), b"")
    };
    assert_eq!(at("@now").status.code(), Some(0));
    at("@1us").fails(2, "takes no moment");
}

#[test]
fn markdown_for_an_issue() {
    let text = printed(&CHAIN, "report", &["--format", "markdown"]);
    assert!(text.starts_with("### `"), "{text}");
    text.has_all(["| bytes | share | blocks | function |", "`leaf`"]);
}

#[test]
fn a_program_is_recorded_and_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut allotrope = crate::support::record::command();
    allotrope
        .current_dir(folder.path())
        .arg(compiled("attribution.c"))
        .arg("chain");
    let text = crate::support::run(&mut allotrope, b"").ok().text();
    text.has_all(["5 allocations", "leaf"]);
    let traces = std::fs::read_dir(folder.path()).expect("the folder");
    assert_eq!(traces.count(), 1, "the trace");
    crate::support::allotrope(["reprot", "x"])
        .code(127)
        .says("allotrope report");
}
