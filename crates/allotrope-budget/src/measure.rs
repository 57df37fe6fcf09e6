//! How a test is measured: started as often as it takes, warm-up thrown away,
//! every run kept. What the numbers are compared with is `verdict`'s.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use allotrope_profile::{Options, Profile, replay};
use allotrope_report::signal_name;
use allotrope_text::{Shown, text_of_path};
use allotrope_trace::TraceReader;
use allotrope_trace::model::Exit;

use crate::configuration::{Configuration, Protocol, Test};
use crate::metric::Metric;
use crate::paths::Project;
use crate::program::{Ended, Ending, Program};
use crate::sample::Sample;
use crate::toolchain::Toolchain;
use crate::windows::{WindowSample, Windows};
use allotrope_profile::Metric;

/// Status of the recording command that failed by itself.
const RECORDING_FAILED: i32 = 125;
/// A program that could not be executed, and one that was not found.
const NOT_STARTED: [i32; 2] = [126, 127];

/// How programs are recorded.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// The command that records, up to its options: `-o FILE -- PROGRAM …`
    /// follows.
    pub command: Vec<OsString>,
    /// The option that makes it count without stacks.
    pub counts_only: OsString,
}

/// What a test is measured with.
#[derive(Debug, Clone, Copy)]
pub struct Measurer<'a> {
    /// The configuration that the test is from.
    pub configuration: &'a Configuration,
    /// The project that it is of.
    pub project: &'a Project,
    /// How it is recorded; `None` to run it as it is.
    pub recorder: Option<&'a Recorder>,
    /// Where recordings are put.
    pub scratch: &'a Path,
    /// Set to end early.
    pub stop: &'a AtomicBool,
}

/// What a test came to.
#[derive(Debug, Default)]
pub struct Measured {
    /// Its cases, in the order in which they were met.
    pub cases: Vec<Case>,
    /// Why it could not be measured to its end.
    pub problem: Option<Problem>,
    /// What a person should know before trusting the numbers, a sentence each.
    pub notes: Vec<String>,
    /// The end of what it printed in its last run.
    pub output: String,
    /// What it was built with.
    pub toolchain: Option<Toolchain>,
    /// The last recording.
    pub trace: Option<PathBuf>,
}

/// A case and its runs.
#[derive(Debug, Clone)]
pub struct Case {
    /// `TEST`, or `TEST/WINDOW`.
    pub name: String,
    /// Its runs, warm-up left out; never empty.
    pub samples: Vec<Sample>,
}

/// Why a test could not be measured to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// It could not be started.
    NotStarted(String),
    /// It ended with this status.
    Status(i32),
    /// It was ended by this signal.
    Signal(i32),
    /// It took longer than this.
    TimedOut(Duration),
    /// The user wanted no more.
    Stopped,
    /// It could not be recorded, or not wholly.
    NotRecorded(String),
    /// The recording can not be read.
    Unreadable(String),
    /// A window was not closed.
    LeftOpen(String),
    /// A window was opened while too many others were open.
    NotMeasured(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(why) => write!(to, "it could not be started: {why}"),
            Self::Status(status) => write!(to, "it ended with status {status}"),
            Self::Signal(signal) => {
                let name = signal_name(*signal);
                write!(to, "it was ended by {name}")?;
                match name.as_str() {
                    "SIGPIPE" => to.write_str(": it wrote to a pipe that nobody reads any more"),
                    _ => Ok(()),
                }
            }
            Self::TimedOut(limit) => write!(
                to,
                "it did not end within {} s (`timeout` in allotrope.toml) and was ended",
                limit.as_secs()
            ),
            Self::Stopped => to.write_str("it was stopped"),
            Self::NotRecorded(why) => write!(to, "it was not recorded: {why}"),
            Self::Unreadable(why) => write!(to, "its recording can not be read: {why}"),
            Self::LeftOpen(window) => write!(
                to,
                "its window {} was never closed, so that it has no numbers",
                window.shown()
            ),
            Self::NotMeasured(window) => write!(
                to,
                "its window {} was opened while 64 others were open, so that it has no numbers",
                window.shown()
            ),
        }
    }
}

impl Problem {
    /// Whether what the program printed may say more.
    pub fn is_of_program(&self) -> bool {
        !matches!(
            self,
            Self::NotStarted(_) | Self::NotRecorded(_) | Self::Unreadable(_)
        )
    }
}

/// What one start of the program came to.
#[derive(Default)]
struct ProgramRun {
    /// The whole run, where there are no windows.
    whole: Option<Sample>,
    windows: Vec<WindowSample>,
    notes: Vec<String>,
    toolchain: Option<Toolchain>,
}

