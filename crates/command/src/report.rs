//! `allotrope report`: shows a trace as text or writes it as JSON. This file
//! checks the options, turns them into those of `allotrope-report`, which lays out
//! the output, and asks the terminal for its width. Without options that choose
//! something else it shows the first screen.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use allotrope_findings::{Finding, find};
use allotrope_formats::Limits;
use allotrope_text::{Shown, quoted};

use allotrope_diff::{Headlines, Suppressions};
use allotrope_profile::sampled::SampledProfile;
use allotrope_profile::{Block, Metric, Options, Profile, ReplayError, StackSet, blocks_of_sites};
use allotrope_report::json::JsonOptions;
use allotrope_report::sampled::text::SampledTextOptions;
use allotrope_report::text::{self, BlockList, Screen, TextOptions, TreeOrder};
use allotrope_report::{
    BlockRecords, Blocks, Grouping, RecordFormat, SourceLines, Style, flame_graph, json, markdown,
    sites_of_row,
};
use allotrope_trace::TraceReader;
use anyhow::{Context, anyhow};

use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, WithStatus};
use crate::filter::FilterArguments;
use crate::findings::FindingArguments;
use crate::glue::GlueArguments;
use crate::input_limit::InputLimit;
use crate::message;
use crate::metric;
use crate::moment;
use crate::page::{self, PageOptions};
use crate::pager::PagerArguments;
use crate::per;
use crate::progress::Progress;
use crate::replacing::{self, ForceArguments};
use crate::sampled;
use crate::source;
use crate::standard_output;
use crate::suppressions::SuppressionArguments;
use crate::time::TimeArguments;
use crate::to_write::ToWrite;
use crate::trace;
use crate::window;

/// Width of the text, in columns, if the standard output is no terminal.
const WIDTH_ELSEWHERE: usize = 100;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
A trace that was cut off (the machine went down, the disk was full) or is damaged
is read up to that point. The exit status is 0 then; a warning on stderr and in the
report states at which byte it ends and how much is missing.

Exit status: 0 if the trace could be read, 1 if allotrope failed, 2 if the file is
no trace, or if the process, window or site that an option names is not in it.";

