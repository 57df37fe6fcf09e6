//! Formats results as Markdown tables.

use std::fmt::Write as _;

use crate::aims;
use crate::contention::{ALLOCATIONS, Contention, THREADS};
use crate::figures::{Median, count, short};
use crate::growth::{Growth, Point};
use crate::instructions::HotPath;
use crate::job::Figure;
use crate::results::{Results, Standard};
use crate::row::Aim;
use crate::run::Sample;
use crate::standard::{COUNTING, Measured};

/// The tools in the order of the tables. The others are compared with the first.
const PLAIN: &str = "plain";
const OURS: &str = "allotrope";
const PEER: &str = "heaptrack";
const COUNTS: &str = "counts";
const FREE_STACKS: &str = "free-stacks";

/// The tables of the standard measurement.
pub fn standard(results: &Standard) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}. {}. {:.0} minutes; the machine's load was {:.1} before and {:.1} after.\n",
        results.when, results.machine, results.minutes, results.load_before, results.load_after
    );
    text += &aims::table(&results.rows);
    text += "\n### Time\n\n";
    text += &time_table(&results.rows);
    text +=
        "\n![Time under each tool as a multiple of the plain program's](benchmarks/ratios.svg)\n";
    text += &counts_table(&results.rows);
    text += &free_stacks_table(&results.rows);
    for (tool, name) in [(OURS, "Allotrope"), (PEER, "heaptrack")] {
        let _ = write!(
            text,
            "\n### What {name} takes besides\n\n{}",
            cost_table(&results.rows, tool)
        );
    }
    text
}

/// The table of times: ratios first. A failed run is shown with its reason.
pub fn time_table(rows: &[Measured]) -> String {
    let mut text =
        "| work | aim | Allotrope | its CPU alone | heaptrack | plain | Allotrope | heaptrack | runs |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
            .to_owned();
    for row in rows {
        let runs: Vec<_> = [PLAIN, OURS, PEER]
            .map(|tool| {
                row.tools
                    .get(tool)
                    .map_or(0, |runs| runs.samples.len())
                    .to_string()
            })
            .to_vec();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.what,
            verdict(row),
            ratio(row, OURS),
            processor(row, OURS),
            ratio(row, PEER),
            figure(row, PLAIN),
            figure(row, OURS),
            figure(row, PEER),
            runs.join("/"),
        );
    }
    text
}

fn verdict(row: &Measured) -> String {
    let aim = match row.aim {
        None => return "–".to_owned(),
        Some(Aim::Over(most)) => format!("≤ +{most} ns"),
        Some(Aim::Times(most)) => format!("≤ {most}×"),
        Some(Aim::Part(least)) => format!("≥ {:.0} %", least * 100.0),
    };
    match row.is_reached() {
        Some(true) => format!("{aim}: reached"),
        Some(false) => format!("{aim}: **missed**"),
        None => format!("{aim}: not measured"),
    }
}

/// `1.5× (1.4–1.6)`, or the failure.
fn ratio(row: &Measured, tool: &str) -> String {
    let times = row.times(tool).map(|median| match row.figure {
        Figure::Requests => median.text(" %", |part| format!("{:.0}", part * 100.0)),
        _ => median.text("×", short),
    });
    let Some(times) = times else {
        return absent(row, tool);
    };
    match (row.figure, row.cost(tool)) {
        (Figure::NanosecondsPrinted, Some(over)) => {
            format!(
                "{}, {times}",
                over.text(" ns", |over| format!("{over:+.1}"))
            )
        }
        _ => times,
    }
}

/// The CPU time of the program relative to plain: the tool's work in the program, which
/// hardly depends on the load of the machine.
fn processor(row: &Measured, tool: &str) -> String {
    let times = row.against_plain(tool, |ours, plain| ours.target_cpu / plain.target_cpu);
    times.map_or("–".to_owned(), |median| {
        format!("{}×", short(median.middle))
    })
}

fn figure(row: &Measured, tool: &str) -> String {
    let Some(median) = row.median(tool, |sample| sample.figure) else {
        return "–".to_owned();
    };
    match row.figure {
        Figure::NanosecondsPrinted => format!("{} ns", short(median.middle)),
        Figure::Wall => format!("{} s", short(median.middle)),
        Figure::Requests => format!("{:.0}/s", median.middle),
    }
}

fn absent(row: &Measured, tool: &str) -> String {
    match row.tools.get(tool).and_then(|runs| runs.failure.as_ref()) {
        Some(failure) => format!("failed: {}", in_a_cell(failure)),
        None => "–".to_owned(),
    }
}

