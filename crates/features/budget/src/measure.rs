//! Measures a test: runs its program as often as the protocol requires,
//! discards the warm-up and keeps the figures of every run.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use allotrope_profile::{Options, Process, Profile, aggregate};
use allotrope_report::signal_name;
use allotrope_text::{Shown, text_of_path};
use allotrope_trace::TraceReader;
use allotrope_trace::model::Exit;

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::configuration::{Configuration, LeftBehind, Protocol, Test};
use crate::paths::Project;
use crate::problem::Problem;
use crate::program::{Ended, Ending, Program};
use crate::toolchain::{Toolchain, unoptimised_modules};
use crate::windows::{WindowCaseRun, Windows};

/// The exit status of the recording command when it failed itself.
const RECORDING_FAILED: i32 = 125;
/// Exit statuses for a program that cannot be executed or is not found.
const NOT_STARTED: [i32; 2] = [126, 127];

/// The most notes on child processes that failed.
const MAX_CHILDREN: usize = 3;

/// The command that records programs.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// Program and arguments, up to `-o FILE -- PROGRAM …`.
    pub command: Vec<OsString>,
    /// The option that makes it count without recording stacks.
    pub counts_only: OsString,
    /// The option that says what becomes of processes that the program leaves behind, and the
    /// one that names the file into which it writes their process ids and names.
    pub left_behind: [OsString; 2],
}

/// Measures tests.
#[derive(Debug, Clone, Copy)]
pub struct Measurer<'a> {
    /// The configuration of the tests.
    pub configuration: &'a Configuration,
    /// The project of the tests.
    pub project: &'a Project,
    /// Records the programs; `None` runs them unrecorded.
    pub recorder: Option<&'a Recorder>,
    /// The folder of the recordings.
    pub scratch: &'a Path,
    /// Set by the user's request to stop early.
    pub stop: &'a AtomicBool,
}

/// The measurement of a test.
#[derive(Debug, Default)]
pub struct Measured {
    /// Cases of the test, in the order of their first run.
    pub cases: Vec<Case>,
    /// It opened no window: its only case is the whole program.
    pub whole_program: bool,
    /// Why the measurement failed.
    pub problem: Option<Problem>,
    /// Notes on how far the numbers can be trusted, a sentence each.
    pub notes: Vec<String>,
    /// The end of the output of the last run.
    pub output: String,
    /// The toolchain that built it.
    pub toolchain: Option<Toolchain>,
    /// The names of its own modules that were compiled without optimisation.
    pub unoptimised: Vec<String>,
    /// The path of the last recording.
    pub trace: Option<PathBuf>,
}

/// The result of one run of the program.
#[derive(Default)]
struct ProgramRun {
    /// The figures of the whole run, if it opened no window.
    whole: Option<CaseRun>,
    windows: Vec<WindowCaseRun>,
    notes: Vec<String>,
    toolchain: Option<Toolchain>,
    unoptimised: Vec<String>,
}

