//! `allotrope allocators`: time, memory, instructions and counters of allocators on a
//! recording's calls, as one report. `allotrope-allocators` measures and composes; this file
//! chooses the process and the allocators, and prints.

use std::path::{Path, PathBuf};

use allotrope_allocators::paths::ChosenOperations;
use allotrope_allocators::replay::allocators::{Candidate, allocators};
use allotrope_allocators::replay::{LiveCurve, POINTS, Plan, Touch, this_processor};
use allotrope_allocators::{Invocation, Report, Request, Stage, measure, pairs};
use allotrope_profile::ImageId;
use allotrope_text::{Shown, to_json_writer};
use anyhow::{Context, anyhow};

use crate::debug_files::DebugFiles;
use crate::exit_status::{BAD_INPUT, FAILED, Failure, WithStatus};
use crate::input_limit::InputLimit;
use crate::progress::Progress;
use crate::replacing::{self, ForceArguments};
use crate::replay::{self, EnvironmentArguments, ProcessArguments};
use crate::standard_output;
use crate::style::{Color, style};
use crate::to_write::ToWrite;
use crate::values;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
allotrope record -o prog.allotrope -- ./prog
allotrope allocators prog.allotrope --alloc glibc,jemalloc,mine=./mine.so
allotrope allocators prog.allotrope --alloc mine=./new.so --earlier mine=./old.so
allotrope allocators prog.allotrope --html out.html

One report: is switching worth it and how sure is that; hot functions and lines, paths and
callees by exact instructions; counters an operation with their source; what a change would
save (estimated), and did save (--earlier); the commands that reproduce it; figures that were
counted in two ways. It does what `replay` and `paths` do, and samples the processor's
counters where there are any. An allocator is glibc, jemalloc, tcmalloc or mimalloc (found in
the system's library folders), the path of a shared library, or NAME=PATH.

Exit status: 0 if all allocators were measured, 1 if allotrope failed, 2 if the recording or an
allocator cannot be used (the others are still measured). docs/allocators.md has more.";

/// Arguments of `allotrope allocators`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The allocators, separated by commas
    ///
    /// [default: glibc and those of jemalloc, tcmalloc and mimalloc that are installed]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    alloc: Vec<String>,
    /// Earlier versions, NAME=PATH, of allocators of --alloc
    ///
    /// With the same names: shows what the change saved beside what it was estimated to save.
    #[arg(long, alias = "before", value_name = "LIST", value_delimiter = ',')]
    earlier: Vec<String>,
    /// Say how much faster the program of --earlier is, from its `allotrope cpu --format json`
    ///
    /// Of the program with the earlier version, and with its number of operations (--count).
    #[arg(
        long,
        value_name = "FILE",
        hide_short_help = true,
        requires = "earlier"
    )]
    cpu: Option<PathBuf>,
    #[command(flatten)]
    process: ProcessArguments,
    #[command(flatten)]
    environment: EnvironmentArguments,
    /// How often the time of each allocator is measured
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = values::whole::<u32>(1..=1000))]
    runs: u32,
    /// Step through about N operations to count instructions
    #[arg(long, alias = "operations", value_name = "N", default_value_t = 6000,
          value_parser = values::whole::<u64>(1..=1_000_000))]
    sample: u64,
    /// Step through them N times; shows by how much an allocator differs from itself
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 2,
          value_parser = values::whole::<u32>(1..=100))]
    stepped_runs: u32,
    /// The allocator with which the program was recorded
    ///
    /// For whether switching is worth it [default: the one that the recording shows, or glibc]
    #[arg(long, hide_short_help = true, value_name = "ALLOCATOR")]
    recorded_with: Option<String>,
    /// Rows of each table of text and Markdown
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::whole::<usize>(1..))]
    top: usize,
    /// The format to print
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Write a page to look at, too
    ///
    /// One HTML file that needs no other one, with the whole report and a flame graph of each
    /// allocator's instructions.
    #[arg(long, value_name = "OUT.html")]
    html: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArguments,
    #[command(flatten)]
    limit: replay::Limit,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    debug_files: DebugFiles,
    #[command(flatten)]
    pub input: InputLimit,
}

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Format {
    /// For people at a terminal
    #[default]
    Text,
    /// An object for programs
    Json,
    /// A document, for an issue or a wiki
    Markdown,
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let locator = arguments
        .debug_files
        .locator(arguments.input.limits())
        .status(BAD_INPUT)?;
    let mut named = replay::Candidates::of(&arguments.alloc)?;
    let candidates = named.take();
    let recorded_with = replay::named_allocator(arguments.recorded_with.as_ref())?;
    let earlier_ones = allocators(&arguments.earlier);
    let mut read = read_files(&arguments.file, candidates.iter().chain(&earlier_ones));
    read.extend(arguments.cpu.clone());
    // Measuring takes long.
    let page = arguments.html.as_deref().map(|path| ToWrite {
        path,
        kind: replacing::PAGE,
        force: arguments.force,
    });
    if let Some(page) = &page {
        page.check(&read)?;
    }
    let program_ns = arguments.program_ns()?;
    let earlier = pairs(&candidates, earlier_ones).status(BAD_INPUT)?;
    named.say_earlier(&earlier);
    let progress = Progress::new(arguments.quiet);
    let (process, recorded) = replay::read(&arguments.file, arguments.process, &progress)?;
    let cannot = "cannot read the operations";
    let operations = &recorded.operations;
    let samples = ChosenOperations::new(operations, arguments.sample);
    let samples = samples.context(cannot).status(FAILED)?;
    let live = LiveCurve::of(operations, POINTS);
    let live = live.context(cannot).status(FAILED)?;
    let (with, is_known) = replay::recorded_allocator(recorded_with, &process);
    let replayer = replay::replayer(arguments.limit)?;
    let environment = arguments.environment.of_recording(&process);
    let plan = Plan {
        operations,
        replayer: &replayer,
        runs: arguments.runs,
        touch: Touch::ALL,
        processor: this_processor(),
        environment: &environment,
    };
    let request = Request {
        plan: &plan,
        facts: &replay::facts(&process, &recorded, &live, (&with, is_known), &plan),
        samples: &samples,
        stepped_runs: arguments.stepped_runs,
        locator: &locator,
        invocation: &arguments.invocation(process.id, &candidates),
        program_ns,
    };
    let show = |stage, done, total| {
        let what = match stage {
            Stage::Replaying => "replaying",
            Stage::Stepping => "stepping",
            Stage::Counting => "reading counters",
        };
        progress.show(what, done, total);
    };
    let report = measure(&request, candidates, earlier, &show);
    progress.finish();
    let report = report.context("cannot start the replayer").status(FAILED)?;
    arguments.print(&report)?;
    if let Some(page) = &page {
        write_page(page, &read, &report)?;
    }
    Ok(named.refuse(report.refused()))
}

