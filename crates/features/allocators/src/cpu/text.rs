//! The report for people.

use allotrope_text::document::{Document, Table, left, right};
use allotrope_text::numbers::{count, percent};

use crate::cpu::annotation_text;
use crate::cpu::breakdown::{Group, WhatIf};
use crate::cpu::counter::Counter;
use crate::cpu::operations::Operations;
use crate::cpu::profile::{Guess, Profile};
use crate::cpu::rows::{Row, Share};
use crate::tables::{base, place};

/// How the report begins.
pub(crate) const START: &str = "CPU inside the allocator: ";
/// The report without samples.
pub(crate) const NOTHING: &str = "no samples: hardly any CPU time was used";

/// Functions that are guessed to be the allocator's, and are named.
const GUESSES: usize = 5;

/// The report as a document, with at most `top` rows in each table.
pub fn document(profile: &Profile, top: usize) -> Document {
    let mut document = Document::default();
    if profile.samples == 0 {
        document.text(NOTHING);
        return document;
    }
    head(profile, &mut document);
    if profile.inside.samples > 0 {
        let tables = [
            ("by entry point", &profile.entry_points),
            ("by function", &profile.functions),
            ("by line", &profile.lines),
            ("by calling site", &profile.sites),
        ];
        for (title, rows) in tables {
            document.heading(2, title);
            document.table(table(rows).top(top));
        }
    }
    if !profile.breakdown.outside.is_empty() {
        document.heading(2, "outside of the allocator");
        document.table(table(&profile.breakdown.outside).top(top));
    }
    if !profile.breakdown.groups.is_empty() {
        document.heading(2, "groups, and the program without each");
        document.table(group_table(&profile.breakdown.groups).top(top));
    }
    annotation_text::sections(&profile.annotations, &mut document);
    counters(profile, &mut document);
    for doubt in &profile.doubts {
        document.warning(doubt.clone());
    }
    document
}

/// How much is inside, of which allocators, by which clock.
pub(crate) fn head(profile: &Profile, document: &mut Document) {
    let inside = &profile.inside;
    document.text(format!(
        "{START}{} (95 %: {} to {}), {} of {} samples",
        percent(inside.share),
        percent(inside.low),
        percent(inside.high),
        inside.samples,
        profile.samples,
    ));
    let guessed = &profile.inside_with_guesses;
    if guessed.samples > inside.samples {
        document.text(format!(
            "with what is a guess: {} (95 %: {} to {}), {} of {} samples",
            percent(guessed.share),
            percent(guessed.low),
            percent(guessed.high),
            guessed.samples,
            profile.samples,
        ));
        let named = profile.guesses.iter().take(GUESSES);
        document.list(named.map(|it| {
            let Guess { row, reason } = it;
            format!("{} of {}: {reason}", percent(row.share.share), name(row))
        }));
        let more = profile.guesses.len().saturating_sub(GUESSES);
        if more > 0 {
            document.text(format!("… {more} more"));
        }
        document.text("--allocator-functions NAMES says which functions are the allocator's");
    }
    for score in &profile.scores {
        document.text(format!("the program's own figure: {}", score.line));
    }
    for allocator in &profile.allocators {
        document.text(format!("allocator: {allocator}"));
    }
    let clock = match profile.clock {
        "cpu-clock" => "cpu-clock (this machine offers no PMU)".to_owned(),
        clock => format!("{clock}, precise_ip {}", profile.precise_ip),
    };
    let kernel = match profile.kernel {
        true => "user space and kernel",
        false => {
            "user space only (time in the kernel needs kernel.perf_event_paranoid of at most 1)"
        }
    };
    let seconds = profile.cpu_seconds;
    let seconds = seconds.map_or_else(String::new, |it| format!(", {it:.2} s of CPU time"));
    document.text(format!("clock: {clock}; {kernel}{seconds}"));
    document.text(format!("skid: {}", profile.skid));
    if profile.lost > 0 {
        document.text(format!(
            "lost: {} records, because the kernel's buffer was full, so that shares can be wrong; {}",
            count(profile.lost),
            match profile.is_lost_to_counters {
                true => "samples of counters filled it, which --frequency does not change",
                false => "use a lower --frequency",
            }
        ));
    }
    if profile.samples_without_stack * 50 > profile.samples {
        let share = profile.samples_without_stack as f64 / profile.samples as f64;
        document.text(format!(
            "{} of the samples have no stack (32-bit code, or code that is in no file): they count as outside",
            percent(share)
        ));
    }
}

