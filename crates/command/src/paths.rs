//! `allotrope paths`: the exact instructions of an allocator's operations, path by path.
//! Chooses the process of the recording and the allocators, and prints; `paths` of `allotrope-allocators`
//! does the rest.

use std::io;
use std::path::PathBuf;

use allotrope_allocators::paths::report::FORMAT;
use allotrope_allocators::paths::{ChosenOperations, MeasureError, Report, Request, measure, text};
use allotrope_text::to_json_writer;
use anyhow::{Context, anyhow};

use crate::debug_files::DebugFiles;
use crate::exit_status::{BAD_INPUT, FAILED, Failure, WithStatus};
use crate::input_limit::InputLimit;
use crate::progress::Progress;
use crate::replacing::{ForceArguments, Kind};
use crate::replay::{self, EnvironmentArguments, Format, ProcessArguments};
use crate::standard_output;
use crate::style::{Color, style};
use crate::to_write::ToWrite;
use crate::values;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
The recording's operations are replayed, and a sample of them is single-stepped (ptrace):
instructions are counted exactly, on any machine, without a PMU. The environment is the recorded
program's and addresses are fixed, so glibc and tcmalloc give the same numbers each time; of others, the spread over --runs
is printed. Then, after a change:
  allotrope paths app.allotrope --alloc ./mine.so -o after.paths
  allotrope diff before.paths after.paths --fail-on 'instructions>+2%'

An allocator is glibc, jemalloc, tcmalloc or mimalloc if installed, the path of a library, or
NAME=PATH (no commas). Functions marked * are not the allocator's own. Lines need debug information.

Exit status: 0 if all allocators were measured, 1 if allotrope failed, 2 if the recording or an
allocator cannot be used (the others are still measured). docs/allocators.md has more.";

/// Arguments of `allotrope paths`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The recording
    file: PathBuf,
    /// Allocators to measure
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "glibc"
    )]
    alloc: Vec<String>,
    /// Step through about N operations
    #[arg(long, alias = "operations", value_name = "N", default_value_t = 6000,
          value_parser = values::whole::<u64>(1..=1_000_000))]
    sample: u64,
    /// Step through them N times
    ///
    /// Shows by how much an allocator differs from itself.
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = values::whole::<u32>(1..=100))]
    runs: u32,
    #[command(flatten)]
    process: ProcessArguments,
    #[command(flatten)]
    environment: EnvironmentArguments,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::whole::<usize>(1..))]
    top: usize,
    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Save the report to FILE, for `allotrope diff`
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArguments,
    #[command(flatten)]
    limit: replay::Limit,
    /// Print no report and no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    debug_files: DebugFiles,
    #[command(flatten)]
    pub input: InputLimit,
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let locator = arguments
        .debug_files
        .locator(arguments.input.limits())
        .status(BAD_INPUT)?;
    if let Some(output) = arguments.output() {
        output.check([&arguments.file])?;
    }
    let mut candidates = replay::Candidates::of(&arguments.alloc)?;
    let progress = Progress::new(arguments.quiet);
    let (process, recorded) = replay::read(&arguments.file, arguments.process, &progress)?;
    let operations = recorded.operations;
    let samples = ChosenOperations::new(&operations, arguments.sample)
        .context("cannot read the operations")
        .status(FAILED)?;
    let replayer = replay::replayer(arguments.limit)?;
    let environment = arguments.environment.of_recording(&process);
    let request = Request {
        replayer: &replayer,
        operations: &operations,
        samples: &samples,
        runs: arguments.runs,
        environment: &environment,
        locator: &locator,
    };
    let mut report = Report {
        format: FORMAT.to_owned(),
        recording: arguments.file.display().to_string(),
        recorded_operations: operations.len(),
        every: samples.every,
        environment: Some(environment.row().clone()),
        allocators: Vec::new(),
    };
    let mut refused: Vec<(String, String)> = Vec::new();
    let show = |done, total| {
        progress.show("stepping", done, total);
        true
    };
    for (allocator, error) in candidates.take() {
        let measured = match error {
            Some(error) => Err(format!("cannot be used: {error}")),
            None => match measure(&request, &allocator, &show) {
                // What this process lacks would fail for each allocator.
                Err(error @ MeasureError::Failed(..)) => {
                    let sentence = anyhow!("{} {error}", allocator.name);
                    return Err(Failure::new(FAILED, sentence));
                }
                measured => measured.map_err(|error| error.to_string()),
            },
        };
        progress.finish();
        match measured {
            Ok(measured) => report.allocators.push(measured),
            Err(error) => refused.push((allocator.name, error)),
        }
    }
    if !report.allocators.is_empty() {
        arguments.print(&report)?;
    }
    Ok(candidates.refuse(refused.iter().map(|(name, why)| (name, why))))
}

impl Arguments {
    /// The file to write.
    fn output(&self) -> Option<ToWrite<'_>> {
        let kind = Kind {
            what: "earlier report of `allotrope paths`",
            is_own: &|head| head.starts_with(b"{\"format\":\"allotrope-paths/"),
        };
        let path = self.output.as_deref()?;
        let force = self.force;
        Some(ToWrite { path, kind, force })
    }

    fn print(&self, report: &Report) -> Result<(), Failure> {
        let json = |out: &mut dyn io::Write| {
            to_json_writer(&mut *out, report)?;
            writeln!(out)
        };
        if let Some(output) = self.output() {
            output.create([&self.file], json)?;
        }
        if self.quiet {
            return Ok(());
        }
        match self.format {
            Format::Text => {
                let document = text::document(report, self.top);
                standard_output::print_document(&document, style(Color::Never))
            }
            Format::Json => standard_output::print(json),
        }
    }
}
