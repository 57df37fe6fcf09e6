//! The command `allotrope`: records a program's heap allocations and shows
//! where they come from. This file dispatches to the subcommands and turns
//! their results into exit statuses. Each subcommand is a thin file of its own:
//! it parses its arguments, calls a library and prints.
// Not `forbid`: it would refuse the constructors of
// `signal_state` and `closed_streams`.
#![deny(unsafe_code)]

mod allocators;
mod bar;
mod bench;
mod cargo_tests;
mod client_header;
mod closed_streams;
mod collect;
mod command_line;
mod compare;
mod cpu;
mod debug_files;
mod diff;
mod doctor;
mod exec_program;
mod exit_status;
mod export;
mod filter;
mod findings;
mod glue;
mod help;
mod holder;
mod http;
mod imported;
mod input_limit;
mod limited_output;
mod limits;
mod mark;
mod memory;
mod message;
mod metric;
mod page;
mod pager;
mod paths;
mod per;
mod postmortem;
mod process_one;
mod program;
mod progress;
mod record;
mod recorder;
mod recorder_library;
mod recordings;
mod replacing;
mod replay;
mod report;
mod sampled;
mod shell_files;
mod show;
mod signal_state;
mod standard_output;
mod standby;
mod stat;
mod style;
mod suppressions;
mod symbolize;
mod tcp_owner;
mod test;
mod time;
mod to_write;
mod unfinished;
mod values;
mod view;
mod watch;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use allotrope_text::{Shown, without_commands};
use clap::Parser;
use clap::error::ErrorKind;

use command_line::{CommandLine, Subcommand};
use exit_status::{BAD_INPUT, FINE, Failure, RECORD_FAILED};

fn main() -> ExitCode {
    signal_state::survive_file_limit();
    let parsed = CommandLine::try_parse();
    let parsed = parsed.and_then(|it| match program::recording_to_open(&it) {
        Some(words) => CommandLine::try_parse_from(words),
        None => Ok(it),
    });
    let command_line = match parsed {
        Ok(command_line) => command_line,
        Err(error) => return usage(&error),
    };
    if let Some(status) = process_one::run(&command_line.subcommand) {
        return ExitCode::from(status);
    }
    if let Some(limit) = command_line.subcommand.input_limit() {
        memory::limit(limit.bytes());
    }
    if command_line.subcommand.removes_at_signals() {
        unfinished::remove_at_signals();
    }
    let outcome = match command_line.subcommand {
        Subcommand::Record(arguments) => record::run(arguments),
        Subcommand::Report(arguments) => report::run(&arguments),
        Subcommand::Show(arguments) => show::run(&arguments),
        Subcommand::View(arguments) => view::run(&arguments),
        Subcommand::Stat(arguments) => stat::run(&arguments),
        Subcommand::Standby(arguments) => standby::run(arguments),
        Subcommand::Recorder(arguments) => recorder::run(&arguments),
        Subcommand::Watch(arguments) => watch::run(&arguments),
        Subcommand::Postmortem(arguments) => postmortem::run(&arguments),
        Subcommand::Mark(arguments) => mark::run(&arguments),
        Subcommand::Diff(arguments) => diff::run(&arguments),
        Subcommand::Replay(arguments) => replay::run(&arguments),
        Subcommand::Allocators(arguments) => allocators::run(&arguments),
        Subcommand::Bench(arguments) => bench::run(&arguments),
        Subcommand::Export(arguments) => export::run(&arguments),
        Subcommand::Symbolize(arguments) => symbolize::run(&arguments),
        Subcommand::Compare(arguments) => compare::run(&arguments),
        Subcommand::Cpu(arguments) => cpu::run(&arguments),
        Subcommand::Paths(arguments) => paths::run(&arguments),
        Subcommand::Test(arguments) => test::run(&arguments),
        Subcommand::Doctor(arguments) => doctor::run(&arguments),
        Subcommand::ClientHeader(arguments) => client_header::run(&arguments),
        Subcommand::Completions(arguments) => shell_files::completions(&arguments),
        Subcommand::Man(arguments) => shell_files::man(&arguments),
        Subcommand::Collect => collect::run(),
        Subcommand::Exec(arguments) => exec_program::run(&arguments),
        Subcommand::Hold(arguments) => holder::run(&arguments),
        Subcommand::Program(command) => program::run(command),
    };
    match outcome {
        Ok(status) => ExitCode::from(status),
        Err(Failure { status, error }) => {
            message::print_lines(message::sentence(&error));
            ExitCode::from(status)
        }
    }
}

/// Prints the help, the version or the error of a command line that does not
/// parse; returns the exit status.
fn usage(error: &clap::Error) -> ExitCode {
    // The message repeats arguments, and an argument may be a hostile file name
    // that a shell expanded from `*`: the escaped arguments are parsed again.
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let shown: Vec<OsString> = arguments
        .iter()
        .map(|argument| without_commands(&argument.shown()).into_owned().into())
        .collect();
    let words = arguments.get(1..).unwrap_or_default();
    if words.is_empty() {
        // A terminal that has gone is no reason to panic.
        let _ = std::io::stderr().write_all(help::EXAMPLES.as_bytes());
        return ExitCode::from(BAD_INPUT);
    }
    let is_help = error.kind() == ErrorKind::DisplayHelp || words == ["help", "--all"];
    if is_help && help::print(words) {
        return ExitCode::from(FINE);
    }
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(sentence) = help::misplaced_options(words)
    {
        message::print(sentence);
        return ExitCode::from(BAD_INPUT);
    }
    if let [record] = words
        && record == "record"
    {
        message::print(
            "no program is named; type it after record: allotrope record PROGRAM [ARGS]... (a running process is watched, not recorded: allotrope watch PID)",
        );
        return ExitCode::from(RECORD_FAILED);
    }
    let escaped = CommandLine::try_parse_from(&shown);
    let _ = match &escaped {
        Err(error) if shown != arguments => error.print(),
        _ => error.print(),
    };
    if !error.use_stderr() {
        return ExitCode::from(FINE);
    }
    // A status of `record` below 125 is the program's own.
    let command = std::env::args_os().nth(1);
    let is_record = command.is_some_and(|it| it == *"record" || it == *"stat" || it == *"standby");
    ExitCode::from(if is_record { RECORD_FAILED } else { BAD_INPUT })
}
