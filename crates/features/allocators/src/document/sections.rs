//! What each section has.

use crate::replay::report::SpreadRow;
use allotrope_text::numbers::{bytes, count};

use super::{Block, Document, Section};
use crate::report::{self, Allocator, Change, ChangedTime, Report, removed};
use crate::what_if::names;

pub(super) fn document(report: &Report, top: usize) -> Document {
    let recorded = &report.recording;
    let command = match recorded.command.is_empty() {
        true => recorded.executable.clone(),
        false => recorded.command.join(" "),
    };
    let mut sections = vec![section(
        1,
        "Summary",
        vec![Block::List(report.summary.clone())],
    )];
    sections.push(section(1, "Time and memory", time(report)));
    for allocator in &report.allocators {
        of_allocator(allocator, top, &mut sections);
    }
    if !report.changes.is_empty() {
        let blocks = report.changes.iter().flat_map(before_after);
        sections.push(section(1, "Before and after", blocks.collect()));
    }
    sections.push(section(1, "Appendix: commands", commands(report)));
    Document {
        title: format!("Allocators for {command}"),
        sections,
    }
}

fn section(level: usize, title: &str, blocks: Vec<Block>) -> Section {
    Section {
        level,
        title: title.to_owned(),
        blocks,
    }
}

fn table(columns: &[&'static str], rows: impl Iterator<Item = Vec<String>>, top: usize) -> Block {
    let all: Vec<Vec<String>> = rows.collect();
    Block::Table {
        columns: columns.to_vec(),
        more: all.len().saturating_sub(top),
        rows: all.into_iter().take(top).collect(),
    }
}

fn text(text: impl Into<String>) -> Block {
    Block::Text(text.into())
}

fn time(report: &Report) -> Vec<Block> {
    let recorded = &report.recording;
    let rows = report.allocators.iter().map(|it| {
        let row = &it.replay;
        let time = row.ns_per_operation;
        let number = |figure: Option<String>| figure.unwrap_or_else(|| "-".to_owned());
        vec![
            number(time.map(|it| format!("{:.1}", it.median))),
            number(time.map(|it| format!("{:.1}–{:.1}", it.low, it.high))),
            number(row.peak_rss_bytes.map(bytes)),
            number(it.mean().map(|it| format!("{it:.2}"))),
            row.name.clone(),
        ]
    });
    let columns = ["ns/op", "low–high", "peak RSS", "instr/op", "allocator"];
    let refused = report.allocators.iter().filter_map(|it| {
        let why = it.replay.refused.as_ref().or(it.not_stepped.as_ref())?;
        Some(format!("{} {why}", it.replay.name))
    });
    let refused: Vec<String> = refused.collect();
    let stepped = match report.allocators.iter().any(|it| it.mean().is_some()) {
        true => format!(
            " One of {} was stepped to count instructions.",
            count(report.stepping.every)
        ),
        false => String::new(),
    };
    let mut blocks = vec![
        text(format!(
            "{} operations of process {}; {} live at the peak.{stepped}",
            count(recorded.operations),
            recorded.pid,
            bytes(recorded.peak_live_bytes),
        )),
        table(&columns, rows, usize::MAX),
    ];
    if !refused.is_empty() {
        blocks.push(Block::List(refused));
    }
    blocks
}

fn of_allocator(allocator: &Allocator, top: usize, sections: &mut Vec<Section>) {
    if allocator.replay.refused.is_some() {
        return;
    }
    let findings = match allocator.findings.is_empty() {
        true => text("Nothing stands out."),
        false => Block::List(allocator.findings.clone()),
    };
    let mut blocks = vec![findings];
    if allocator.steps.cut > 0 {
        blocks.push(text(format!(
            "{} operations were too long to be stepped to their end.",
            count(allocator.steps.cut)
        )));
    }
    sections.push(section(
        1,
        &format!("Allocator {}", allocator.replay.name),
        blocks,
    ));
    if allocator.mean().is_some() {
        sections.push(section(2, "Hot functions", functions(allocator, top)));
        sections.push(section(2, "Hot lines", lines(allocator, top)));
        sections.push(section(2, "Paths", paths(allocator, top)));
        sections.push(section(2, "Callees", callees(allocator, top)));
    }
    sections.push(section(2, "Counters an operation", counters(allocator)));
    if allocator.mean().is_some() {
        sections.push(section(2, "What if", what_if(allocator, top)));
    }
    sections.push(section(2, "Verification", verification(allocator)));
}

fn functions(allocator: &Allocator, top: usize) -> Vec<Block> {
    let rows = allocator.steps.functions.iter().map(|it| {
        let place = place(&it.file, it.line).unwrap_or_else(|| base(&it.module).to_owned());
        let outside = if it.allocator {
            ""
        } else {
            " (outside the allocator)"
        };
        vec![
            percent(it.share_of_instructions),
            format!("{:.2}", it.instructions),
            format!("{} {place}{outside}", it.function),
        ]
    });
    vec![
        text(
            "Own instructions of each function: exact counts of the stepped operations, no samples of time.",
        ),
        table(&["share", "instr/op", "function"], rows, top),
    ]
}

fn lines(allocator: &Allocator, top: usize) -> Vec<Block> {
    if allocator.steps.lines.is_empty() {
        return vec![text(
            "No debug information names lines (-g, or a -dbgsym package).",
        )];
    }
    let rows = allocator.steps.lines.iter().map(|it| {
        vec![
            percent(it.share_of_instructions),
            format!("{:.2}", it.instructions),
            format!("{} {}:{}", it.function, base(&it.file), it.line),
        ]
    });
    vec![table(&["share", "instr/op", "line"], rows, top)]
}

fn paths(allocator: &Allocator, top: usize) -> Vec<Block> {
    let rows = allocator.steps.paths.iter().map(|it| {
        vec![
            it.entry_point.clone(),
            percent(it.share_of_operations),
            percent(it.share_of_instructions),
            format!("{:.1}", it.instructions),
            names(it),
        ]
    });
    vec![
        text("Shares are of the operations and of the instructions of the entry point."),
        table(
            &["entry point", "of op", "of instr", "instr/op", "path"],
            rows,
            top,
        ),
    ]
}

fn callees(allocator: &Allocator, top: usize) -> Vec<Block> {
    if allocator.steps.callees.is_empty() {
        return vec![text("It calls nothing outside its own code.")];
    }
    let rows = allocator.steps.callees.iter().map(|it| {
        let place = place(&it.file, it.line).map_or_else(String::new, |it| format!(" {it}"));
        vec![
            percent(it.share_of_operations),
            percent(it.share_of_instructions),
            format!(
                "{} ({}), called by {}{place}",
                it.function, it.kind, it.caller
            ),
        ]
    });
    vec![
        text(
            "Shares are of all operations and of all instructions, those of inner calls included.",
        ),
        table(&["of op", "of instr", "callee"], rows, top),
    ]
}

fn counters(allocator: &Allocator) -> Vec<Block> {
    let rows = allocator.counters.iter().map(|it| {
        let figure = it.per_operation.map(|it| format!("{it:.4}"));
        vec![
            figure.unwrap_or_else(|| "-".to_owned()),
            it.source.to_owned(),
            it.counter.to_owned(),
        ]
    });
    let mut blocks = vec![table(
        &["an operation", "source", "counter"],
        rows,
        usize::MAX,
    )];
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for counter in &allocator.counters {
        let Some(why) = &counter.why else { continue };
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(counter.counter),
            None => reasons.push((why, vec![counter.counter])),
        }
    }
    let reasons = reasons
        .into_iter()
        .map(|(why, names)| format!("{} unavailable: {why}.", names.join(", ")));
    let reasons: Vec<String> = reasons.collect();
    if !reasons.is_empty() {
        blocks.push(Block::List(reasons));
    }
    blocks
}

