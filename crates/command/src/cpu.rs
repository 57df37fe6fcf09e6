//! `allotrope cpu`: where the CPU time of a program goes inside its allocator. Starts the
//! program, or samples a running one, and prints; `cpu` of `allotrope-allocators` does the rest.

mod arguments;
mod calls;
mod output;
mod process;
mod score;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use allotrope_allocators::cpu::{OpenError, Operations, Options, Origin, Session, Target};
use anyhow::{Context, anyhow};
use clap::{Args, FromArgMatches};

use crate::exit_status::{BAD_INPUT, FINE, Failure, RECORD_FAILED, WithStatus};
use crate::message;
use crate::record::own_status;
use crate::record::program::Program;
use crate::record::program_state::{Change, take_change};
use crate::record::signals;
use crate::standard_output;

use calls::{count, operations_of};
use process::{catch, runs, used_ticks};

pub use arguments::Arguments;

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

/// Samples and prints.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    // Fails for wrong options, before the program runs.
    arguments
        .debug_files
        .locator(arguments.input.limits())
        .status(BAD_INPUT)?;
    arguments.check_outputs()?;
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
    if let (Some(what), None) = (arguments.format.of_programs(), &arguments.output) {
        return Err(Failure::new(
            BAD_INPUT,
            anyhow!(
                "the {what} of a program that is started needs a file of its own, since both output streams are the program's; give -o FILE"
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
