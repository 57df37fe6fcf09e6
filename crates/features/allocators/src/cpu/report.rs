//! The whole report, for an issue or a wiki: head, summary, functions with notes, groups with what
//! removing them would gain, call graphs, tests, lines with their source, counters.

use std::collections::HashMap;

use allotrope_text::document::{Document, Table, left, right};
use allotrope_text::numbers::{bytes, count, percent};

use crate::cpu::annotation_text;
use crate::cpu::breakdown::{Call, Test};
use crate::cpu::profile::Profile;
use crate::cpu::rows::Row;
use crate::cpu::text;
use crate::source;

/// The title of the report.
const TITLE: &str = "CPU time and the allocator";
/// How it begins, by which it is recognised.
pub(crate) const START: &str = "# CPU time and the allocator";
/// Calls of a test that are shown: the largest ones with their callers.
const CALLS: usize = 24;
/// Functions of a test that are shown.
const FUNCTIONS: usize = 6;

/// The report, with at most `top` rows in each table.
pub fn document(profile: &Profile, top: usize) -> Document {
    let mut document = Document::default();
    document.heading(1, TITLE);
    head(profile, &mut document);
    if profile.samples == 0 {
        document.text(text::NOTHING);
        return document;
    }
    document.heading(2, "Summary");
    text::head(profile, &mut document);
    for doubt in &profile.doubts {
        document.warning(doubt.clone());
    }
    if profile.inside.samples > 0 {
        document.heading(2, "Functions inside the allocator");
        document.table(noted(&profile.functions, profile).top(top));
    }
    document.heading(2, "Functions outside of the allocator");
    document.table(noted(&profile.breakdown.outside, profile).top(top));
    groups(profile, &mut document);
    if profile.inside.samples > 0 {
        for (title, rows) in [
            ("Entry points", &profile.entry_points),
            ("Calling sites", &profile.sites),
        ] {
            document.heading(2, title);
            document.table(text::table(rows).top(top));
        }
    }
    tests(&profile.breakdown.tests, top, &mut document);
    lines(profile, top, &mut document);
    annotation_text::sections(&profile.annotations, &mut document);
    text::counters(profile, &mut document);
    verification(profile, &mut document);
    document
}

fn head(profile: &Profile, document: &mut Document) {
    let origin = &profile.origin;
    let command = origin.command_text();
    let environment = &origin.environment;
    let mut facts = vec![
        format!("date: {}", origin.date),
        match origin.process {
            Some(process) => format!("process: {process}, {command}"),
            None => format!("command: {command}"),
        },
        format!("machine: {}", origin.machine.text()),
        format!(
            "environment: {} variables of {}",
            environment.variables,
            bytes(environment.bytes)
        ),
        format!("samples: {}", count(profile.samples)),
    ];
    facts.extend(
        profile
            .scores
            .iter()
            .map(|it| format!("the program's own figure: {}", it.line)),
    );
    facts.extend(environment.of_allocators.iter().cloned());
    document.list(facts);
}

/// Rows with their module, and what they are.
fn noted(rows: &[Row], profile: &Profile) -> Table {
    let mut notes: HashMap<&str, &str> = HashMap::new();
    for group in &profile.breakdown.groups {
        for function in &group.functions {
            notes.entry(function).or_insert(&group.name);
        }
    }
    let rows = rows.iter().map(|row| {
        let note = match (row.allocator, notes.get(&*row.function)) {
            (true, _) => "the allocator's",
            (false, Some(group)) => group,
            (false, None) => "",
        };
        [
            percent(row.share.share),
            format!("{:.1}", 50.0 * (row.share.high - row.share.low)),
            row.function.clone(),
            crate::tables::base(&row.module).to_owned(),
            note.to_owned(),
        ]
    });
    let columns = [right("share"), right("±95 %")].into_iter();
    let names = ["function", "module", "note"].map(left);
    Table::new(columns.chain(names)).rows(rows)
}