impl Measurer<'_> {
    /// Measures a test. `on_run` is called before each run with its number and
    /// the expected number of runs.
    pub fn measure(
        &self,
        test: &Test,
        protocol: &Protocol,
        on_run: &mut dyn FnMut(u32, u32),
    ) -> Measured {
        let mut measured = Measured::default();
        let starts = match self.recorder {
            Some(_) => protocol.warmup.saturating_add(protocol.runs),
            // Unrecorded, a single run shows that the program works.
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
                    // A program that fails may leave processes behind, too.
                    let trace = measured.trace.as_deref();
                    let notes = trace.map(|trace| left_behind(trace, protocol.left_behind).0);
                    measured.add_notes(notes.into_iter().flatten());
                    break;
                }
            };
            if started.windows.is_empty() && self.configuration.cargo.is_some() {
                // The program as a whole is the test harness.
                break;
            }
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

    /// Starts the program once; returns its result and the end of its output. `last` is
    /// the path of the previous recording, which is deleted, and becomes that of this one.
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
            // Only the last recording is kept; all of them may be large.
            let _ = std::fs::remove_file(before);
        }
        // In a folder that the user named, of the repository perhaps.
        if trace.is_symlink() {
            let why = format!("{}: it is a symbolic link; remove it", trace.shown());
            return (Err(Problem::NotRecorded(why)), String::new());
        }
        let program = self.program(test, protocol, &trace);
        let ended = match program.run(self.stop) {
            Ok(ended) => ended,
            Err(error) => {
                let folder = program.folder.shown();
                let why = if program.folder.is_dir() {
                    error.to_string()
                } else {
                    format!("its `folder` {folder} does not exist")
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
            let [what, list] = recorder.left_behind.clone();
            words.extend([what, protocol.left_behind.name().into()]);
            words.extend([list, left_behind_list(trace).into()]);
            words.extend(["-o".into(), trace.into(), "--".into()]);
        }
        words.extend(test.command.iter().map(OsString::from));
        Program {
            words,
            environment: environment(test, protocol),
            folder: test.folder.clone(),
            stdin: test.stdin.clone(),
            timeout: protocol.timeout,
        }
    }

    /// Reads the recording of a program that has ended.
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
        let profile =
            aggregate(&reader, &Options::default()).map_err(|error| unreadable(&error))?;
        check_exit(&profile, ended, protocol)?;
        check_whole(&profile)?;
        let windows = Windows::of(&reader, &profile, self.project)?;
        let mut notes: Vec<String> = windows
            .runs
            .iter()
            .filter_map(WindowCaseRun::note)
            .collect();
        notes.extend(profile.unrecorded.iter().map(|unrecorded| {
            let (name, why) = (text_of_path(&unrecorded.executable), &unrecorded.reason);
            format!("a part was not recorded: {name}: {why}")
        }));
        let (left_behind, pids) = left_behind(trace, protocol.left_behind);
        notes.extend(left_behind);
        notes.extend(ended_children(&profile, &pids));
        let measured = windows.profile.as_ref().unwrap_or(&profile);
        Ok(ProgramRun {
            whole: windows
                .runs
                .is_empty()
                .then(|| CaseRun::of_whole_run(&profile, self.project)),
            toolchain: Some(Toolchain::of(
                measured,
                &self.configuration.dependencies,
                &self.configuration.folder,
                self.project,
            )),
            unoptimised: unoptimised_modules(measured, self.project),
            windows: windows.runs,
            notes,
        })
    }
}

/// The environment variables for a test. Its own come last, and so take
/// precedence.
pub fn environment(test: &Test, protocol: &Protocol) -> Vec<(OsString, OsString)> {
    let mut environment: Vec<(OsString, OsString)> = vec![
        (
            "ALLOTROPE_WARMUP".into(),
            protocol.warmup.to_string().into(),
        ),
        ("ALLOTROPE_RUNS".into(), protocol.runs.to_string().into()),
    ];
    if protocol.needs_descriptors() {
        // Windows compare file descriptors only with this flag.
        environment.push(("ALLOTROPE_WINDOW_FLAGS".into(), "4".into()));
    }
    let own = test.environment.iter();
    environment.extend(own.map(|(name, value)| (name.into(), value.into())));
    environment
}

/// Whether the program ran the whole protocol itself, as `allotrope_measure` does, so
/// that one start is enough. With a single run this looks like a program that opens its
/// window once; then the program is started twice, which does no harm.
fn runs_whole_protocol(windows: &[WindowCaseRun], protocol: &Protocol) -> bool {
    let times = |name: &str| windows.iter().filter(|window| window.name == name).count();
    let most = windows.iter().map(|window| times(&window.name)).max();
    protocol.runs > 1 && most.unwrap_or(0) >= protocol.runs as usize
}

