//! What explains a red number sums to its difference, for every metric, in text and in
//! JSON; and no red number is without an explanation.

use std::process::Command;

use serde_json::Value;

use crate::project::Project;
use crate::support::{Text, run};

/// The metrics of a whole run.
const GATE: &str = "[\"allocations\", \"bytes\", \"remaining\", \"net\", \"peak\", \"temporary\", \
                    \"reallocations\"]";

/// A project with these tests of the program `figures.c`.
fn project(names: &[&str], gate: &str) -> Project {
    let tests: String = names
        .iter()
        .map(|name| {
            format!("[tests.{name}]\ncommand = [\"./figures\", \"{name}\"]\ngate = {gate}\n")
        })
        .collect();
    let project = Project::new(&tests);
    project.write("figures.c", include_str!("programs/figures.c"));
    project.command("client-header", &["."]).ok();
    compile(&project, &[]);
    project
}

fn compile(project: &Project, flags: &[&str]) {
    let mut command = Command::new("cc");
    command
        .args([
            "-g",
            "-O0",
            "-fno-builtin",
            "-w",
            "-o",
            "figures",
            "figures.c",
        ])
        .args(flags)
        .current_dir(project.folder());
    let output = run(&mut command, b"");
    let printed = output.errors();
    assert!(output.status.success(), "{printed}");
}

fn line_of(project: &Project, mark: &str) -> usize {
    let text = project.read("figures.c");
    let mark = format!("MARK {mark}");
    let line = text.lines().position(|line| line.ends_with(&mark));
    line.unwrap_or_else(|| panic!("no {mark}")) + 1
}

/// The case of the only test, and the text.
fn red(project: &Project) -> (Value, String) {
    let json: Value = project.test(&["--format", "json"]).code(3).json();
    let text = project.test(&["--stacks"]).code(3).text();
    let case = json["tests"][0]["cases"][0].clone();
    check(&case, &text);
    (case, text)
}

/// Checks that entries and rest sum to the difference of each number that failed.
fn check(case: &Value, text: &str) {
    text.lacks("no stack differs");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for number in list(&case["numbers"]) {
        let verdict = number["verdict"].as_str().unwrap_or_default();
        if verdict == "kept" || verdict == "within-noise" {
            continue;
        }
        let metric = number["metric"].as_str().unwrap_or_default();
        let unexplained = list(&case["unexplained"]);
        if unexplained.iter().any(|it| it["metric"] == metric) {
            continue;
        }
        let explanations = list(&case["responsible"]);
        let found = explanations.iter().find(|it| it["metric"] == metric);
        let found = found.unwrap_or_else(|| panic!("nobody is named for {metric}: {text}"));
        let entries = list(&found["entries"]);
        let entries = entries.iter().map(|entry| entry["difference"].as_i64());
        let sum: Option<i64> = entries.sum();
        let sum = sum.expect("they are numbers") + found["rest"].as_i64().expect("it is there");
        assert_eq!(Some(sum), number["difference"].as_i64(), "{metric}: {text}");
        assert_eq!(Some(sum), found["difference"].as_i64(), "{metric}: {text}");
        assert_eq!(sum_in_text(text, metric), sum, "{metric}: {text}");
    }
}

/// The sum of the entries below the heading of a metric.
fn sum_in_text(text: &str, metric: &str) -> i64 {
    let heading = match metric {
        "peak" => "Held at the peak".to_owned(),
        metric => format!("Stacks of {metric}"),
    };
    let mut lines = text.lines().map(str::trim_start);
    let is_heading = |line: &str| {
        let rest = line.strip_prefix(&heading);
        rest.is_some_and(|rest| rest.starts_with([',', ' ']))
    };
    assert!(lines.any(is_heading), "{heading}: {text}");
    let ends = ["Stacks of", "Held at", "Run again", "FAIL", "ok"];
    let block = lines.take_while(|line| !ends.iter().any(|end| line.starts_with(end)));
    let figures = block.filter_map(|line| {
        let mut words = line.split_whitespace();
        let first = words.next()?;
        let figure = match first {
            "rest" => words.next()?.trim_end_matches(':').to_owned(),
            "…" if line.contains("more entr") => words.next_back()?.to_owned(),
            // `1. changed +50 (+0.05 each)  function`
            first if first.strip_suffix('.')?.parse::<u32>().is_ok() => words.nth(1)?.to_owned(),
            _ => return None,
        };
        let figure = figure.replace([',', '+'], "");
        Some(figure.parse::<i64>().unwrap_or_else(|_| panic!("{line}")))
    });
    figures.sum()
}

