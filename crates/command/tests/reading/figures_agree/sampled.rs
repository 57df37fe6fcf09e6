//! Sampled profiles: the estimates of text, JSON, the page, `diff` and `export`.

use std::path::Path;

use crate::story::{HUGE, huge_blocks, save_all};
use serde_json::Value;

use crate::figures_agree::compare::{number, utf8};
use crate::figures_agree::page::Page;
use crate::figures_agree::text::is_bytes;
use crate::support::allotrope;

#[track_caller]
fn said(words: &[&str]) -> String {
    allotrope(words).ok().text()
}

#[track_caller]
fn json(words: &[&str]) -> Value {
    serde_json::from_str(&said(words)).expect("JSON")
}

#[test]
fn estimates() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sampled.allotrope");
    let [mut some, mut others] = [huge_blocks(), huge_blocks()];
    (0..20_000).for_each(|at| _ = some.allocate(3, 1000 + at % 700));
    (0..3).for_each(|_| _ = others.allocate(2, HUGE));
    save_all(&file, &[&some, &others]);
    agree(&file, folder.path());
}

fn agree(file: &Path, folder: &Path) {
    let file = utf8(file);
    let report = json(&["report", file, "--format", "json"]);
    let totals = &report["totals"];
    let processes = report["processes"].as_array().expect("a list");
    let sum = |name: &str| -> u64 { processes.iter().map(|it| number(&it["totals"], name)).sum() };
    // Estimates are rounded, each of its own.
    let nearly = |a: u64, b: u64| a.abs_diff(b) <= processes.len() as u64;
    for name in [
        "live_blocks",
        "live_bytes",
        "allocations",
        "allocated_bytes",
    ] {
        assert!(nearly(sum(name), number(totals, name)), "{name}: {totals}");
    }
    let text = said(&["report", file]);
    for (word, name) in [("live", "live_bytes"), ("allocated", "allocated_bytes")] {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(word));
        let line = line.unwrap_or_else(|| panic!("no {word}: {text}"));
        let bytes = line.split('(').next().expect("text");
        assert!(
            is_bytes(bytes, number(totals, name)),
            "{word}: {line}: {totals}"
        );
    }
    let live = json(&["diff", file, file, "--metric", "leaked", "--format", "json"]);
    assert_eq!(number(&live, "before"), number(totals, "live_bytes"));
    assert_eq!(number(&live, "after"), number(totals, "live_bytes"));
    let out = folder.join("page.html");
    said(&["report", file, "--html", utf8(&out)]);
    let page = Page::read(&out);
    for (column, name) in [
        ("leaked_bytes", "live_bytes"),
        ("leaked", "live_blocks"),
        ("bytes", "allocated_bytes"),
        ("allocations", "allocations"),
    ] {
        let of_page: u64 = page.numbers(&format!("process.{column}")).iter().sum();
        assert!(
            nearly(of_page, sum(name)),
            "page: {column} {of_page}: {totals}"
        );
    }
    let export = json(&["export", file, "--format", "json"]);
    let names = export["metrics"].as_array().expect("a list");
    for (metric, name) in [
        ("leaked_bytes", "live_bytes"),
        ("allocated_bytes", "allocated_bytes"),
    ] {
        let at = names
            .iter()
            .position(|it| it == metric)
            .expect("it is known");
        let stacks = export["stacks"].as_array().expect("a list");
        let sum: u64 = stacks
            .iter()
            .filter_map(|it| it["figures"][at].as_u64())
            .sum();
        let off = sum.abs_diff(number(totals, name));
        assert!(
            off <= stacks.len() as u64,
            "export: {metric} {sum}: {totals}"
        );
    }
}
