//! The head of the text: the files, the totals, and a table of new, gone and
//! changed entries that adds up to the totals.

use std::io::{self, Write};

use allotrope_diff::{Diff, Entry, Kind, MetricChange, Noise};

use super::selection::{Sum, sum, sum_of};
use super::text_options::DiffTextOptions;
use super::wording::{chance, each, kind_word, signed};
use crate::numbers::{count, plural};
use crate::shorten::{clean, path};
use allotrope_text::document::{Table, left, right, write_lines};
use allotrope_text::{Role, cut_middle};

/// A line of the table: its name, three figures, a note.
struct Row {
    name: &'static str,
    figures: [String; 3],
    note: String,
}

pub(super) fn write(
    diff: &Diff,
    matching: &[&Entry],
    options: &DiffTextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    for (side, titles) in ["before", "after"].into_iter().zip(&options.titles) {
        let room = options.style.columns().saturating_sub(8);
        let names: Vec<String> = titles.iter().map(|title| path(title, room)).collect();
        if !names.is_empty() {
            let text = format!("{side:<7} {}", names.join(", "));
            line(&text, Role::Location, options, out)?;
        }
    }
    if !options.titles.iter().all(Vec::is_empty) {
        writeln!(out)?;
    }
    changes(diff, options, out)?;
    table(diff, options, out)?;
    noise(diff, options, out)?;
    if let Some(interval) = &diff.interval {
        let text = format!(
            "Figures of sampled profiles are estimates; the difference is {}.",
            chance(interval)
        );
        write_lines(out, options.style.fitted(&text, ["", ""], Role::Plain))?;
    }
    if let Some(pattern) = &options.selection.filter {
        let sum = sum(matching.iter().copied());
        let text = format!(
            "with `{}` in the stack: {} before, {} after, {}{} in {}",
            clean(pattern.pattern()),
            count(sum.before),
            count(sum.after),
            signed(sum.difference()),
            each(diff, sum.difference()),
            plural(matching.len(), "entry", "entries"),
        );
        writeln!(out)?;
        write_lines(out, options.style.fitted(&text, ["", ""], Role::Plain))?;
    }
    Ok(())
}

/// One line, cut to the width.
pub(super) fn line(
    text: &str,
    role: Role,
    options: &DiffTextOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let text = cut_middle(&clean(text), options.style.columns());
    writeln!(out, "{}", options.style.paint(role, &text))
}

/// The metrics that changed, if there are others than the one that is compared: that first, then the
/// others.
fn changes(diff: &Diff, options: &DiffTextOptions, out: &mut dyn Write) -> io::Result<()> {
    let (mut all, others): (Vec<&MetricChange>, Vec<&MetricChange>) = options
        .changes
        .iter()
        .partition(|it| it.metric == diff.metric);
    if others.is_empty() {
        return Ok(());
    }
    all.extend(others);
    let titles = ["before", "after", "change"].map(right);
    let mut table = Table::new([left("What changed")].into_iter().chain(titles)).indent(0);
    for change in all {
        let relative = change.relative() * 100.0;
        let relative = match relative {
            _ if relative.is_infinite() => "new".to_owned(),
            // Not `+0.0 %` for what changed.
            _ if relative.abs() < 0.05 => signed(change.difference()),
            _ if relative >= 1000.0 => format!("{:.1} times", relative / 100.0 + 1.0),
            _ => format!("{relative:+.1} %"),
        };
        table.row([
            format!("  {}", change.metric.words()),
            count(change.before),
            count(change.after),
            relative,
        ]);
    }
    write_lines(out, table.lines(options.style))?;
    writeln!(out)
}

fn table(diff: &Diff, options: &DiffTextOptions, out: &mut dyn Write) -> io::Result<()> {
    let words = diff.metric.words();
    let mut title = format!("{}{}", words[..1].to_uppercase(), &words[1..]);
    if let Some(per) = diff.per {
        title.push_str(&format!(" (each: divided by {per})"));
    }
    line(&title, Role::Title, options, out)?;
    let titles = ["before", "after", "difference"].map(right).into_iter();
    let columns = [left("").at_least(8)].into_iter().chain(titles);
    let mut table = Table::new(columns.chain([left("")]));
    for row in rows(diff) {
        let role = match row.name {
            "total" => Role::Title,
            _ => Role::Plain,
        };
        let [before, after, difference] = row.figures;
        table.row_in(
            role,
            [row.name.to_owned(), before, after, difference, row.note],
        );
    }
    write_lines(out, table.lines(options.style))
}

/// The rows of the table. In each column, the last one is the sum of the others.
fn rows(diff: &Diff) -> Vec<Row> {
    let entries: Vec<&Entry> = diff.entries.iter().collect();
    let mut rows = Vec::new();
    for kind in [
        Kind::New,
        Kind::Gone,
        Kind::Changed,
        Kind::Jitter,
        Kind::Moved,
    ] {
        let sum = sum_of(&entries, kind);
        let always = matches!(kind, Kind::New | Kind::Gone | Kind::Changed);
        if always || sum.entries > 0 {
            let note = match sum.entries {
                0 => String::new(),
                many => plural(
                    usize::try_from(many).unwrap_or(usize::MAX),
                    "entry",
                    "entries",
                ),
            };
            rows.push(row(diff, kind_word(kind), sum, note));
        }
    }
    let all = sum(entries.iter().copied());
    let same = Sum {
        entries: 0,
        before: diff.before.saturating_sub(all.before),
        after: diff.after.saturating_sub(all.after),
    };
    rows.push(row(diff, "the same", same, String::new()));
    let total = Sum {
        entries: 0,
        before: diff.before,
        after: diff.after,
    };
    rows.push(row(diff, "total", total, String::new()));
    rows
}

fn row(diff: &Diff, name: &'static str, sum: Sum, note: String) -> Row {
    let difference = sum.difference();
    let each = each(diff, difference);
    Row {
        name,
        figures: [count(sum.before), count(sum.after), signed(difference)],
        note: format!("{note}{each}").trim_start().to_owned(),
    }
}

fn noise(diff: &Diff, options: &DiffTextOptions, out: &mut dyn Write) -> io::Result<()> {
    let text = noise_in_words(diff);
    write_lines(out, options.style.fitted(&text, ["", ""], Role::Location))
}

/// What is known about the random variation of the runs, as sentences.
pub fn noise_in_words(diff: &Diff) -> String {
    match &diff.noise {
        Noise::Unknown => "Noise is unknown with one run a side; to measure it, give several with --before and --after.".to_owned(),
        Noise::Measured {
            before,
            after,
            deterministic,
            jittering,
        } => format!(
            "Noise: {} before of {}, {} after of {}; stacks: {} deterministic, {} jittering. Figures are those of the run in the middle.",
            plural(before.len(), "run", "runs"),
            range(before),
            plural(after.len(), "run", "runs"),
            range(after),
            count(*deterministic),
            count(*jittering),
        ),
    }
}

fn range(totals: &[u64]) -> String {
    match (totals.first(), totals.last()) {
        (Some(least), Some(most)) if least < most => {
            format!("{} to {}", count(*least), count(*most))
        }
        (Some(only), _) => count(*only),
        _ => "nothing".to_owned(),
    }
}
