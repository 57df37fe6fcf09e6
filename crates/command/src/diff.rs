//! `allotrope diff`: shows which call stacks make the difference between two
//! recordings, or two sides of several runs each. This file reads the files,
//! builds the options and picks the exit status; `allotrope-diff` matches the
//! stacks and `allotrope-report` lays out the result.

mod arguments;
mod cpu;
mod limit;
mod page;
mod paths;
mod saved;
mod sides;

use std::path::{Path, PathBuf};

use allotrope_attribution::{Glue, Suppressions};
use allotrope_diff::chance::add_intervals;
use allotrope_diff::{Diff, DiffOptions, MetricChange, compare, leading_metric, metric_changes};
use allotrope_formats::Limits;
use allotrope_profile::{Metric, MetricSet};
use allotrope_reading::split;
use allotrope_report::diff::{DiffTextOptions, Selection, flame, json, sections, text};
use allotrope_text::Shown;
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, FINE, Failure, REGRESSION, WithStatus};
use crate::message;
use crate::progress::Progress;
use crate::replacing;
use crate::standard_output;
use crate::style::style;
use crate::to_write::ToWrite;
use arguments::{Format, METRIC};
use limit::FailOn;
use sides::{Input, Sides, Wanted, read, titles};

pub use arguments::Arguments;
pub use cpu::read as saved_cpu;

/// The two forms of the command line.
pub const USAGE: &str = "\
allotrope diff [OPTIONS] BEFORE AFTER
       allotrope diff [OPTIONS] --before FILE... --after FILE...";

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
Reads recordings, and stacks from dtrace, bpftrace, heaptrack (data and text),
DHAT (JSON), pprof, text heap profiles (gperftools, tcmalloc, jemalloc, Go),
folded stacks and `allotrope export`, recognised by their contents and mixed
freely. With several runs a side, differences among the runs of
one side are reported as jitter and never as a regression.

Two reports of `allotrope paths -o` are compared by instructions an operation:
--fail-on 'instructions>+2%' is exact where runs are identical, and above their
spread otherwise; an allocator that only one of them has ends with status 2. Two
reports of `allotrope cpu --format json -o` are compared function by function, by CPU
time an operation if both know it (--count), with what is proven: --fail-on
'cpu-time>+5%'. Options for stacks, such as --filter, are refused for both.

JSON (the format allotrope-diff/1) and the page have every entry, so that their
differences sum to the total; --min and --top apply to text and sections only. With
--filter the totals are those of the entries that match.

A recording that was cut off or is damaged is read up to that point, with a
warning.

Exit status: 0 if the files could be compared, 1 if allotrope failed, 2 if a file
cannot be used, 3 if a metric rose by more than --fail-on allows.";

