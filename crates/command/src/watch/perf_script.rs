//! `watch --perf-script`: reports from what perf prints. A thread reads; signals and the time between two
//! reports are the main thread's.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use allotrope_files::open_regular;
use allotrope_formats::{Exceeded, Excess, Limits};
use allotrope_sampling::Period;
use allotrope_text::Shown;
use allotrope_watch::blocks::Which;
use allotrope_watch::perf_events::read_lines;
use allotrope_watch::perf_report::Moment;
use allotrope_watch::perf_stream::{self, Bounds, PerfStream};
use anyhow::{Context, anyhow};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::Arguments;
use super::output::{Format, Output};
use super::session::{POIREAU_EVERY, POIREAU_FIRST};
use crate::exit_status::{BAD_INPUT, FAILED, FINE, Failure, WithStatus, stopped_by};
use crate::message;
use crate::signal_state;

/// libpoireau's own period.
const POIREAU: u64 = 32 << 20;
/// How long a signal may go unnoticed.
const PAUSE: Duration = Duration::from_millis(100);
/// How long perf may take to print the rest after a signal to end, which it gets, too.
const REST: Duration = Duration::from_secs(1);

/// Reads the file, or the standard input for `-`, and prints the reports.
pub fn run(arguments: &Arguments, path: &Path, output: Output) -> Result<u8, Failure> {
    let file = match path.as_os_str() == "-" {
        true => None,
        false => Some(
            open_file_or_pipe(path)
                .with_context(|| format!("cannot read {}", path.shown()))
                .status(BAD_INPUT)?,
        ),
    };
    let written = file.as_ref().and_then(modified);
    let signals = [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
    let ignored = signal_state::ignored();
    let signals = signals.into_iter().filter(|it| !ignored.contains(*it));
    let signals = Signals::new(signals)
        .context("cannot handle signals")
        .status(FAILED)?;
    let limits = arguments.input.limits();
    let bounds = Bounds {
        without_event: limits.input(),
        memory: limits.memory(),
    };
    let period = arguments.period.or(Period::new(POIREAU));
    let pattern = arguments.comm.clone();
    let is_wanted = move |name: &str| pattern.as_ref().is_none_or(|it| it.is_match(name));
    let stream = PerfStream::new(period.unwrap_or_default(), bounds, is_wanted);
    let stream = Arc::new(Mutex::new(stream));
    let end = start_reading(file, Arc::clone(&stream), limits);
    let mut reports = Reports {
        arguments,
        path,
        output,
        stream,
        written,
        old_age: u64::try_from(arguments.old.as_nanos()).unwrap_or(u64::MAX),
    };
    reports.follow(signals, &end)
}

/// Devices are refused: opening them may have effects.
fn open_file_or_pipe(path: &Path) -> io::Result<File> {
    // The shell names a pipe for `<(perf script)`.
    match std::fs::metadata(path)?.file_type().is_fifo() {
        true => File::open(path),
        false => open_regular(path),
    }
}

/// When a file was written. A pipe is being written.
fn modified(file: &File) -> Option<SystemTime> {
    let metadata = file.metadata().ok()?;
    let is_pipe = metadata.file_type().is_fifo();
    metadata.modified().ok().filter(|_| !is_pipe)
}

/// Reads in a thread, which says when it is at the end.
fn start_reading(
    file: Option<File>,
    stream: Arc<Mutex<PerfStream>>,
    limits: Limits,
) -> Receiver<io::Result<()>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let input: Box<dyn BufRead> = match file {
            Some(file) => Box::new(BufReader::new(file)),
            None => Box::new(io::stdin().lock()),
        };
        let read = read_lines(input, |line, bytes| {
            let taken = lock(&stream).line(line, bytes);
            taken.map_err(|exceeded| {
                let excess = match exceeded {
                    perf_stream::Exceeded::WithoutEvent => Excess::Input,
                    perf_stream::Exceeded::Memory => Excess::Memory,
                };
                io::Error::other(Exceeded { excess, limits })
            })
        });
        // Nobody waits for it after a signal to end.
        let _ = sender.send(read);
    });
    receiver
}

/// What a thread that has panicked leaves is still a stream.
fn lock(stream: &Mutex<PerfStream>) -> MutexGuard<'_, PerfStream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes reports.
struct Reports<'a> {
    arguments: &'a Arguments,
    path: &'a Path,
    output: Output,
    stream: Arc<Mutex<PerfStream>>,
    /// When the file was written; `None`: it is a pipe.
    written: Option<SystemTime>,
    old_age: u64,
}

