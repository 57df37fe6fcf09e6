//! A comparison of two reports for people.

use allotrope_text::document::{Document, Table, left, right};
use allotrope_text::numbers::{count, percent};
use allotrope_text::word;

use crate::cpu::compare::{Change, Comparison, Figures, Side, Verdict};
use crate::cpu::text;

/// The comparison, with at most `top` rows in each table.
pub fn document(comparison: &Comparison, top: usize) -> Document {
    let mut document = Document::default();
    document.heading(1, "CPU time, before and after");
    document.list([
        side("before", &comparison.before),
        side("after", &comparison.after),
    ]);
    for note in &comparison.notes {
        document.warning(note.clone());
    }
    let is_time = comparison.basis_why.is_none();
    if let (Some(before), Some(after), Some(factor)) = (
        comparison.before.ns_per_operation,
        comparison.after.ns_per_operation,
        comparison.factor,
    ) {
        document.text(format!(
            "the program takes {after:.1} ns of CPU time an operation, {before:.1} before: {factor:.2}x as fast"
        ));
    }
    if let Some(why) = &comparison.basis_why {
        document.text(why.clone());
    }
    scores(comparison, &mut document);
    estimates(comparison, &mut document);
    document.heading(2, "the allocator and the groups");
    let all = [("inside the allocator".to_owned(), &comparison.inside)];
    let groups = comparison.groups.iter();
    let groups = groups.map(|it| (it.name.clone(), &it.change));
    document.table(table(all.into_iter().chain(groups), is_time));
    document.heading(2, "functions, the largest change first");
    let functions = comparison.functions.iter();
    let functions = functions.map(|it| {
        let name = match it.function.starts_with(&it.module) {
            true => it.function.clone(),
            false => format!("{} ({})", it.function, it.module),
        };
        (name, &it.change)
    });
    document.table(table(functions, is_time).top(top));
    document.text(format!(
        "not proven: the 95 % intervals of {} overlap; more samples make them narrower (a longer run, --frequency)",
        match is_time {
            true => "CPU time an operation",
            false => "the shares",
        }
    ));
    document
}

fn side(name: &str, side: &Side) -> String {
    let command = side.command.iter().map(|it| word(it.as_ref()));
    let command = command.collect::<Vec<_>>().join(" ");
    let process = side.process;
    let process = process.map_or_else(String::new, |it| format!("process {it}, "));
    let seconds = side.cpu_seconds;
    let seconds = seconds.map_or_else(String::new, |it| format!(", {it:.2} s of CPU time"));
    let operations = side.operations;
    let operations =
        operations.map_or_else(String::new, |it| format!(", {} operations", count(it)));
    format!(
        "{name}: {process}{command}; {}; {} samples{seconds}{operations}",
        side.date,
        count(side.samples)
    )
}

/// The program's own figures: of one run each, so that nothing tells by how much they vary.
fn scores(comparison: &Comparison, document: &mut Document) {
    if comparison.scores.is_empty() {
        return;
    }
    document.heading(2, "the program's own figures, of one run each");
    let rows = comparison.scores.iter().map(|it| {
        let ratio = it.ratio;
        [
            it.before.to_string(),
            it.after.to_string(),
            ratio.map_or_else(|| "-".to_owned(), |it| format!("{it:.2}x")),
            it.line.clone(),
        ]
    });
    let columns = ["before", "after", "ratio"].map(right);
    let columns = columns.into_iter().chain([left("line of the run after")]);
    document.table(Table::new(columns).rows(rows));
}

/// What was estimated for a group that is gone, beside what was gained.
fn estimates(comparison: &Comparison, document: &mut Document) {
    let gone = comparison.groups.iter();
    let gone = gone.filter(|it| it.change.after.samples == 0);
    for group in gone.filter(|it| it.change.verdict == Verdict::Less) {
        let Some(estimate) = &group.estimate else {
            continue;
        };
        let measured = match comparison.factor {
            Some(factor) => format!("; it is {factor:.2}x as fast"),
            None => String::new(),
        };
        document.text(format!(
            "{} is gone: without it the program was estimated to be {} as fast{measured}",
            group.name,
            text::factor(estimate)
        ));
    }
}

fn table<'a>(rows: impl Iterator<Item = (String, &'a Change)>, is_time: bool) -> Table {
    let rows = rows.map(|(name, change)| {
        let ns = |it: &Figures| {
            it.ns
                .map_or_else(|| "-".to_owned(), |it| format!("{it:.1}"))
        };
        let (before, after) = (&change.before, &change.after);
        let mut cells = vec![percent(before.share), percent(after.share)];
        if is_time {
            let of = before.ns.unwrap_or(0.0);
            cells.extend([ns(before), ns(after)]);
            cells.push(match after.ns {
                Some(after) if of > 0.0 => format!("{:+.0}%", (after / of - 1.0) * 100.0),
                _ => "new".to_owned(),
            });
        } else {
            cells.push(format!("{:+.1}", (after.share - before.share) * 100.0));
        }
        cells.extend([change.verdict.word().to_owned(), name]);
        cells
    });
    let numbers: &[&str] = match is_time {
        true => &["before", "after", "ns/op", "ns/op", "change"],
        false => &["before", "after", "points"],
    };
    let numbers = numbers.iter().copied().map(right);
    Table::new(numbers.chain([left("proven"), left("")])).rows(rows)
}
