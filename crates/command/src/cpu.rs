//! `allotrope cpu`: where the CPU time of a program goes inside its allocator. Starts the
//! program, or samples a running one, and prints; `cpu` of `allotrope-allocators` does the rest.

mod calls;
mod process;
mod score;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use allotrope_allocators::cpu::{
    Chosen, OpenError, Operations, Options, Origin, OwnGroup, Pattern, Profile, Score, Session,
    Target, Wanted, report, text,
};
use allotrope_text::to_json_writer;
use anyhow::{Context, anyhow};
use clap::{Args, FromArgMatches};

use crate::debug_files::DebugFiles;
use crate::exit_status::{BAD_INPUT, FINE, Failure, RECORD_FAILED, WithStatus};
use crate::input_limit::InputLimit;
use crate::message;
use crate::record::own_status;
use crate::record::program::Program;
use crate::record::program_state::{Change, take_change};
use crate::record::signals;
use crate::replacing::{ForceArguments, Kind};
use crate::standard_output;
use crate::style::{Color, style};
use crate::to_write::ToWrite;

use calls::{count, instructions_of, operations_of};
use process::{catch, runs, used_ticks};

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
Samples the program with perf_event_open(2), and its threads and children, too; nothing is
preloaded. Where the machine offers no PMU (most virtual machines), the kernel's cpu-clock
takes the place of cycles; the report says so. A share of samples is a share of time, not a
frequency: `allotrope paths` counts instructions exactly.

The report of a program that was started goes to the standard error output, that of a running
process to the standard output, or to the file of --output, which JSON of a started program
needs. A number is a process; to start a
program whose name is one, write ./123.

Exit status of `cpu PROGRAM`: the program's own; 128+N if signal N ended it; 126 if it cannot
be executed; 127 if it was not found. Of both: 2 for bad usage, and if the kernel does not
allow sampling; 1 if allotrope failed. docs/allocators.md describes the JSON.";

/// A process that used so many ticks of CPU time should have a sample.
const MUCH_TICKS: u64 = 5;
/// How often the kernel's rings are read.
const PAUSE: Duration = Duration::from_millis(10);

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
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Samples per second of CPU time
    #[arg(long, value_name = "HZ", default_value_t = 997,
          value_parser = clap::value_parser!(u64).range(1..=20_000))]
    frequency: u64,
    /// Calls of the allocator in the run, to divide by
    #[arg(long, alias = "operations", value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..),
          conflicts_with_all = ["recording", "count"])]
    divide_by: Option<u64>,
    /// Take the number of calls from a recording of the same run
    ///
    /// That of `allotrope record`, with or without --counts-only.
    #[arg(long, value_name = "FILE", conflicts_with = "count")]
    recording: Option<PathBuf>,
    /// Check the counters by the instructions that `allotrope paths -o FILE` has counted
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    paths: Option<PathBuf>,
    /// Run the program twice more to count its calls
    ///
    /// Without input and output. Counts that differ are said.
    #[arg(long)]
    count: bool,
    /// Count these functions as the allocator's
    ///
    /// Names with * and ?, or file:NAME for all functions of a source file, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    allocator_functions: Vec<Pattern>,
    /// Sum up functions under a name
    ///
    /// PATTERN as of --allocator-functions. Environment, locks, system calls and string functions
    /// that the allocator calls are groups already.
    #[arg(long, value_name = "NAME=PATTERN")]
    group: Vec<OwnGroup>,
    /// Take the program's own figure from its output
    ///
    /// The number before this text, such as 'M ops/sec', in each line of its standard output that
    /// has it. The output is then a pipe and not a terminal for the program.
    #[arg(long, value_name = "UNIT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    score: Option<String>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Write the report to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArguments,
    #[command(flatten)]
    debug_files: DebugFiles,
    /// The program to run and its arguments, or the id of a running process
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, num_args = 1..)]
    command: Vec<OsString>,
    #[command(flatten)]
    input: InputLimit,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// The whole report: for an issue or a wiki
    Markdown,
    /// For programs
    Json,
}