/// Compares the sides, prints the differences and returns the exit status.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    if let Some(reports) = saved_reports(arguments, "paths", paths::is_saved)? {
        return paths::run(arguments, reports);
    }
    if let Some(reports) = saved_reports(arguments, "cpu", cpu::is_saved)? {
        return cpu::run(arguments, reports);
    }
    if arguments.fail_on.iter().any(|it| it.metric().is_none()) {
        let sentence = anyhow!(
            "recordings have neither instructions nor CPU time; compare two files of `allotrope paths -o` or `allotrope cpu -o`, or choose another metric for --fail-on"
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    if arguments.format == Format::Markdown {
        let sentence = anyhow!(
            "--format markdown is for two reports of `allotrope cpu` or `allotrope paths`; recordings are compared as text, JSON, sections or a page (--html)"
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    let glue = arguments.glue.read()?;
    let suppressions = arguments.suppressions.read()?;
    let files = match arguments.files.as_slice() {
        [before, after] => [std::slice::from_ref(before), std::slice::from_ref(after)],
        _ => [&arguments.before[..], &arguments.after[..]],
    };
    let wanted = Wanted {
        window: arguments.window.as_deref(),
        curves: arguments.html.is_some(),
        limits: arguments.input.limits(),
    };
    let read_files = || files.into_iter().flatten();
    let force = arguments.force;
    let to_write = |path, kind| ToWrite { path, kind, force };
    let graph = arguments.flamegraph.as_deref();
    let graph = graph.map(|path| to_write(path, replacing::FLAME_GRAPH));
    let page = arguments.html.as_deref();
    let page = page.map(|path| to_write(path, replacing::PAGE));
    for output in [&graph, &page].into_iter().flatten() {
        output.check(read_files())?;
    }
    check_moments(arguments, read_files())?;
    let (sides, inputs) = read(files, &wanted)?;
    if sides.sampled.is_some() {
        check_sampled(arguments)?;
    }
    let changes = match sides.sampled {
        Some(_) => Vec::new(),
        None => metric_changes(&sides.before, &sides.after),
    };
    let options = DiffOptions {
        metric: metric(arguments, &sides, &changes),
        per: arguments.per.or_else(|| sides.common_iterations()),
        glue,
        suppressions,
        ..DiffOptions::default()
    };
    let sets = sides.before.iter().chain(&sides.after);
    arguments.filter.check_sets(sets)?;
    let diff = compared(&sides, &options)?;
    inputs.iter().for_each(Input::print_notes);
    sides.notes().iter().for_each(message::print);
    let selection = Selection {
        filter: arguments.filter.filter(),
        min: arguments.min,
        expand: arguments.expand,
    };
    if let Some(graph) = &graph {
        graph.create(read_files(), |out| {
            flame::write(&diff, &sides.after, selection.filter.as_ref(), out)
        })?;
    }
    if let Some(output) = &page {
        let filter = selection.filter.as_ref();
        let page = page::bytes(&sides, &inputs, &diff, &options, filter)?;
        output.create_page(read_files(), |out| out.write_all(&page))?;
    }
    match arguments.format {
        Format::Json => standard_output::print(|out| json::write(&diff, &selection, out))?,
        Format::Sections => {
            standard_output::print_log(|out| sections::write(&diff, &selection, out))?
        }
        Format::Text | Format::Markdown => {
            let options = DiffTextOptions {
                changes,
                ..text_options(arguments, &sides, &selection)
            };
            standard_output::print_text(|out| text::write(&diff, &options, out))?;
        }
    }
    check_limits(arguments, &sides, &diff, &selection, options)
}

/// The page of the comparison of two files, which opens with the first metric that both give. Notes
/// on the files are printed on stderr.
pub fn page_of(
    files: [&PathBuf; 2],
    glue: Glue,
    suppressions: Suppressions,
    limits: Limits,
) -> Result<Vec<u8>, Failure> {
    let wanted = Wanted {
        window: None,
        curves: true,
        limits,
    };
    let (sides, inputs) = read(files.map(std::slice::from_ref), &wanted)?;
    let options = DiffOptions {
        metric: leading(&sides, &metric_changes(&sides.before, &sides.after)),
        glue,
        suppressions,
        ..DiffOptions::default()
    };
    let diff = compared(&sides, &options)?;
    inputs.iter().for_each(Input::print_notes);
    sides.notes().iter().for_each(message::print);
    page::bytes(&sides, &inputs, &diff, &options, None)
}

/// The metric that is compared: in what programs read allocations, if no other one is asked for.
fn metric(arguments: &Arguments, sides: &Sides, changes: &[MetricChange]) -> Metric {
    let is_for_people = arguments.format == Format::Text && arguments.flamegraph.is_none();
    // Which metric `--min` means must not depend on the files, nor what is said about a part of them on
    // the rest.
    let is_whole = arguments.min == 0 && !arguments.filter.is_given();
    match arguments.metric {
        Some(metric) => metric,
        None if is_for_people && is_whole && sides.sampled.is_none() => leading(sides, changes),
        None => METRIC,
    }
}

/// The metric that changed most; the first that all files give if none did.
fn leading(sides: &Sides, changes: &[MetricChange]) -> Metric {
    let sets = || sides.before.iter().chain(&sides.after);
    let is_given = |metric: &Metric| sets().all(|set| set.known.has(*metric));
    leading_metric(changes, &sides.before, &sides.after)
        .or_else(|| Metric::OFFERED.into_iter().find(is_given))
        .unwrap_or(METRIC)
}

/// The two files, if one is a saved report of this subcommand; `None` if none is.
fn saved_reports<'a>(
    arguments: &'a Arguments,
    subcommand: &str,
    is_saved: impl Fn(&Path) -> bool,
) -> Result<Option<[&'a Path; 2]>, Failure> {
    let groups = [&arguments.files, &arguments.before, &arguments.after];
    let files: Vec<&Path> = groups.into_iter().flatten().map(PathBuf::as_path).collect();
    if !files.iter().any(|path| is_saved(path)) {
        return Ok(None);
    }
    match files[..] {
        [before, after] => Ok(Some([before, after])),
        _ => Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "reports of `allotrope {subcommand}` are compared one with one: give two files"
            ),
        )),
    }
}

/// Fails for options that sampled profiles have no answer to: figures with errors have no limits.
fn check_sampled(arguments: &Arguments) -> Result<(), Failure> {
    let refusals = [
        (
            arguments.per.is_some(),
            "a sampled profile has no iterations; leave --per out",
        ),
        (
            !arguments.fail_on.is_empty(),
            "the figures of a sampled profile are estimates, and --fail-on needs recordings",
        ),
    ];
    match refusals.into_iter().find(|(is_so, _)| *is_so) {
        Some((_, sentence)) => Err(Failure::new(BAD_INPUT, anyhow!(sentence))),
        None => Ok(()),
    }
}

