//! `allotrope record`: runs a program with the recorder preloaded; the result is a
//! trace file. This process is the *launcher*: the program's parent, in its process
//! group; it forwards signals to the program and returns its exit status. The
//! collector, a process of its own, writes the trace, so that a killed launcher
//! does not end the recording.

mod collector_process;
mod orphans;
pub mod output_file;
pub mod program;
pub mod program_state;
pub mod signals;
mod summary;

use std::ffi::OsString;
use std::io::{IsTerminal, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use allotrope_text::{Shown, quoted};

use allotrope_collector::protocol::{
    self, Done, FirstExit, FromLauncher, ImageFigures, OnFull, Start, ToLauncher, WhenLeftBehind,
};
use allotrope_shm::layout::ENVIRONMENT_VARIABLE;
use allotrope_trace::TraceReader;
use anyhow::{Context as _, anyhow};

use crate::debug_files::DebugFiles;
use crate::exit_status::{Failure, RECORD_FAILED, WithStatus};
use crate::message;
use crate::progress::{self, Progress};
use crate::recorder_library;
use crate::report;
use crate::signal_state;
use collector_process::{CollectorProcess, Messages};
use output_file::OutputFile;
use program::Program;
use program_state::Change;
use signals::{Job, Received};

pub use collector_process::NAME as COLLECTOR_NAME;
pub use program::search;

/// Shown at the end of the subcommand's help.
pub const AFTER_HELP: &str = "\
The program runs as it does without allotrope: its input, output, signals and exit
status are its own. Its children are recorded, too. The recording ends when the last
recorded process has ended. The trace starts under a hidden name in its folder and is
renamed as soon as the program has started; until it is complete only its owner can
read it. Even if all processes are killed, it can be read up to where it ends.

Exit status: the program's own; 128+N if signal N ended it; 125 if the recording
failed or the program cannot be recorded; 126 if it cannot be executed; 127 if it
was not found.";

/// A signal that arrives within this time after the program's end may be the one
/// that ended the program.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Arguments of `allotrope record`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "allotrope record [OPTIONS] [--] PROGRAM [ARGS]...")]
pub struct Arguments {
    /// Write the trace to FILE [default: PROGRAM.PID.allotrope]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace FILE even if it is no trace
    #[arg(long)]
    pub force: bool,
    /// Record neither child processes nor what the program execs
    #[arg(long)]
    pub no_follow: bool,
    /// What the program does when it allocates faster than the trace is written:
    /// wait, or go on and lose events (they are counted)
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub on_full: WhenFull,
    /// Only count calls and bytes, by thread and entry point, at a fraction of the cost:
    /// no call stacks, and no temporary, leaked or peak numbers
    #[arg(long)]
    pub counts_only: bool,
    /// Record the stack of each deallocation, too: then `report --site` and `show` also
    /// say where blocks are freed. It makes each deallocation as costly as an allocation
    #[arg(long)]
    pub free_stacks: bool,
    /// Refused: a running process cannot be recorded
    #[arg(short, long, value_name = "PID", hide = true, value_parser = refuse_running)]
    pub pid: Option<u32>,
    /// What becomes of recorded processes that run on after the program's end
    #[arg(long, value_enum, default_value_t, value_name = "WHAT", hide = true)]
    pub left_behind: LeftBehind,
    /// Write the names of these processes to FILE, one a line
    #[arg(long, value_name = "FILE", hide = true)]
    pub left_behind_list: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
    /// Cut call stacks at N frames
    #[arg(long, value_name = "N", default_value_t = 4096,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub depth: u32,
    /// Follow frame pointers where code has no unwind information, such as JIT code
    /// (Node, .NET, Java with -XX:+PreserveFramePointer). Such stacks can lack frames
    #[arg(long)]
    pub frame_pointers: bool,
    #[command(flatten)]
    pub debug_files: DebugFiles,
    /// Preload the recorder at PATH in place of the built-in one
    #[arg(long, value_name = "PATH")]
    pub recorder: Option<PathBuf>,
    /// Show the first screen of the report in place of the summary: `allotrope PROGRAM`
    #[arg(skip)]
    pub first_screen: bool,
    /// The program to record, and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, num_args = 1..)]
    pub command: Vec<OsString>,
}

/// Shows the figures of the running images at a time since the start of the first process,
/// in nanoseconds.
type ShowFigures = Box<dyn FnMut(u64, &[ImageFigures])>;
/// Gets the complete trace.
type ShowTrace = Box<dyn FnOnce(&TraceReader) -> Result<(), Failure>>;

/// The part of `allotrope stat` in a recording.
pub struct Stat {
    /// Interval of the live figures, in milliseconds.
    pub interval_ms: u64,
    /// Called after each interval.
    pub show: ShowFigures,
    /// Called at the end.
    pub finish: ShowTrace,
}

impl Arguments {
    /// Returns the arguments with which the first screen is shown at the end.
    pub fn with_first_screen(self) -> Self {
        Self {
            first_screen: true,
            ..self
        }
    }
}

#[cfg(test)]
impl Arguments {
    /// The program and its arguments.
    pub fn command(&self) -> &[OsString] {
        &self.command
    }
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub enum WhenFull {
    /// The program waits
    #[default]
    Block,
    /// Events are dropped and counted
    Drop,
}

/// What `allotrope test` wants to become of processes that outlive the program.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub enum LeftBehind {
    /// The recording waits for them
    #[default]
    Wait,
    /// They are ended: SIGTERM, and SIGKILL two seconds later
    End,
    /// The recording ends without them
    Leave,
}

/// What the launcher reacts to: the input of its event loop.
enum RecordEvent {
    /// The program ended, stopped or was continued; it has not been waited for yet.
    ProgramChanged,
    Message(ToLauncher),
    CollectorGone(Option<anyhow::Error>),
    Signal(Received),
}

/// Records the program and returns its exit status.
pub fn run(arguments: Arguments) -> Result<u8, Failure> {
    run_with(arguments, None)
}

/// Records the program, for `allotrope stat` or by itself.
pub fn run_with(arguments: Arguments, stat: Option<Stat>) -> Result<u8, Failure> {
    if arguments.counts_only && arguments.free_stacks {
        return Err(Failure::new(
            RECORD_FAILED,
            anyhow!(
                "`--counts-only` records no stacks, so it cannot be combined with `--free-stacks`: \
                 leave out one of the two"
            ),
        ));
    }
    let program = Program::find(arguments.command)?;
    if let Some(caveat) = program.caveat()
        && !arguments.quiet
    {
        message::print(format_args!("warning: {caveat}"));
    }
    let recorder =
        recorder_library::provide(arguments.recorder.as_deref()).status(RECORD_FAILED)?;
    let servers = arguments.debug_files.servers().status(RECORD_FAILED)?;
    let (debug_folders, sysroot) = arguments.debug_files.absolute().status(RECORD_FAILED)?;
    let output = match (&stat, &arguments.output) {
        (Some(_), None) => OutputFile::temporary(),
        (_, given) => OutputFile::create(given.as_deref(), arguments.force),
    };
    let output = output.status(RECORD_FAILED)?;
    let start = Start {
        on_full: match arguments.on_full {
            WhenFull::Block => OnFull::Block,
            WhenFull::Drop => OnFull::Drop,
        },
        follow: !arguments.no_follow,
        depth_limit: arguments.depth,
        frame_pointers: arguments.frame_pointers,
        debug_folders,
        sysroot,
        debuginfod_servers: servers,
        counts_only: arguments.counts_only,
        free_stacks: arguments.free_stacks,
        figures_ms: stat.as_ref().map_or(0, |stat| stat.interval_ms),
        symbolise: !output.is_temporary(),
        left_behind: match arguments.left_behind {
            LeftBehind::Wait => WhenLeftBehind::Wait,
            LeftBehind::End => WhenLeftBehind::End,
            LeftBehind::Leave => WhenLeftBehind::Leave,
        },
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        made: output.made().status(RECORD_FAILED)?,
        ..Start::new(output.partial(), program.command())
    };
    let (collector, messages) = CollectorProcess::start(start)
        .context("the recording could not be started")
        .status(RECORD_FAILED)?;
    let (sender, events) = channel();
    let unprotected = Arc::new(AtomicBool::new(false));
    let signals = sender.clone();
    let job = signals::catch(
        signal_state::ignored(),
        unprotected.clone(),
        move |signal| {
            let _ = signals.send(RecordEvent::Signal(signal));
        },
    )
    .context("cannot handle signals")
    .status(RECORD_FAILED)?;
    let users = std::env::var_os("LD_PRELOAD");
    let cxx_hooks = if program.allocator_defines_operators(users.as_deref()) {
        Some(recorder_library::provide_cxx_hooks().status(RECORD_FAILED)?)
    } else {
        None
    };
    let preload = recorder_library::preload_list(&recorder, cxx_hooks.as_deref(), users.as_deref());
    let child = program.start(&[
        ("LD_PRELOAD", preload),
        (ENVIRONMENT_VARIABLE, collector.arena().into()),
    ])?;
    let mut launcher = Launcher {
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
        progress: Progress::new(arguments.quiet),
        quiet: arguments.quiet,
        first_screen: arguments.first_screen,
        waits: matches!(arguments.left_behind, LeftBehind::Wait),
        left_behind_list: arguments.left_behind_list,
        stat,
    };
    orphans::reap(launcher.child.id(), launcher.collector.id());
    let named = launcher.output.publish(program.name(), launcher.child.id());
    if let Err(error) = named {
        launcher.print_unless_quiet(&format!("{error:#}"));
    } else if std::io::stderr().is_terminal() && !launcher.output.is_temporary() {
        let path = launcher.output.path().shown();
        launcher.print_unless_quiet(&format!("recording into {path}"));
    }
    let (handled, changes_handled) = channel();
    launcher
        .start_threads(sender, messages, changes_handled)
        .status(RECORD_FAILED)?;
    launcher
        .handle_events(&events, &handled)
        .status(RECORD_FAILED)?;
    // From here on this process only reads the trace: a signal may end it.
    unprotected.store(true, Ordering::Release);
    launcher.finish()
}

/// Largest number of processes that are named while the recording waits for them.
const MAX_NAMED: usize = 8;

/// The state of a recording.
struct Launcher {
    child: std::process::Child,
    collector: CollectorProcess,
    output: OutputFile,
    /// The program's exit status, once it has ended.
    status: Option<ExitStatus>,
    /// The program was stopped when its state was last read.
    stopped: bool,
    job: Job,
    /// The collector's last message: its summary, or why it failed.
    outcome: Option<Result<Done, anyhow::Error>>,
    /// When the end of the program was noticed.
    ended: Option<Instant>,
    /// The processes that the recording waits for have been printed.
    waiting: bool,
    /// They were more than [`MAX_NAMED`]: the line is not repeated whenever one
    /// of them ends.
    waits_for_many: bool,
    /// The collector was asked to end the recording.
    stopping: bool,
    progress: Progress,
    quiet: bool,
    first_screen: bool,
    /// The recording waits for processes that outlive the program.
    waits: bool,
    /// The file for the names of those that did.
    left_behind_list: Option<PathBuf>,
    stat: Option<Stat>,
}

impl Launcher {
    /// Starts the threads that wait for the program and for the collector.
    fn start_threads(
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
    fn handle_events(
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
                if let Some(stat) = &mut self.stat {
                    (stat.show)(ns, &images);
                }
            }
            ToLauncher::Waiting { .. } if !self.waits => {}
            ToLauncher::Waiting { pids } => self.waiting_for(&pids),
            ToLauncher::Symbolising { done, total, part } => {
                let (done, total) = (u64::from(done), u64::from(total));
                let within = part.map_or((0, 0), |part| (part.done, part.total));
                let (reached, all) = progress::naming(done, total, within);
                let what = match part {
                    Some(part) if part.fetching => progress::FETCHING,
                    _ => progress::NAMING,
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
        if signal.sender.is_none() && !self.quiet {
            let _ = writeln!(std::io::stderr());
        }
    }

    fn print_unless_quiet(&self, text: &str) {
        if !self.quiet {
            message::print(text);
        }
    }

    /// Names the processes that outlived the program, where the recording did not wait.
    fn report_left_behind(&self, processes: &[protocol::LeftBehind]) -> anyhow::Result<()> {
        let mut list = String::new();
        for process in processes {
            let name = process.executable.shown();
            let what = match process.signal {
                0 => "runs on after the program's end",
                _ => "ran on after the program's end, and was ended",
            };
            self.print_unless_quiet(&format!("process {} ({name}) {what}", process.pid));
            list += &format!("{} {name}\n", process.pid);
        }
        match &self.left_behind_list {
            Some(file) => {
                std::fs::write(file, list).with_context(|| format!("cannot write {}", file.shown()))
            }
            None => Ok(()),
        }
    }

    /// Prints what was recorded and returns the exit status.
    fn finish(mut self) -> Result<u8, Failure> {
        let status = self.status.map_or(RECORD_FAILED, own_status);
        let outcome = self.outcome.take();
        if let Some(Ok(done)) = &outcome {
            self.report_left_behind(&done.left_behind)
                .status(RECORD_FAILED)?;
        }
        self.collector.wait();
        orphans::stop();
        match outcome.unwrap_or_else(|| Err(anyhow!("the collector ended without a message"))) {
            Ok(done) if done.images == 0 => {
                self.output.remove();
                Err(Failure::new(
                    RECORD_FAILED,
                    summary::nothing_recorded(&done),
                ))
            }
            Ok(_) if self.first_screen => {
                self.progress.finish();
                // The recording itself succeeded: the status is the program's.
                if let Err(failure) = report::first_screen(self.output.path()) {
                    message::print(format_args!("{:#}", failure.error));
                }
                Ok(status)
            }
            Ok(done) => {
                if let Some(stat) = self.stat.take() {
                    (stat.finish)(&self.output.read()?)?;
                } else if !self.quiet {
                    let path = self.output.path();
                    summary::print(path, &done, &self.progress);
                }
                Ok(status)
            }
            Err(error) => {
                let path = self.output.path().to_owned();
                let bytes = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
                let remains = if bytes == 0 {
                    self.output.remove();
                    "nothing of it is left".to_owned()
                } else {
                    let (path, word) = (path.shown(), quoted(path.as_os_str()));
                    format!(
                        "what was recorded before is in {path}; `allotrope symbolize {word}` adds the names of its functions"
                    )
                };
                // The collector's message names the file by its hidden name.
                let partial = self.output.partial().shown().into_owned();
                let reason = format!("{error:#}").replace(&partial, &path.shown());
                Err(Failure::new(
                    RECORD_FAILED,
                    anyhow!("the recording failed ({remains}): {reason}"),
                ))
            }
        }
    }
}

/// The status that a shell would show.
pub fn own_status(status: ExitStatus) -> u8 {
    let number = match status.signal() {
        Some(signal) => 128 + signal,
        None => status.code().unwrap_or_default(),
    };
    u8::try_from(number & 0xff).unwrap_or(RECORD_FAILED)
}

/// The parser of `--pid`, which other profilers have.
fn refuse_running(_: &str) -> Result<u32, &'static str> {
    Err(
        "a running process cannot be recorded, because its earlier blocks would be unknown; \
         start it with `allotrope record PROGRAM`",
    )
}