/// Samples and prints.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    // Fails for wrong options, before the program runs.
    arguments
        .debug_files
        .locator(arguments.input.limits())
        .status(BAD_INPUT)?;
    if let Some(output) = arguments.output() {
        output.check(arguments.recording.as_ref())?;
    }
    arguments.exact_instructions()?;
    let (first, rest) = match &arguments.command[..] {
        [first, rest @ ..] => (first, rest),
        [] => return of_program(arguments),
    };
    match process(first) {
        None => of_program(arguments),
        Some(process) if rest.is_empty() => of_process(arguments, process),
        Some(process) => of_process(&options_behind(first, rest)?, process),
    }
}

fn process(word: &OsStr) -> Option<u32> {
    word.to_str()?.parse().ok()
}

/// Parses the command line again, with the process behind its options: words behind a program
/// would be its own, but a process has none.
fn options_behind(process: &OsStr, rest: &[OsString]) -> Result<Arguments, Failure> {
    // The words before the process.
    let mut words: Vec<OsString> = std::env::args_os().skip(2).collect();
    words.truncate(words.len().saturating_sub(rest.len() + 1));
    words.retain(|it| it != "--");
    words.extend_from_slice(rest);
    words.push(process.to_owned());
    let command = Arguments::augment_args(clap::Command::new("allotrope cpu").no_binary_name(true));
    let parsed = command.try_get_matches_from(words);
    let parsed = parsed.and_then(|it| Arguments::from_arg_matches(&it));
    let arguments = parsed
        .map_err(|error| anyhow!(error.to_string()))
        .status(BAD_INPUT)?;
    match &arguments.command[..] {
        [_] => Ok(arguments),
        _ => Err(Failure::new(
            BAD_INPUT,
            anyhow!("one process can be sampled at a time; give one id"),
        )),
    }
}

fn of_process(arguments: &Arguments, process: u32) -> Result<u8, Failure> {
    let option = [
        (arguments.count, "--count"),
        (arguments.recording.is_some(), "--recording"),
    ];
    if let Some((_, option)) = option.iter().find(|(is_given, _)| *is_given) {
        return Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "{option} counts the calls of a whole run, and a running process is sampled for a part of it; start the program with `allotrope cpu {option}`, or give --divide-by"
            ),
        ));
    }
    if arguments.score.is_some() {
        return Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "--score reads the output of a program that `allotrope cpu --score` starts; a running process writes its output elsewhere"
            ),
        ));
    }
    let (job, received) = catch()?;
    let origin = Origin::of_process(process);
    let before = used_ticks(process);
    let mut session = start(arguments, Target::Process(process))?;
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let stopped = || received.try_iter().any(|it| it.is_request_to_end());
    while Instant::now() < end && runs(process) && !stopped() {
        session.read(false);
        std::thread::sleep(PAUSE);
    }
    let used = used_ticks(process).saturating_sub(before);
    session.read(true);
    job.end();
    // Its threads may have ended, each after it had begun the next one, before they had events.
    if session.is_empty() && used > MUCH_TICKS {
        return Err(OpenError::ThreadsEnd(process)).status(BAD_INPUT);
    }
    let operations = arguments.given_operations();
    arguments.report(&session, operations, origin, Vec::new(), |write| {
        standard_output::print_text(write)
    })?;
    Ok(FINE)
}