/// Arguments of `allotrope report`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A recording, or FILE@MOMENT for what was live then
    #[arg(value_name = "FILE", required_unless_present = "tree")]
    trace: Option<PathBuf>,
    /// The format to print
    ///
    /// Text is for people, JSON (the format allotrope-report/1) for programs, Markdown the first
    /// screen for an issue or a pull request; --events has JSON Lines and CSV, too.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Write a page to look at
    ///
    /// One HTML file that needs no other one. It has the whole recording; ranges of time,
    /// processes and functions are chosen on the page.
    #[arg(long, value_name = "OUT.html")]
    html: Option<PathBuf>,
    /// Show totals, warnings and five lists of stacks in full
    ///
    /// Each list is ranked by another metric.
    #[arg(long, conflicts_with_all = ["tree", "site", "by"])]
    lists: bool,
    /// Show one list, with a line for each WHAT
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with_all = ["tree", "site"])]
    by: Option<By>,
    /// Show processes that ran the same program as one
    #[arg(long, conflicts_with_all = ["tree", "site", "process"], hide_short_help = true)]
    merge: bool,
    /// Show one list, ranked by METRIC
    ///
    /// With --tree: what its branches count; with --by: what is added up
    /// [default: five lists, each ranked by another metric]
    #[arg(long, alias = "sort", value_name = "METRIC", value_parser = metric::parser())]
    metric: Option<Metric>,
    /// Show a call tree: bottom-up or top-down
    ///
    /// From what allocates to its callers (bottom-up, the default), or from main to what
    /// allocates (top-down).
    // clap takes the FILE of `--tree FILE` for the order: `Request::new` corrects that.
    #[arg(long, value_name = "ORDER", num_args = 0..=1,
          default_missing_value = "bottom-up")]
    tree: Option<OsString>,
    /// The order of the tree; an older spelling
    #[arg(long, value_enum, value_name = "WAY", requires = "tree", hide = true)]
    direction: Option<Way>,
    /// Show at most N sites of a list [default: 10]
    ///
    /// And N branches at a node of the tree.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    #[command(flatten)]
    filter: FilterArguments,
    #[command(flatten)]
    glue: GlueArguments,
    #[command(flatten)]
    suppressions: SuppressionArguments,
    #[command(flatten)]
    findings: FindingArguments,
    /// Rank suppressed leaks like all others, also those of the built-in list
    #[arg(long, conflicts_with = "suppressions", hide_short_help = true)]
    all_leaks: bool,
    /// Show only the process image with this id
    #[arg(long, value_name = "ID")]
    process: Option<u32>,
    /// Show only what happened in the window with this name
    #[arg(long, value_name = "NAME", conflicts_with = "events")]
    window: Option<String>,
    /// Show the Nth run of the window [default: the one with the fewest allocations]
    #[arg(long, alias = "run", value_name = "N", requires = "window", hide_short_help = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    nth: Option<u32>,
    #[command(flatten)]
    time: TimeArguments,
    /// Show figures divided by N, too
    ///
    /// [default with --window: its iterations]
    #[arg(long, value_name = "N", value_parser = per::parse)]
    per: Option<f64>,
    /// Count only blocks that were live at the end
    #[arg(long, alias = "persisted", conflicts_with = "freed_only")]
    leaked_only: bool,
    /// Count only blocks that were freed
    #[arg(long, alias = "destroyed")]
    freed_only: bool,
    /// Show the site with this number in full
    #[arg(long, value_name = "N", conflicts_with_all = ["tree", "metric", "filter"])]
    site: Option<u32>,
    /// With --site: show its single allocations
    ///
    /// Each with its time, size, lifetime and thread.
    #[arg(long, requires = "site")]
    events: bool,
    /// Stop after N allocations
    #[arg(long, value_name = "N", requires = "events", hide_short_help = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Show the lines of code of each stack
    ///
    /// Their files must be on this machine. With --html those around them, too.
    #[arg(long, conflicts_with = "tree")]
    source: bool,
    /// Look below DIR for the source files whose recorded paths begin with PREFIX
    #[arg(long, value_name = "PREFIX=DIR", requires = "source", value_parser = parse_source_path,
          hide_short_help = true)]
    source_path: Vec<(PathBuf, PathBuf)>,
    /// Show frames of allocators and standard libraries, too
    #[arg(long)]
    all_frames: bool,
    /// Write a flame graph, and no report
    ///
    /// Of the selected stacks by METRIC [default: allocations; of a sampled profile: leaked].
    #[arg(long, value_name = "OUT.svg", conflicts_with_all = [
          "tree", "lists", "by", "merge", "site", "source", "leaked_only", "freed_only", "per"])]
    flamegraph: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArguments,
    /// Use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        hide_short_help = true
    )]
    color: Color,
    #[command(flatten)]
    pager: PagerArguments,
    #[command(flatten)]
    pub input: InputLimit,
}

/// What a list has a line for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// The functions that head the stacks, whatever their lines
    Function,
    /// Their modules
    Module,
    /// Whole stacks; the list of --lists for one metric
    Stack,
    /// Threads, with what each of them allocated and held over time
    Thread,
    /// The functions through which blocks were allocated: malloc, operator new
    Entry,
    /// Sizes of blocks: up to each power of two
    Size,
    /// Processes, those that allocated most first
    Process,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
    Markdown,
    JsonLines,
    Csv,
}

