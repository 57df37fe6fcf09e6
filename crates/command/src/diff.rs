//! `allotrope diff`: shows which call stacks make the difference between two
//! recordings, or two sides of several runs each. This file reads the files,
//! builds the options and picks the exit status; `allotrope-diff` matches the
//! stacks and `allotrope-report` lays out the result.

mod limit;
mod page;
mod paths;

use std::path::{Path, PathBuf};

use allotrope_text::{Shown, shown};

use allotrope_diff::chance::{SideFigures, add_intervals};
use allotrope_diff::{Diff, DiffOptions, Glue, Suppressions, compare};
use allotrope_formats::Limits;
use allotrope_profile::{Metric, MetricSet, StackSet};
use allotrope_report::diff::{DiffTextOptions, Selection, flame, json, sections, text};
use anyhow::anyhow;

use crate::exit_status::{BAD_INPUT, FINE, Failure, REGRESSION, WithStatus};
use crate::filter::FilterArguments;
use crate::glue::GlueArguments;
use crate::input_limit::InputLimit;
use crate::message;
use crate::metric;
use crate::progress::Progress;
use crate::replacing::{self, ForceArguments};
use crate::report::{self, Color};
use crate::source::{self, Source, WindowRuns};
use crate::standard_output;
use crate::suppressions::SuppressionArguments;
use crate::to_write::ToWrite;
use crate::trace;
use limit::FailOn;

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
spread otherwise; an allocator that only one of them has ends with status 2. Options
for stacks, such as --filter, are refused.

JSON (the format allotrope-diff/1) and the page have every entry, so that their
differences sum to the total; --min and --top apply to text and sections only. With
--filter the totals are those of the entries that match.

A recording that was cut off or is damaged is read up to that point, with a
warning.

Exit status: 0 if the files could be compared, 1 if allotrope failed, 2 if a file
cannot be used, 3 if a metric rose by more than --fail-on allows.";

/// The metric unless `--metric` names another.
const METRIC: Metric = Metric::Allocations;
/// Entries in text unless `--top` says how many.
const TOP: u32 = 20;

/// Arguments of `allotrope diff`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A recording before the change and one after it
    #[arg(value_names = ["BEFORE", "AFTER"], num_args = 2, conflicts_with_all = ["before", "after"],
          required_unless_present_all = ["before", "after"])]
    files: Vec<PathBuf>,
    /// Several runs before the change
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "after")]
    before: Vec<PathBuf>,
    /// Several runs after it
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "before")]
    after: Vec<PathBuf>,
    /// The metric to compare
    #[arg(long, value_name = "METRIC", default_value_t = METRIC,
          value_parser = metric::parser())]
    metric: Metric,
    /// Compare what happened in the window with this name; each of its runs is a run of its side
    #[arg(long, value_name = "NAME")]
    window: Option<String>,
    /// Show differences divided by N, too [default with --window: the iterations of a run,
    /// if all runs declare the same number]
    #[arg(long, value_name = "N")]
    per: Option<f64>,
    /// Hide entries with a difference below N (they are summed up)
    #[arg(long, value_name = "N", default_value_t = 0)]
    min: u64,
    /// Show at most N entries that changed and N that moved
    #[arg(long, value_name = "N", default_value_t = TOP,
          value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    /// Text for people, JSON for programs, or the sections of stackdiff scripts
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Show the stacks of entries that were only moved or renamed
    #[arg(long)]
    expand: bool,
    #[command(flatten)]
    filter: FilterArguments,
    /// Exit with status 3 if METRIC rose by more: 'allocations>+0', 'bytes>+2%'; of two reports
    /// of `allotrope paths`: 'instructions>+2%'
    #[arg(long, value_name = "METRIC>+N[%]")]
    fail_on: Vec<FailOn>,
    #[command(flatten)]
    glue: GlueArguments,
    #[command(flatten)]
    suppressions: SuppressionArguments,
    /// Write a differential flame graph, which includes vanished stacks, to this file
    #[arg(long, value_name = "OUT.svg")]
    flamegraph: Option<PathBuf>,
    /// Write a page to look at: one HTML file that needs no other one, with the entries of all
    /// metrics that both sides give, their stacks, live bytes over time and a flame graph
    #[arg(long, value_name = "OUT.html")]
    html: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArguments,
    /// Show whole stacks, with the frames of allocators and standard libraries
    #[arg(long)]
    all_frames: bool,
    /// Use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    color: Color,
    #[command(flatten)]
    pub input: InputLimit,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
    Sections,
}

