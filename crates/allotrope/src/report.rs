//! `allotrope report`: shows a trace as text or writes it as JSON. This file
//! maps options to what `allotrope-report` lays out, and asks the terminal for
//! its width.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use allotrope_text::Shown;

use allotrope_profile::{Metric, Options, Profile, blocks_of_sites};
use allotrope_report::text::{self, BlockList, TextOptions, TreeOrder};
use allotrope_report::{Blocks, SourceLines, Style, json, sites_of_row};
use allotrope_trace::TraceReader;
use anyhow::{Context, anyhow};

use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, WithStatus};
use crate::message;
use crate::metric;
use crate::progress::Progress;
use crate::standard_output;
use crate::trace;
use crate::window;

/// Columns where there is no terminal to ask.
const WIDTH_ELSEWHERE: usize = 100;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
A trace that was cut off (the machine went down, the disk was full) or is damaged
is read up to there, with exit status 0 and a warning on stderr and in the report
that says at which byte that is and how much is missing.

Exit status: 0 if the trace could be read, 1 if allotrope failed, 2 if the file
is no trace or does not hold what was asked for.";

/// Arguments of `allotrope report`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A trace that `allotrope record` wrote
    #[arg(value_name = "FILE", required_unless_present = "tree")]
    trace: Option<PathBuf>,
    /// Text for people, or JSON (the format allotrope-report/1) for programs
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Show one list, ranked by this; with --tree: what its branches count [default: a list
    /// for each of five]
    #[arg(long, alias = "sort", value_name = "METRIC", value_parser = metric::parser())]
    metric: Option<Metric>,
    /// Show a call tree in place of lists: from what allocates to its callers, or from
    /// main to what allocates [default order: bottom-up]
    // Without an order, the next argument may be FILE: `Request::new` tells them apart.
    #[arg(long, value_name = "bottom-up|top-down", num_args = 0..=1,
          default_missing_value = "bottom-up")]
    tree: Option<OsString>,
    /// The order of the tree, as it was named before --tree took one
    #[arg(long, value_enum, value_name = "WAY", requires = "tree", hide = true)]
    direction: Option<Way>,
    /// Show at most N sites of a list, and N branches at a node of the tree
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    /// Show only sites with PATTERN in the name of a function, file or module of their stack
    #[arg(long, value_name = "PATTERN")]
    filter: Option<String>,
    /// Show only the process image of this id
    #[arg(long, value_name = "ID")]
    process: Option<u32>,
    /// Show only what happened in the window of this name
    #[arg(long, value_name = "NAME", conflicts_with = "events")]
    window: Option<String>,
    /// Show its Nth run [default: the one with the fewest allocations]
    #[arg(long, value_name = "N", requires = "window",
          value_parser = clap::value_parser!(u32).range(1..))]
    run: Option<u32>,
    /// Count only blocks that were live at the end
    #[arg(long, alias = "persisted", conflicts_with = "freed_only")]
    leaked_only: bool,
    /// Count only blocks that were freed
    #[arg(long, alias = "destroyed")]
    freed_only: bool,
    /// Show the site of this number in full
    #[arg(long, value_name = "N", conflicts_with_all = ["tree", "metric", "filter"])]
    site: Option<u32>,
    /// Show the single allocations of the site: time, size, lifetime, thread
    #[arg(long, requires = "site")]
    events: bool,
    /// Show the lines of code of each stack, where their files are at hand
    #[arg(long, conflicts_with = "tree")]
    source: bool,
    /// Source files whose paths begin with PREFIX are below DIR now
    #[arg(long, value_name = "PREFIX=DIR", requires = "source", value_parser = moved)]
    source_path: Vec<(PathBuf, PathBuf)>,
    /// Show the frames of allocators and standard libraries, too
    #[arg(long)]
    all_frames: bool,
    /// Use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    color: Color,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
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

/// What `FILE` and `--tree` mean together: `--tree FILE` is a tree in the default
/// order.
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
            // Refused by the parser.
            (None, None) => (Path::new(""), None),
        };
        let order = match order.map(|order| (order, order.to_str())) {
            None => None,
            Some((_, Some("bottom-up"))) => Some(TreeOrder::BottomUp),
            Some((_, Some("top-down"))) => Some(TreeOrder::TopDown),
            Some((other, _)) => {
                let sentence = anyhow!(
                    "there is no order {} of a tree; write --tree bottom-up or --tree top-down",
                    Path::new(other).shown()
                );
                return Err(Failure::new(BAD_INPUT, sentence));
            }
        };
        if path == bottom_up || path == OsStr::new("top-down") {
            let sentence = anyhow!("name the file to report, after --tree and its order");
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

/// Reads the trace and prints what is asked for.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    check(arguments)?;
    let Request { path, tree } = Request::new(arguments)?;
    let mut trace = trace::open(path)?;
    let mut profile = trace::profile(path, &mut trace, &Progress::new(false))?;
    if let Some(cut) = &profile.cut {
        message::say(format_args!(
            "warning: {} is not whole: {cut}",
            path.shown()
        ));
    }
    check_process(arguments, path, &profile)?;
    check_stacks(arguments, path, &profile)?;
    let mut options = TextOptions {
        source: source(arguments, &profile),
        tree,
        ..text_options(arguments)
    };
    if let Some(name) = &arguments.window {
        let wanted = arguments.process;
        profile
            .processes
            .retain(|process| wanted.is_none_or(|id| process.id == id));
        let shown = window::one(path, &trace, &profile, name, arguments.run)?;
        (profile, options.window) = (shown.profile, Some(shown.line));
    }
    if arguments.format == Format::Json {
        let wanted = arguments.process;
        profile
            .processes
            .retain(|process| wanted.is_none_or(|id| process.id == id));
        let source = options.source.as_deref();
        standard_output::print(|output| json::write(&profile, source, output))?;
        for warning in source.iter().flat_map(|source| source.warnings()) {
            message::say(format_args!("warning: {warning}"));
        }
        // The process ends: hundreds of thousands of sites need not be given back.
        std::mem::forget(profile);
        return Ok(FINE);
    }
    match arguments.site {
        Some(number) => site(arguments, path, number, &trace, &profile, &options)?,
        None => standard_output::print(|output| text::write(&profile, &options, output))?,
    }
    Ok(FINE)
}

