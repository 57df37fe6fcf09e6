//! The report for people, as a document: text and Markdown have the same sections.

use allotrope_text::document::{Document, Table, left, right};
use allotrope_text::numbers::{bytes, count, percent};

use crate::paths::findings::{names, show_places};
use crate::replay::report::SpreadRow;
use crate::report::{self, Allocator, Change, ChangedTime, Report, removed};
use crate::tables::{callees, changes, lines, named_place, or_dash, place};

/// The document of a report, with at most `top` rows in each table.
pub fn document(report: &Report, top: usize) -> Document {
    let mut document = Document::default();
    document.heading(
        1,
        format!("Allocators for {}", report.recording.command_line()),
    );
    document.heading(2, "Summary");
    document.list(&report.summary);
    document.heading(2, "Time and memory");
    time(report, &mut document);
    for allocator in &report.allocators {
        of_allocator(allocator, top, &mut document);
    }
    if !report.changes.is_empty() {
        document.heading(2, "Before and after");
    }
    for change in &report.changes {
        before_after(change, &mut document);
    }
    document.heading(2, "Appendix: commands");
    for group in report.commands.chunk_by(|a, b| a.section == b.section) {
        document.text(format!("{}:", group[0].section));
        document.commands(group.iter().map(|it| it.command.clone()));
    }
    document
}

fn time(report: &Report, document: &mut Document) {
    let recorded = &report.recording;
    let stepped = match report.allocators.iter().any(|it| it.mean().is_some()) {
        true => format!(
            " One of {} was stepped to count instructions.",
            count(report.stepping.every)
        ),
        false => String::new(),
    };
    document.text(format!(
        "{} operations of process {}; {} live at the peak.{stepped}",
        count(recorded.operations),
        recorded.pid,
        bytes(recorded.peak_live_bytes),
    ));
    document.text(format!(
        "Environment: {}.",
        report.replay.environment.text()
    ));
    let rows = report.allocators.iter().map(|it| {
        let row = &it.replay;
        let time = row.ns_per_operation;
        [
            or_dash(time.map(|it| format!("{:.1}", it.median))),
            or_dash(time.map(|it| format!("{:.1}–{:.1}", it.low, it.high))),
            or_dash(row.peak_rss_bytes.map(bytes)),
            or_dash(it.mean().map(|it| format!("{it:.2}"))),
            row.name.clone(),
        ]
    });
    let numbers = ["ns/op", "low–high", "peak RSS", "instr/op"].map(right);
    let columns = numbers.into_iter().chain([left("allocator")]);
    document.table(Table::new(columns).rows(rows));
    document.list(report.allocators.iter().filter_map(|it| {
        let why = it.replay.refused.as_ref().or(it.not_stepped.as_ref())?;
        Some(format!("{} {why}", it.replay.name))
    }));
}

fn of_allocator(allocator: &Allocator, top: usize, document: &mut Document) {
    if allocator.replay.refused.is_some() {
        return;
    }
    document.heading(2, format!("Allocator {}", allocator.replay.name));
    if allocator.findings.is_empty() {
        document.text("Nothing stands out.");
    }
    document.list(&allocator.findings);
    show_places(&allocator.steps.callees, document);
    if allocator.steps.cut > 0 {
        document.text(format!(
            "{} operations were too long to be stepped to their end.",
            count(allocator.steps.cut)
        ));
    }
    let is_stepped = allocator.mean().is_some();
    if is_stepped {
        document.heading(3, "Hot functions");
        document.text("Own instructions of each function: exact counts of the stepped operations, no samples of time.");
        document.table(functions(allocator).top(top));
        document.heading(3, "Hot lines");
        match allocator.steps.lines.is_empty() {
            true => document.text("No debug information names lines (-g, or a -dbgsym package)."),
            false => document.table(lines(&allocator.steps.lines).top(top)),
        }
        document.heading(3, "Paths");
        document.text("Shares are of the operations and of the instructions of the entry point.");
        document.table(paths(allocator).top(top));
        document.heading(3, "Callees");
        if allocator.steps.callees.is_empty() {
            document.text("It calls nothing outside its own code.");
        } else {
            document.text(
                "Shares are of all operations and of all instructions, those of inner calls included.",
            );
            document.table(callees(&allocator.steps.callees).top(top));
        }
    }
    document.heading(3, "Counters an operation");
    counters(allocator, document);
    if is_stepped {
        document.heading(3, "What if");
        what_if(allocator, top, document);
    }
    document.heading(3, "Verification");
    match allocator.verification.is_empty() {
        true => document.text("Nothing was counted twice."),
        false => document.table(verification(allocator)),
    }
}

fn functions(allocator: &Allocator) -> Table {
    let rows = allocator.steps.functions.iter().map(|it| {
        let outside = if it.allocator {
            ""
        } else {
            " (outside the allocator)"
        };
        [
            percent(it.share_of_instructions),
            format!("{:.2}", it.instructions),
            format!(
                "{} {}{outside}",
                it.function,
                named_place(&it.file, it.line, &it.module)
            ),
        ]
    });
    Table::new([right("share"), right("instr/op"), left("function")]).rows(rows)
}