/// The misses of a counter of misses, of what can miss.
fn rate(name: &str, counter: &Counter) -> Option<String> {
    let what = match name {
        "cache-misses" => "the references",
        "branch-misses" => "the branches",
        _ => "the loads",
    };
    let inside = counter
        .rate_inside
        .map_or_else(String::new, |it| format!(" ({:.2}% inside)", it * 100.0));
    counter
        .rate
        .map(|it| format!(", {:.2}% of {what}{inside}", it * 100.0))
}

/// Rows with their intervals.
pub(crate) fn table(rows: &[Row]) -> Table {
    let rows = rows.iter().map(|row| {
        let Share {
            samples,
            kernel_samples,
            share,
            low,
            high,
        } = row.share;
        let kernel = kernel_samples as f64 / samples.max(1) as f64;
        [
            percent(share),
            format!("{:.1}", 50.0 * (high - low)),
            percent(kernel),
            samples.to_string(),
            name(row),
        ]
    });
    let numbers = ["share", "±95 %", "kernel", "samples"].map(right);
    Table::new(numbers.into_iter().chain([left("")])).rows(rows)
}

/// Function, place and module.
pub(crate) fn name(row: &Row) -> String {
    let module = base(&row.module);
    let module = match row.function.starts_with(module) {
        true => String::new(),
        false => format!("({module})"),
    };
    let parts = [&row.function, &place(&row.file, row.line), &module];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// The counters, with rates of misses.
pub(crate) fn counters(profile: &Profile, document: &mut Document) {
    document.heading(
        2,
        "counters inside the allocator (estimated from samples), of all that was counted",
    );
    let mut table = Table::new([left(""), left("")]);
    for (name, counter) in &profile.counters {
        let text = match counter {
            None => match profile.unavailable.get(name) {
                Some(why) => format!("unavailable: {why}"),
                None => "unavailable".to_owned(),
            },
            Some(counter) => {
                let (inside, total) = (counter.inside, counter.total);
                let each = match (counter.per_operation, inside) {
                    (Some(each), _) => format!(", {each:.4} an operation"),
                    (None, 0) => ", too little for a sample".to_owned(),
                    (None, _) => String::new(),
                };
                let rate = rate(name, counter).unwrap_or_default();
                let part = match counter.counted_part {
                    1.0 => String::new(),
                    part => format!(", scaled: counted in {} of the time", percent(part)),
                };
                format!("{} of {}{each}{rate}{part}", count(inside), count(total))
            }
        };
        table.row([(*name).to_owned(), text]);
    }
    if let (Some(_), Some(ns)) = (profile.operations, profile.nanoseconds_per_operation) {
        let text = format!("{ns:.1} ns of CPU time an operation");
        table.row(["time".to_owned(), text]);
    }
    document.table(table);
    let Some(operations) = profile.operations else {
        return document.text("an operation: unavailable, because the number of calls is not known; --count runs the program twice more to count them, --recording FILE takes them from a recording of it");
    };
    let source = match profile.operations_source {
        Some(Operations::RECORDING) => "of the recording",
        Some(Operations::SECOND_RUN) => "counted in a further run of the program",
        _ => "as given",
    };
    document.text(format!("{} operations, {source}", count(operations)));
}

/// The groups with their shares and factors.
pub(crate) fn group_table(groups: &[Group]) -> Table {
    let rows = groups.iter().map(|group| {
        [
            percent(group.share.share),
            format!("{:.1}", 50.0 * (group.share.high - group.share.low)),
            factor(&group.what_if),
            gain(&group.what_if),
            format!("{}: {}", group.name, group.functions.join(", ")),
        ]
    });
    let numbers = ["share", "±95 %", "without it", "faster by"].map(right);
    Table::new(numbers.into_iter().chain([left("group")])).rows(rows)
}

/// `1.78x (1.75 to 1.81)`.
pub(crate) fn factor(what_if: &WhatIf) -> String {
    match (what_if.factor, what_if.low, what_if.high) {
        (Some(factor), Some(low), Some(high)) => format!("{factor:.2}x ({low:.2} to {high:.2})"),
        (Some(factor), ..) => format!("{factor:.2}x"),
        (None, ..) => "-".to_owned(),
    }
}

fn gain(what_if: &WhatIf) -> String {
    let percent = |it: f64| format!("{:.0}%", (it - 1.0) * 100.0);
    what_if.factor.map_or_else(|| "-".to_owned(), percent)
}