/// The runs that were read, by side.
struct Sides {
    before: Vec<StackSet>,
    after: Vec<StackSet>,
    /// The samples of the sides, if one of them is a sampled profile.
    sampled: Option<[SideFigures; 2]>,
    /// Iterations, with `--window`, that each run of both sides declares (0: none).
    iterations: Vec<u64>,
}

impl Sides {
    /// The number of iterations of a run, if all runs declare the same.
    fn common_iterations(&self) -> Option<f64> {
        let first = *self.iterations.first().filter(|&&first| first > 0)?;
        let all = self.iterations.iter().all(|&other| other == first);
        all.then_some(first as f64)
    }

    /// Notes on what else differs between the sides than the program, and between runs.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(self.differing_iterations());
        notes.extend(self.differing_surroundings());
        notes
    }

    /// A note if more than the program differs between the sides.
    fn differing_surroundings(&self) -> Option<String> {
        let (before, after) = (self.before.first()?, self.after.first()?);
        let differences = after.run.differences(&before.run);
        (!differences.is_empty()).then(|| {
            format!(
                "note: not only the program's code differs: {}",
                shown(&differences.join("; "))
            )
        })
    }

    /// A note if the runs declare different numbers of iterations.
    fn differing_iterations(&self) -> Option<String> {
        let declared = self.iterations.iter().filter(|&&number| number > 0);
        let (least, most) = (declared.clone().min()?, declared.max()?);
        (least != most).then(|| {
            format!(
                "note: the runs make {least} to {most} iterations; their figures are compared as they are"
            )
        })
    }
}