/// The files that are not to be overwritten: the recording, and the libraries.
fn read_files<'a>(file: &Path, all: impl Iterator<Item = &'a Candidate>) -> Vec<PathBuf> {
    let libraries = all.filter_map(|(allocator, _)| allocator.library.clone());
    libraries.chain([file.to_owned()]).collect()
}

/// Writes the page: its data is the JSON.
fn write_page(out: &ToWrite<'_>, read: &[PathBuf], report: &Report) -> Result<(), Failure> {
    let mut json = Vec::new();
    let written = to_json_writer(&mut json, report);
    written
        .context("cannot write the report as JSON")
        .status(FAILED)?;
    out.create_page(read, |output| {
        allotrope_page::write_allocators(&json, output)
    })
}

impl Arguments {
    /// CPU time of the program with the earlier version, an operation.
    fn program_ns(&self) -> Result<Option<f64>, Failure> {
        let Some(path) = &self.cpu else {
            return Ok(None);
        };
        if self.earlier.len() > 1 {
            return Err(Failure::new(
                BAD_INPUT,
                anyhow!("--cpu is of the program with one earlier version; give one --earlier"),
            ));
        }
        let saved = crate::diff::saved_cpu(path)?;
        let ns = saved.ns_per_operation().map_err(|why| anyhow!("{why}"));
        ns.with_context(|| format!("cannot use {}", path.shown()))
            .status(BAD_INPUT)
            .map(Some)
    }

    fn invocation(&self, process: ImageId, candidates: &[Candidate]) -> Invocation {
        let names = || candidates.iter().map(|(it, _)| it.name.clone()).collect();
        Invocation {
            file: self.file.clone().into_os_string(),
            alloc: match self.alloc.is_empty() {
                true => names(),
                false => self.alloc.clone(),
            },
            earlier: self.earlier.clone(),
            process,
            runs: self.runs,
            sample: self.sample,
            stepped_runs: self.stepped_runs,
            recorded_with: self.recorded_with.clone(),
            environment: self.environment.options(),
        }
    }

    fn print(&self, report: &Report) -> Result<(), Failure> {
        let document = || allotrope_allocators::document(report, self.top);
        match self.format {
            Format::Text => standard_output::print_document(&document(), style(Color::Never)),
            Format::Markdown => standard_output::print_log(|out| document().write_markdown(out)),
            Format::Json => replay::print_json(report),
        }
    }
}
