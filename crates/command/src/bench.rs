//! `allotrope bench`: compares allocators by patterns of calls, without a recording.
//! `replay` of `allotrope-allocators` does the work.

use std::ffi::OsString;

use allotrope_allocators::replay::bench::{BenchPlan, Case, Pattern, bench, text};
use allotrope_allocators::replay::{Environment, this_processor};
use anyhow::Context;

use crate::exit_status::{FAILED, Failure, WithStatus};
use crate::progress::Progress;
use crate::replay::{
    Format, Limit, candidates, print_json, refuse, replayer, text_style, variable,
};
use crate::standard_output;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
allotrope bench --alloc jemalloc,./mine.so --pattern lifo,larson --size 64 --threads 1,4

Each round runs glibc, the allocators, and glibc again, each in a fresh process; what is
compared is the ratio to glibc in the same round, and glibc's ratio to itself is the
noise. The patterns allocate and free 1,024 blocks at a time:
  lifo, fifo, random   all are allocated, then freed: last first, first first, shuffled
  interleaved          the oldest is freed and one allocated, in turn
  larson               a random one is freed and one of a random size (half of --size to
                       --size) allocated; threads exchange their blocks now and then
Processor cycles and instructions are counted where the machine has counters.

Exit status: 0 if all allocators were measured, 1 if allotrope failed, 2 if an
allocator cannot be used (the others are measured all the same).";

/// Arguments of `allotrope bench`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The allocators, separated by commas
    ///
    /// glibc is always measured [default: those of jemalloc, tcmalloc and mimalloc that are
    /// installed]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    alloc: Vec<String>,
    /// The patterns, separated by commas
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',',
          default_values_t = PatternName::ALL)]
    pattern: Vec<PatternName>,
    /// The sizes of a block in bytes, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [16, 64, 256],
          value_parser = clap::value_parser!(u64).range(8..=1 << 30))]
    size: Vec<u64>,
    /// How many threads run at the same time, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1, 4],
          value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: Vec<u32>,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// How many blocks each thread allocates and frees
    #[arg(long, value_name = "N", default_value_t = 1 << 20,
          value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    blocks: u64,
    /// Whose environment the allocators have
    #[arg(long, value_enum, default_value_t, value_name = "WHOSE")]
    environment: Whose,
    /// Set a variable of the allocators' environment
    ///
    /// Such as MALLOC_ARENA_MAX=1. May be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(OsString, OsString)>,
    /// The format to print
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    limit: Limit,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// Whose environment the allocators have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Whose {
    /// That of this command
    #[default]
    Own,
    /// Nobody's: only what --env sets
    None,
}

/// The patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PatternName {
    Lifo,
    Fifo,
    Random,
    Interleaved,
    Larson,
}

impl PatternName {
    const ALL: [Self; 5] = [
        Self::Lifo,
        Self::Fifo,
        Self::Random,
        Self::Interleaved,
        Self::Larson,
    ];
}

impl From<PatternName> for Pattern {
    fn from(name: PatternName) -> Self {
        match name {
            PatternName::Lifo => Self::Lifo,
            PatternName::Fifo => Self::Fifo,
            PatternName::Random => Self::Random,
            PatternName::Interleaved => Self::Interleaved,
            PatternName::Larson => Self::Larson,
        }
    }
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let replayer = replayer(arguments.limit)?;
    let mut cases = Vec::new();
    for &pattern in &arguments.pattern {
        for &size in &arguments.size {
            for &threads in &arguments.threads {
                let pattern = pattern.into();
                cases.push(Case {
                    pattern,
                    size,
                    threads,
                });
            }
        }
    }
    let environment = match arguments.environment {
        Whose::Own => Environment::of_this_process(),
        Whose::None => Environment::none(),
    };
    let environment = environment.with(&arguments.env);
    let plan = BenchPlan {
        replayer: &replayer,
        cases,
        runs: arguments.runs,
        pairs: arguments.blocks,
        processor: this_processor(),
        environment: &environment,
    };
    let progress = Progress::new(arguments.quiet);
    let show = |done, total| progress.show("measuring", done, total);
    let report = bench(&plan, candidates(&arguments.alloc), &show);
    progress.finish();
    let report = report.context("cannot start the replayer").status(FAILED)?;
    match arguments.format {
        Format::Text => standard_output::print_document(&text::document(&report), text_style())?,
        Format::Json => print_json(&report)?,
    }
    let rows = report.allocators.iter();
    Ok(refuse(rows.filter_map(|row| {
        Some((&row.name, row.refused.as_ref()?))
    })))
}