/// Compares the sides, prints the differences and returns the exit status.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    if let Some(reports) = saved_paths(arguments)? {
        return paths::run(arguments, reports);
    }
    if arguments.fail_on.iter().any(|it| it.metric().is_none()) {
        let sentence = anyhow!(
            "recordings have no instructions; compare two files of `allotrope paths -o`, or choose another metric for --fail-on"
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
    let (sides, inputs) = read(files, &wanted)?;
    if sides.sampled.is_some() {
        check_sampled(arguments)?;
    }
    let options = DiffOptions {
        metric: arguments.metric,
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
        Format::Text => {
            let options = text_options(arguments, &sides, &selection);
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
    let sets = || sides.before.iter().chain(&sides.after);
    let is_given = |metric: &Metric| sets().all(|set| set.known.has(*metric));
    let options = DiffOptions {
        metric: Metric::OFFERED
            .into_iter()
            .find(is_given)
            .unwrap_or(Metric::Allocations),
        glue,
        suppressions,
        ..DiffOptions::default()
    };
    let diff = compared(&sides, &options)?;
    inputs.iter().for_each(Input::print_notes);
    sides.notes().iter().for_each(message::print);
    page::bytes(&sides, &inputs, &diff, &options, None)
}

/// The two files, if they are reports of `allotrope paths`; `None` if none is.
fn saved_paths(arguments: &Arguments) -> Result<Option<[&Path; 2]>, Failure> {
    let groups = [&arguments.files, &arguments.before, &arguments.after];
    let files: Vec<&Path> = groups.into_iter().flatten().map(PathBuf::as_path).collect();
    if !files.iter().any(|path| paths::is_saved(path)) {
        return Ok(None);
    }
    match files[..] {
        [before, after] => Ok(Some([before, after])),
        _ => Err(Failure::new(
            BAD_INPUT,
            anyhow!("reports of `allotrope paths` are compared one with one: give two files"),
        )),
    }
}

/// A file that was read. It is kept for its notes, which are printed once all files
/// have been read.
#[allow(clippy::large_enum_variant, reason = "there are only a few")]
enum Input {
    Whole(Source),
    Window(WindowRuns),
}

impl Input {
    fn notes(&self) -> &[String] {
        match self {
            Self::Whole(source) => source.notes(),
            Self::Window(runs) => runs.notes(),
        }
    }

    fn print_notes(&self) {
        match self {
            Self::Whole(source) => source.print_notes(),
            Self::Window(runs) => runs.print_notes(),
        }
    }
}

/// What is read of the files.
struct Wanted<'a> {
    /// What happened in the window with this name; all without one.
    window: Option<&'a str>,
    /// The curves of recordings, too, which a page has.
    curves: bool,
    /// What each file may cost.
    limits: Limits,
}

/// Reads the files of both sides.
fn read(files: [&[PathBuf]; 2], wanted: &Wanted<'_>) -> Result<(Sides, Vec<Input>), Failure> {
    let progress = Progress::new(false);
    let mut inputs = Vec::new();
    let mut iterations = Vec::new();
    let mut side = |paths: &[PathBuf]| -> Result<Vec<StackSet>, Failure> {
        let mut sets = Vec::new();
        for path in paths {
            if let Some(name) = wanted.window {
                let mut runs = source::read_window(path, name, wanted.limits, &progress)?;
                sets.append(&mut runs.sets);
                iterations.append(&mut runs.iterations);
                inputs.push(Input::Window(runs));
                continue;
            }
            let mut source = match wanted.curves {
                false => source::read(path, wanted.limits, &progress)?,
                true => {
                    source::read_recorded(path, trace::Wanted::default(), wanted.limits, &progress)?
                }
            };
            let mut set = std::mem::take(&mut source.set);
            // Errors and headings name the run by its title.
            set.title = path.shown().into_owned();
            sets.push(set);
            inputs.push(Input::Whole(source));
        }
        Ok(sets)
    };
    let [before, after] = files;
    let (before, after) = (side(before)?, side(after)?);
    let sampled = sampled(&mut inputs)?;
    let sides = Sides {
        before,
        after,
        sampled,
        iterations,
    };
    Ok((sides, inputs))
}

/// The samples of the sides, if one of them is a sampled profile, which must be alone on its
/// side.
fn sampled(inputs: &mut [Input]) -> Result<Option<[SideFigures; 2]>, Failure> {
    let is_sampled = |input: &Input| matches!(input, Input::Whole(it) if it.sampled.is_some());
    if !inputs.iter().any(is_sampled) {
        return Ok(None);
    }
    if inputs.len() != 2 {
        return Err(Failure::new(
            BAD_INPUT,
            anyhow!("a sampled profile is compared alone: name one file for each side"),
        ));
    }
    let mut figures = inputs.iter_mut().map(|input| match input {
        Input::Whole(Source { sampled, .. }) => match sampled.take() {
            None => SideFigures::Exact,
            Some(it) => SideFigures::Sampled {
                stacks: it.stacks,
                total: it.total,
                none: it.none,
            },
        },
        Input::Window(_) => SideFigures::Exact,
    });
    Ok(figures.next().zip(figures.next()).map(<[_; 2]>::from))
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
    let words = |known: MetricSet| {
        // In the order of the metrics' numbers. No option takes lifetimes.
        let offered = |metric: &Metric| Metric::OFFERED.contains(metric) && known.has(*metric);
        let metrics = Metric::OF_STACKS.into_iter().filter(offered);
        metrics.map(Metric::name).collect::<Vec<_>>().join(", ")
    };
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
    Err(Failure::new(
        BAD_INPUT,
        anyhow!(
            "{} does not give {}; {remedy}",
            lacking.title,
            metric.words()
        ),
    ))
}

/// The names of the files of a side.
fn titles(sets: &[StackSet]) -> Vec<String> {
    let mut titles: Vec<String> = sets.iter().map(|set| set.title.clone()).collect();
    // Runs of one window of one file have one title.
    titles.dedup();
    titles
}

fn text_options(arguments: &Arguments, sides: &Sides, selection: &Selection) -> DiffTextOptions {
    DiffTextOptions {
        style: report::style(arguments.color),
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