impl Measurer<'_> {
    /// Measures a test; `on_run` hears of each start before it happens: which,
    /// and how many there will be as far as is known.
    pub fn measure(
        &self,
        test: &Test,
        protocol: &Protocol,
        on_run: &mut dyn FnMut(u32, u32),
    ) -> Measured {
        let mut measured = Measured::default();
        let starts = match self.recorder {
            Some(_) => protocol.warmup.saturating_add(protocol.runs),
            // There is nothing to compare: once shows that it runs.
            None => 1,
        };
        for start in 1..=starts {
            on_run(start, starts);
            let (started, output) = self.start(test, protocol, start, &mut measured.trace);
            measured.output = output;
            let started = match started {
                Ok(started) => started,
                Err(problem) => {
                    measured.problem = Some(problem);
                    break;
                }
            };
            let whole_protocol = runs_whole_protocol(&started.windows, protocol);
            let warmup = start <= protocol.warmup && self.recorder.is_some();
            if whole_protocol || !warmup {
                measured.add(test, started);
            }
            if whole_protocol {
                break;
            }
        }
        measured
    }

    fn start(
        &self,
        test: &Test,
        protocol: &Protocol,
        number: u32,
        last: &mut Option<PathBuf>,
    ) -> (Result<ProgramRun, Problem>, String) {
        let trace = self
            .scratch
            .join(format!("{}.{number}.allotrope", test.name));
        if let Some(before) = last.replace(trace.clone()) {
            // One is enough to look into; all together may be large.
            let _ = std::fs::remove_file(before);
        }
        let program = self.program(test, protocol, &trace);
        let ended = match program.run(self.stop) {
            Ok(ended) => ended,
            Err(error) => {
                let folder = program.folder.shown();
                let why = if program.folder.is_dir() {
                    error.to_string()
                } else {
                    format!("its `folder` {folder} is not there")
                };
                return (Err(Problem::NotStarted(why)), String::new());
            }
        };
        let started = match self.recorder {
            Some(_) => self.recorded(&ended, protocol, &trace),
            None => unrecorded_exit(&ended, protocol).map(|()| ProgramRun::default()),
        };
        (started, ended.output)
    }

    fn program(&self, test: &Test, protocol: &Protocol, trace: &Path) -> Program {
        let mut words = Vec::new();
        if let Some(recorder) = self.recorder {
            words.extend(recorder.command.iter().cloned());
            if protocol.counts_only {
                words.push(recorder.counts_only.clone());
            }
            words.extend(["-o".into(), trace.into(), "--".into()]);
        }
        words.extend(test.command.iter().map(OsString::from));
        Program {
            words,
            environment: environment(test, protocol),
            folder: test.folder.clone(),
            timeout: protocol.timeout,
        }
    }

    fn recorded(
        &self,
        ended: &Ended,
        protocol: &Protocol,
        trace: &Path,
    ) -> Result<ProgramRun, Problem> {
        let last_message = || last_line(&ended.output);
        match ended.ending {
            Ending::Stopped => return Err(Problem::Stopped),
            Ending::TimedOut => return Err(Problem::TimedOut(protocol.timeout)),
            Ending::Status(RECORDING_FAILED) if !trace.exists() => {
                return Err(Problem::NotRecorded(last_message()));
            }
            Ending::Status(status) if NOT_STARTED.contains(&status) && !trace.exists() => {
                return Err(Problem::NotStarted(last_message()));
            }
            _ => {}
        }
        let unreadable = |error: &dyn fmt::Display| Problem::Unreadable(error.to_string());
        if !trace.exists() {
            unrecorded_exit(ended, protocol)?;
            return Err(Problem::NotRecorded("there is no recording".to_owned()));
        }
        let reader = TraceReader::open(trace).map_err(|error| unreadable(&error))?;
        let profile = replay(&reader, &Options::default()).map_err(|error| unreadable(&error))?;
        check_exit(&profile, ended, protocol)?;
        check_whole(&profile)?;
        let windows = Windows::of(&reader, &profile, self.project)?;
        let mut notes: Vec<String> = windows
            .samples
            .iter()
            .filter_map(WindowSample::note)
            .collect();
        notes.extend(profile.unrecorded.iter().map(|unrecorded| {
            let (name, why) = (text_of_path(&unrecorded.executable), &unrecorded.reason);
            format!("a part was not recorded: {name}: {why}")
        }));
        let measured = windows.profile.as_ref().unwrap_or(&profile);
        Ok(ProgramRun {
            whole: windows
                .samples
                .is_empty()
                .then(|| Sample::of_whole_run(&profile, self.project)),
            toolchain: Some(Toolchain::of(measured, self.configuration, self.project)),
            windows: windows.samples,
            notes,
        })
    }
}