fn paths(allocator: &Allocator) -> Table {
    let rows = allocator.steps.paths.iter().map(|it| {
        [
            it.entry_point.clone(),
            percent(it.share_of_operations),
            percent(it.share_of_instructions),
            format!("{:.1}", it.instructions),
            names(it),
        ]
    });
    let numbers = ["of op", "of instr", "instr/op"].map(right);
    let columns = [left("entry point")].into_iter().chain(numbers);
    Table::new(columns.chain([left("path")])).rows(rows)
}

fn counters(allocator: &Allocator, document: &mut Document) {
    let rows = allocator.counters.iter().map(|it| {
        let figure = it.per_operation.map(|it| format!("{it:.4}"));
        [or_dash(figure), it.source.to_owned(), it.counter.to_owned()]
    });
    let columns = [right("an operation"), left("source"), left("counter")];
    document.table(Table::new(columns).rows(rows));
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for counter in &allocator.counters {
        let Some(why) = &counter.why else { continue };
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(counter.counter),
            None => reasons.push((why, vec![counter.counter])),
        }
    }
    let reasons = reasons.into_iter();
    document.list(reasons.map(|(why, names)| format!("{} unavailable: {why}.", names.join(", "))));
}

fn what_if(allocator: &Allocator, top: usize, document: &mut Document) {
    if allocator.what_if.is_empty() {
        return document.text("No callee and no path takes a share that is worth an estimate.");
    }
    document.text("Estimates. Without a callee, its instructions are not executed, nor those of what it calls; what prepares the call may go, too, and what replaces it comes on top. Without a path, its operations take the most frequent one of the entry point. Estimates overlap, so they cannot be added up, and a share of instructions is none of time.");
    let rows = allocator.what_if.iter().map(|it| {
        let what = match it.kind {
            "callee" => {
                let place = place(&it.file, it.line);
                format!("without {}, called by {} {place}", it.function, it.by)
            }
            _ => format!("{} without the path {}", it.function, it.by),
        };
        [
            percent(it.saved_share),
            format!("{:.2}", it.saved_instructions),
            percent(it.share_of_operations),
            what.trim_end().to_owned(),
        ]
    });
    let numbers = ["saves", "instr/op", "of op"].map(right);
    let columns = numbers.into_iter().chain([left("what")]);
    document.table(Table::new(columns).rows(rows).top(top));
}

fn verification(allocator: &Allocator) -> Table {
    let rows = allocator.verification.iter().map(|it| {
        let number = |it: f64| match it.fract() == 0.0 {
            true => count(it as u64),
            false => format!("{it:.2}"),
        };
        let verdict = match it.agrees {
            Some(true) => "agrees",
            Some(false) => "differs",
            None => "unavailable",
        };
        [
            number(it.counted),
            or_dash(it.again.map(number)),
            verdict.to_owned(),
            format!("{}: {}; {}", it.what, it.first, it.second),
        ]
    });
    let texts = ["verdict", "what: first; second"].map(left);
    let columns = ["first", "second"].map(right).into_iter();
    Table::new(columns.chain(texts)).rows(rows)
}

fn before_after(change: &Change, document: &mut Document) {
    if let Some(why) = &change.refused {
        document.text(format!("{}: {why}.", change.name));
        if let Some(time) = &change.time {
            changed_time(time, document);
        }
        program(change, document);
        return;
    }
    let before = change.before_library.as_deref().unwrap_or("glibc");
    document.text(format!(
        "{}: instructions an operation; before: {before}",
        change.name
    ));
    document.table(changes(&change.rows, |row| row.entry_point.clone()));
    let measured = change.measured_saving.unwrap_or_default();
    document.text(match change.estimated_saving {
        None => format!("Measured saving: {measured:.2} instructions an operation. No callee is gone, so there is no estimate beside it."),
        Some(estimate) => format!(
            "Measured saving: {measured:.2} instructions an operation. Estimate from before: {estimate:.2}, all of {}.",
            removed(change)
        ),
    });
    match &change.time {
        Some(time) => changed_time(time, document),
        None => document.text(format!("Time: {}.", report::time(change))),
    }
    program(change, document);
}

/// What the whole program gains.
fn program(change: &Change, document: &mut Document) {
    if let Some(gain) = &change.program {
        document.text(format!("Estimated: {}.", gain.sentence()));
    }
}

/// Time and memory of both versions.
fn changed_time(time: &ChangedTime, document: &mut Document) {
    let row = |name: &str, ns: SpreadRow, peak| {
        [
            format!("{:.1}", ns.median),
            format!("{:.1}–{:.1}", ns.low, ns.high),
            bytes(peak),
            name.to_owned(),
        ]
    };
    let (before, after) = (time.before_ns_per_operation, time.after_ns_per_operation);
    let rows = [
        row("before", before, time.before_peak_rss_bytes),
        row("after", after, time.after_peak_rss_bytes),
    ];
    let numbers = ["ns/op", "low–high", "peak RSS"].map(right);
    let columns = numbers.into_iter().chain([left("version")]);
    document.table(Table::new(columns).rows(rows));
    document.text(format!("Measured: {}.", time.sentence()));
}