impl Measured {
    /// The source files of all stacks; most are given several times.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let runs = self.cases.iter().flat_map(|case| &case.runs);
        let frames = runs.flat_map(|run| &run.stacks.frames);
        frames.map(|frame| &*frame.file)
    }

    fn add_notes(&mut self, notes: impl Iterator<Item = String>) {
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    fn add(&mut self, test: &Test, started: ProgramRun) {
        self.add_notes(started.notes.into_iter());
        if self.toolchain.is_none() {
            self.toolchain = started.toolchain;
            self.unoptimised = started.unoptimised;
        }
        if let Some(whole) = started.whole {
            self.whole_program = true;
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

    fn push(&mut self, name: String, sample: CaseRun) {
        match self.cases.iter_mut().find(|case| case.name == name) {
            Some(case) => case.runs.push(sample),
            None => self.cases.push(Case {
                name,
                runs: vec![sample],
            }),
        }
    }
}

/// The problem, if any, of an unrecorded run.
fn unrecorded_exit(ended: &Ended, protocol: &Protocol) -> Result<(), Problem> {
    match ended.ending {
        Ending::Status(0) => Ok(()),
        Ending::Status(status) => Err(Problem::Status(status)),
        Ending::Signal(signal) => Err(Problem::Signal(signal)),
        Ending::TimedOut => Err(Problem::TimedOut(protocol.timeout)),
        Ending::Stopped => Err(Problem::Stopped),
    }
}

/// Checks how the program ended according to the recording. The exit status of
/// the recording command does not distinguish 128 + N from a signal.
fn check_exit(profile: &Profile, ended: &Ended, protocol: &Protocol) -> Result<(), Problem> {
    let first = profile.processes.first();
    // Images that replaced each other by exec have the same pid.
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
            "none of its processes could be recorded; run `allotrope doctor PROGRAM` to find out why".to_owned(),
        )),
    }
}

/// The file with the processes that the program of a recording left behind.
fn left_behind_list(trace: &Path) -> PathBuf {
    trace.with_extension("left-behind")
}

/// Notes on the processes that the program left behind, one for each name, and their ids.
/// Deletes the list of them.
fn left_behind(trace: &Path, what: LeftBehind) -> (BTreeSet<String>, Vec<u32>) {
    let list = left_behind_list(trace);
    let text = std::fs::read_to_string(&list).unwrap_or_default();
    let _ = std::fs::remove_file(&list);
    let became = match what {
        LeftBehind::End => "was ended",
        LeftBehind::Leave => "runs on",
    };
    let processes = text.lines().filter_map(|line| {
        let (pid, name) = line.split_once(' ')?;
        let note = format!(
            "the program ended and left {name} behind, which {became} (`left-behind` in \
             allotrope.toml)"
        );
        Some((note, pid.parse::<u32>().ok()?))
    });
    processes.unzip()
}

/// Notes on other processes than the main one that a signal ended or that reported a
/// failure, one for each program and way to end. Those that the recorder has ended are left
/// out.
fn ended_children(profile: &Profile, ended: &[u32]) -> Vec<String> {
    let main = profile.processes.first().map(|first| first.pid);
    let mut last: BTreeMap<u32, &Process> = BTreeMap::new();
    for process in &profile.processes {
        // Images that replaced each other by exec have the same pid.
        last.insert(process.pid, process);
    }
    let is_other = |pid| Some(pid) != main && !ended.contains(&pid);
    let children = last.values().filter(|process| is_other(process.pid));
    let mut notes: Vec<String> = children
        .filter_map(|process| {
            let how = match process.exit {
                Exit::Signal(signal) => format!("was ended by {}", signal_name(signal)),
                Exit::Status(status) if status != 0 => format!("ended with status {status}"),
                _ => return None,
            };
            let name = text_of_path(&process.executable);
            Some(format!("a child process {how}: {}", name.shown()))
        })
        .collect();
    notes.sort();
    notes.dedup();
    let more = notes.len().saturating_sub(MAX_CHILDREN);
    notes.truncate(MAX_CHILDREN);
    if more > 0 {
        notes.push(format!(
            "other child processes failed, too, in {more} further ways"
        ));
    }
    notes
}

/// Checks that no events are missing, which would make the numbers wrong.
fn check_whole(profile: &Profile) -> Result<(), Problem> {
    if let Some(cut) = &profile.cut {
        return Err(Problem::NotRecorded(format!(
            "the recording is not whole: {cut}"
        )));
    }
    let lost = profile.processes.iter().map(|process| process.lost_events);
    let lost = lost.fold(0, u64::saturating_add);
    if lost > 0 {
        return Err(Problem::NotRecorded(format!("{lost} events are missing")));
    }
    Ok(())
}

/// The last line of a recorder's output that is not empty: its error message.
fn last_line(output: &str) -> String {
    let line = output.lines().rev().find(|line| !line.trim().is_empty());
    let line = line.unwrap_or("it printed no reason").trim();
    line.strip_prefix("allotrope: ").unwrap_or(line).to_owned()
}
