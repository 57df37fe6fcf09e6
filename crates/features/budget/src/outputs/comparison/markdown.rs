//! Writes a comparison as Markdown, for a comment on a pull request: problems and differing
//! numbers first, the worst at the top; stacks and unchanged numbers collapsed.

use std::io::{self, Write};

use allotrope_text::document::{Document, Table, Text};
use allotrope_text::numbers::plural;
use allotrope_text::{LogWriter, Role, TextWriter};

use super::{ComparisonOptions, differing_suspects, stacks, worst_first};
use crate::check::CheckStatus;
use crate::comparison::{ComparedCase, ComparedTest, Comparison, Side};
use crate::outputs::markdown::{named, numbers, row};
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
    let (differing, same): (Vec<&ComparedCase>, Vec<&ComparedCase>) = worst_first(comparison)
        .into_iter()
        .partition(|case| case.differs());
    let mut document = Document::default();
    let [before, after] = sides.map(|side| &*side.name);
    let summary = summary(comparison, &differing, &same);
    let title = Text::from("Allocations, ").and(Role::Code, before);
    let title = title.and(Role::Plain, " → ").and(Role::Code, after);
    document.heading(3, title.and(Role::Plain, format!(": {summary}")));
    for side in sides {
        build_failure(side, &mut document);
    }
    for test in &comparison.tests {
        problems(test, &mut document);
    }
    if !differing.is_empty() {
        document.table(table(&differing, true));
    }
    for test in &comparison.tests {
        let suspects = differing_suspects(test);
        if !suspects.is_empty() {
            let text = "these differ, too (suspect them before the code):";
            document.text(format!("{}: {text}", test.name));
        }
        document.list(suspects);
    }
    let options = ComparisonOptions {
        style: Default::default(),
        ..*options
    };
    for case in differing.into_iter().filter(|case| !case.diffs.is_empty()) {
        let mut text = Vec::new();
        stacks(case, &options, &mut text)?;
        document.folded(&*case.name, lines(&String::from_utf8_lossy(&text)));
    }
    if !same.is_empty() {
        let count = plural(same.len(), "case", "cases");
        let mut part = Document::default();
        part.table(table(&same, false));
        document.folded(format!("{count} without a difference"), part);
    }
    let [before, after] = sides.map(|side| side.commit.get(..12).unwrap_or(&side.commit));
    let compared = Text::of(Role::Code, after).and(Role::Plain, " compared with ");
    document.text(compared.and(Role::Code, before));
    let out = &mut TextWriter::new(LogWriter::new(out), false);
    document.write_markdown(out)?;
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

fn build_failure(side: &Side, document: &mut Document) {
    let Some(failure) = &side.build_failure else {
        return;
    };
    let name = format!("{} could not be built", side.name);
    document.text(named(&name, &failure.problem.to_string()));
    if let Some(path) = &failure.missing {
        document.text(wording::missing_beside_worktree(path));
    }
    let all: Vec<&str> = failure.output.lines().collect();
    let last = all[all.len().saturating_sub(OUTPUT_LINES)..].join("\n");
    document.folded("the end of the build's output", lines(&last));
}

fn problems(test: &ComparedTest, document: &mut Document) {
    for (index, word) in ["before", "after"].into_iter().enumerate() {
        if let Some(problem) = &test.problems[index] {
            let problem = format!(" {word}: {problem}");
            document.text(Text::of(Role::Title, &*test.name).and(Role::Plain, problem));
        }
        if !test.exists[index] {
            document.text(format!("{}: not there {word}", test.name));
        }
        let missing = test.cases.iter().filter(|case| !case.exists[index]);
        for case in missing.filter(|_| test.problems[index].is_none()) {
            document.text(format!("{}: not there {word}", case.name));
        }
    }
    if let Some(file) = &test.same_program {
        document.text(format!("{}: {}", test.name, wording::same_program(file)));
    }
}

/// A table of the cases' numbers: those that differ, or all.
fn table(cases: &[&ComparedCase], differing: bool) -> Table {
    let mut table = numbers(["before", "after"]);
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
            table.row(row(sign, &case.name, case.iterations, check));
        }
    }
    table
}

fn lines(text: &str) -> Document {
    let mut document = Document::default();
    document.lines(text);
    document
}
