//! `allotrope replay`: repeats a recorded program's calls to its allocator with other
//! allocators, and compares time and memory. `replay` of `allotrope-allocators` does the work.

mod candidates;
mod environment;
mod recorded;

use std::path::PathBuf;
use std::time::Duration;

use allotrope_allocators::replay::allocators::Allocator;
use allotrope_allocators::replay::report::{Facts, Report, text};
use allotrope_allocators::replay::{
    Calibration, LiveCurve, POINTS, Plan, RecordedOperations, Replayer, Touch, calibrate, measure,
    this_processor,
};
use allotrope_profile::operations::RecordedProcess;
use allotrope_text::{Style, text_of_os, text_of_path, to_json_writer};
use anyhow::Context;

use crate::exit_status::{FAILED, Failure, WithStatus};
use crate::input_limit::InputLimit;
use crate::message;
use crate::progress::Progress;
use crate::recorder_library;
use crate::standard_output;
use crate::style::{Color, style};
use crate::values;

pub use candidates::Candidates;
pub use environment::{EnvironmentArguments, variable};
pub use recorded::{ProcessArguments, named_allocator, read, recorded_allocator};

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
allotrope record -o prog.allotrope -- ./prog
allotrope replay prog.allotrope --alloc glibc,jemalloc,mine=./libmine.so

An allocator is glibc, jemalloc, tcmalloc or mimalloc (found in the system's library
folders), the path of a shared library, or NAME=PATH; a path has no comma. Each one is
preloaded into a small program that repeats the recorded calls of malloc, calloc, …; the
C++ operators are replayed as the C functions that they call. One thread is replayed
exactly; several run one at a time in the recorded order. The environment is the recorded
program's without values (names: record --environment-names); addresses are not randomised.

Exit status: 0 if all allocators were measured, 1 if allotrope failed, 2 if the
recording or an allocator cannot be used (the others are measured all the same).";

/// Arguments of `allotrope replay`.
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
    #[command(flatten)]
    process: ProcessArguments,
    /// How much of each block the replay writes
    ///
    /// `calibrated`: as much as makes the memory grow as the recorded program's did.
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    touch: TouchPolicy,
    /// How often each allocator is measured
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = values::whole::<u32>(1..=1000))]
    runs: u32,
    /// The allocator with which the program was recorded
    ///
    /// For `--touch calibrated` and for whether switching is worth it [default: the one that the
    /// recording shows, or glibc]
    #[arg(long, hide_short_help = true, value_name = "ALLOCATOR")]
    recorded_with: Option<String>,
    #[command(flatten)]
    environment: EnvironmentArguments,
    /// The format to print
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    limit: Limit,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    pub input: InputLimit,
}

/// How much of each block is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum TouchPolicy {
    /// Nothing
    None,
    /// The first byte
    First,
    /// A byte in each page
    #[default]
    All,
    /// A byte in each page of a part of each block that is found by trying
    Calibrated,
}

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// A table for people
    #[default]
    Text,
    /// An object for programs
    Json,
}

/// How long a process may take.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Limit {
    /// Refuse an allocator of which one process takes longer
    ///
    /// Where operations are stepped (paths, allocators), from one of them to the next.
    #[arg(long, hide_short_help = true, value_name = "SECONDS", default_value_t = 600,
          value_parser = values::whole::<u64>(1..=604_800))]
    timeout: u64,
}

/// The replayer's program.
pub fn replayer(limit: Limit) -> Result<Replayer, Failure> {
    let program = recorder_library::provide_replayer().status(FAILED)?;
    Ok(Replayer::new(program).with_limit(Duration::from_secs(limit.timeout)))
}

