//! The first screen of `report`, `allotrope PROGRAM`, the lists by function, and `show`.

use std::sync::LazyLock;

use crate::support::{Ended, Recording, Text, compiled, compiled_with, record};

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
            // A command is never cut, so that it can be pasted; a terminal breaks its line.
            let (next, others): (Vec<&str>, Vec<&str>) =
                text.lines().partition(|line| line.starts_with("next: "));
            assert_eq!(next.len(), 1, "{text}");
            assert!(next[0].starts_with("next: allotrope "), "{text}");
            let trace = recording.trace.to_str().expect("UTF-8");
            assert!(next[0].contains(trace), "{text}");
            let broken = next[0].chars().count().div_ceil(columns);
            assert!(others.len() + broken <= 22, "{columns}\n{text}");
            let widths = others.iter().map(|line| line.chars().count());
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

/// Reported: titles and advice of findings end in "…", and the number is what is missing.
#[test]
fn findings_say_whole_sentences_and_all_of_their_numbers() {
    for (source, case) in [
        ("leaks.c", "path"),
        ("workers.c", "16"),
        ("shapes.c", "spike"),
        ("cache_server.cc", "unlimited"),
        ("journey.rs", "unbounded"),
        ("churn.rs", "temporaries"),
        ("churn.rs", "chain"),
        ("system.c", "handler"),
        ("parts.c", "backlog"),
    ] {
        let source = format!("findings/{source}");
        let recording = record(compiled(&source)).arg(case).run().ok();
        let report = recording.report();
        let Some(first) = report.json["findings"].get(0) else {
            // A busy machine gave its heap another course.
            continue;
        };
        for columns in ["60", "80", "120"] {
            let text = run(&recording, "report", &[], columns).ok().text();
            assert!(text.lines().count() <= 22, "{text}");
            let (_, found) = text.split_once("What stands out\n").expect("findings");
            let (found, _) = found.split_once("\n\n").expect("the list of functions");
            for line in found.lines() {
                assert!(!line.ends_with('…'), "{line}\n{text}");
            }
            let words: Vec<&str> = found.split_whitespace().collect();
            let words = words.join(" ");
            words.has(first["measure"].as_str().expect("a text"));
            words.has(first["title"].as_str().expect("a text"));
        }
        // All findings with all of their sentences.
        let all = printed(&recording, "show", &[]);
        let words: Vec<&str> = all.split_whitespace().collect();
        let words = words.join(" ");
        for finding in report.json["findings"].as_array().expect("a list") {
            for part in ["measure", "text", "advice"] {
                words.has(finding[part].as_str().expect("a text"));
            }
        }
    }
}

/// `figures resident` lives for many samples; one that ends before the first has no such figure.
#[test]
fn resident_memory_stands_beside_live_bytes() {
    let recording = record(compiled("figures.c")).arg("resident").run().ok();
    printed(&recording, "report", &[]).has("resident up to");
}

/// Each of two programs has a hundred threads with a block of 100 bytes at a time: what is resident is
/// far more than what is live.
#[test]
fn what_else_is_resident_in_several_processes_is_said() {
    let program = compiled("figures.c");
    let script = format!("{0} resident & {0} resident; wait", program.display());
    let recording = record("/bin/sh").args(["-c", &script]).run().ok();
    let text = printed(&recording, "report", &[]);
    let line = text.lines().find(|it| it.contains("resident up to "));
    let line = line.expect("a line about resident memory");
    assert!(line.contains(" more: shared pages, code, stacks"), "{text}");
    assert!(text.lines().count() <= 22, "{text}");
}

/// `unnamed_rows` has blocks of a library without names: of 200,000 bytes below `rows`, and of
/// 100,000 below `columns`.
#[test]
fn code_without_names_has_a_row_for_each_function_around_it() {
    let library = ["-DLIBRARY", "-shared", "-fPIC", "-s"];
    let library = compiled_with("unnamed_rows.c", &library);
    let recording = record(compiled("unnamed_rows.c")).arg(library).run().ok();
    let text = printed(&recording, "report", &[]);
    let row = |bytes: &str| {
        text.lines()
            .find(|it| it.contains("no names)") && it.contains(bytes))
    };
    assert!(
        row("195.3 KiB").is_some_and(|it| it.contains("← rows ")),
        "{text}"
    );
    assert!(
        row("97.7 KiB").is_some_and(|it| it.contains("← columns ")),
        "{text}"
    );
}

/// Options choose what the first screen shows; it stays the first screen.
#[test]
fn options_refine_the_first_screen() {
    let heading = "Held at the peak, by function";
    let rows = |text: &str| {
        let rows = text
            .lines()
            .skip_while(|it| !it.starts_with(heading))
            .skip(1);
        rows.take_while(|it| it.starts_with("  ")).count()
    };
    let all = printed(&FORWARDING, "report", &[]);
    for options in [
        &["--top", "2"][..],
        &["--filter", "caller_3"],
        &["--per", "2"],
        &["--all-frames"],
        &["--source"],
    ] {
        let text = printed(&FORWARDING, "report", options);
        text.has_all([heading, "▲", "next: allotrope "]);
        text.lacks("By allocations");
    }
    assert_eq!(rows(&printed(&FORWARDING, "report", &["--top", "2"])), 2);
    assert!(rows(&all) > 2, "{all}");
    let filtered = printed(&FORWARDING, "report", &["--filter", "caller_3"]);
    assert!(rows(&filtered) < rows(&all), "{filtered}");
    filtered.has("caller_3").lacks("caller_4");
    // 5 allocations: 3 blocks of 11 bytes and 2 of 13.
    printed(&CHAIN, "report", &["--per", "2"]).has("5 allocations, 2.50 each");
    // The frames of a stack, and the line that allocates.
    printed(&CHAIN, "report", &["--all-frames"]).has_all(["▸ ", "main"]);
    printed(&CHAIN, "report", &["--source"]).has("│ ");
    let leaked = printed(&CHAIN, "report", &["--leaked-only"]);
    // 3 blocks of 11 bytes and 2 of 13 are never freed.
    leaked.has_all(["Leaked, by function", "59 B leaked"]);
    // Markdown has no options of its own.
    run(
        &CHAIN,
        "report",
        &["--format", "markdown", "--top", "3"],
        "80",
    )
    .fails(2, "--format markdown writes the first screen");
}

/// The processes are sorted by their peaks, and the proposed command leads to the largest.
#[test]
fn the_process_with_the_largest_peak_is_first() {
    let program = compiled("attribution.c");
    let script = format!("{0} nothing; {0} chain; true", program.display());
    let recording = record("/bin/sh").args(["-c", &script]).run().ok();
    let text = printed(&recording, "report", &[]);
    let report = recording.report();
    let processes = report.processes();
    let largest = processes.iter().max_by_key(|it| it.total("peak_bytes"));
    let largest = largest.expect("there are three").number("id");
    text.has(format!("more: report --process {largest} "));
}

#[test]
fn a_program_without_allocations_has_a_screen() {
    let nothing = record(compiled("attribution.c")).arg("nothing").run();
    let text = printed(&nothing, "report", &[]);
    assert!(text.lines().count() <= 22, "{text}");
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
    site.has_all(["3 blocks, 33 B", "11 B ×3", "3 leaked", "middle"]);
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
