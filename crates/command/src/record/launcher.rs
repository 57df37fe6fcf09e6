//! The launcher: waits for the program and the collector, forwards signals to the program, prints
//! what was recorded, and returns the program's exit status.

use std::ffi::OsStr;
use std::io::{IsTerminal, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use allotrope_collector::protocol::{Done, FirstExit, FromLauncher, ImageFigures, ToLauncher};
use allotrope_reading::{FETCHING, NAMING, Recording, naming};
use allotrope_text::Shown;
use anyhow::{Context as _, anyhow};

use super::collector_process::{CollectorProcess, Messages};
use super::orphans;
use super::output_file::OutputFile;
use super::program_state::{self, Change};
use super::signals::{self, Job, Received};
use crate::exit_status::Failure;
use crate::message;
use crate::progress::Progress;

/// A signal that arrives within this time after the program's end may be the one
/// that ended the program.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Shows the figures of the running images at a time since the start of the first process,
/// in nanoseconds.
type ShowFigures = Box<dyn FnMut(u64, &[ImageFigures])>;
/// Gets the complete recording.
type ShowTrace = Box<dyn FnOnce(&Recording) -> Result<(), Failure>>;

/// The part of `allotrope stat` in a recording.
pub struct Stat {
    /// Interval of the live figures, in milliseconds.
    pub interval_ms: u64,
    /// Called after each interval.
    pub show: ShowFigures,
    /// Called at the end.
    pub finish: ShowTrace,
}

/// What the launcher reacts to: the input of its event loop.
pub enum RecordEvent {
    /// The program ended, stopped or was continued; it has not been waited for yet.
    ProgramChanged,
    Message(ToLauncher),
    CollectorGone(Option<anyhow::Error>),
    Signal(Received),
}

/// Most processes that are named while the recording waits for them.
const MAX_NAMED: usize = 8;

/// The state of a recording.
pub struct Launcher {
    pub(super) child: Child,
    pub(super) collector: CollectorProcess,
    pub(super) output: OutputFile,
    /// The program's exit status, once it has ended.
    pub(super) status: Option<ExitStatus>,
    /// The program was stopped when its state was last read.
    pub(super) stopped: bool,
    pub(super) job: Job,
    /// The collector's last message: its summary, or why it failed.
    pub(super) outcome: Option<Result<Done, anyhow::Error>>,
    /// When the end of the program was noticed.
    pub(super) ended: Option<Instant>,
    /// The processes that the recording waits for have been printed.
    pub(super) waiting: bool,
    /// They were more than [`MAX_NAMED`]: the line is not repeated whenever one
    /// of them ends.
    pub(super) waits_for_many: bool,
    /// The collector was asked to end the recording.
    pub(super) stopping: bool,
    pub(super) progress: Arc<Progress>,
    pub(super) options: LauncherOptions,
}

/// What the user wants of a recording.
pub struct LauncherOptions {
    /// Nothing is printed but errors.
    pub quiet: bool,
    /// The first screen takes the place of the summary.
    pub first_screen: bool,
    /// The recording waits for processes that outlive the program.
    pub waits: bool,
    /// The file for the names of those that did.
    pub left_behind_list: Option<PathBuf>,
    /// The figures of `allotrope stat`.
    pub stat: Option<Stat>,
}

impl Launcher {
    pub fn new(
        child: Child,
        collector: CollectorProcess,
        output: OutputFile,
        job: Job,
        options: LauncherOptions,
    ) -> Self {
        Self {
            child,
            collector,
            output,
            status: None,
            stopped: false,
            job,
            outcome: None,
            ended: None,
            waiting: false,
            waits_for_many: false,
            stopping: false,
            progress: Arc::new(Progress::new(options.quiet)),
            options,
        }
    }

    /// Gives the file its name, and prints that on a terminal.
    pub fn publish(&mut self, program: &OsStr) {
        orphans::reap(self.child.id(), self.collector.id());
        let named = self.output.publish(program, self.child.id());
        if let Err(error) = named {
            self.print_unless_quiet(&format!("{error:#}"));
        } else if std::io::stderr().is_terminal() && !self.output.is_temporary() {
            let path = self.output.path().shown();
            self.print_unless_quiet(&format!("recording into {path}"));
        }
    }

    /// Starts the threads that wait for the program and for the collector.
    pub fn start_threads(
        &mut self,
        sender: Sender<RecordEvent>,
        mut messages: Messages,
        changes_handled: Receiver<()>,
    ) -> anyhow::Result<()> {
        let pid = self.child.id();
        self.collector.send(&FromLauncher::FirstStarted { pid });
        let changed = sender.clone();
        let threads = || std::thread::Builder::new();
        threads().name("program".into()).spawn(move || {
            while program_state::wait_for_change(pid)
                && changed.send(RecordEvent::ProgramChanged).is_ok()
                && changes_handled.recv().is_ok()
            {}
        })?;
        threads().name("collector".into()).spawn(move || {
            loop {
                let event = match messages.read() {
                    Ok(Some(message)) => RecordEvent::Message(message),
                    Ok(None) => RecordEvent::CollectorGone(None),
                    Err(error) => RecordEvent::CollectorGone(Some(error)),
                };
                let last = matches!(event, RecordEvent::CollectorGone(_));
                if sender.send(event).is_err() || last {
                    return;
                }
            }
        })?;
        Ok(())
    }

    /// Runs until the program has ended and the trace is complete.
    pub fn handle_events(
        &mut self,
        events: &Receiver<RecordEvent>,
        changes_handled: &Sender<()>,
    ) -> anyhow::Result<()> {
        self.job.begin();
        while self.status.is_none() || self.outcome.is_none() {
            match events.recv().context("the launcher lost its threads")? {
                RecordEvent::ProgramChanged => {
                    self.program_changed()?;
                    let _ = changes_handled.send(());
                }
                RecordEvent::Message(message) => self.handle_message(message),
                RecordEvent::CollectorGone(error) => self.collector_gone(error),
                RecordEvent::Signal(signal) => self.signalled(signal)?,
            }
        }
        self.progress.finish();
        Ok(())
    }

    fn program_changed(&mut self) -> anyhow::Result<()> {
        if self.job.was_continued() {
            return self.continued();
        }
        match self.take_change() {
            None => {}
            Some(Change::Ended) => self.program_ended()?,
            Some(Change::Continued) => self.stopped = false,
            Some(Change::Stopped(signal)) => self.stop_with_program(signal),
        }
        Ok(())
    }

    fn take_change(&self) -> Option<Change> {
        match self.status {
            Some(_) => None,
            None => program_state::take_change(self.child.id()),
        }
    }

    /// Stops this process, so that the shell that started it sees one job stop. If
    /// another process continues only the program, the collector continues this process.
    fn stop_with_program(&mut self, signal: i32) {
        self.stopped = true;
        let launcher = std::process::id();
        self.collector
            .send(&FromLauncher::FirstStopped { launcher });
        // It may have been stopped with the program and continued just now.
        if !self.job.is_continued() {
            signals::stop_like(signal);
        }
        self.collector.send(&FromLauncher::LauncherContinued);
    }

    /// Somebody continued this process: the program must continue, too. Usually it has
    /// got the same signal, as part of the same process group.
    fn continued(&mut self) -> anyhow::Result<()> {
        match (self.take_change(), self.stopped) {
            // The program was continued, too, and has stopped again.
            (Some(Change::Stopped(signal)), true) => self.stop_with_program(signal),
            // The program was stopped from outside, together with this process.
            (Some(Change::Stopped(_)), false) | (None, true) => {
                self.stopped = true;
                signals::go_on(self.child.id());
            }
            (Some(Change::Continued), _) => self.stopped = false,
            (Some(Change::Ended), _) => self.program_ended()?,
            (None, false) => {}
        }
        Ok(())
    }

    fn program_ended(&mut self) -> anyhow::Result<()> {
        self.job.end();
        let status = self.child.wait().context("cannot wait for the program")?;
        self.status = Some(status);
        self.ended = Some(Instant::now());
        let exit = match status.signal() {
            Some(signal) => FirstExit::Signal(signal),
            None => FirstExit::Status(status.code().unwrap_or_default()),
        };
        self.collector.send(&FromLauncher::FirstEnded(exit));
        Ok(())
    }

    fn handle_message(&mut self, message: ToLauncher) {
        match message {
            ToLauncher::Ready { .. } => {}
            ToLauncher::Figures { ns, images } => {
                if let Some(stat) = &mut self.options.stat {
                    (stat.show)(ns, &images);
                }
            }
            ToLauncher::Waiting { .. } if !self.options.waits => {}
            ToLauncher::Waiting { pids } => self.waiting_for(&pids),
            ToLauncher::Symbolising { done, total, part } => {
                let (done, total) = (u64::from(done), u64::from(total));
                let within = part.map_or((0, 0), |part| (part.done, part.total));
                let (reached, all) = naming(done, total, within);
                let what = match part {
                    Some(part) if part.fetching => FETCHING,
                    _ => NAMING,
                };
                self.progress.show(what, reached, all);
            }
            ToLauncher::Done(done) => self.outcome = Some(Ok(done)),
            ToLauncher::Failed { message } => self.outcome = Some(Err(anyhow!(message))),
        }
    }

    fn waiting_for(&mut self, pids: &[u32]) {
        self.waiting = true;
        let count = pids.len();
        if count > MAX_NAMED && self.waits_for_many {
            return;
        }
        self.waits_for_many = count > MAX_NAMED;
        let named: Vec<_> = pids.iter().take(MAX_NAMED).map(u32::to_string).collect();
        let more = match count.saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        self.print_unless_quiet(&format!(
            "waiting for recorded processes {}{more} (Ctrl-C ends the recording, not them)",
            named.join(", ")
        ));
    }

    fn collector_gone(&mut self, error: Option<anyhow::Error>) {
        if self.outcome.is_none() {
            let error = error.unwrap_or_else(|| anyhow!("the collector process has ended early"));
            self.outcome = Some(Err(error));
        }
    }

    fn signalled(&mut self, signal: Received) -> anyhow::Result<()> {
        if signal.is_continuation() {
            return match self.status.is_none() && self.job.was_continued() {
                true => self.continued(),
                false => Ok(()),
            };
        }
        if self.status.is_none() {
            signals::pass_on(signal, self.child.id());
            return Ok(());
        }
        if !signal.is_request_to_end() {
            return Ok(());
        }
        // A Ctrl-C that ended the program is not meant for the recording. One that
        // follows the line "waiting for …" is, and so is a signal from a process.
        if !self.stopping && (self.waiting || signal.sender.is_some()) {
            self.stop(signal);
        } else if self.ended.is_some_and(|at| at.elapsed() > SAME_SIGNAL) {
            self.leave(signal);
        }
        Ok(())
    }

    fn stop(&mut self, signal: Received) {
        self.stopping = true;
        self.break_line(signal);
        self.print_unless_quiet("ending the recording; the processes continue");
        self.collector.send(&FromLauncher::Stop);
    }

    /// Ends this process before the functions have their names; the collector continues.
    fn leave(&self, signal: Received) -> ! {
        self.progress.finish();
        self.break_line(signal);
        if !self.output.is_temporary() {
            self.print_unless_quiet(&format!(
                "not waiting; {} is completed in the background",
                self.output.path().shown()
            ));
        }
        std::process::exit(128 + signal.signal);
    }

    /// Ends the line on which the terminal has printed `^C`.
    fn break_line(&self, signal: Received) {
        if signal.sender.is_none() && !self.options.quiet {
            let _ = writeln!(std::io::stderr());
        }
    }

    pub(super) fn print_unless_quiet(&self, text: &str) {
        if !self.options.quiet {
            message::print(text);
        }
    }
}
