//! Arguments of `allotrope cpu`.

use std::ffi::OsString;
use std::path::PathBuf;

use allotrope_allocators::cpu::{OwnGroup, Pattern};

use crate::debug_files::DebugFiles;
use crate::input_limit::InputLimit;
use crate::replacing::ForceArguments;
use crate::values;

/// Arguments of `allotrope cpu`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "allotrope cpu [OPTIONS] [--] PROGRAM [ARGS]...\n       allotrope cpu [OPTIONS] PID [OPTIONS]"
)]
pub struct Arguments {
    /// Sample a running process for N seconds
    ///
    /// At most until it ends or Ctrl-C.
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = values::whole::<u64>(1..=86_400))]
    pub seconds: u64,
    /// Samples per second of CPU time
    #[arg(long, value_name = "HZ", default_value_t = 997,
          value_parser = values::whole::<u64>(1..=20_000))]
    pub frequency: u64,
    /// Calls of the allocator in the run, to divide by
    #[arg(long, alias = "operations", value_name = "N", hide_short_help = true,
          value_parser = values::whole::<u64>(1..),
          conflicts_with_all = ["recording", "count"])]
    pub divide_by: Option<u64>,
    /// Take the number of calls from a recording of the same run
    ///
    /// That of `allotrope record`, with or without --counts-only.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "count",
        hide_short_help = true
    )]
    pub recording: Option<PathBuf>,
    /// Check the counters by the instructions that `allotrope paths -o FILE` has counted
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub paths: Option<PathBuf>,
    /// Run the program twice more to count its calls
    ///
    /// Without input and output. Counts that differ are said.
    #[arg(long)]
    pub count: bool,
    /// Count these functions as the allocator's
    ///
    /// Names with * and ?, or file:NAME for all functions of a source file, separated by commas.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub allocator_functions: Vec<Pattern>,
    /// Sum up functions under a name
    ///
    /// PATTERN as of --allocator-functions. Environment, locks, system calls and string functions
    /// that the allocator calls are groups already.
    #[arg(long, value_name = "NAME=PATTERN")]
    pub group: Vec<OwnGroup>,
    /// Take the program's own figure from its output
    ///
    /// The number before this text, such as 'M ops/sec', in each line of its standard output that
    /// has it. The output is then a pipe and not a terminal for the program.
    #[arg(long, value_name = "UNIT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub score: Option<String>,
    /// Show the instructions of this function, with their samples
    ///
    /// With their bytes and source lines; hot ones are marked. NAME@0xADDRESS is one of several
    /// functions of a name. May be given more than once.
    #[arg(long, value_name = "FUNCTION", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub annotate: Vec<String>,
    /// Draw the call graph as a flame graph, too
    ///
    /// Functions of the allocator are red and yellow.
    #[arg(long, value_name = "OUT.svg")]
    pub flamegraph: Option<PathBuf>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::whole::<usize>(1..))]
    pub top: usize,
    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
    /// Write the report to FILE
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub force: ForceArguments,
    #[command(flatten)]
    pub debug_files: DebugFiles,
    /// The program and its arguments, or the id of a running process
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, num_args = 1..)]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub input: InputLimit,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// The whole report: for an issue or a wiki
    Markdown,
    /// For programs
    Json,
    /// A line a stack with its samples, for flame graph tools and speedscope
    Folded,
}

impl Format {
    /// What is not for people, and must not lie among the lines of the program.
    pub fn of_programs(self) -> Option<&'static str> {
        match self {
            Self::Text | Self::Markdown => None,
            Self::Json => Some("JSON"),
            Self::Folded => Some("folded text"),
        }
    }
}