impl Format {
    /// The format of single allocations, if it is one.
    fn of_records(self) -> Option<RecordFormat> {
        match self {
            Self::Text | Self::Json | Self::Markdown => None,
            Self::JsonLines => Some(RecordFormat::JsonLines),
            Self::Csv => Some(RecordFormat::Csv),
        }
    }
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Way {
    Outwards,
    Inwards,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// The trace and the order of the tree, from `FILE` and `--tree [ORDER]` together:
/// without an order, the parser takes `FILE` for the value of `--tree`.
struct Request<'a> {
    path: &'a Path,
    tree: Option<TreeOrder>,
}

impl<'a> Request<'a> {
    fn new(arguments: &'a Arguments) -> Result<Self, Failure> {
        let bottom_up = OsStr::new("bottom-up");
        let (path, order) = match (&arguments.trace, arguments.tree.as_deref()) {
            (Some(path), order) => (path.as_path(), order),
            (None, Some(path)) => (Path::new(path), Some(bottom_up)),
            // The parser refuses this.
            (None, None) => (Path::new(""), None),
        };
        let order = match order.map(|order| (order, order.to_str())) {
            None => None,
            Some((_, Some("bottom-up"))) => Some(TreeOrder::BottomUp),
            Some((_, Some("top-down"))) => Some(TreeOrder::TopDown),
            Some((other, _)) => {
                let sentence = anyhow!(
                    "a tree has no order {}; write --tree bottom-up or --tree top-down",
                    Path::new(other).shown()
                );
                return Err(Failure::new(BAD_INPUT, sentence));
            }
        };
        if path == bottom_up || path == OsStr::new("top-down") {
            let sentence = anyhow!("no trace is named; name its file after --tree and the order");
            return Err(Failure::new(BAD_INPUT, sentence));
        }
        let tree = order.map(|order| match arguments.direction {
            None => order,
            Some(Way::Outwards) => TreeOrder::BottomUp,
            Some(Way::Inwards) => TreeOrder::TopDown,
        });
        Ok(Self { path, tree })
    }
}

/// Reads the trace and prints the report.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    check(arguments)?;
    let Request { path, tree } = Request::new(arguments)?;
    if let Some(out) = &arguments.html {
        return report_page(arguments, path, out);
    }
    if let Some(out) = &arguments.flamegraph {
        flame_graph_file(arguments, out).check([&path.to_owned()])?;
    }
    let (path, moment) = moment::split(path);
    let others = [
        (arguments.window.is_some(), "--window"),
        (arguments.events, "--events"),
    ];
    let time = arguments.time.with_moment(moment, &others)?;
    if arguments.format == Format::Markdown && !is_screen(arguments, &time) {
        let sentence = anyhow!(
            "--format markdown writes the first screen; leave out the options that select or rank stacks"
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    if time.option().is_none()
        && let Some(profile) = sampled::open(path)?
    {
        return report_sampled(arguments, path, profile, tree.is_some());
    }
    let mut trace = trace::open(path, arguments.input.limits())?;
    let with_findings =
        arguments.format == Format::Json && arguments.window.is_none() && time.option().is_none();
    let wanted = if is_screen(arguments, &time) {
        trace::Wanted::FINDINGS
    } else {
        // Curves need the times of blocks, as findings do.
        let has_curves =
            arguments.site.is_some() || matches!(arguments.by, Some(By::Function | By::Thread));
        trace::Wanted {
            times: (has_curves || with_findings).then_some(&[]),
            peaks: &[],
            thread_times: arguments.by == Some(By::Thread),
            evidence: with_findings,
            site_details: arguments.site.is_some()
                || arguments.by == Some(By::Size)
                || arguments.format == Format::Json,
        }
    };
    let profile = trace::profile_with(path, &mut trace, wanted, &Progress::new(false))?;
    // The process ends: freeing hundreds of thousands of sites would only take time.
    let mut profile = ManuallyDrop::new(profile);
    for note in trace::notes(path, &trace) {
        message::print(note);
    }
    check_process(arguments, path, &profile)?;
    check_stacks(arguments, &time, path, &profile)?;
    arguments.filter.check_profile(&profile)?;
    let mut options = TextOptions {
        source: source(arguments, &profile),
        tree,
        glue: arguments.glue.read()?,
        suppressions: match arguments.all_leaks {
            true => Suppressions::none(),
            false => arguments.suppressions.read()?,
        },
        ..text_options(arguments)
    };
    if let Some(name) = &arguments.window {
        let wanted = arguments.process;
        profile
            .processes
            .retain(|process| wanted.is_none_or(|id| process.id == id));
        let shown = window::one(path, &trace, &profile, name, arguments.nth)?;
        (*profile, options.window) = (shown.profile, Some(shown.line));
    }
    if let Some(shown) = time.select(path, &trace, &profile)? {
        (*profile, options.window) = (shown.profile, Some(shown.line));
        if let Some(id) = arguments.process
            && profile.processes.iter().all(|process| process.id != id)
        {
            let sentence = anyhow!("process {id} did not run then");
            return Err(Failure::new(BAD_INPUT, sentence));
        }
        if time.is_moment() {
            options.blocks = Blocks::Leaked;
        }
    }
    if let Some(output) = &arguments.flamegraph {
        let wanted = arguments.process;
        profile
            .processes
            .retain(|process| wanted.is_none_or(|id| process.id == id));
        let set = match time.is_moment() {
            true => StackSet::of_live(&profile),
            false => StackSet::from(&*profile),
        };
        let about = options.window.as_deref();
        let metric = arguments.metric.unwrap_or(Metric::Allocations);
        return write_flame_graph(arguments, path, set, metric, about, output);
    }
    if arguments.format == Format::Json {
        let wanted = arguments.process;
        profile
            .processes
            .retain(|process| wanted.is_none_or(|id| process.id == id));
        let source = options.source.as_deref();
        let with_findings = with_findings && !profile.is_counts_only();
        let findings = match with_findings {
            true => {
                let headlines = Headlines::new(&profile, &options.glue);
                Some(findings(
                    &profile,
                    &headlines,
                    &options,
                    &arguments.findings,
                )?)
            }
            false => None,
        };
        let options = JsonOptions {
            source,
            glue: options.glue,
            suppressions: options.suppressions,
            per: arguments.per,
            is_window: options.window.is_some(),
            findings: findings.as_deref(),
        };
        standard_output::print(|output| json::write(&profile, &options, output))?;
        for warning in source.iter().flat_map(|source| source.warnings()) {
            message::print(format_args!("warning: {warning}"));
        }
        return Ok(FINE);
    }
    if let Some(number) = arguments.site {
        site(arguments, path, number, &trace, &profile, &options)?;
        return Ok(FINE);
    }
    let pager = arguments.pager;
    match arguments.by {
        Some(By::Function) => {
            pager.print(|output| text::write_by(&profile, Grouping::Function, &options, output))?
        }
        Some(By::Module) => {
            pager.print(|output| text::write_by(&profile, Grouping::Module, &options, output))?
        }
        Some(By::Process) => pager
            .print(|output| text::write_processes(&profile, arguments.merge, &options, output))?,
        Some(By::Thread) => {
            pager.print(|output| text::write_threads(&profile, &options, output))?
        }
        Some(By::Size) => pager.print(|output| text::write_sizes(&profile, &options, output))?,
        Some(By::Entry) => pager.print(|output| text::write_entries(&profile, &options, output))?,
        None if is_screen(arguments, &time) && !profile.is_counts_only() => {
            print_screen(arguments, path, &profile, &options)?;
        }
        Some(By::Stack) | None => pager.print(|output| text::write(&profile, &options, output))?,
    }
    Ok(FINE)
}

fn flame_graph_file<'a>(arguments: &Arguments, path: &'a Path) -> ToWrite<'a> {
    ToWrite {
        path,
        kind: replacing::FLAME_GRAPH,
        force: arguments.force,
    }
}