/// Replays and prints.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let path = &arguments.file;
    let mut candidates = Candidates::of(&arguments.alloc)?;
    let named = named_allocator(arguments.recorded_with.as_ref())?;
    let progress = Progress::new(arguments.quiet);
    let (process, recorded) = read(path, arguments.process, &progress)?;
    let replayer = replayer(arguments.limit)?;
    let cannot = "cannot read the operations again";
    let live = LiveCurve::of(&recorded.operations, POINTS)
        .context(cannot)
        .status(FAILED)?;
    let (recorded_with, is_known) = recorded_allocator(named, &process);
    let environment = arguments.environment.of_recording(&process);
    let mut plan = Plan {
        operations: &recorded.operations,
        replayer: &replayer,
        runs: arguments.runs,
        touch: Touch::ALL,
        processor: this_processor(),
        environment: &environment,
    };
    let mut calibration = None;
    match arguments.touch {
        TouchPolicy::None => plan.touch = Touch::None,
        TouchPolicy::First => plan.touch = Touch::First,
        TouchPolicy::All => {}
        TouchPolicy::Calibrated => {
            calibration = calibrated(&plan, &recorded, &recorded_with, is_known, &progress)?;
            if let Some(found) = &calibration {
                plan.touch = found.touch;
            }
        }
    }
    let show = |step: allotrope_allocators::replay::Step<'_>| {
        progress.show("replaying", step.done, step.total);
    };
    let measured = measure(&plan, candidates.take(), &show);
    progress.finish();
    let measured = measured
        .context("cannot start the replayer")
        .status(FAILED)?;
    let facts = Facts {
        calibration: calibration.as_ref(),
        ..facts(
            &process,
            &recorded,
            &live,
            (&recorded_with, is_known),
            &plan,
        )
    };
    let report = Report::new(&facts, &measured);
    match arguments.format {
        Format::Text => standard_output::print_document(&text::document(&report), text_style())?,
        Format::Json => print_json(&report)?,
    }
    let refused = measured
        .iter()
        .filter_map(|it| Some((&it.allocator.name, it.refusal.as_ref()?)));
    Ok(candidates.refuse(refused))
}

/// Widest text about a replay.
const MAX_WIDTH: usize = 80;

/// The width of the texts about replays and benchmarks. Their tables are narrow.
pub fn text_style() -> Style {
    Style::plain(style(Color::Never).width.min(MAX_WIDTH))
}

/// What a report says of the recording and the plan, without a calibration.
pub fn facts<'a>(
    process: &RecordedProcess,
    recorded: &'a RecordedOperations,
    live: &'a LiveCurve,
    (recorded_with, is_known): (&'a Allocator, bool),
    plan: &Plan<'a>,
) -> Facts<'a> {
    let command = process.command.iter();
    Facts {
        pid: process.pid,
        executable: text_of_path(&process.executable).into_owned(),
        command: command.map(|it| text_of_os(it).into_owned()).collect(),
        wall_ns: own_time_ns(process, recorded),
        operations: &recorded.operations,
        dropped: recorded.dropped,
        lost_events: process.lost_events,
        live,
        recorded_with,
        recorded_with_is_known: is_known,
        touch: plan.touch,
        calibration: None,
        runs: plan.runs,
        environment: plan.environment.row(),
    }
}

/// Prints an object for programs.
pub fn print_json(report: &impl serde::Serialize) -> Result<(), Failure> {
    standard_output::print(|out| {
        to_json_writer(&mut *out, report)?;
        writeln!(out)
    })
}

/// How long the process ran, without its waiting for the recording if that is known: of
/// several threads, the others may have gone on.
fn own_time_ns(process: &RecordedProcess, recorded: &RecordedOperations) -> u64 {
    match recorded.operations.threads() {
        1 => process.duration_ns.saturating_sub(process.waited_ns),
        _ => process.duration_ns,
    }
}

/// Calibrates; says so if that is not possible.
fn calibrated(
    plan: &Plan<'_>,
    recorded: &RecordedOperations,
    with: &Allocator,
    is_known: bool,
    progress: &Progress,
) -> Result<Option<Calibration>, Failure> {
    let show = |done, total| progress.show("calibrating", done, total);
    let found = calibrate(plan, with, &recorded.resident, &show)
        .context("cannot start the replayer")
        .status(FAILED)?;
    progress.finish();
    if !is_known {
        message::print(
            "note: the recording does not name the program's allocator; calibrating with glibc (--recorded-with names another)",
        );
    }
    match found {
        Ok(calibration) if !calibration.agrees() => {
            message::print(match calibration.touches_all_but_grows_less() {
                true => {
                    "warning: even if all of each block is written, the memory grows by less than it did in the program: the rest is no memory of the heap (stacks, mapped files)"
                }
                false => {
                    "warning: no share of each block makes the memory grow as it did in the program; the nearest one is used"
                }
            });
            Ok(Some(calibration))
        }
        Ok(calibration) => Ok(Some(calibration)),
        Err(why) => {
            message::print(format_args!(
                "warning: cannot calibrate: {why}; a byte in each page is written"
            ));
            Ok(None)
        }
    }
}
