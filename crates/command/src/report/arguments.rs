//! Arguments of `allotrope report`, as the command line has them. `request.rs` decides what they
//! mean together.

use std::ffi::OsString;
use std::path::PathBuf;

use allotrope_profile::Metric;
use allotrope_report::RecordFormat;

use crate::filter::FilterArguments;
use crate::findings::FindingArguments;
use crate::glue::GlueArguments;
use crate::input_limit::InputLimit;
use crate::metric;
use crate::pager::PagerArguments;
use crate::per;
use crate::replacing::ForceArguments;
use crate::style::Color;
use crate::suppressions::SuppressionArguments;
use crate::time::TimeArguments;
use crate::values;

/// Arguments of `allotrope report`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A recording or what another tool wrote; FILE@MOMENT: what was live then [default: your
    /// newest recording in this folder]
    #[arg(value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    /// The format to print
    ///
    /// Text is for people, JSON (the format allotrope-report/1) for programs, Markdown the first
    /// screen for an issue or a pull request; --events has JSON Lines and CSV, too.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(super) format: Format,
    /// Write a page to look at
    ///
    /// One HTML file that needs no other one. It has the whole recording; ranges of time,
    /// processes and functions are chosen on the page.
    #[arg(long, value_name = "OUT.html")]
    pub(super) html: Option<PathBuf>,
    /// Show totals, warnings and five lists in full
    ///
    /// The lists have stacks; each is ranked by another metric.
    #[arg(long, conflicts_with_all = ["tree", "site", "by"])]
    pub(super) lists: bool,
    /// Show one list, with a line for each WHAT
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with_all = ["tree", "site"])]
    pub(super) by: Option<By>,
    /// Show processes that ran the same program as one
    #[arg(long, conflicts_with_all = ["tree", "site", "process"], hide_short_help = true)]
    pub(super) merge: bool,
    /// Show one list, ranked by METRIC
    ///
    /// With --tree: what its branches count; with --by: what is added up
    /// [default: five lists, each ranked by another metric]
    #[arg(long, alias = "sort", value_name = "METRIC", value_parser = metric::parser())]
    pub(super) metric: Option<Metric>,
    /// Show a call tree: bottom-up or top-down
    ///
    /// From what allocates to its callers (bottom-up, the default), or from main to what
    /// allocates (top-down).
    // clap takes the FILE of `--tree FILE` for the order: `Request::new` corrects that.
    #[arg(long, value_name = "ORDER", num_args = 0..=1,
          default_missing_value = "bottom-up")]
    pub(super) tree: Option<OsString>,
    /// The order of the tree; an older spelling
    #[arg(long, value_enum, value_name = "WAY", requires = "tree", hide = true)]
    pub(super) direction: Option<Way>,
    /// Show at most N findings and functions, or sites of a list [default: 10]
    ///
    /// And N branches at a node of the tree.
    #[arg(long, value_name = "N", value_parser = values::whole::<u32>(1..))]
    pub(super) top: Option<u32>,
    #[command(flatten)]
    pub(super) filter: FilterArguments,
    #[command(flatten)]
    pub(super) glue: GlueArguments,
    #[command(flatten)]
    pub(super) suppressions: SuppressionArguments,
    #[command(flatten)]
    pub(super) findings: FindingArguments,
    /// Rank suppressed leaks like all others, also those of the built-in list
    #[arg(long, conflicts_with = "suppressions", hide_short_help = true)]
    pub(super) all_leaks: bool,
    /// Show only the process image with this id
    #[arg(long, value_name = "ID", value_parser = values::whole::<u32>(..))]
    pub(super) process: Option<u32>,
    /// Show only what happened in this window
    #[arg(long, value_name = "NAME", conflicts_with = "events")]
    pub(super) window: Option<String>,
    /// Show the Nth run of the window [default: the one with the fewest allocations]
    #[arg(long, alias = "run", value_name = "N", requires = "window", hide_short_help = true,
          value_parser = values::whole::<u32>(1..))]
    pub(super) nth: Option<u32>,
    #[command(flatten)]
    pub(super) time: TimeArguments,
    /// Show figures divided by N, too
    ///
    /// [default with --window: its iterations]
    #[arg(long, value_name = "N", value_parser = per::parse)]
    pub(super) per: Option<f64>,
    /// Count only blocks that leaked: they were live when their process ended
    #[arg(long, alias = "persisted", conflicts_with = "freed_only")]
    pub(super) leaked_only: bool,
    /// Count only blocks that were freed
    #[arg(long, alias = "destroyed")]
    pub(super) freed_only: bool,
    /// Show the site with this number in full
    #[arg(long, value_name = "N", conflicts_with_all = ["tree", "metric", "filter"], hide = true,
          value_parser = values::whole::<u32>(..))]
    pub(super) site: Option<u32>,
    /// With --site: show its single allocations
    ///
    /// Each with its time, size, lifetime and thread.
    #[arg(long, requires = "site", hide = true)]
    pub(super) events: bool,
    /// Stop after N allocations
    #[arg(long, value_name = "N", requires = "events", hide = true,
          value_parser = values::whole::<u64>(1..))]
    pub(super) limit: Option<u64>,
    /// Show the lines of code of each stack
    ///
    /// Their files must be on this machine. With --html those around them, too.
    #[arg(long, conflicts_with = "tree")]
    pub(super) source: bool,
    /// Look below DIR for the source files whose recorded paths begin with PREFIX
    #[arg(long, value_name = "PREFIX=DIR", requires = "source", value_parser = parse_source_path,
          hide_short_help = true)]
    pub(super) source_path: Vec<(PathBuf, PathBuf)>,
    /// Show the frames of allocators, too
    ///
    /// And those of standard libraries.
    #[arg(long)]
    pub(super) all_frames: bool,
    /// Write a flame graph, and no report
    ///
    /// Of the selected stacks by METRIC [default: allocations; of a sampled profile: leaked].
    #[arg(long, value_name = "OUT.svg", conflicts_with_all = [
          "tree", "lists", "by", "merge", "site", "source", "leaked_only", "freed_only", "per"])]
    pub(super) flamegraph: Option<PathBuf>,
    #[command(flatten)]
    pub(super) force: ForceArguments,
    /// Use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        hide_short_help = true
    )]
    pub(super) color: Color,
    #[command(flatten)]
    pub(super) pager: PagerArguments,
    #[command(flatten)]
    pub input: InputLimit,
}