/// Writes a flame graph of the stacks that match the filter.
fn write_flame_graph(
    arguments: &Arguments,
    path: &Path,
    mut set: StackSet,
    metric: Metric,
    about: Option<&str>,
    output: &Path,
) -> Result<u8, Failure> {
    if !set.known.has(metric) {
        let sentence = anyhow!("what is drawn does not have {}", metric.words());
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    let filter = arguments.filter.filter();
    if let Some(filter) = &filter {
        set.filter(filter);
    }
    let pattern = filter.map(|filter| format!("stacks with {}", filter.pattern()));
    let about: Vec<&str> = about.into_iter().chain(pattern.as_deref()).collect();
    let about = (!about.is_empty()).then(|| about.join("; "));
    flame_graph_file(arguments, output).create([&path.to_owned()], |out| {
        flame_graph::write(&set, metric, about.as_deref(), out)
    })?;
    Ok(FINE)
}

/// Writes the page.
fn report_page(arguments: &Arguments, path: &Path, out: &Path) -> Result<u8, Failure> {
    let no_page = "the page has the whole recording, and is one file; leave the options out that select or format text";
    let chooses = arguments.format != Format::Text
        || arguments.process.is_some()
        || arguments.merge
        || selects(arguments, &arguments.time);
    if chooses {
        return Err(Failure::new(BAD_INPUT, anyhow!("--html: {no_page}")));
    }
    let options = PageOptions {
        glue: arguments.glue.read()?,
        suppressions: match arguments.all_leaks {
            true => Suppressions::none(),
            false => arguments.suppressions.read()?,
        },
        findings: &arguments.findings,
        source: arguments.source.then_some(&*arguments.source_path),
        is_last: true,
        limits: arguments.input.limits(),
    };
    let out = ToWrite {
        path: out,
        kind: replacing::PAGE,
        force: arguments.force,
    };
    page::write(path, out, &options)?;
    Ok(FINE)
}

/// Prints a sampled profile.
fn report_sampled(
    arguments: &Arguments,
    path: &Path,
    mut profile: SampledProfile,
    has_tree: bool,
) -> Result<u8, Failure> {
    let refused = [
        (has_tree, "--tree"),
        (arguments.by.is_some(), "--by"),
        (arguments.merge, "--merge"),
        (arguments.lists, "--lists"),
        (
            arguments.filter.is_given() && arguments.flamegraph.is_none(),
            "--filter",
        ),
        (arguments.suppressions.is_given(), "--suppressions"),
        (arguments.all_leaks, "--all-leaks"),
        (arguments.window.is_some(), "--window"),
        (arguments.per.is_some(), "--per"),
        (arguments.leaked_only, "--leaked-only"),
        (arguments.freed_only, "--freed-only"),
        (
            arguments.site.is_some(),
            "--site (allotrope show takes site:N)",
        ),
        (arguments.source, "--source"),
        (arguments.format == Format::Markdown, "--format markdown"),
    ];
    sampled::refuse(path, &refused)?;
    let metric = arguments.metric.unwrap_or(Metric::LeakedBytes);
    sampled::check_metric(path, metric)?;
    if let Some(id) = arguments.process {
        sampled::keep_process(path, &mut profile, id)?;
    }
    if let Some(output) = &arguments.flamegraph {
        let source = source::of_samples(path, &profile)?;
        arguments.filter.check_sets(std::iter::once(&source.set))?;
        source.print_notes();
        return write_flame_graph(arguments, path, source.set, metric, None, output);
    }
    if arguments.format == Format::Json {
        return sampled::report_json(&profile);
    }
    let options = SampledTextOptions {
        style: style(arguments.color),
        metric,
        top: arguments
            .top
            .map_or(10, |top| top.try_into().unwrap_or(usize::MAX)),
        all_frames: arguments.all_frames,
        glue: arguments.glue.read()?,
    };
    sampled::report_text(&profile, &options, arguments.pager)
}

/// Whether the first screen is wanted: no option chooses anything else.
fn is_screen(arguments: &Arguments, time: &TimeArguments) -> bool {
    let chooses = selects(arguments, time)
        || arguments.source
        || arguments.suppressions.is_given()
        || arguments.all_leaks;
    !chooses && matches!(arguments.format, Format::Text | Format::Markdown)
}

/// Whether an option chooses a part of the recording, or how text shows it.
fn selects(arguments: &Arguments, time: &TimeArguments) -> bool {
    arguments.lists
        || arguments.by.is_some()
        || arguments.metric.is_some()
        || arguments.tree.is_some()
        || arguments.top.is_some()
        || arguments.filter.is_given()
        || arguments.window.is_some()
        || time.option().is_some()
        || arguments.per.is_some()
        || arguments.leaked_only
        || arguments.freed_only
        || arguments.site.is_some()
        || arguments.all_frames
        || arguments.flamegraph.is_some()
}

/// Prints the first screen of a trace with the default options, if it can be read.
pub fn first_screen(path: &Path) -> Result<(), Failure> {
    let mut trace = trace::open(path, Limits::default())?;
    let progress = Progress::new(false);
    let wanted = trace::Wanted::FINDINGS;
    let profile = trace::profile_with(path, &mut trace, wanted, &progress)?;
    let options = TextOptions {
        style: style(Color::Auto),
        ..TextOptions::default()
    };
    let headlines = Headlines::new(&profile, &options.glue);
    let findings = findings(&profile, &headlines, &options, &FindingArguments::default())?;
    let screen = Screen {
        profile: &profile,
        headlines: &headlines,
        findings: &findings,
        trace: quoted(path.as_os_str()),
        merge: false,
    };
    PagerArguments::default().print(|output| text::write_screen(&screen, &options, output))
}

fn print_screen(
    arguments: &Arguments,
    path: &Path,
    profile: &Profile,
    options: &TextOptions,
) -> Result<(), Failure> {
    let headlines = Headlines::new(profile, &options.glue);
    let findings = findings(profile, &headlines, options, &arguments.findings)?;
    let screen = Screen {
        profile,
        headlines: &headlines,
        findings: &findings,
        trace: quoted(path.as_os_str()),
        merge: arguments.merge,
    };
    match arguments.format {
        Format::Markdown => {
            standard_output::print_log(|output| markdown::write(&screen, options, output))
        }
        _ => arguments
            .pager
            .print(|output| text::write_screen(&screen, options, output)),
    }
}

/// What stands out in a profile, which has [evidence](trace::Wanted::FINDINGS).
pub fn findings(
    profile: &Profile,
    headlines: &Headlines,
    options: &TextOptions,
    arguments: &FindingArguments,
) -> Result<Vec<Finding>, Failure> {
    let how = arguments.options(&options.suppressions)?;
    Ok(find(profile, headlines, &how))
}

/// The reader of source lines, if `--source` is given.
fn source(arguments: &Arguments, profile: &Profile) -> Option<Rc<SourceLines>> {
    let recorded = trace::recorded_at(profile);
    let lines = || SourceLines::new(arguments.source_path.clone(), recorded);
    let lines = arguments.source.then(lines)?;
    Some(Rc::new(lines.compared_with_build(profile)))
}

/// Parses `PREFIX=DIR`, split at the first `=`.
pub fn parse_source_path(text: &str) -> Result<(PathBuf, PathBuf), String> {
    match text.split_once('=') {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => Ok((from.into(), to.into())),
        _ => Err("write PREFIX=DIR, such as /build/src=/home/me/src".to_owned()),
    }
}

/// Refuses options that select parts of the text together with JSON, which always
/// has everything and would ignore them silently.
fn check(arguments: &Arguments) -> Result<(), Failure> {
    let refusal = match arguments.format {
        Format::JsonLines | Format::Csv if !arguments.events => {
            "--format json-lines and csv write single allocations; add --site N --events, or use --format json for the whole report"
        }
        Format::Json | Format::Markdown if arguments.events => {
            "--events writes text; for programs there are --format json-lines and --format csv"
        }
        _ => "",
    };
    if !refusal.is_empty() {
        return Err(Failure::new(BAD_INPUT, anyhow!(refusal)));
    }
    let selects = [
        (arguments.tree.is_some(), "--tree"),
        (arguments.filter.is_given(), "--filter"),
        (arguments.leaked_only, "--leaked-only"),
        (arguments.freed_only, "--freed-only"),
        (arguments.site.is_some(), "--site"),
        (arguments.by.is_some(), "--by"),
        (arguments.lists, "--lists"),
        (arguments.flamegraph.is_some(), "--flamegraph"),
    ];
    let selected = selects.iter().find(|(given, _)| *given);
    match selected {
        Some((_, "--flamegraph")) if arguments.format == Format::Json => Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "--flamegraph writes a picture instead of a report, so --format json has nothing to write; leave one of them out"
            ),
        )),
        Some((_, option)) if arguments.format == Format::Json => Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "{option} selects parts of the text, but --format json always writes every site; leave one of them out"
            ),
        )),
        _ => Ok(()),
    }
}

