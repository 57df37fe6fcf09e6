//! Writes a comparison of revisions, as text and as JSON
//! (`allotrope-compare/1`). The modules below write the other formats.

pub mod github;
pub mod markdown;

use std::io::{self, Write};
use std::path::Path;

use allotrope_report::Style;
use allotrope_report::diff::{DiffTextOptions, Hints, Selection, text};
use allotrope_text::LogWriter;
use allotrope_text::document::write_lines;
use serde::Serialize;

use super::github::weight;
use super::text::{end_of_output, line};
use super::wording;
use crate::check::CheckStatus;
use crate::comparison::{ComparedCase, ComparedTest, Comparison, Side};
use crate::spread::Spread;

const FORMAT: &str = "allotrope-compare/1";

/// Options of the text.
#[derive(Debug, Clone, Copy)]
pub struct ComparisonOptions {
    /// Colour and width.
    pub style: Style,
    /// The largest number of entries for each metric.
    pub top: usize,
    /// Shows all frames of stacks.
    pub all_frames: bool,
}

/// Writes the comparison as text.
///
/// # Errors
/// Errors of `out`.
pub fn write_text(
    comparison: &Comparison,
    sides: [&Side; 2],
    options: &ComparisonOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let out: &mut dyn Write = &mut LogWriter::new(out);
    for (word, side) in ["before", "after"].into_iter().zip(sides) {
        let commit = side.commit.get(..12).unwrap_or(&side.commit);
        writeln!(out, "{word:<7} {} ({commit})", side.name)?;
    }
    writeln!(out)?;
    for side in sides {
        if let Some(failure) = &side.build_failure {
            writeln!(
                out,
                "FAIL  {} could not be built: {}",
                side.name, failure.problem
            )?;
            if let Some(path) = &failure.missing {
                let missing = wording::missing_beside_worktree(path);
                writeln!(out, "      {missing}")?;
            }
            end_of_output(out, options.style, &failure.output)?;
        }
    }
    for test in &comparison.tests {
        lines(test, options.style.columns(), out)?;
    }
    if comparison.is_empty() {
        writeln!(out, "nothing could be compared")?;
    }
    for test in &comparison.tests {
        suspects(test, out)?;
        for case in &test.cases {
            stacks(case, options, out)?;
        }
    }
    Ok(())
}

/// The stacks that make the differences of a case.
fn stacks(case: &ComparedCase, options: &ComparisonOptions, out: &mut dyn Write) -> io::Result<()> {
    for (metric, diff) in &case.diffs {
        writeln!(out, "\n{}: {metric}\n", case.name)?;
        let remarks = case.remarks.iter().filter(|(of, _)| of == metric);
        let options = DiffTextOptions {
            style: options.style,
            selection: Selection::default(),
            top: options.top,
            all_frames: options.all_frames,
            hints: Hints {
                moved: None,
                ..Hints::default()
            },
            changes: Vec::new(),
            titles: [Vec::new(), Vec::new()],
            remarks: remarks.map(|(_, remark)| remark.clone()).collect(),
        };
        text::write(diff, &options, out)?;
    }
    let has_diff = |metric| case.diffs.iter().any(|(of, _)| *of == metric);
    for (_, remark) in case.remarks.iter().filter(|(of, _)| !has_diff(*of)) {
        writeln!(out, "\n{}: {remark}", case.name)?;
    }
    Ok(())
}

fn lines(test: &ComparedTest, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut print =
        |status: &str, name: &str, parts: &[String]| line(out, width, status, name, parts);
    for (index, word) in ["before", "after"].into_iter().enumerate() {
        if let Some(problem) = &test.problems[index] {
            print("FAIL", &test.name, &[format!("{word}: {problem}")])?;
        }
        if !test.exists[index] {
            print("-   ", &test.name, &[format!("not there {word}")])?;
        }
    }
    for case in &test.cases {
        for (index, word) in ["before", "after"].into_iter().enumerate() {
            if !case.exists[index] && test.problems[index].is_none() {
                print("-   ", &case.name, &[format!("not there {word}")])?;
            }
        }
        if case.exists == [true, true] {
            let status = match (case.is_worse(), case.differs()) {
                (true, _) => "more",
                (false, false) => "same",
                (false, true) => "less",
            };
            print(status, &case.name, &numbers(case))?;
        }
    }
    if let Some(file) = &test.same_program {
        let note = format!("note: {}", wording::same_program(file));
        print("    ", &test.name, &[note])?;
    }
    Ok(())
}

fn numbers(case: &ComparedCase) -> Vec<String> {
    let numbers = case.checks.iter().map(|check| {
        let number = |of: Option<Spread>| of.map_or_else(|| "?".to_owned(), wording::spread);
        let (metric, before, now) = (check.metric, number(check.budget), number(check.now));
        match check.difference() {
            Some(_) if check.status == CheckStatus::WithinNoise => {
                format!("{metric} {before} → {now} (within noise)")
            }
            Some(0) => format!("{metric} {now}"),
            difference => {
                let difference = difference.map(wording::signed).unwrap_or_default();
                format!("{metric} {before} → {now} ({difference})")
            }
        }
    });
    numbers.collect()
}

/// The cases that both revisions have; those whose numbers are worst come first.
fn worst_first(comparison: &Comparison) -> Vec<&ComparedCase> {
    let tests = comparison.tests.iter();
    let cases = tests.flat_map(|test| &test.cases);
    let mut cases: Vec<&ComparedCase> = cases.filter(|case| case.exists == [true, true]).collect();
    let worst = |case: &ComparedCase| {
        let worse = case.checks.iter().filter(|check| check.status.fails());
        worse.map(weight).fold(-1.0, f64::max)
    };
    // The sort is stable: cases that are equally bad stay in their order.
    cases.sort_by(|a, b| worst(b).total_cmp(&worst(a)));
    cases
}