fn what_if(allocator: &Allocator, top: usize) -> Vec<Block> {
    if allocator.what_if.is_empty() {
        return vec![text(
            "No callee and no path takes a share that is worth an estimate.",
        )];
    }
    let rows = allocator.what_if.iter().map(|it| {
        let place = place(&it.file, it.line).map_or_else(String::new, |it| format!(" {it}"));
        let what = match it.kind {
            "callee" => format!("without {}, called by {}{place}", it.function, it.by),
            _ => format!("{} without the path {}", it.function, it.by),
        };
        vec![
            percent(it.saved_share),
            format!("{:.2}", it.saved_instructions),
            percent(it.share_of_operations),
            what,
        ]
    });
    vec![
        text(
            "Estimates. Without a callee, its instructions are not executed, nor those of what it calls; what prepares the call may go, too, and what replaces it comes on top. Without a path, its operations take the most frequent one of the entry point. Estimates overlap, so they cannot be added up, and a share of instructions is none of time.",
        ),
        table(&["saves", "instr/op", "of op", "what"], rows, top),
    ]
}

fn verification(allocator: &Allocator) -> Vec<Block> {
    if allocator.verification.is_empty() {
        return vec![text("Nothing was counted twice.")];
    }
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
        vec![
            number(it.counted),
            it.again.map_or_else(|| "-".to_owned(), number),
            verdict.to_owned(),
            format!("{}: {}; {}", it.what, it.first, it.second),
        ]
    });
    vec![table(
        &["first", "second", "verdict", "what: first; second"],
        rows,
        usize::MAX,
    )]
}