/// Where the lines of code come from, if they are asked for.
fn source(arguments: &Arguments, profile: &Profile) -> Option<Rc<SourceLines>> {
    let started = Duration::from_nanos(profile.recording.started_unix_ns);
    let recorded = SystemTime::UNIX_EPOCH.checked_add(started);
    let lines = || Rc::new(SourceLines::new(arguments.source_path.clone(), recorded));
    arguments.source.then(lines)
}

/// `PREFIX=DIR`, the prefix up to the first `=`.
fn moved(text: &str) -> Result<(PathBuf, PathBuf), String> {
    match text.split_once('=') {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => Ok((from.into(), to.into())),
        _ => Err("write PREFIX=DIR, such as /build/src=/home/me/src".to_owned()),
    }
}

/// JSON is complete; what selects parts of a text would be ignored silently.
fn check(arguments: &Arguments) -> Result<(), Failure> {
    let selects = [
        (arguments.tree.is_some(), "--tree"),
        (arguments.filter.is_some(), "--filter"),
        (arguments.leaked_only, "--leaked-only"),
        (arguments.freed_only, "--freed-only"),
        (arguments.site.is_some(), "--site"),
    ];
    let selected = selects.iter().find(|(given, _)| *given);
    match selected {
        Some((_, option)) if arguments.format == Format::Json => Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "{option} is for the text; --format json always gives every site: leave one out"
            ),
        )),
        _ => Ok(()),
    }
}

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

/// What is about call stacks can not be shown where there are none.
fn check_stacks(arguments: &Arguments, path: &Path, profile: &Profile) -> Result<(), Failure> {
    let needs = [
        (arguments.tree.is_some(), "--tree"),
        (arguments.metric.is_some(), "--metric"),
        (arguments.filter.is_some(), "--filter"),
        (arguments.leaked_only, "--leaked-only"),
        (arguments.freed_only, "--freed-only"),
        (arguments.site.is_some(), "--site"),
        (arguments.window.is_some(), "--window"),
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
        top: arguments.top.try_into().unwrap_or(usize::MAX),
        filter: arguments.filter.clone(),
        process: arguments.process,
        blocks: match (arguments.leaked_only, arguments.freed_only) {
            (true, _) => Blocks::Leaked,
            (_, true) => Blocks::Freed,
            _ => Blocks::All,
        },
        all_frames: arguments.all_frames,
        ..TextOptions::default()
    }
}

/// How text on the standard output may look.
pub fn style(color: Color) -> Style {
    let output = io::stdout();
    // https://no-color.org: set and not empty.
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    let width = terminal_size::terminal_size_of(&output)
        .map_or(WIDTH_ELSEWHERE, |(width, _)| usize::from(width.0));
    Style {
        color: match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => output.is_terminal() && !refused && !dumb,
        },
        width,
    }
}

fn site(
    arguments: &Arguments,
    path: &Path,
    number: u32,
    trace: &TraceReader,
    profile: &Profile,
    options: &TextOptions,
) -> Result<(), Failure> {
    let sites = sites_of_row(profile, number, arguments.all_frames);
    if sites.is_empty() {
        let sentence = anyhow!(
            "there is no site {number} in {}; `allotrope report` shows their numbers",
            path.shown()
        );
        return Err(Failure::new(BAD_INPUT, sentence));
    }
    standard_output::print(|output| {
        text::write_site(profile, number, options, output)?;
        if arguments.events {
            writeln!(output)?;
        }
        Ok(())
    })?;
    if arguments.events {
        events(path, trace, profile, options.style, &sites)?;
    }
    Ok(())
}

/// Prints the blocks as the replay comes to them: there may be millions.
fn events(
    path: &Path,
    trace: &TraceReader,
    profile: &Profile,
    style: Style,
    sites: &[(u32, u32)],
) -> Result<(), Failure> {
    let mut output = io::BufWriter::new(io::stdout().lock());
    let mut replayed = Ok(());
    let mut printed = BlockList::new(profile, style, &mut output).and_then(|mut list| {
        let mut printed = Ok(());
        replayed = blocks_of_sites(trace, &Options::default(), sites, &mut |block| {
            if printed.is_ok() {
                printed = list.write(block);
                leave_if_closed(&printed);
            }
        });
        printed.and_then(|()| list.finish())
    });
    if printed.is_ok() {
        printed = output.flush();
    }
    leave_if_closed(&printed);
    printed
        .context("cannot write to the standard output")
        .status(FAILED)?;
    replayed.map_err(|error| trace::unreplayable(path, error))
}

/// The rest of a long replay would be for nobody.
fn leave_if_closed(printed: &io::Result<()>) {
    if let Err(error) = printed
        && error.kind() == ErrorKind::BrokenPipe
    {
        std::process::exit(FINE.into());
    }
}