fn compared(sides: &Sides, options: &DiffOptions) -> Result<Diff, Failure> {
    check_metric(sides, options.metric)?;
    let sets = || sides.before.iter().chain(&sides.after);
    let stacks: usize = sets().map(|set| set.stacks.len()).sum();
    let options = &DiffOptions {
        sources: sides.sampled.is_some(),
        ..options.clone()
    };
    let work = || {
        let mut diff = compare(&sides.before, &sides.after, options).status(BAD_INPUT)?;
        if let Some([before, after]) = &sides.sampled {
            add_intervals(&mut diff, [before, after]);
        }
        Ok(diff)
    };
    if stacks < MIN_STACKS_FOR_SPINNER {
        return work();
    }
    Progress::new(false).during("comparing stacks", work)
}

/// Fewer stacks are compared too fast for a spinner to be of use.
const MIN_STACKS_FOR_SPINNER: usize = 20_000;

/// Fails if a file lacks the metric. The error names the file and the metrics that
/// could be compared instead.
fn check_metric(sides: &Sides, metric: Metric) -> Result<(), Failure> {
    let all = || sides.before.iter().chain(&sides.after);
    let Some(lacking) = all().find(|set| !set.known.has(metric)) else {
        return Ok(());
    };
    let every = all().fold(MetricSet::OF_STACKS, |known, set| known.and(set.known));
    let words = offered;
    let remedy = match words(every) {
        none if none.is_empty() => {
            let others: Vec<String> = all()
                .filter(|set| set.known != lacking.known)
                .take(1)
                .map(|set| format!("{} gives {}", set.title, words(set.known)))
                .collect();
            let gives = words(lacking.known);
            let gives = if gives.is_empty() { "nothing" } else { &gives };
            let and = if others.is_empty() { "" } else { ", " };
            format!(
                "it gives {gives}{and}{}: there is nothing to compare",
                others.join("")
            )
        }
        some => format!("choose with --metric what all files give: {some}"),
    };
    Err(lacks(&lacking.title, metric, &remedy))
}

/// The names of the metrics that are offered, in the order of their numbers. No option takes
/// lifetimes.
fn offered(known: MetricSet) -> String {
    let offered = |metric: &Metric| Metric::OFFERED.contains(metric) && known.has(*metric);
    let metrics = Metric::OF_STACKS.into_iter().filter(offered);
    metrics.map(Metric::name).collect::<Vec<_>>().join(", ")
}

fn lacks(title: &str, metric: Metric, remedy: &str) -> Failure {
    let sentence = anyhow!("{title} does not give {}; {remedy}", metric.words());
    Failure::new(BAD_INPUT, sentence)
}

/// Fails for a metric that a moment does not have, before the files are read, which may take long.
fn check_moments<'a>(
    arguments: &Arguments,
    mut files: impl Iterator<Item = &'a PathBuf>,
) -> Result<(), Failure> {
    let known = MetricSet::of_live();
    let limits = arguments.fail_on.iter().filter_map(FailOn::metric);
    // Text and pages without the option compare what the files have.
    let asked = match arguments.format {
        Format::Json | Format::Sections => Some(arguments.metric.unwrap_or(METRIC)),
        _ => arguments.metric,
    };
    let mut wanted = asked.into_iter().chain(limits.map(|it| it.metric()));
    let Some(metric) = wanted.find(|metric| !known.has(*metric)) else {
        return Ok(());
    };
    match files.find(|path| matches!(split(path), (file, Some(_)) if file.exists())) {
        Some(path) => {
            let known = offered(known);
            let remedy = format!("choose with --metric what a moment gives: {known}");
            Err(lacks(&path.shown(), metric, &remedy))
        }
        None => Ok(()),
    }
}

fn text_options(arguments: &Arguments, sides: &Sides, selection: &Selection) -> DiffTextOptions {
    DiffTextOptions {
        style: style(arguments.color),
        selection: selection.clone(),
        top: arguments.top.try_into().unwrap_or(usize::MAX),
        all_frames: arguments.all_frames,
        titles: [titles(&sides.before), titles(&sides.after)],
        ..DiffTextOptions::default()
    }
}

/// Prints the limits of `--fail-on` that are exceeded; returns the exit status.
fn check_limits(
    arguments: &Arguments,
    sides: &Sides,
    shown: &Diff,
    selection: &Selection,
    options: DiffOptions,
) -> Result<u8, Failure> {
    let mut status = FINE;
    for limit in arguments.fail_on.iter().filter_map(FailOn::metric) {
        let other;
        let diff = if limit.metric() == shown.metric {
            shown
        } else {
            let metric = limit.metric();
            other = compared(
                sides,
                &DiffOptions {
                    metric,
                    ..options.clone()
                },
            )?;
            &other
        };
        let (rise, before) = (selection.rise(diff), selection.before(diff, &sides.before));
        if limit.is_exceeded(rise, before) {
            message::print(format_args!(
                "{} rose by {rise} from {before}, which is more than --fail-on '{limit}' allows",
                limit.metric().words()
            ));
            status = REGRESSION;
        }
    }
    Ok(status)
}
