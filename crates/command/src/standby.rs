//! `allotrope standby`: starts a program that can be watched later. This process becomes the program.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use allotrope_shm::layout::ENVIRONMENT_VARIABLE;
use allotrope_shm::location::Request;

use crate::exit_status::{Failure, RECORD_FAILED, WithStatus};
use crate::holder;
use crate::limits;
use crate::message;
use crate::record::program::Program;
use crate::recorder_library;
use crate::values::period_or_off;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
The program has the id of this process, and every process that it starts is prepared, too. A
call of malloc costs about a nanosecond more. One of 32 MiB is sampled from the first allocation.
Then, from another terminal:
  allotrope watch PID      sample more densely and report what is live
A holder, a process apart from the program, keeps the state of a process that is killed or
crashes; for a day,
  allotrope postmortem PID reports what was live

Exit status: that of the program; 125 if allotrope failed (with --or-plain the program runs then, but
cannot be watched); 126 if the program cannot be executed;
127 if it was not found.";

/// Arguments of `allotrope standby`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Sample one of SIZE bytes on average from the start, also while it is watched; off: not before
    ///
    /// [default: 32MiB, and 512KiB while it is watched]. What is allocated while sampling is off is in
    /// no figure of a later watcher.
    #[arg(long, value_name = "SIZE|off", value_parser = period_or_off)]
    period: Option<Request>,
    /// Do not start the holder that keeps the state of a process that is killed
    #[arg(long)]
    no_holder: bool,
    /// Start the program also if it cannot be watched, with a warning
    #[arg(long)]
    or_plain: bool,
    /// Print nothing when all is well
    #[arg(short, long)]
    quiet: bool,
    /// Use this recorder library in place of the one that is built in
    #[arg(long, value_name = "FILE", hide = true)]
    recorder: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Becomes the program.
pub fn run(arguments: Arguments) -> Result<u8, Failure> {
    let command = arguments.or_plain.then(|| arguments.command.clone());
    let prepared = match Prepared::new(arguments.command, arguments.recorder.as_deref()) {
        Ok(prepared) => prepared,
        // What does not start without Allotrope does not start at all.
        Err(failure) if failure.status == RECORD_FAILED => match command {
            Some(command) => return run_plain(command, &failure),
            None => return Err(failure),
        },
        Err(failure) => return Err(failure),
    };
    // It would have nothing to keep where a limit prevents the memory.
    if !arguments.no_holder && prepared.is_watchable {
        start_holder(arguments.quiet);
    }
    prepared.replace_this_process(arguments.period.unwrap_or(Request::Standby))
}

/// A program that can be watched once it is started.
pub struct Prepared {
    program: Program,
    preload: OsString,
    /// No limit prevents that it gets its memory.
    is_watchable: bool,
}

impl Prepared {
    /// Finds the program and the recorder.
    pub fn new(command: Vec<OsString>, recorder: Option<&Path>) -> Result<Self, Failure> {
        let program = Program::find_to_watch(command)?;
        if let Some(caveat) = program.caveat() {
            message::print(format_args!("warning: {caveat}"));
        }
        let limit = limits::against_watching();
        if let Some(limit) = &limit {
            message::print(format_args!(
                "warning: {limit}, so the process cannot be watched"
            ));
        }
        let recorder = recorder_library::provide(recorder).status(RECORD_FAILED)?;
        let users = std::env::var_os("LD_PRELOAD");
        let cxx_hooks = match program.allocator_defines_operators(users.as_deref()) {
            true => Some(recorder_library::provide_cxx_hooks().status(RECORD_FAILED)?),
            false => None,
        };
        let preload =
            recorder_library::preload_list(&recorder, cxx_hooks.as_deref(), users.as_deref());
        Ok(Self {
            program,
            preload,
            is_watchable: limit.is_none(),
        })
    }

    /// The program's name without its folders.
    pub fn name(&self) -> &OsStr {
        self.program.name()
    }

    /// Starts it as a child that is sampled as `request` says. `redirect` may give it other standard
    /// streams.
    pub fn start(
        &self,
        request: Request,
        redirect: impl FnOnce(&mut Command),
    ) -> Result<Child, Failure> {
        self.program
            .start_with(&self.environment(request), redirect)
    }

    fn replace_this_process(&self, request: Request) -> Result<u8, Failure> {
        match self
            .program
            .replace_this_process(&self.environment(request))? {}
    }

    fn environment(&self, request: Request) -> [(&'static str, OsString); 2] {
        [
            ("LD_PRELOAD", self.preload.clone()),
            (ENVIRONMENT_VARIABLE, request.to_string().into()),
        ]
    }
}

/// Becomes the program as it would be without Allotrope.
fn run_plain(command: Vec<OsString>, failure: &Failure) -> Result<u8, Failure> {
    let program = Program::find_to_sample(command)?;
    let why = message::sentence(&failure.error);
    message::print(format_args!("warning: {why}. It runs without Allotrope"));
    match program.replace_this_process(&[])? {}
}

/// Without a holder the program runs all the same.
fn start_holder(is_quiet: bool) {
    match holder::start() {
        Ok(true) if is_quiet => {}
        Ok(true) => message::print(format_args!(
            "if process {} is killed or crashes, `allotrope postmortem {}` reports what was live",
            std::process::id(),
            std::process::id(),
        )),
        Ok(false) => message::print(
            "warning: the first process of a container can have no holder: if the program is killed, its state is lost unless a watcher runs",
        ),
        Err(error) => message::print(format_args!(
            "warning: {error:#}: if the program is killed, its state is lost unless a watcher runs"
        )),
    }
}