/// The beginning of a message, without characters that would end a table cell.
fn in_a_cell(message: &str) -> String {
    let plain: String = message
        .chars()
        .map(|c| if c == '|' || c == '\n' { ' ' } else { c })
        .collect();
    let mut short: String = plain.chars().take(80).collect();
    if short.len() < plain.len() {
        short.push('…');
    }
    short
}

/// The table of counting without stacks; empty if it was not measured.
fn counts_table(rows: &[Measured]) -> String {
    let counted: Vec<_> = rows
        .iter()
        .filter(|row| row.tools.contains_key(COUNTS))
        .collect();
    if counted.is_empty() {
        return String::new();
    }
    let mut text = "\n### Counting without stacks (`--counts-only`)\n\n\
                    | work | aim | counting | plain | counting |\n| --- | --- | ---: | ---: | ---: |\n"
        .to_owned();
    for row in counted {
        let aim = match row.counting() {
            Some((_, true)) => format!("≤ +{COUNTING} ns: reached"),
            Some((_, false)) => format!("≤ +{COUNTING} ns: **missed**"),
            None => "–".to_owned(),
        };
        let _ = writeln!(
            text,
            "| {} | {aim} | {} | {} | {} |",
            row.what,
            ratio(row, COUNTS),
            figure(row, PLAIN),
            figure(row, COUNTS),
        );
    }
    text
}

/// The table of the stacks of deallocations; empty if they were not measured.
fn free_stacks_table(rows: &[Measured]) -> String {
    let with = |row: &&Measured| row.tools.contains_key(FREE_STACKS);
    let rows: Vec<_> = rows.iter().filter(with).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut text = "\n### With the stacks of deallocations (`--free-stacks`)\n\n\
                    | work | without | with | plain | without | with |\n\
                    | --- | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            row.what,
            ratio(row, OURS),
            ratio(row, FREE_STACKS),
            figure(row, PLAIN),
            figure(row, OURS),
            figure(row, FREE_STACKS),
        );
    }
    text
}

/// The table of a tool's other costs: CPU, memory, size of the trace, reading.
fn cost_table(rows: &[Measured], tool: &str) -> String {
    let mut text = "| work | allocations | program's CPU | tool's CPU per million | program's memory | \
                    tool's memory | bytes an event | exit to trace | reading per million | reading's memory |\n\
                    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for row in rows {
        let Some(events) = row.events() else { continue };
        if row.median(tool, |sample| sample.wall).is_none() {
            continue;
        }
        let millions = events.allocations as f64 / 1e6;
        let cell = |median: Option<Median>, form: &dyn Fn(f64) -> String| {
            median.map_or("–".to_owned(), |median| form(median.middle))
        };
        let seconds = |of: &dyn Fn(&Sample) -> f64| {
            cell(row.median(tool, of), &|s| format!("{} s", short(s)))
        };
        let report = |of: &dyn Fn(&crate::run::Report) -> f64| row.of_reports(tool, of);
        let _ = writeln!(
            text,
            "| {} | {:.2} M | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.what,
            millions,
            processor(row, tool),
            seconds(&|sample| sample.tool_cpu / millions),
            cell(
                row.against_plain(tool, |ours, plain| {
                    (ours.target_peak_kib as f64 - plain.target_peak_kib as f64) / 1024.0
                }),
                &|mib| format!("{mib:+.1} MiB")
            ),
            cell(
                row.median(tool, |sample| sample.tool_peak_kib as f64 / 1024.0),
                &|mib| { format!("{mib:.0} MiB") }
            ),
            cell(
                row.median(tool, |sample| sample.trace_bytes as f64
                    / events.all() as f64),
                &short
            ),
            seconds(&|sample| sample.finish),
            cell(report(&|report| report.wall / millions), &|s| format!(
                "{} s",
                short(s)
            )),
            cell(
                report(&|report| report.peak_kib as f64 / 1024.0),
                &|mib| format!("{mib:.0} MiB")
            ),
        );
    }
    text
}

/// The tables of growth.
pub fn growth(results: &Results<Vec<Growth>>) -> String {
    let mut text = format!("{}.\n", results.head());
    for growth in &results.measured {
        let _ = write!(text, "\n### By {}\n\n{}", growth.what, growth_table(growth));
        let _ = writeln!(
            text,
            "\n![Cost by {}](benchmarks/{}.svg)",
            growth.what, growth.name
        );
    }
    text
}

