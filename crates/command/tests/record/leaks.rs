//! Which leaks a ranking leaves out, and how figures are divided: `programs/leaks.cc`,
//! which has 2 leaked blocks of its own, and 3 more with an argument.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::support::{Ended, Recording, Text, allotrope, compiled, compiled_with, record};
use serde_json::Value;

/// Blocks and bytes that a static constructor of the program leaks.
const REGISTRY: [u64; 2] = [2, 16 + 111];
/// Blocks and bytes that `lose` leaks.
const LOST: [u64; 2] = [3, 3 * 7];

static WITHOUT: LazyLock<Recording> = LazyLock::new(|| record(compiled("leaks.cc")).run().ok());
static WITH: LazyLock<Recording> =
    LazyLock::new(|| record(compiled("leaks.cc")).arg("lose").run().ok());

fn run(words: &[&str], recordings: &[&Recording]) -> Ended {
    let traces = recordings.iter().map(|it| it.trace.to_str());
    let traces = traces.map(|trace| trace.expect("UTF-8"));
    allotrope(words.iter().copied().chain(traces))
}

#[track_caller]
fn printed(words: &[&str], recordings: &[&Recording]) -> String {
    run(words, recordings).ok().text()
}

fn json(words: &[&str], recording: &Recording) -> Value {
    serde_json::from_str(&printed(words, &[recording])).expect("JSON")
}

/// A file with suppressions.
fn list(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lsan.supp");
    std::fs::write(&file, text).expect("it is written");
    (folder, file)
}

fn name(file: &Path) -> &str {
    file.to_str().expect("UTF-8")
}

/// Blocks and bytes of the leaked sites that are suppressed, and of the others.
fn leaked(report: &Value) -> [[u64; 2]; 2] {
    let sites = report["processes"][0]["sites"].as_array().expect("sites");
    let mut sums = [[0; 2]; 2];
    for site in sites {
        let sum = &mut sums[usize::from(site["suppressed"].is_null())];
        sum[0] += site["leaked_allocations"].as_u64().expect("a number");
        sum[1] += site["leaked_bytes"].as_u64().expect("a number");
    }
    sums
}

fn totals(report: &Value, names: [&str; 2]) -> [u64; 2] {
    let totals = &report["processes"][0]["totals"];
    names.map(|name| totals[name].as_u64().unwrap_or(0))
}

#[test]
fn only_the_programs_own_leaks_are_ranked() {
    for (recording, own) in [
        (&*WITHOUT, REGISTRY),
        (&*WITH, [REGISTRY[0] + LOST[0], REGISTRY[1] + LOST[1]]),
    ] {
        let report = json(&["report", "--format", "json"], recording);
        let [suppressed, others] = leaked(&report);
        assert_eq!(others, own);
        // libstdc++'s pool alone has 64 KiB.
        assert!(suppressed[1] > 64 << 10, "{suppressed:?}");
        let named = ["suppressed_allocations", "suppressed_bytes"];
        assert_eq!(totals(&report, named), suppressed);
        let all = totals(&report, ["leaked_allocations", "leaked_bytes"]);
        assert_eq!(all, [0, 1].map(|at| suppressed[at] + own[at]));
    }
}

#[test]
fn the_text_says_what_it_leaves_out() {
    let report = printed(&["report", "--metric", "leaked"], &[&WITH]);
    let ranked = report.split("By leaked bytes").nth(1).expect("the list");
    let rows: Vec<&str> = ranked
        .lines()
        .filter(|line| line.trim_start().starts_with('#'))
        .collect();
    // `Registry` and its names may be one row or two; the largest is first.
    ranked.has("leaks.cc");
    ranked.lacks("libstdc++");
    assert!(rows.len() <= 3, "{ranked}");
    ranked.has_all(["  suppressed: ", "the built-in list"]);
    let all = printed(&["report", "--metric", "leaked", "--all-leaks"], &[&WITH]);
    all.lacks("suppressed");
    let first = all.split("By leaked bytes").nth(1).expect("the list");
    let first = first.lines().nth(1).expect("a row");
    assert!(first.contains("libstdc++"), "{all}");
    // Totals are the same.
    let line = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("  leaked"));
        line.expect("a total").to_owned()
    };
    assert_eq!(line(&report), line(&all));
}