/// The text without its line breaks.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The difference of a metric among the numbers of a case.
fn difference(case: &Value, metric: &str) -> Option<i64> {
    let numbers = case["numbers"].as_array()?;
    let number = numbers.iter().find(|it| it["metric"] == metric)?;
    number["difference"].as_i64()
}

#[test]
fn reallocations_are_named() {
    let project = project(&["grow"], GATE);
    project.accept();
    compile(&project, &["-DWORSE"]);
    let (case, text) = red(&project);
    assert_eq!(difference(&case, "reallocations"), Some(7));
    let place = format!("figures.c:{}", line_of(&project, "grow"));
    let after = text.split("Stacks of reallocations").nth(1);
    assert!(after.is_some_and(|it| it.contains(&place)), "{text}");
}

#[test]
fn a_peak_is_explained_by_who_holds_it() {
    let project = project(&["hold"], "[\"peak\"]");
    project.accept();
    compile(&project, &["-DWORSE"]);
    let (case, text) = red(&project);
    assert_eq!(difference(&case, "peak"), Some(4096));
    text.has("Held at the peak, accepted →");
    text.has("1. changed +4,096  hold");
    text.has("0 → 4,096 at line");
    let place = format!("figures.c:{}", line_of(&project, "hold"));
    text.has(&place);
    // Without accepted figures of the peak, all that is held is shown.
    let file = "allotrope-budgets/hold.stacks";
    let stacks = project.read(file).replace("bytes_at_peak", "bytes");
    project.write(file, &stacks);
    let (_, text) = red(&project);
    let heading = "Held at the peak in run 1 (no accepted stacks";
    text.has(heading);
    // 10 blocks of 1000 bytes and one of 4096.
    text.has("1. new +14,096  hold");
    one_line(&text).has("`allotrope test --accept hold` stores them");
}

#[test]
fn temporary_allocations_are_named() {
    let project = project(&["temporary"], GATE);
    project.accept();
    compile(&project, &["-DWORSE"]);
    let (case, _) = red(&project);
    assert_eq!(difference(&case, "temporary"), Some(5));
}

#[test]
fn deallocations_of_older_blocks_are_the_rest_of_net() {
    let project = project(&["net"], "[\"net\"]");
    project.accept();
    compile(&project, &["-DWORSE"]);
    let (case, text) = red(&project);
    // 5 - 2 instead of 3 - 1.
    assert_eq!(difference(&case, "net"), Some(1));
    assert_eq!(case["responsible"][0]["rest"], -1);
    let rest = "rest -1: deallocations of blocks from before the case: 1 → 2";
    text.has(rest);
}

#[test]
fn descriptors_are_named_and_a_command_that_shows_more() {
    let project = project(&["descriptors"], "[\"leaked_fds\"]");
    project.accept();
    compile(&project, &["-DWORSE"]);
    let (case, text) = red(&project);
    assert_eq!(difference(&case, "leaked_fds"), Some(1));
    assert_eq!(case["unexplained"][0]["metric"], "leaked_fds");
    text.has("left-open");
    one_line(&text).has("`valgrind --track-fds=yes ./figures descriptors`");
}

#[test]
fn a_number_without_its_stacks_says_by_how_much_and_what_to_do() {
    let project = project(&["temporary"], "[\"allocations\"]");
    project.accept();
    let edited = "allotrope-budgets/temporary.toml";
    project.replace(edited, "allocations = 50", "allocations = 48");
    let (case, text) = red(&project);
    // The stacks are unchanged, and the number is not that of the stacks.
    assert_eq!(case["responsible"][0]["rest"], 2);
    let words = "rest +2: the accepted number is 48, but the accepted stacks sum to 50";
    let flat = one_line(&text);
    assert!(flat.contains(words), "{text}");
    assert!(
        flat.contains("`allotrope test --accept temporary` writes both"),
        "{text}"
    );
    std::fs::remove_file(project.folder().join("allotrope-budgets/temporary.stacks"))
        .expect("it was accepted");
    let (_, text) = red(&project);
    let flat = one_line(&text);
    let words = "rest -48: no stacks of the accepted number are stored; `allotrope test \
                 --accept temporary` stores them";
    assert!(flat.contains(words), "{text}");
}
