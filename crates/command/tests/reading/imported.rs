//! `report`, `show` and pages of files that other tools wrote. The program's source says what the figures
//! are: at the peak 10 × 4,000 + 100,000 + 100 × 10 bytes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{allotrope, compiled};

const AT_PEAK: u64 = 10 * 4_000 + 100_000 + 100 * 10;

/// Lets a tool of Valgrind write its file; `None` without Valgrind.
fn valgrind(folder: &Path, tool: &str) -> Option<PathBuf> {
    let out = folder.join(format!("{tool}.out"));
    let run = Command::new("valgrind")
        .arg(format!("--tool={tool}"))
        .arg(format!("--{tool}-out-file={}", out.display()))
        .arg(compiled("held_at_peak.c"))
        .output();
    let Ok(run) = run else {
        println!("skipped: valgrind is not installed");
        return None;
    };
    assert!(run.status.success(), "{run:?}");
    Some(out)
}

fn path(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

#[test]
fn a_massif_file_is_reported_with_what_it_lacks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(file) = valgrind(folder.path(), "massif") else {
        return;
    };
    let text = allotrope(["report", path(&file)]).ok().text();
    for part in [
        "massif output",
        "bytes at the peak  137.7 KiB",
        "not in the file: allocations, allocated bytes",
        "allocate",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("By allocations"), "{text}");
    let json = allotrope(["report", path(&file), "--format", "json"]);
    let json = json.ok().json();
    assert_eq!(json["metrics"], serde_json::json!(["bytes_at_peak"]));
    let stacks = json["stacks"].as_array().expect("a list");
    let figures = stacks.iter().map(|stack| stack["figures"][0].as_u64());
    assert_eq!(figures.map(Option::unwrap_or_default).sum::<u64>(), AT_PEAK);
    let shown = allotrope(["show", path(&file), "keep"]).ok().text();
    assert!(shown.contains("bytes at the peak  39.1 KiB"), "{shown}");
    allotrope(["report", path(&file), "--metric", "leaked"])
        .fails(2, "does not have leaked bytes; choose of: peak");
    allotrope(["report", path(&file), "--by", "thread"]).fails(
        2,
        "has sums of stacks and neither times nor single blocks; leave --by thread out",
    );
    allotrope(["show", path(&file), "1"]).fails(2, "has no findings");
}

#[test]
fn a_dhat_file_is_reported_by_all_that_it_has() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(file) = valgrind(folder.path(), "dhat") else {
        return;
    };
    let text = allotrope(["report", path(&file)]).ok().text();
    for part in [
        "allocations              111",
        "leaked bytes             1000 B",
        "bytes at the peak        137.7 KiB",
        "not in the file: temporary allocations",
        "By leaked bytes: 1000 B at 1 site",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let tree = allotrope(["report", path(&file), "--tree", "top-down"]);
    assert!(tree.ok().text().contains("keep"));
    let picture = folder.path().join("flame.svg");
    allotrope(["report", path(&file), "--flamegraph", path(&picture)]).ok();
    let picture = std::fs::read_to_string(picture).expect("it was written");
    assert!(picture.contains("keep"), "{picture}");
}

/// What cannot be read is named, with what can be read in its place.
#[test]
fn reports_of_other_tools_are_refused_with_what_to_give() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text, remedy) in [
        (
            "stackdiff",
            "### only in AFTER\n11000\nlib`malloc\n",
            "allotrope diff",
        ),
        (
            "perf-stat",
            "\n Performance counter stats for 'x':\n",
            "allotrope cpu",
        ),
        (
            "perf-script",
            "app 7 1.5: 250000 cycles: \n\t15c78 main+0x5 (/srv/app)\n",
            "allotrope watch --perf-script",
        ),
        (
            "perf-report",
            "# Samples: 11\n#\n# Overhead  Command\n",
            "allotrope cpu",
        ),
        (
            "poireau",
            "now live allocations\n\tsize=10 c_age=1.5 alloc=f;main\n",
            "allotrope watch --perf-script",
        ),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, text).expect("the folder is ours");
        for command in ["report", "show", "diff"] {
            let mut words = vec![command, path(&file)];
            words.extend((command == "diff").then(|| path(&file)));
            allotrope(words).fails(2, remedy);
        }
    }
}

#[test]
fn a_page_is_made_of_a_file_that_another_tool_wrote() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("stacks.folded");
    std::fs::write(&file, "main;parse;read_line 70\nmain;parse 30\n").expect("writable");
    let page = folder.path().join("page.html");
    allotrope(["report", path(&file), "--html", path(&page)]).ok();
    let written = std::fs::read_to_string(&page).expect("the page");
    assert!(written.contains("id=\"data-run\""), "a page with data");
}