#[test]
fn a_list_in_leaksanitizers_format_suppresses_more() {
    let (_folder, file) = list("# known\nleak:^lose$\n");
    let options = ["report", "--format", "json", "--suppressions", name(&file)];
    let report = json(&options, &WITH);
    assert_eq!(leaked(&report)[1], REGISTRY);
    let sites = report["processes"][0]["sites"].as_array().expect("sites");
    let of_list = |site: &&Value| site["suppressed_by"] == name(&file);
    let lost: Vec<&Value> = sites.iter().filter(of_list).collect();
    assert!(lost.iter().all(|site| site["suppressed"] == "leak:^lose$"));
    let blocks = lost.iter().map(|site| site["leaked_allocations"].as_u64());
    assert_eq!(blocks.sum::<Option<u64>>(), Some(LOST[0]));
    let options = ["report", "--metric", "leaked-allocations"];
    let text = printed(&[&options[..], &options_of(&file)].concat(), &[&WITH]);
    text.has("3 blocks with 21 B at 1 site by");
}

fn options_of(file: &Path) -> [&str; 2] {
    ["--suppressions", name(file)]
}

#[test]
fn a_list_of_another_tool_is_refused() {
    let (_folder, file) = list("leak:fine\n\nrace:^lose$\n");
    for command in ["report", "diff"] {
        let words = [&[command][..], &options_of(&file)].concat();
        let output = run(
            &words,
            &[&*WITHOUT, &*WITH][usize::from(command == "report")..],
        )
        .code(2);
        let expected = format!("{}:3: `race:^lose$` suppresses no leak", file.display());
        output.errors().has(&expected);
    }
    run(&["report", "--suppressions", "/no/such/file"], &[&WITH]).code(2);
}

#[test]
fn a_comparison_marks_suppressed_leaks_and_counts_them() {
    let (_folder, file) = list("leak:^lose$\n");
    let metric = ["diff", "--metric", "leaked"];
    let words = [&metric[..], &options_of(&file)].concat();
    let text = printed(&words, &[&WITHOUT, &WITH]);
    text.has_all(["new +21  lose", "suppressed by leak:^lose$ in "]);
    let plain = printed(&metric, &[&WITHOUT, &WITH]);
    plain.lacks("suppressed");
    let limited = [&words[..], &["--fail-on", "leaked>+20"]].concat();
    run(&limited, &[&WITHOUT, &WITH]).code(3);
    let form = printed(
        &[&words[..], &["--format", "json"]].concat(),
        &[&WITHOUT, &WITH],
    );
    let diff: Value = serde_json::from_str(&form).expect("JSON");
    assert_eq!(diff["difference"], LOST[1]);
    assert_eq!(diff["entries"][0]["suppressed"], "leak:^lose$");
}

#[test]
fn figures_are_divided_by_a_number() {
    // 3 blocks of `lose`, in 12 iterations.
    let text = printed(
        &["report", "--metric", "allocations", "--per", "12"],
        &[&WITH],
    );
    text.has("(each: divided by 12)");
    let words: Vec<&str> = text.split_whitespace().collect();
    let row = words.windows(3).any(|row| row == ["3", "0.25", "each"]);
    assert!(row, "{text}");
    let report = json(&["report", "--format", "json", "--per", "12"], &WITH);
    let process = &report["processes"][0];
    let all = process["totals"]["allocations"].as_u64().expect("a number");
    assert_eq!(process["per"], 12.0);
    assert_eq!(process["totals"]["allocations_each"], all as f64 / 12.0);
    run(&["report", "--per", "0"], &[&WITH]).fails(2, "a number above 0");
    // Divided and rounded: 3 / 1.5 = 2 blocks.
    let folded = ["export", "--format", "folded", "--per", "1.5"];
    let folded = printed(&folded, &[&WITH]);
    let line = folded.lines().find(|line| line.contains("lose"));
    assert!(line.expect("a stack").ends_with(" 2"), "{folded}");
    // 3 / 12 rounds to 0.
    let output = run(&["export", "--format", "folded", "--per", "12"], &[&WITH]);
    assert!(!output.text().contains("lose"));
    output.errors().has("stacks are 0");
}

#[test]
fn another_compiler_is_noted() {
    let other = compiled_with("leaks.cc", &["-DOTHER_COMPILER"]);
    let other = record(other).run().ok();
    let output = run(&["diff"], &[&WITHOUT, &other]);
    let note = "not only the program's code differs: compilers: Other compiler 1.0 after";
    output.errors().has(note);
    let output = run(&["diff"], &[&WITHOUT, &WITH]);
    output.errors().lacks("compilers");
}