/// The tables of one cause: a line per value, and the powers with which costs grow.
pub fn growth_table(growth: &Growth) -> String {
    let mut text = format!(
        "| {} | program, plain | recording adds | collector | program's memory | collector's memory | \
         bytes an event | run, exit to trace | reading | reading's memory |\n\
         | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        growth.name
    );
    for point in &growth.points {
        let _ = writeln!(
            text,
            "| {} | {} ns | {} | {} ns | {:+.1} MiB | {:.0} MiB | {} | {} s, {} s | {} ns | {:.0} MiB |",
            count(point.value),
            short(point.plain),
            point.over.text(" ns", short),
            short(point.collector),
            point.target_mib,
            point.collector_mib,
            short(point.trace),
            short(point.wall),
            short(point.finish),
            short(point.report),
            point.report_mib,
        );
    }
    text += "\n| grows with the power | over all | steepest step |\n| --- | ---: | --- |\n";
    let powers = growth.powers();
    for power in &powers {
        let over_all = power
            .over_all
            .map_or("–".to_owned(), |power| format!("{power:.2}"));
        let steepest = power.steepest.map_or("–".to_owned(), |(power, from, to)| {
            format!(
                "{power:.2}, from {} to {}",
                count(from as u64),
                count(to as u64)
            )
        });
        let _ = writeln!(text, "| {} | {over_all} | {steepest} |", power.what);
    }
    let faster: Vec<_> = powers
        .iter()
        .filter(|power| power.over_all.is_some_and(|power| power > aims::GROWTH))
        .map(|power| power.what)
        .collect();
    text += "\n";
    if faster.is_empty() {
        text += "Nothing grows faster than its cause.\n";
    } else {
        let _ = writeln!(text, "**Faster than its cause**: {}.", faster.join(", "));
    }
    text
}

/// The tables of the threads measurement.
pub fn contention(results: &Results<Contention>) -> String {
    let measured = &results.measured;
    let mut text = format!(
        "{}.\n\n| threads | plain, CPU an allocation | recording adds | collector |\n\
         | ---: | ---: | ---: | ---: |\n",
        results.head()
    );
    for point in &measured.points {
        let _ = writeln!(
            text,
            "| {} | {} ns | {} | {} ns |",
            point.value,
            short(point.plain),
            point.over.text(" ns", short),
            short(point.collector)
        );
    }
    if let [one, .., four] = &measured.points[..] {
        let total = |point: &Point| point.plain + point.over.middle;
        let _ = writeln!(
            text,
            "\nOn {} threads an allocation costs the recorded program {} ns, on one {} ns; plain {} and {} ns.",
            four.value,
            short(total(four)),
            short(total(one)),
            short(four.plain),
            short(one.plain)
        );
    }
    let _ = write!(
        text,
        "\nSystem calls of the program, {THREADS} threads, {} allocations: {} plain, {} recorded. \
         Where the two differ:\n\n| call | plain | recorded |\n| --- | ---: | ---: |\n",
        count(ALLOCATIONS),
        measured.all_calls.0,
        measured.all_calls.1
    );
    for (name, (plain, ours)) in &measured.calls {
        let _ = writeln!(text, "| `{name}` | {plain} | {ours} |");
    }
    text
}

/// The table of instruction counts.
pub fn instructions(results: &Results<Vec<HotPath>>) -> String {
    let mut text = format!(
        "{}.\n\n| an operation | plain | recording adds | and to mark the time, under callgrind | \
         counting without stacks adds | with `--free-stacks` recording adds |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n",
        results.head()
    );
    let shown = |over: Option<f64>| over.map_or("–".to_owned(), |over| format!("{over:.1}"));
    for path in &results.measured {
        let _ = writeln!(
            text,
            "| {} | {:.1} | {:.1} | {:.1} | {} | {} |",
            path.what,
            path.plain,
            path.over,
            path.marking,
            shown(path.counting),
            shown(path.free_stacks),
        );
    }
    text
}

/// The table that compares two versions.
pub fn instructions_against(ours: &[HotPath], other: &[HotPath], name: &str) -> String {
    let mut text = format!(
        "| an operation | recording adds, {name} | now | difference |\n| --- | ---: | ---: | ---: |\n"
    );
    for (now, before) in ours.iter().zip(other) {
        let mut line = |what: &str, before: f64, now: f64| {
            let _ = writeln!(
                text,
                "| {what} | {before:.1} | {now:.1} | {:+.1} |",
                now - before
            );
        };
        line(&now.what, before.over, now.over);
        if let (Some(before), Some(after)) = (before.counting, now.counting) {
            line(
                &format!("{}, counting without stacks", now.what),
                before,
                after,
            );
        }
    }
    text
}