impl Reports<'_> {
    /// Reports until the end of the input, or a signal to end.
    fn follow(
        &mut self,
        mut signals: Signals,
        end: &Receiver<io::Result<()>>,
    ) -> Result<u8, Failure> {
        let (first, every) = self.times();
        let mut next = first.and_then(|it| Instant::now().checked_add(it));
        // The signal to end, and until when the rest of the input is waited for.
        let mut ending: Option<(i32, Instant)> = None;
        let read = loop {
            match end.recv_timeout(PAUSE) {
                Ok(read) => break read,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let error = io::Error::other("the thread that reads it has ended");
                    break Err(error);
                }
            }
            for signal in signals.pending() {
                match signal {
                    SIGHUP => self.blocks(Which::Live)?,
                    SIGUSR1 => {
                        self.blocks(Which::Old)?;
                        let now = self.now();
                        lock(&self.stream).blocks.hide_old(now, self.old_age);
                    }
                    SIGUSR2 => self.blocks(Which::Freed)?,
                    signal => match ending {
                        Some(_) => return Ok(stopped_by(signal)),
                        None => ending = Some((signal, Instant::now() + REST)),
                    },
                }
            }
            if ending.is_some_and(|it| it.1 <= Instant::now()) {
                break Ok(());
            }
            if next.is_some_and(|it| it <= Instant::now()) {
                self.report()?;
                next = every.and_then(|it| Instant::now().checked_add(it));
            }
            if self.output.is_closed {
                return Ok(FINE);
            }
        };
        read.with_context(|| format!("cannot read {}", self.path.shown()))
            .status(BAD_INPUT)?;
        self.finish(ending.map(|it| it.0))
    }

    /// The time until the first report and between two; `None`: there is only that at the end.
    fn times(&self) -> (Option<Duration>, Option<Duration>) {
        match (self.arguments.every, self.written, self.output.format()) {
            (_, Some(_), _) => (None, None),
            (Some(every), ..) => (Some(every), Some(every)),
            (None, None, Format::Poireau) => (Some(POIREAU_FIRST), Some(POIREAU_EVERY)),
            (None, ..) => (None, None),
        }
    }

    /// The report at the end.
    fn finish(&mut self, signal: Option<i32>) -> Result<u8, Failure> {
        lock(&self.stream).end_event(true);
        let (is_empty, (unknown, lost)) = {
            let stream = lock(&self.stream);
            (stream.blocks.is_empty(), stream.left_out())
        };
        let path = self.path.shown();
        if unknown > 0 && !is_empty {
            message::print(format_args!(
                "warning: {path} has {unknown} lines that are no events; they are left out"
            ));
        }
        if lost > 0 {
            message::print(format_args!(
                "warning: perf has lost {lost} events, so blocks may be missing or seem to be live; a larger buffer (perf's option -m) helps"
            ));
        }
        if is_empty && signal.is_none() {
            let which = match &self.arguments.comm {
                Some(_) => " of threads that --comm names",
                None => "",
            };
            return Err(Failure::new(
                BAD_INPUT,
                anyhow!(
                    "{path} has no events of libpoireau's or allotrope's probes{which}; write it with `perf script` or `perf trace`",
                ),
            ));
        }
        match self.output.format() {
            // As poireau does.
            Format::Poireau => self.blocks(Which::Live)?,
            _ => self.report()?,
        }
        Ok(signal.map_or(FINE, stopped_by))
    }

    fn now(&self) -> Moment {
        let real_time = self.written.unwrap_or_else(SystemTime::now);
        let real_time = real_time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let real_time = u64::try_from(real_time.as_nanos()).unwrap_or(u64::MAX);
        let stream = lock(&self.stream);
        match self.written {
            Some(_) => stream.at_last_event(real_time),
            None => stream.now(real_time),
        }
    }

    /// A report; of old blocks with poireau's lines.
    fn report(&mut self) -> Result<(), Failure> {
        if self.output.format() == Format::Poireau {
            return self.blocks(Which::Old);
        }
        lock(&self.stream).end_event(false);
        let (now, top) = (self.now(), self.arguments.top.into());
        let report = lock(&self.stream).blocks.report(now, self.old_age, top);
        self.output.print(&report)
    }

    /// A list of blocks.
    fn blocks(&mut self, which: Which) -> Result<(), Failure> {
        lock(&self.stream).end_event(false);
        let (now, old_age) = (self.now(), self.old_age);
        let stream = lock(&self.stream);
        let blocks = &stream.blocks;
        self.output.list(
            |out| blocks.write_poireau(now, old_age, which, out),
            |out| blocks.write_json(now, old_age, which, out),
        )
    }
}
