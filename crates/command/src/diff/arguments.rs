//! Arguments of `allotrope diff`.

use std::path::PathBuf;

use allotrope_profile::Metric;

use super::limit::FailOn;
use crate::filter::FilterArguments;
use crate::glue::GlueArguments;
use crate::input_limit::InputLimit;
use crate::metric;
use crate::per;
use crate::replacing::ForceArguments;
use crate::style::Color;
use crate::suppressions::SuppressionArguments;
use crate::values;

/// The metric unless `--metric` names another.
pub const METRIC: Metric = Metric::Allocations;
/// Entries in text unless `--top` says how many.
pub const TOP: u32 = 10;

/// Arguments of `allotrope diff`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A recording before the change and one after it
    #[arg(value_names = ["BEFORE", "AFTER"], num_args = 2, conflicts_with_all = ["before", "after"],
          required_unless_present_all = ["before", "after"])]
    pub files: Vec<PathBuf>,
    /// Several runs before the change
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "after")]
    pub before: Vec<PathBuf>,
    /// Several runs after it
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "before")]
    pub after: Vec<PathBuf>,
    /// The metric to compare
    ///
    /// [default: in text and on the page that which changed most, else, and with --filter and --min,
    /// allocations]
    #[arg(long, value_name = "METRIC", value_parser = metric::parser())]
    pub metric: Option<Metric>,
    /// Compare what happened in the window with this name
    ///
    /// Each run of the window is a run of its side.
    #[arg(long, value_name = "NAME")]
    pub window: Option<String>,
    /// Show differences divided by N, too
    ///
    /// [default with --window: the iterations of a run, if all runs declare the same number]
    #[arg(long, value_name = "N", value_parser = per::parse)]
    pub per: Option<f64>,
    /// Sum up entries with a difference below N
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::whole::<u64>(..))]
    pub min: u64,
    /// Show at most N entries that changed and N that moved
    #[arg(long, value_name = "N", default_value_t = TOP,
          value_parser = values::whole::<u32>(1..))]
    pub top: u32,
    /// The format to print
    ///
    /// Text for people, JSON for programs, or the sections of stackdiff scripts. Reports of `allotrope
    /// cpu` and `allotrope paths` are compared as Markdown, too.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
    /// Show the stacks of entries that were only moved or renamed
    #[arg(long)]
    pub expand: bool,
    #[command(flatten)]
    pub filter: FilterArguments,
    /// Exit with status 3 if METRIC rose by more
    ///
    /// Such as 'allocations>+0' and 'bytes>+2%'; of two reports of `allotrope paths`:
    /// 'instructions>+2%', and of `allotrope cpu`: 'cpu-time>+5%'.
    #[arg(long, value_name = "METRIC>+N[%]")]
    pub fail_on: Vec<FailOn>,
    #[command(flatten)]
    pub glue: GlueArguments,
    #[command(flatten)]
    pub suppressions: SuppressionArguments,
    /// Write a differential flame graph, with vanished stacks
    #[arg(long, value_name = "OUT.svg")]
    pub flamegraph: Option<PathBuf>,
    /// Write a page to look at
    ///
    /// One HTML file that needs no other one, with the entries of all metrics that both sides
    /// give, their stacks, live bytes over time and a flame graph.
    #[arg(long, value_name = "OUT.html")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub force: ForceArguments,
    /// Show whole stacks, with the frames of allocators and standard libraries
    #[arg(long)]
    pub all_frames: bool,
    /// Use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        hide_short_help = true
    )]
    pub color: Color,
    #[command(flatten)]
    pub input: InputLimit,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    #[default]
    Text,
    Json,
    Sections,
    Markdown,
}