/// Refuses the id of a process that is not in the trace.
fn check_process(arguments: &Arguments, path: &Path, profile: &Profile) -> Result<(), Failure> {
    let Some(wanted) = arguments.process else {
        return Ok(());
    };
    let ids = || profile.processes.iter().map(|process| process.id);
    if ids().any(|id| id == wanted) {
        return Ok(());
    }
    let known = match (ids().min(), ids().max()) {
        (Some(first), Some(last)) if first < last => format!("its ids are {first} to {last}"),
        (Some(only), _) => format!("its only id is {only}"),
        _ => "it has no process at all".to_owned(),
    };
    let path = path.shown();
    let sentence = anyhow!("there is no process {wanted} in {path}: {known}");
    Err(Failure::new(BAD_INPUT, sentence))
}

/// Refuses options that need events with call stacks for a recording without them.
fn check_stacks(
    arguments: &Arguments,
    time: &TimeArguments,
    path: &Path,
    profile: &Profile,
) -> Result<(), Failure> {
    let time = time.option();
    let needs_events = matches!(
        arguments.by,
        Some(By::Function | By::Module | By::Stack | By::Size)
    );
    let needs = [
        (arguments.tree.is_some(), "--tree"),
        (arguments.metric.is_some(), "--metric"),
        (arguments.filter.is_given(), "--filter"),
        (arguments.leaked_only, "--leaked-only"),
        (arguments.freed_only, "--freed-only"),
        (arguments.site.is_some(), "--site"),
        (arguments.window.is_some(), "--window"),
        (arguments.flamegraph.is_some(), "--flamegraph"),
        (needs_events, "--by"),
        (arguments.format == Format::Markdown, "--format markdown"),
        (time.is_some(), time.unwrap_or_default()),
    ];
    let needed = needs.iter().find(|(given, _)| *given);
    match needed {
        Some((_, option)) if profile.is_counts_only() => Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "{option} needs recorded events, and {} was recorded with --counts-only; record the program without it",
                path.shown()
            ),
        )),
        _ => Ok(()),
    }
}

