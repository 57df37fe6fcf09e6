//! `allotrope bench`: compares allocators by patterns of calls, without a recording.
//! `replay` of `allotrope-allocators` does the work.

use std::ffi::OsString;

use allotrope_allocators::replay::bench::profiles::{self, PROFILES, Profile};
use allotrope_allocators::replay::bench::{BenchPlan, Case, Pattern, bench, text};
use allotrope_allocators::replay::{Environment, this_processor};
use anyhow::Context;

use crate::exit_status::{FAILED, FINE, Failure, WithStatus};
use crate::progress::Progress;
use crate::replay::{Candidates, Format, Limit, print_json, replayer, text_style, variable};
use crate::standard_output;
use crate::style::{Color, style};
use crate::values;

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
--profile tiny, mid or mt is larson with other sizes, threads and numbers of blocks.
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
    /// Named sets of parameters of larson, separated by commas: tiny, mid, mt; `list` shows them
    ///
    /// In place of --pattern, --size, --threads and --blocks.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = profile,
          conflicts_with_all = ["pattern", "size", "threads", "blocks"])]
    profile: Vec<ProfileWord>,
    /// For how long glibc runs in each profile, in seconds
    #[arg(long, value_name = "SECONDS", requires = "profile", value_parser = seconds)]
    seconds: Option<f64>,
    /// The sizes of a block in bytes, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [16, 64, 256],
          value_parser = values::whole::<u64>(8..=1 << 30))]
    size: Vec<u64>,
    /// How many threads run at the same time, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1, 4],
          value_parser = values::whole::<u32>(1..=64))]
    threads: Vec<u32>,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = values::whole::<u32>(1..=1000))]
    runs: u32,
    /// How many blocks each thread allocates and frees
    #[arg(long, value_name = "N", default_value_t = 1 << 20,
          value_parser = values::whole::<u64>(1..=1 << 40))]
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

/// A word of `--profile`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ProfileWord {
    /// A profile.
    Of(Profile),
    /// All profiles are to be shown.
    List,
}

fn profile(word: &str) -> Result<ProfileWord, String> {
    if word == "list" {
        return Ok(ProfileWord::List);
    }
    let found = Profile::by_name(word).map(ProfileWord::Of);
    let names: Vec<&str> = PROFILES.iter().map(|it| it.name).collect();
    found.ok_or_else(|| {
        format!(
            "there are the profiles {} (list shows them)",
            names.join(", ")
        )
    })
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok();
    let is_possible = |it: &f64| (0.01..=3600.0).contains(it);
    seconds
        .filter(is_possible)
        .ok_or_else(|| "write seconds from 0.01 to 3600".to_owned())
}

impl Arguments {
    /// What to measure: the profiles, or each pattern with each size and number of threads.
    fn cases(&self) -> Vec<Case> {
        let profiles = self.profile.iter().filter_map(|word| match word {
            ProfileWord::Of(profile) => Some(profile.case(self.seconds)),
            ProfileWord::List => None,
        });
        let mut cases: Vec<Case> = profiles.collect();
        if !cases.is_empty() {
            return cases;
        }
        for &pattern in &self.pattern {
            for &size in &self.size {
                let with = |threads: &u32| Case::new(pattern.into(), size, *threads, self.blocks);
                cases.extend(self.threads.iter().map(with));
            }
        }
        cases
    }
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    if arguments.profile.contains(&ProfileWord::List) {
        standard_output::print_document(&profiles::document(), style(Color::Never))?;
        return Ok(FINE);
    }
    let mut candidates = Candidates::of(&arguments.alloc)?;
    let replayer = replayer(arguments.limit)?;
    let environment = match arguments.environment {
        Whose::Own => Environment::of_this_process(),
        Whose::None => Environment::none(),
    };
    let environment = environment.with(&arguments.env);
    let plan = BenchPlan {
        replayer: &replayer,
        cases: arguments.cases(),
        runs: arguments.runs,
        pairs: arguments.blocks,
        processor: this_processor(),
        environment: &environment,
    };
    let progress = Progress::new(arguments.quiet);
    let show = |done, total| progress.show("measuring", done, total);
    let report = bench(&plan, candidates.take(), &show);
    progress.finish();
    let report = report.context("cannot start the replayer").status(FAILED)?;
    match arguments.format {
        Format::Text => standard_output::print_document(&text::document(&report), text_style())?,
        Format::Json => print_json(&report)?,
    }
    let rows = report.allocators.iter();
    Ok(candidates.refuse(rows.filter_map(|row| Some((&row.name, row.refused.as_ref()?)))))
}