fn before_after(change: &Change) -> Vec<Block> {
    if let Some(why) = &change.refused {
        let mut blocks = vec![text(format!("{}: {why}.", change.name))];
        blocks.extend(change.time.iter().flat_map(changed_time));
        return blocks;
    }
    let rows = change.rows.iter().map(|it| {
        let percent = it.change();
        vec![
            format!("{:.2}", it.before),
            format!("{:.2}", it.after),
            percent.map_or_else(|| "-".to_owned(), |it| format!("{:+.2}%", it * 100.0)),
            format!("{:.2}", it.noise),
            it.entry_point.clone(),
        ]
    });
    let columns = ["before", "after", "change", "noise", "entry point"];
    let before = change.before_library.as_deref().unwrap_or("glibc");
    let mut blocks = vec![
        text(format!(
            "{}: instructions an operation; before: {before}",
            change.name
        )),
        table(&columns, rows, usize::MAX),
    ];
    let measured = change.measured_saving.unwrap_or_default();
    blocks.push(text(match change.estimated_saving {
        None => format!("Measured saving: {measured:.2} instructions an operation. No callee is gone, so there is no estimate beside it."),
        Some(estimate) => format!(
            "Measured saving: {measured:.2} instructions an operation. Estimate from before: {estimate:.2}, all of {}.",
            removed(change)
        ),
    }));
    match &change.time {
        Some(time) => blocks.extend(changed_time(time)),
        None => blocks.push(text(format!("Time: {}.", report::time(change)))),
    }
    blocks
}

/// Time and memory of both versions.
fn changed_time(time: &ChangedTime) -> Vec<Block> {
    let row = |name: &str, ns: SpreadRow, peak| {
        vec![
            format!("{:.1}", ns.median),
            format!("{:.1}–{:.1}", ns.low, ns.high),
            bytes(peak),
            name.to_owned(),
        ]
    };
    let rows = [
        row(
            "before",
            time.before_ns_per_operation,
            time.before_peak_rss_bytes,
        ),
        row(
            "after",
            time.after_ns_per_operation,
            time.after_peak_rss_bytes,
        ),
    ];
    let columns = ["ns/op", "low–high", "peak RSS", "version"];
    vec![
        table(&columns, rows.into_iter(), usize::MAX),
        text(format!("Measured: {}.", time.sentence())),
    ]
}

fn commands(report: &Report) -> Vec<Block> {
    let mut blocks = Vec::new();
    for group in report.commands.chunk_by(|a, b| a.section == b.section) {
        blocks.push(text(format!("{}:", group[0].section)));
        let commands = group.iter().map(|it| it.command.clone());
        blocks.push(Block::Commands(commands.collect()));
    }
    blocks
}

fn place(file: &str, line: u32) -> Option<String> {
    (!file.is_empty() && line > 0).then(|| format!("{}:{line}", base(file)))
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}