/// What else differs, if a case of the test does.
fn differing_suspects(test: &ComparedTest) -> Vec<String> {
    match test.cases.iter().any(ComparedCase::differs) {
        true => test.suspects.iter().map(wording::suspect).collect(),
        false => Vec::new(),
    }
}

fn suspects(test: &ComparedTest, out: &mut dyn Write) -> io::Result<()> {
    let suspects = differing_suspects(test);
    if suspects.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{}: these differ, too (suspect them before the code):",
        test.name
    )?;
    write_lines(out, suspects.iter().map(|it| format!("  {it}")))
}

#[derive(Serialize)]
struct Form<'a> {
    format: &'static str,
    before: SideForm<'a>,
    after: SideForm<'a>,
    worse: bool,
    tests: Vec<TestForm<'a>>,
}

#[derive(Serialize)]
struct SideForm<'a> {
    revision: &'a str,
    commit: &'a str,
    folder: String,
    /// Null if it was built.
    build_failure: Option<BuildFailureForm<'a>>,
}

#[derive(Serialize)]
struct BuildFailureForm<'a> {
    problem: String,
    missing: Option<String>,
    output: &'a str,
}

#[derive(Serialize)]
struct TestForm<'a> {
    name: &'a str,
    problem_before: Option<String>,
    problem_after: Option<String>,
    suspects: Vec<String>,
    /// The program, if both revisions ran the same file.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_program: Option<String>,
    cases: Vec<CaseForm<'a>>,
}

#[derive(Serialize)]
struct CaseForm<'a> {
    name: &'a str,
    worse: bool,
    iterations: Option<u64>,
    numbers: Vec<NumberForm<'a>>,
}

#[derive(Serialize)]
struct NumberForm<'a> {
    metric: &'static str,
    verdict: &'static str,
    before: Option<i64>,
    after: Option<i64>,
    before_range: Option<[i64; 2]>,
    after_range: Option<[i64; 2]>,
    difference: Option<i64>,
    /// The part of the difference that no entry has.
    rest: Option<i64>,
    remarks: Vec<&'a str>,
    entries: Vec<EntryForm<'a>>,
}

#[derive(Serialize)]
struct EntryForm<'a> {
    before: u64,
    after: u64,
    difference: i64,
    function: &'a str,
    place: String,
    in_repository: bool,
    /// The library function that the function calls to allocate.
    through: Option<&'a str>,
}

/// Writes the comparison as one JSON object, followed by a newline.
///
/// # Errors
/// Errors of `out`.
pub fn write_json(
    comparison: &Comparison,
    sides: [&Side; 2],
    out: &mut dyn Write,
) -> io::Result<()> {
    let [before, after] = sides.map(|side| SideForm {
        revision: &side.name,
        commit: &side.commit,
        folder: side.folder.to_string_lossy().into_owned(),
        build_failure: side.build_failure.as_ref().map(|failure| BuildFailureForm {
            problem: failure.problem.to_string(),
            missing: path_text(failure.missing.as_deref()),
            output: &failure.output,
        }),
    });
    let form = Form {
        format: FORMAT,
        before,
        after,
        worse: comparison.is_worse(),
        tests: comparison.tests.iter().map(test_form).collect(),
    };
    allotrope_text::to_json_writer(&mut *out, &form)?;
    writeln!(out)
}

fn path_text(path: Option<&Path>) -> Option<String> {
    Some(path?.to_string_lossy().into_owned())
}

fn test_form(test: &ComparedTest) -> TestForm<'_> {
    let problem = |index: usize| test.problems[index].as_ref().map(ToString::to_string);
    TestForm {
        name: &test.name,
        problem_before: problem(0),
        problem_after: problem(1),
        suspects: test.suspects.iter().map(wording::suspect).collect(),
        same_program: path_text(test.same_program.as_deref()),
        cases: test.cases.iter().map(case_form).collect(),
    }
}

fn case_form(case: &ComparedCase) -> CaseForm<'_> {
    let numbers = case.checks.iter().map(|check| {
        let explained = case
            .diffs
            .iter()
            .find(|(metric, _)| *metric == check.metric);
        let entries = explained.into_iter().flat_map(|(_, diff)| {
            wording::explaining_entries(diff).map(move |entry| {
                let frame = wording::blamed(diff, entry);
                EntryForm {
                    before: entry.before,
                    after: entry.after,
                    difference: entry.difference,
                    function: frame.map_or("", |frame| &frame.function),
                    place: frame.map(wording::location).unwrap_or_default(),
                    in_repository: wording::is_in_repository(diff, entry),
                    through: wording::called(diff, entry).map(|it| &*it.function),
                }
            })
        });
        let entries: Vec<EntryForm<'_>> = entries.collect();
        let named: i64 = entries.iter().map(|entry| entry.difference).sum();
        let remarks = case.remarks.iter().filter(|(of, _)| *of == check.metric);
        NumberForm {
            metric: check.metric.name(),
            verdict: wording::status(check.status),
            before: check.budget.map(|spread| spread.typical),
            after: check.now.map(|spread| spread.typical),
            before_range: check.budget.map(|spread| [spread.least, spread.most]),
            after_range: check.now.map(|spread| [spread.least, spread.most]),
            difference: check.difference(),
            rest: check.difference().map(|it| it.saturating_sub(named)),
            remarks: remarks.map(|(_, remark)| remark.as_str()).collect(),
            entries,
        }
    });
    CaseForm {
        name: &case.name,
        worse: case.is_worse(),
        iterations: case.iterations,
        numbers: numbers.collect(),
    }
}
