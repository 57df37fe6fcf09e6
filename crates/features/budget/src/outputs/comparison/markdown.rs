//! Writes a comparison as Markdown, for a comment on a pull request: problems and differing
//! numbers first, the worst at the top; stacks and unchanged numbers collapsed.

use std::io::{self, Write};

use allotrope_text::{LogWriter, TextWriter, shown_lines};

use super::{ComparisonOptions, stacks, worst_first};
use crate::check::CheckStatus;
use crate::comparison::{ComparedCase, ComparedTest, Comparison, Side};
use crate::outputs::markdown::{code, escaped, fence, html, write_row};
use crate::outputs::wording;

/// The number of lines of a failed build's output that are shown.
const OUTPUT_LINES: usize = 40;

/// Writes the comparison as Markdown.
///
/// # Errors
/// Errors of `out`.
pub fn write(
    comparison: &Comparison,
    sides: [&Side; 2],
    options: &ComparisonOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let out = &mut TextWriter::new(LogWriter::new(out), false);
    let (differing, same): (Vec<&ComparedCase>, Vec<&ComparedCase>) = worst_first(comparison)
        .into_iter()
        .partition(|case| case.differs());
    let names = sides.map(|side| code(&side.name));
    let summary = summary(comparison, &differing, &same);
    writeln!(
        out,
        "### Allocations, {} → {}: {summary}\n",
        names[0], names[1]
    )?;
    for side in sides {
        build_failure(side, out)?;
    }
    for test in &comparison.tests {
        problems(test, out)?;
    }
    if !differing.is_empty() {
        table(&differing, true, out)?;
    }
    for test in &comparison.tests {
        suspects(test, out)?;
    }
    let options = ComparisonOptions {
        style: Default::default(),
        ..*options
    };
    for case in differing {
        if case.diffs.is_empty() {
            continue;
        }
        let mut text = Vec::new();
        stacks(case, &options, &mut text)?;
        folded(&html(&case.name), &String::from_utf8_lossy(&text), out)?;
    }
    if !same.is_empty() {
        let noun = if same.len() == 1 { "case" } else { "cases" };
        let number = same.len();
        writeln!(
            out,
            "\n<details><summary>{number} {noun} without a difference</summary>\n"
        )?;
        table(&same, false, out)?;
        writeln!(out, "\n</details>")?;
    }
    let commits = sides.map(|side| code(side.commit.get(..12).unwrap_or(&side.commit)));
    writeln!(out, "\n{} compared with {}", commits[1], commits[0])?;
    out.flush()
}

/// `2 cases allocate more, 1 less, 5 without a difference`.
fn summary(comparison: &Comparison, differing: &[&ComparedCase], same: &[&ComparedCase]) -> String {
    let worse = differing.iter().filter(|case| case.is_worse()).count();
    let broken = comparison.tests.iter().filter(|test| test.is_broken());
    let parts = [
        (broken.count(), "not measured"),
        (worse, "more"),
        (differing.len() - worse, "less"),
        (same.len(), "the same"),
    ];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    match parts.is_empty() {
        true => "nothing could be compared".to_owned(),
        false => parts.join(", "),
    }
}

fn build_failure(side: &Side, out: &mut dyn Write) -> io::Result<()> {
    let Some(failure) = &side.build_failure else {
        return Ok(());
    };
    let (name, problem) = (code(&side.name), escaped(&failure.problem.to_string()));
    writeln!(out, "**{name} could not be built**: {problem}")?;
    if let Some(path) = &failure.missing {
        writeln!(out, "{}", escaped(&wording::missing_beside_worktree(path)))?;
    }
    let lines: Vec<&str> = failure.output.lines().collect();
    let last = lines[lines.len().saturating_sub(OUTPUT_LINES)..].join("\n");
    folded("the end of the build's output", &last, out)?;
    writeln!(out)
}

fn problems(test: &ComparedTest, out: &mut dyn Write) -> io::Result<()> {
    let name = escaped(&test.name);
    for (index, word) in ["before", "after"].into_iter().enumerate() {
        if let Some(problem) = &test.problems[index] {
            writeln!(
                out,
                "**{name}** {word}: {}\n",
                escaped(&problem.to_string())
            )?;
        }
        if !test.exists[index] {
            writeln!(out, "{name}: not there {word}\n")?;
        }
        let missing = test.cases.iter().filter(|case| !case.exists[index]);
        for case in missing.filter(|_| test.problems[index].is_none()) {
            writeln!(out, "{}: not there {word}\n", escaped(&case.name))?;
        }
    }
    if let Some(file) = &test.same_program {
        writeln!(out, "{name}: {}\n", escaped(&wording::same_program(file)))?;
    }
    Ok(())
}

/// A table of the cases' numbers: those that differ, or all.
fn table(cases: &[&ComparedCase], differing: bool, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "| | case | metric | before | after | difference | per iteration |"
    )?;
    writeln!(out, "|---|---|---|---:|---:|---:|---:|")?;
    for case in cases {
        for check in &case.checks {
            if differing && !check.differs() {
                continue;
            }
            let sign = match check.status {
                CheckStatus::WithinBudget => "",
                CheckStatus::WithinNoise => "noise",
                CheckStatus::Improved => "🔽 less",
                _ => "❌ more",
            };
            write_row(sign, &case.name, case.iterations, check, out)?;
        }
    }
    Ok(())
}

fn suspects(test: &ComparedTest, out: &mut dyn Write) -> io::Result<()> {
    let differs = test.cases.iter().any(ComparedCase::differs);
    if !differs || test.suspects.is_empty() {
        return Ok(());
    }
    let name = escaped(&test.name);
    writeln!(
        out,
        "\n{name}: these differ, too (suspect them before the code):\n"
    )?;
    for suspect in &test.suspects {
        writeln!(out, "- {}", escaped(&wording::suspect(suspect)))?;
    }
    Ok(())
}

/// A collapsed text. Markdown is not interpreted in the summary, which is HTML.
fn folded(summary: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let text = shown_lines(text);
    let text = text.trim_matches('\n');
    let fence = fence(text);
    writeln!(out, "\n<details><summary>{summary}</summary>\n\n{fence}")?;
    writeln!(out, "{text}\n{fence}\n\n</details>")
}