fn groups(profile: &Profile, document: &mut Document) {
    let groups = &profile.breakdown.groups;
    if groups.is_empty() {
        return;
    }
    document.heading(2, "Groups, and the program without them");
    document.table(text::group_table(groups));
    document.text("A factor is 1 / (1 - share): it is the program's gain if the whole group costs nothing, and what replaces it comes on top.");
    if let Some(after) = &profile.breakdown.after_first {
        document.heading(2, format!("After the first fix: without {}", after.group));
        let rows = after.functions.iter().map(|it| {
            [
                percent(it.share.share),
                text::factor(&it.what_if),
                it.function.clone(),
                crate::tables::base(&it.module).to_owned(),
            ]
        });
        let columns = [
            right("share"),
            right("without it"),
            left("function"),
            left("module"),
        ];
        document.table(Table::new(columns).rows(rows));
    }
}

fn tests(tests: &[Test], top: usize, document: &mut Document) {
    if tests.is_empty() {
        return;
    }
    document.heading(2, "Parts of the program");
    let rows = tests.iter().map(|test| {
        let inside = test.inside_samples as f64 / test.share.samples.max(1) as f64;
        let functions = test.functions.iter().take(FUNCTIONS);
        let functions = functions.map(|it| format!("{} {}", it.function, percent(it.share.share)));
        [
            percent(test.share.share),
            percent(inside),
            test.function.clone(),
            functions.collect::<Vec<_>>().join(", "),
        ]
    });
    let columns = [
        right("share"),
        right("of it inside"),
        left("part"),
        left("functions, of the part's samples"),
    ];
    document.table(Table::new(columns).rows(rows).top(top));
    document.heading(2, "Call graph");
    for test in tests.iter().take(top).filter(|it| !it.calls.is_empty()) {
        document.lines(graph(test));
    }
}

/// A test and its calls, each below its caller, with shares of all samples.
fn graph(test: &Test) -> String {
    let mut sizes: Vec<u64> = test.calls.iter().map(|it| it.share.samples).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let least = sizes.get(CALLS).copied().unwrap_or(0);
    let mut lines = vec![format!(
        "{:>7} {}",
        percent(test.share.share),
        test.function
    )];
    let calls = test.calls.iter().filter(|it| it.share.samples > least);
    lines.extend(calls.map(|call: &Call| {
        let indent = "  ".repeat(call.depth + 1);
        format!(
            "{:>7} {indent}→ {}",
            percent(call.share.share),
            call.function
        )
    }));
    let left_out = test.calls.len() + 1 - lines.len();
    if left_out > 0 {
        lines.push(format!("        … {left_out} smaller calls"));
    }
    lines.join("\n") + "\n"
}

fn lines(profile: &Profile, top: usize, document: &mut Document) {
    if profile.lines.is_empty() {
        return;
    }
    document.heading(2, "Lines");
    let mut files: HashMap<&str, Option<Vec<String>>> = HashMap::new();
    let rows = profile.lines.iter().take(top).map(|row| {
        let lines = files
            .entry(&row.file)
            .or_insert_with(|| source::lines(&row.file));
        let at = (row.line as usize).checked_sub(1);
        let text = at.and_then(|at| lines.as_ref()?.get(at).cloned());
        [
            percent(row.share.share),
            text::name(row),
            text.map_or_else(String::new, |it| it.trim().to_owned()),
        ]
    });
    let columns = [right("share"), left("line"), left("source")];
    document.table(Table::new(columns).rows(rows.collect::<Vec<_>>()));
}

fn verification(profile: &Profile, document: &mut Document) {
    document.heading(2, "How to check a change");
    let origin = &profile.origin;
    if origin.process.is_some() || origin.command.is_empty() {
        return document.text("Sample the process again after the change, and compare the shares; a change is real if the intervals do not meet.");
    }
    let command = origin.command_text();
    document.commands([
        format!("allotrope cpu --count --format json -o before.json -- {command}    # now"),
        format!(
            "allotrope cpu --count --format json -o after.json -- {command}     # after the change"
        ),
        "allotrope diff before.json after.json".to_owned(),
    ]);
    document.text("The comparison has each function and group with what is proven of its change, and the program's own figure.");
}