/// Variables that are set for a test, its own last.
pub fn environment(test: &Test, protocol: &Protocol) -> Vec<(OsString, OsString)> {
    let mut environment: Vec<(OsString, OsString)> = vec![
        (
            "ALLOTROPE_WARMUP".into(),
            protocol.warmup.to_string().into(),
        ),
        ("ALLOTROPE_RUNS".into(), protocol.runs.to_string().into()),
    ];
    if protocol.gate.contains(&Metric::LeakedFds) {
        // Windows compare file descriptors only when asked to.
        environment.push(("ALLOTROPE_WINDOW_FLAGS".into(), "4".into()));
    }
    let own = test.environment.iter();
    environment.extend(own.map(|(name, value)| (name.into(), value.into())));
    environment
}

/// Whether a program ran the whole protocol by itself (`allotrope_measure`
/// does): then one start is enough. With a single run nothing tells it from a
/// program that opens its window once, and a start more does no harm.
fn runs_whole_protocol(windows: &[WindowSample], protocol: &Protocol) -> bool {
    let times = |name: &str| windows.iter().filter(|window| window.name == name).count();
    let most = windows.iter().map(|window| times(&window.name)).max();
    protocol.runs > 1 && most.unwrap_or(0) >= protocol.runs as usize
}

impl Measured {
    fn add(&mut self, test: &Test, started: ProgramRun) {
        for note in started.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        if self.toolchain.is_none() {
            self.toolchain = started.toolchain;
        }
        if let Some(whole) = started.whole {
            self.push(test.name.clone(), whole);
        }
        for window in started.windows {
            let name = if window.name == test.name {
                test.name.clone()
            } else {
                format!("{}/{}", test.name, window.name.shown())
            };
            self.push(name, window.sample);
        }
    }

    fn push(&mut self, name: String, sample: Sample) {
        match self.cases.iter_mut().find(|case| case.name == name) {
            Some(case) => case.samples.push(sample),
            None => self.cases.push(Case {
                name,
                samples: vec![sample],
            }),
        }
    }
}

/// What the status of a program that was not recorded says.
fn unrecorded_exit(ended: &Ended, protocol: &Protocol) -> Result<(), Problem> {
    match ended.ending {
        Ending::Status(0) => Ok(()),
        Ending::Status(status) => Err(Problem::Status(status)),
        Ending::Signal(signal) => Err(Problem::Signal(signal)),
        Ending::TimedOut => Err(Problem::TimedOut(protocol.timeout)),
        Ending::Stopped => Err(Problem::Stopped),
    }
}

/// What the recording says of the program's end: the recording command's own
/// status does not tell 128 + N from a signal.
fn check_exit(profile: &Profile, ended: &Ended, protocol: &Protocol) -> Result<(), Problem> {
    let first = profile.processes.first();
    // An image that was replaced by another has the pid of its successor.
    let last = first.and_then(|first| {
        let mut same = profile
            .processes
            .iter()
            .filter(|process| process.pid == first.pid);
        same.next_back()
    });
    match (last.map(|process| process.exit), ended.ending) {
        (Some(Exit::Signal(signal)), _) => Err(Problem::Signal(signal)),
        (Some(_), ending) => unrecorded_exit(
            &Ended {
                ending,
                output: String::new(),
            },
            protocol,
        ),
        (None, _) => Err(Problem::NotRecorded(
            "no process of it could be recorded; `allotrope doctor PROGRAM` says why".to_owned(),
        )),
    }
}

/// Numbers that lack events are no numbers.
fn check_whole(profile: &Profile) -> Result<(), Problem> {
    if let Some(cut) = &profile.cut {
        return Err(Problem::NotRecorded(format!(
            "the recording is not whole: {cut}"
        )));
    }
    let lost: u64 = profile
        .processes
        .iter()
        .map(|process| process.lost_events)
        .sum();
    if lost > 0 {
        return Err(Problem::NotRecorded(format!("{lost} events are missing")));
    }
    Ok(())
}

fn last_line(output: &str) -> String {
    let line = output.lines().rev().find(|line| !line.trim().is_empty());
    let line = line.unwrap_or("nothing says why").trim();
    line.strip_prefix("allotrope: ").unwrap_or(line).to_owned()
}
