//! The first screen of `report`, `allotrope PROGRAM`, the lists by function, and `show`.

use std::process::Output;
use std::sync::LazyLock;

use crate::support::{Recording, compiled, record};

/// `attribution chain`: 3 blocks of 11 bytes through `middle`, 2 of 13 from `outer`.
static CHAIN: LazyLock<Recording> = LazyLock::new(|| {
    record(compiled("attribution.c"))
        .arg("chain")
        .run()
        .expect_status(0)
});

/// Eight functions allocate through `grab`, and 48 bytes through `make_node`.
static FORWARDING: LazyLock<Recording> =
    LazyLock::new(|| record(compiled("forwarding.c")).run().expect_status(0));

fn run(recording: &Recording, command: &str, options: &[&str], columns: &str) -> Output {
    let mut allotrope = crate::support::record::command();
    allotrope.arg(command).arg(&recording.trace).args(options);
    crate::support::run(allotrope.env("COLUMNS", columns), b"")
}

#[track_caller]
fn printed(recording: &Recording, command: &str, options: &[&str]) -> String {
    let output = run(recording, command, options, "80");
    assert_eq!(output.status.code(), Some(0), "{options:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn the_first_screen_fits_a_terminal() {
    for recording in [&*CHAIN, &*FORWARDING] {
        for columns in [40, 60, 80, 160] {
            let output = run(recording, "report", &[], &columns.to_string());
            let text = String::from_utf8(output.stdout).expect("UTF-8");
            assert!(text.lines().count() <= 23, "{text}");
            let widths = text.lines().map(|line| line.chars().count());
            assert!(widths.max().unwrap_or(0) <= columns, "{columns}\n{text}");
        }
    }
    let text = printed(&CHAIN, "report", &[]);
    for part in [
        "attribution",
        "5 allocations",
        "exit 0",
        "▲",
        "leaf",
        "--lists",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
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
        assert!(functions.contains(&format!("caller_{n}")), "{functions}");
    }
    assert!(!functions.contains("grab"), "{functions}");
    // It makes one kind of object.
    assert!(functions.contains("make_node"), "{functions}");
    let lists = printed(&FORWARDING, "report", &["--lists"]);
    assert!(lists.contains("(through grab)"), "{lists}");
    let shown = printed(&FORWARDING, "show", &["caller_8"]);
    assert!(shown.contains("grab"), "{shown}");
    assert!(shown.contains("10,800 B ×1"), "{shown}");
}

#[test]
fn lists_by_module_thread_size_and_process() {
    for by in ["module", "process"] {
        let text = printed(&CHAIN, "report", &["--by", by]);
        assert!(text.contains("attribution"), "{by}: {text}");
    }
    let threads = printed(&CHAIN, "report", &["--by", "thread"]);
    assert!(threads.contains("59 B"), "{threads}");
    // What it held over time.
    assert!(
        threads.contains("live bytes") && threads.contains('█'),
        "{threads}"
    );
    let sizes = printed(&CHAIN, "report", &["--by", "size"]);
    assert!(sizes.contains("9 B to 16 B"), "{sizes}");
    let entries = printed(&CHAIN, "report", &["--by", "entry"]);
    assert!(entries.contains("malloc"), "{entries}");
}

#[test]
fn a_site_and_a_function_in_full() {
    let site = printed(&CHAIN, "show", &["site:1"]);
    for part in ["3 blocks, 33 B", "11 B ×3", "3 live at the end", "middle"] {
        assert!(site.contains(part), "{part} in\n{site}");
    }
    for (what, sentence) in [
        ("99", "no finding 99"),
        ("site:99", "no site 99"),
        ("site:x", "site:7"),
        ("laef", "nearest: leaf"),
    ] {
        let output = run(&CHAIN, "show", &[what], "80");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{what}: {error}");
        assert!(error.contains(sentence), "{what}: {error}");
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
    let refused = at("@1us");
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("takes no moment"), "{error}");
}

#[test]
fn markdown_for_an_issue() {
    let text = printed(&CHAIN, "report", &["--format", "markdown"]);
    assert!(text.starts_with("### `"), "{text}");
    assert!(
        text.contains("| bytes | share | blocks | function |"),
        "{text}"
    );
    assert!(text.contains("`leaf`"), "{text}");
}

#[test]
fn a_program_is_recorded_and_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut allotrope = crate::support::record::command();
    allotrope
        .current_dir(folder.path())
        .arg(compiled("attribution.c"))
        .arg("chain");
    let output = crate::support::run(&mut allotrope, b"");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        text.contains("5 allocations") && text.contains("leaf"),
        "{text}"
    );
    let traces = std::fs::read_dir(folder.path()).expect("the folder");
    assert_eq!(traces.count(), 1, "the trace");
    let misspelt = crate::support::allotrope(["reprot", "x"]);
    assert_eq!(misspelt.status.code(), Some(127));
    let error = String::from_utf8_lossy(&misspelt.stderr);
    assert!(error.contains("allotrope report"), "{error}");
}