impl Arguments {
    /// Most sites of a list.
    pub(super) fn top(&self) -> usize {
        let top = self.top.map(|top| top.try_into().unwrap_or(usize::MAX));
        top.unwrap_or(10)
    }
}

/// What a list has a line for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum By {
    /// The functions that head the stacks, whatever their lines
    Function,
    /// The innermost functions of the program's own code
    Own,
    /// The modules of the functions that head the stacks
    Module,
    /// Whole stacks; the list of --lists for one metric
    Stack,
    /// Threads, with what each of them allocated and held over time
    Thread,
    /// The functions through which blocks were allocated: malloc, operator new
    Entry,
    /// Sizes of blocks: up to each power of two
    Size,
    /// Types of blocks, where the names in their stacks prove them
    Type,
    /// Processes, those with the largest peaks first
    Process,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    #[default]
    Text,
    Json,
    Markdown,
    JsonLines,
    Csv,
}

impl Format {
    /// The format of single allocations, if it is one.
    pub(super) fn of_records(self) -> Option<RecordFormat> {
        match self {
            Self::Text | Self::Json | Self::Markdown => None,
            Self::JsonLines => Some(RecordFormat::JsonLines),
            Self::Csv => Some(RecordFormat::Csv),
        }
    }
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum Way {
    Outwards,
    Inwards,
}

/// Parses `PREFIX=DIR`, split at the first `=`.
pub fn parse_source_path(text: &str) -> Result<(PathBuf, PathBuf), String> {
    match text.split_once('=') {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => Ok((from.into(), to.into())),
        _ => Err("write PREFIX=DIR, such as /build/src=/home/me/src".to_owned()),
    }
}