fn text_options(arguments: &Arguments) -> TextOptions {
    TextOptions {
        style: style(arguments.color),
        metric: arguments.metric,
        top: arguments
            .top
            .map_or(10, |top| top.try_into().unwrap_or(usize::MAX)),
        filter: arguments.filter.filter(),
        process: arguments.process,
        blocks: match (arguments.leaked_only, arguments.freed_only) {
            (true, _) => Blocks::Leaked,
            (_, true) => Blocks::Freed,
            _ => Blocks::All,
        },
        all_frames: arguments.all_frames,
        per: arguments.per,
        ..TextOptions::default()
    }
}

/// The columns of the standard output, if the user wants a width or it is a terminal.
pub fn columns() -> Option<usize> {
    let is_wanted = std::env::var_os("COLUMNS").is_some_and(|it| !it.is_empty());
    (is_wanted || io::stdout().is_terminal()).then(|| style(Color::Never).width)
}

/// Colour and width of text on the standard output.
pub fn style(color: Color) -> Style {
    let output = io::stdout();
    // https://no-color.org: set and not empty.
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    // As POSIX has it for every utility: the user's wish, before the terminal's width.
    let wanted = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok());
    let width = wanted.filter(|&columns| columns > 0).unwrap_or_else(|| {
        terminal_size::terminal_size_of(&output)
            .map_or(WIDTH_ELSEWHERE, |(width, _)| usize::from(width.0))
    });
    Style {
        color: match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => output.is_terminal() && !refused && !dumb,
        },
        width,
    }
}

