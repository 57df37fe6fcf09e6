//! Which leaks a ranking leaves out, and how figures are divided: `programs/leaks.cc`,
//! which has 2 leaked blocks of its own, and 3 more with an argument.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::LazyLock;

use crate::support::{Recording, allotrope, compiled, compiled_with, record};
use serde_json::Value;

/// Blocks and bytes that a static constructor of the program leaks.
const REGISTRY: [u64; 2] = [2, 16 + 111];
/// Blocks and bytes that `lose` leaks.
const LOST: [u64; 2] = [3, 3 * 7];

static WITHOUT: LazyLock<Recording> =
    LazyLock::new(|| record(compiled("leaks.cc")).run().expect_status(0));
static WITH: LazyLock<Recording> = LazyLock::new(|| {
    record(compiled("leaks.cc"))
        .arg("lose")
        .run()
        .expect_status(0)
});

fn run(words: &[&str], recordings: &[&Recording]) -> Output {
    let traces = recordings.iter().map(|it| it.trace.to_str());
    let traces = traces.map(|trace| trace.expect("UTF-8"));
    allotrope(words.iter().copied().chain(traces))
}

#[track_caller]
fn printed(words: &[&str], recordings: &[&Recording]) -> String {
    let output = run(words, recordings);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn sentence(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
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
    assert!(ranked.contains("leaks.cc"), "{ranked}");
    assert!(!ranked.contains("libstdc++"), "{ranked}");
    assert!(rows.len() <= 3, "{ranked}");
    assert!(ranked.contains("  suppressed: "), "{ranked}");
    assert!(ranked.contains("the built-in list"), "{ranked}");
    let all = printed(&["report", "--metric", "leaked", "--all-leaks"], &[&WITH]);
    assert!(!all.contains("suppressed"), "{all}");
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
    assert!(text.contains("3 blocks with 21 B at 1 site by"), "{text}");
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
        );
        assert_eq!(output.status.code(), Some(2));
        let expected = format!("{}:3: `race:^lose$` suppresses no leak", file.display());
        assert!(
            sentence(&output).contains(&expected),
            "{}",
            sentence(&output)
        );
    }
    let output = run(&["report", "--suppressions", "/no/such/file"], &[&WITH]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_comparison_marks_suppressed_leaks_and_counts_them() {
    let (_folder, file) = list("leak:^lose$\n");
    let metric = ["diff", "--metric", "leaked"];
    let words = [&metric[..], &options_of(&file)].concat();
    let text = printed(&words, &[&WITHOUT, &WITH]);
    assert!(text.contains("new +21  lose"), "{text}");
    assert!(text.contains("suppressed by leak:^lose$ in "), "{text}");
    let plain = printed(&metric, &[&WITHOUT, &WITH]);
    assert!(!plain.contains("suppressed"), "{plain}");
    let limited = [&words[..], &["--fail-on", "leaked>+20"]].concat();
    let output = run(&limited, &[&WITHOUT, &WITH]);
    assert_eq!(output.status.code(), Some(3), "{}", sentence(&output));
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
    assert!(text.contains("(each: divided by 12)"), "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    let row = words.windows(3).any(|row| row == ["3", "0.25", "each"]);
    assert!(row, "{text}");
    let report = json(&["report", "--format", "json", "--per", "12"], &WITH);
    let process = &report["processes"][0];
    let all = process["totals"]["allocations"].as_u64().expect("a number");
    assert_eq!(process["per"], 12.0);
    assert_eq!(process["totals"]["allocations_each"], all as f64 / 12.0);
    let output = run(&["report", "--per", "0"], &[&WITH]);
    assert_eq!(output.status.code(), Some(2));
    assert!(sentence(&output).contains("a number above 0"));
    // Divided and rounded: 3 / 1.5 = 2 blocks.
    let folded = ["export", "--to", "folded", "--per", "1.5"];
    let folded = printed(&folded, &[&WITH]);
    let line = folded.lines().find(|line| line.contains("lose"));
    assert!(line.expect("a stack").ends_with(" 2"), "{folded}");
    // 3 / 12 rounds to 0.
    let output = run(&["export", "--to", "folded", "--per", "12"], &[&WITH]);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("lose"));
    assert!(
        sentence(&output).contains("stacks are 0"),
        "{}",
        sentence(&output)
    );
}

#[test]
fn another_compiler_is_noted() {
    let other = compiled_with("leaks.cc", &["-DOTHER_COMPILER"]);
    let other = record(other).run().expect_status(0);
    let output = run(&["diff"], &[&WITHOUT, &other]);
    let note = "not only the program's code differs: compilers: Other compiler 1.0 after";
    assert!(sentence(&output).contains(note), "{}", sentence(&output));
    let output = run(&["diff"], &[&WITHOUT, &WITH]);
    assert!(
        !sentence(&output).contains("compilers"),
        "{}",
        sentence(&output)
    );
}
