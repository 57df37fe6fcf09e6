//! `allotrope paths`: the exact instructions of an allocator's operations, path by path.
//! Chooses the process of the recording and the allocators, and prints; `allotrope-paths`
//! does the rest.

mod allocator;

use std::io;
use std::path::{Path, PathBuf};

use allotrope_paths::report::FORMAT;
use allotrope_paths::{Report, Request, Samples, measure, text};
use allotrope_profile::Helpers;
use allotrope_profile::operations::{OperationOptions, RecordedProcess, recorded_processes};
use allotrope_replay::{RecordingError, Replayer, operations_of};
use allotrope_text::{Shown, to_json_writer};
use allotrope_trace::TraceReader;
use anyhow::{Context, anyhow};

use crate::debug_files::DebugFiles;
use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, WithStatus};
use crate::export;
use crate::message;
use crate::progress::Progress;
use crate::recorder_library;
use crate::report::{Color, style};
use crate::standard_output;
use crate::trace;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
The recording's operations are replayed, and a sample of them is single-stepped (ptrace):
instructions are counted exactly, on any machine, without a PMU. Environment and addresses are
fixed, so glibc and tcmalloc give the same numbers each time; of others, the spread over --runs
is printed. Then, after a change:
  allotrope paths app.allotrope --alloc ./mine.so -o after.paths
  allotrope diff before.paths after.paths --fail-on 'instructions>+2%'

An allocator is glibc, jemalloc, tcmalloc or mimalloc if installed, the path of a library, or
NAME=PATH. Functions marked * are not the allocator's own. Lines need debug information.

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
    #[arg(long, value_name = "N", default_value_t = 6000,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    operations: u64,
    /// Step through them N times; shows by how much an allocator differs from itself
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// The process of the recording [default: the one with most operations]
    #[arg(long, value_name = "PID")]
    process: Option<u32>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 8)]
    top: usize,
    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Save the report to FILE, for `allotrope diff`
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print no report and no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    debug_files: DebugFiles,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let locator = arguments.debug_files.locator().status(BAD_INPUT)?;
    let trace = trace::open_without_names(&arguments.file)?;
    let process = chosen(arguments, &trace)?;
    let progress = Progress::new(arguments.quiet);
    let show = |done, total| progress.show("reading the recording", done, total);
    let options = OperationOptions {
        progress: Some(&show),
        helpers: Helpers::default(),
    };
    let recorded = operations_of(&trace, &process, &options);
    progress.finish();
    let operations = recorded
        .map_err(|error| unusable(&arguments.file, error))?
        .operations;
    let samples = Samples::new(&operations, arguments.operations)
        .context("cannot read the operations")
        .status(FAILED)?;
    let replayer = Replayer::new(recorder_library::provide_replayer().status(FAILED)?);
    let request = Request {
        replayer: &replayer,
        operations: &operations,
        samples: &samples,
        runs: arguments.runs,
        locator: &locator,
    };
    let mut report = Report {
        format: FORMAT.to_owned(),
        recording: arguments.file.display().to_string(),
        recorded_operations: operations.len(),
        every: samples.every,
        allocators: Vec::new(),
    };
    let mut all_measured = true;
    for word in &arguments.alloc {
        let measured = allocator::wanted(word).and_then(|wanted| {
            let show = |done, total| {
                progress.show("stepping", done, total);
                true
            };
            let measured = measure(&request, &wanted.name, wanted.library.as_deref(), &show);
            progress.finish();
            measured.with_context(|| format!("{} was not measured", wanted.name.shown()))
        });
        match measured {
            Ok(allocator) => report.allocators.push(allocator),
            Err(error) => {
                all_measured = false;
                message::print(format_args!("{error:#}"));
            }
        }
    }
    if !report.allocators.is_empty() {
        arguments.print(&report)?;
    }
    Ok(if all_measured { FINE } else { BAD_INPUT })
}

/// The process to replay.
fn chosen(arguments: &Arguments, trace: &TraceReader) -> Result<RecordedProcess, Failure> {
    let path = &arguments.file;
    let refuse = |sentence: String| Failure::new(BAD_INPUT, anyhow!(sentence));
    let found = recorded_processes(trace).map_err(|error| trace::unreplayable(path, error))?;
    if found.counts_only {
        return Err(refuse(format!(
            "{} was recorded with --counts-only, which leaves out what is freed; record the program without it",
            path.shown()
        )));
    }
    if let Some(why) = &found.cut {
        message::print(format_args!(
            "note: the recording ends early ({why}); the operations before are replayed"
        ));
    }
    let many = found.processes.len();
    let process = match arguments.process {
        Some(wanted) => found.processes.into_iter().find(|it| it.pid == wanted),
        None => found.processes.into_iter().max_by_key(|it| it.events),
    };
    let process = process.ok_or_else(|| match arguments.process {
        Some(wanted) => refuse(format!("{} has no process {wanted}", path.shown())),
        None => refuse(format!("{} has no process", path.shown())),
    })?;
    if process.lost_events > 0 {
        message::print(format_args!(
            "note: {} events of the recording are lost; the replay lacks them",
            process.lost_events
        ));
    }
    if many > 1 && arguments.process.is_none() && !arguments.quiet {
        message::print(format_args!(
            "of {many} processes, {} ({}) has most operations; --process chooses another",
            process.pid,
            process.executable.shown()
        ));
    }
    Ok(process)
}

fn unusable(path: &Path, error: RecordingError) -> Failure {
    match error {
        RecordingError::Recording(error) => trace::unreplayable(path, error),
        RecordingError::Operations(error) => {
            let sentence = anyhow!("cannot replay {}: {error}", path.shown());
            Failure::new(BAD_INPUT, sentence)
        }
    }
}

impl Arguments {
    fn print(&self, report: &Report) -> Result<(), Failure> {
        let json = |out: &mut dyn io::Write| {
            to_json_writer(&mut *out, report)?;
            writeln!(out)
        };
        if let Some(path) = &self.output {
            export::create(path, [&self.file], json)?;
        }
        if self.quiet {
            return Ok(());
        }
        let width = style(Color::Never).width;
        match self.format {
            Format::Text => {
                standard_output::print_text(|out| text::write(report, self.top, width, out))
            }
            Format::Json => standard_output::print(json),
        }
    }
}
