//! `watch -- PROGRAM`: the program that the watcher has started, and the processes that it starts.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use allotrope_sampling::Period;
use allotrope_shm::location::Request;
use allotrope_text::Shown;
use allotrope_watch::snapshot::parent_of;
use anyhow::Context;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, wait};
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::isatty;

use crate::exit_status::{Failure, RECORD_FAILED, WithStatus, stopped_by};
use crate::message;
use crate::standby::Prepared;

/// How long a process may take until it has its memory.
pub const START: Duration = Duration::from_secs(10);
/// Largest number of generations between a process and the watcher.
const GENERATIONS: usize = 256;

/// A program that this process has started.
#[derive(Debug)]
pub struct Started {
    /// Process id.
    pub process: u32,
    status: Option<u8>,
    /// The signal that has ended it.
    signal: Option<i32>,
    /// When its end was noticed.
    ended: Option<Instant>,
    /// Whether processes that it has started run on.
    has_left_others: bool,
}

impl Started {
    /// Starts the program, which samples at this period from the start. If the terminal is
    /// needed for the live view, what the program would write there goes to a file.
    pub fn new(prepared: &Prepared, period: Period, needs_terminal: bool) -> Result<Self, Failure> {
        // Processes whose parents have ended become our children, so that every process that
        // the program starts, daemons too, can be told from others.
        set_child_subreaper(Some(rustix::process::getpid()))
            .context("cannot follow the program's processes")
            .status(RECORD_FAILED)?;
        let redirected = match needs_terminal {
            true => Redirected::new()?,
            false => Redirected::default(),
        };
        let child = prepared
            .start(Request::Watch(period.bytes()), |command| {
                redirected.apply(command);
            })
            .inspect_err(|_| redirected.remove())?;
        let process = child.id();
        if let Some(path) = redirected.name(prepared.name(), process) {
            message::print(format_args!(
                "the program's output goes to {}",
                path.shown()
            ));
        }
        Ok(Self {
            process,
            status: None,
            signal: None,
            ended: None,
            has_left_others: false,
        })
    }

    /// Takes the statuses of children that have ended.
    pub fn reap(&mut self) {
        // Children that have lost their parents are among them.
        let mut next = wait(WaitOptions::NOHANG);
        while let Ok(Some((process, status))) = next {
            next = wait(WaitOptions::NOHANG);
            if u32::try_from(process.as_raw_nonzero().get()) != Ok(self.process) {
                continue;
            }
            let exit = status.exit_status().and_then(|it| u8::try_from(it).ok());
            self.signal = status.terminating_signal();
            self.status = match self.signal {
                Some(signal) => Some(stopped_by(signal)),
                None => Some(exit.unwrap_or(RECORD_FAILED)),
            };
            self.ended = Some(Instant::now());
        }
        // Without children it is an error.
        self.has_left_others = self.status.is_some() && next.is_ok();
    }

    /// The program's exit status, or 128+N if signal N has ended it; `None`: it runs.
    pub fn status(&self) -> Option<u8> {
        self.status
    }

    /// The signal that has ended the program.
    pub fn signal(&self) -> Option<i32> {
        self.signal
    }

    /// Whether the program has ended a short time ago and processes that it has started run on,
    /// which may not have their memories yet.
    pub fn may_have_left_others(&self) -> bool {
        self.has_left_others && self.ended.is_some_and(|it| it.elapsed() < START)
    }

    /// Sends the program a signal.
    pub fn send(&self, signal: i32) {
        let process = i32::try_from(self.process).ok().and_then(Pid::from_raw);
        // It was not waited for, so that the id is still its own.
        if let (Some(process), Some(signal), None) =
            (process, Signal::from_named_raw(signal), self.status)
        {
            let _ = kill_process(process, signal);
        }
    }

    /// Whether a process is the program or was started by it.
    pub fn includes(&self, process: u32) -> bool {
        let own = std::process::id();
        let mut process = process;
        for _ in 0..GENERATIONS {
            match parent_of(process) {
                Some(it) if it == own => return true,
                Some(it) if it > 1 => process = it,
                _ => return false,
            }
        }
        false
    }
}

/// The standard streams that the program does not share with the live view.
#[derive(Debug, Default)]
struct Redirected {
    reads_nothing: bool,
    file: Option<(PathBuf, File)>,
    output: bool,
    errors: bool,
}

impl Redirected {
    fn new() -> Result<Self, Failure> {
        let (output, errors) = (isatty(stdout()), isatty(stderr()));
        let path = PathBuf::from(format!(".allotrope-{}.output", std::process::id()));
        let create = || -> io::Result<File> {
            let mut options = File::options();
            options.append(true).create_new(true).mode(0o600);
            options.open(&path)
        };
        let file = match output || errors {
            true => {
                let file = create()
                    .context("cannot write the program's output into this folder; redirect it, or add --headless")
                    .status(RECORD_FAILED)?;
                Some((path, file))
            }
            false => None,
        };
        Ok(Self {
            reads_nothing: isatty(stdin()),
            file,
            output,
            errors,
        })
    }

    fn apply(&self, command: &mut Command) {
        if self.reads_nothing {
            command.stdin(Stdio::null());
        }
        let file = || -> Stdio {
            let file = self.file.as_ref().and_then(|it| it.1.try_clone().ok());
            file.map_or_else(Stdio::null, Stdio::from)
        };
        if self.output {
            command.stdout(file());
        }
        if self.errors {
            command.stderr(file());
        }
    }

    fn remove(&self) {
        if let Some((path, _)) = &self.file {
            let _ = fs::remove_file(path);
        }
    }

    /// Gives the file its name. Returns it.
    fn name(self, program: &std::ffi::OsStr, process: u32) -> Option<PathBuf> {
        let (path, _) = self.file?;
        let mut name = program.to_owned();
        name.push(format!(".{process}.output"));
        let wanted = PathBuf::from(name);
        // Nothing is replaced.
        match renameat_with(CWD, &path, CWD, &wanted, RenameFlags::NOREPLACE) {
            Ok(()) => Some(wanted),
            Err(_) => Some(path),
        }
    }
}