fn of_program(arguments: &Arguments) -> Result<u8, Failure> {
    if arguments.format == Format::Json && arguments.output.is_none() {
        return Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "the JSON of a program that is started needs a file of its own, since both output streams are the program's; give -o FILE"
            ),
        ));
    }
    let program = Program::find_to_sample(arguments.command.clone())?;
    // Read first: the program may run for hours.
    let mut operations = arguments.given_operations();
    if let Some(path) = &arguments.recording {
        operations = Some(Operations {
            number: operations_of(path)?,
            source: Operations::RECORDING,
            again: None,
        });
    }
    let (job, received) = catch()?;
    // The kernel lets the children of this thread inherit the events.
    let mut session = start(arguments, Target::Children)?;
    let origin = Origin::of_program(&arguments.command);
    // The user's own libraries are a part of the program.
    let users = std::env::var_os("LD_PRELOAD").map(|it| ("LD_PRELOAD", it));
    let mut child = program.start_with(users.as_slice(), |command| {
        if arguments.score.is_some() {
            command.stdout(Stdio::piped());
        }
    })?;
    let output = child.stdout.take().zip(arguments.score.clone());
    let scores = output.map(|(from, unit)| score::pass_on(from, unit));
    job.begin();
    loop {
        session.read(false);
        for signal in received.try_iter() {
            if !signal.is_continuation() {
                signals::pass_on(signal, child.id());
            }
        }
        match take_change(child.id()) {
            Some(Change::Ended) => break,
            Some(Change::Stopped(signal)) => {
                signals::stop_like(signal);
                signals::go_on(child.id());
            }
            _ => std::thread::sleep(PAUSE),
        }
    }
    let status = child
        .wait()
        .context("cannot wait for the program")
        .status(RECORD_FAILED)?;
    session.read(true);
    // A child of the program may still have its output.
    let scores = scores.filter(score::ended).and_then(|it| it.join().ok());
    let scores = scores.unwrap_or_default();
    if let (true, Some(unit)) = (scores.is_empty(), &arguments.score) {
        message::print(format_args!(
            "warning: no line of the program's output has a number before {unit:?}"
        ));
    }
    if arguments.count {
        let counted = match status.signal() {
            Some(signal) => Err(anyhow!("signal {signal} ended the program")),
            None => count(&arguments.command, &received),
        };
        operations = match counted {
            Ok([number, again]) => Some(Operations {
                number,
                source: Operations::SECOND_RUN,
                again: Some(again),
            }),
            Err(error) => {
                message::print(format_args!("warning: cannot count the calls: {error:#}"));
                None
            }
        };
    }
    job.end();
    arguments.report(&session, operations, origin, scores, |write| {
        // Nobody may read it.
        let _ = write(&mut io::stderr().lock());
        Ok(())
    })?;
    Ok(own_status(status))
}

fn start(arguments: &Arguments, target: Target) -> Result<Session, Failure> {
    let options = Options {
        target,
        frequency: arguments.frequency,
    };
    Session::new(&options).status(BAD_INPUT)
}

/// Writes a report to an output.
type Write<'a> = Box<dyn FnOnce(&mut dyn io::Write) -> io::Result<()> + 'a>;

impl Arguments {
    fn given_operations(&self) -> Option<Operations> {
        self.divide_by.map(|number| Operations {
            number,
            source: Operations::GIVEN,
            again: None,
        })
    }

    fn exact_instructions(&self) -> Result<Option<f64>, Failure> {
        self.paths.as_deref().map(instructions_of).transpose()
    }

    /// The file to write.
    fn output(&self) -> Option<ToWrite<'_>> {
        let kind = Kind {
            what: "earlier report of `allotrope cpu`",
            is_own: &allotrope_allocators::cpu::is_report,
        };
        let path = self.output.as_deref()?;
        let force = self.force;
        Some(ToWrite { path, kind, force })
    }

    fn report(
        &self,
        session: &Session,
        operations: Option<Operations>,
        origin: Origin,
        scores: Vec<Score>,
        print: impl FnOnce(Write<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let locator = self
            .debug_files
            .locator(self.input.limits())
            .status(BAD_INPUT)?;
        let chosen = Chosen::new(self.allocator_functions.clone());
        let wanted = Wanted {
            operations,
            exact_instructions: self.exact_instructions()?,
            chosen: &chosen,
            groups: &self.group,
            origin,
            scores,
        };
        let profile = Profile::new(session, &locator, wanted);
        for pattern in chosen.unmatched() {
            message::print(format_args!(
                "warning: --allocator-functions {pattern}: no sample is in such a function"
            ));
        }
        let write: Write<'_> = Box::new(|out: &mut dyn io::Write| match self.format {
            Format::Text => text::document(&profile, self.top).write_text(style(Color::Never), out),
            Format::Markdown => report::document(&profile, self.top).write_markdown(out),
            Format::Json => {
                to_json_writer(&mut *out, &profile)?;
                writeln!(out)
            }
        });
        match self.output() {
            Some(output) => output.create(self.recording.as_ref(), write),
            None => print(write),
        }
    }
}