/// Prints one site in full and, with `--events`, its blocks.
fn site(
    arguments: &Arguments,
    path: &Path,
    number: u32,
    trace: &TraceReader,
    profile: &Profile,
    options: &TextOptions,
) -> Result<(), Failure> {
    let sites = sites_of_row(profile, number, options);
    if sites.is_empty() {
        let sentence = anyhow!(
            "there is no site {number} in {}; `allotrope report` shows their numbers",
            path.shown()
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    let records = arguments.format.of_records();
    if records.is_none() {
        standard_output::print_text(|output| {
            text::write_site(profile, number, options, output)?;
            if arguments.events {
                writeln!(output)?;
            }
            Ok(())
        })?;
    }
    if arguments.events {
        let limit = arguments.limit.unwrap_or(u64::MAX);
        let mut output = io::BufWriter::new(io::stdout().lock());
        let printed = match records {
            None => BlockList::new(profile, options, &mut output).and_then(|mut list| {
                let write = &mut |block: &Block| list.write(block);
                let (written, replayed) = events(trace, &sites, limit, write);
                written.and_then(|()| list.finish()).map(|()| replayed)
            }),
            Some(format) => {
                BlockRecords::new(profile, format, &mut output).and_then(|mut records| {
                    let write = &mut |block: &Block| records.write(block);
                    let (written, replayed) = events(trace, &sites, limit, write);
                    written.map(|()| replayed)
                })
            }
        };
        let printed = printed.and_then(|replayed| output.flush().map(|()| replayed));
        leave_if_closed(&printed);
        let replayed = printed.context("cannot write to the standard output");
        let replayed = replayed.status(FAILED)?;
        replayed.map_err(|error| trace::unreplayable(path, error))?;
    }
    Ok(())
}

/// Calls `write` with the blocks of the sites, at most `limit` of them, while the trace is
/// replayed: there may be millions, so they are not collected first. Returns the results of
/// writing and of the replay.
fn events(
    trace: &TraceReader,
    sites: &[(u32, u32)],
    limit: u64,
    write: &mut dyn FnMut(&Block) -> io::Result<()>,
) -> (io::Result<()>, Result<(), ReplayError>) {
    let mut left = limit;
    let mut printed = Ok(());
    let replayed = blocks_of_sites(trace, &Options::default(), sites, &mut |block| {
        if printed.is_ok() && left > 0 {
            left -= 1;
            printed = write(block);
            leave_if_closed(&printed);
        }
    });
    (printed, replayed)
}

/// Ends the process once the reader of the output has gone (`| head`): nobody would
/// read the result of a replay that may take long.
fn leave_if_closed<T>(printed: &io::Result<T>) {
    if let Err(error) = printed
        && error.kind() == ErrorKind::BrokenPipe
    {
        std::process::exit(FINE.into());
    }
}
