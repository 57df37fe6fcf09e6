//! [`Session`]: a collector that records programs, which are further processes of this
//! test binary. [`Recorded`]: the trace that it wrote, read back.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::JoinHandle;

use allotrope_collector::CollectorError;
use allotrope_collector::protocol::{Done, FirstExit, FromLauncher, Start, ToLauncher};
use allotrope_trace::model::{Event, Exit, ImageId, Record, StreamId};
use allotrope_trace::{Entry, TraceReader};
use tempfile::TempDir;

use crate::program::{ARENA_VARIABLE, SCRIPT_VARIABLE};

pub struct Session {
    /// `None` after [`Self::hang_up`].
    to: Option<PipeWriter>,
    from: BufReader<PipeReader>,
    collector: Collector,
    arena: String,
    output: PathBuf,
    folder: TempDir,
}

enum Collector {
    Thread(JoinHandle<Result<(), CollectorError>>),
    /// A process of this test binary, see [`simulated_collector`].
    Process(Child),
}

/// Name of an environment variable: the file into which a collector in a process of its
/// own writes its peak memory.
const PEAK_VARIABLE: &str = "ALLOTROPE_TEST_PEAK";

/// Not a test: a collector in a process of its own. It sends its messages on its
/// standard error, because the test harness writes to the standard output.
#[test]
#[ignore = "run by the other tests, in a process of its own"]
fn simulated_collector() {
    let Some(file) = std::env::var_os(PEAK_VARIABLE) else {
        return;
    };
    let result = allotrope_collector::run(std::io::stdin(), std::io::stderr());
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:"));
    std::fs::write(file, peak.unwrap()).unwrap();
    std::process::exit(i32::from(result.is_err()));
}

/// A finished recording.
pub struct Recorded {
    pub done: Done,
    pub records: Vec<Record>,
    pub events: HashMap<(ImageId, StreamId), Vec<Event>>,
    /// Peak memory of the collector, if it ran in a process of its own.
    pub peak_kilobytes: Option<u64>,
}

fn send(to: &mut PipeWriter, message: &FromLauncher) {
    let mut line = serde_json::to_string(message).unwrap();
    line.push('\n');
    to.write_all(line.as_bytes()).unwrap();
}

fn receive(from: &mut impl BufRead) -> ToLauncher {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

/// A command that runs this test binary as a recorded program.
pub fn program(arena: &str, script: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "program::simulated_program",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(ARENA_VARIABLE, arena)
        .env(SCRIPT_VARIABLE, script)
        .stdout(std::process::Stdio::null());
    command
}

impl Session {
    pub fn start() -> Self {
        Self::start_with(|_| ())
    }

    pub fn start_with(change: impl FnOnce(&mut Start)) -> Self {
        Self::start_as(change, |input, answers, _| {
            let run = move || allotrope_collector::run(input, answers);
            Collector::Thread(std::thread::spawn(run))
        })
    }

    /// Starts a collector in a process of its own, so that its memory can be measured.
    pub fn start_in_process() -> Self {
        let no_change = |_: &mut Start| ();
        Self::start_as(no_change, |input, answers, folder| {
            let mut collector = Command::new(std::env::current_exe().unwrap());
            collector
                .args(["session::simulated_collector", "--exact", "--ignored"])
                .arg("--nocapture")
                .env(PEAK_VARIABLE, folder.join("peak"))
                .stdin(input)
                .stderr(answers)
                .stdout(std::process::Stdio::null());
            Collector::Process(collector.spawn().unwrap())
        })
    }

    fn start_as(
        change: impl FnOnce(&mut Start),
        collect: impl FnOnce(PipeReader, PipeWriter, &Path) -> Collector,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut start = Start::new(folder.path().join("trace"), vec!["program".into()]);
        change(&mut start);
        let output = start.output.clone();
        let (input, mut to) = std::io::pipe().unwrap();
        let (from, answers) = std::io::pipe().unwrap();
        let collector = collect(input, answers, folder.path());
        send(&mut to, &FromLauncher::Start(Box::new(start)));
        let mut from = BufReader::new(from);
        let arena = match receive(&mut from) {
            ToLauncher::Ready { arena } => arena,
            other => panic!("{other:?}"),
        };
        Self {
            to: Some(to),
            from,
            collector,
            arena,
            output,
            folder,
        }
    }

    pub fn send(&mut self, message: &FromLauncher) {
        send(self.to.as_mut().unwrap(), message);
    }

    /// The location of the arena, for recorders.
    pub fn arena(&self) -> &str {
        &self.arena
    }

    /// The trace file.
    pub fn output(&self) -> &std::path::Path {
        &self.output
    }

    /// Closes the launcher's end, as its death does.
    pub fn hang_up(mut self) -> Self {
        self.to = None;
        self
    }

    pub fn receive(&mut self) -> ToLauncher {
        receive(&mut self.from)
    }

    pub fn spawn(&mut self, script: &str) -> Child {
        let child = program(&self.arena, script).spawn().unwrap();
        self.send(&FromLauncher::FirstStarted { pid: child.id() });
        child
    }

    /// Waits for the first process, as the launcher does, and sends how it ended.
    pub fn wait_for(&mut self, mut child: Child) {
        let status = child.wait().unwrap();
        let exit = match (status.code(), status.signal()) {
            (Some(status), _) => FirstExit::Status(status),
            (None, signal) => FirstExit::Signal(signal.unwrap()),
        };
        self.send(&FromLauncher::FirstEnded(exit));
    }

    /// Runs `script` from its start to its end.
    pub fn record(script: &str) -> Recorded {
        let mut session = Self::start();
        let child = session.spawn(script);
        session.wait_for(child);
        session.finish()
    }

    /// Receives messages until the collector fails; returns its error.
    pub fn failure(mut self) -> String {
        loop {
            match self.receive() {
                ToLauncher::Failed { message } => {
                    let Collector::Thread(collector) = self.collector else {
                        panic!("only for a collector in a thread");
                    };
                    let error = collector.join().unwrap().unwrap_err();
                    assert_eq!(error.to_string(), message);
                    return message;
                }
                ToLauncher::Done(done) => panic!("{done:?}"),
                _ => {}
            }
        }
    }

    /// Receives all remaining messages and reads the trace.
    pub fn finish(mut self) -> Recorded {
        let done = loop {
            match self.receive() {
                ToLauncher::Done(done) => break done,
                ToLauncher::Failed { message } => panic!("{message}"),
                _ => {}
            }
        };
        let peak_kilobytes = match self.collector {
            Collector::Thread(thread) => {
                thread.join().unwrap().unwrap();
                None
            }
            Collector::Process(mut process) => {
                assert!(process.wait().unwrap().success());
                let peak = std::fs::read_to_string(self.folder.path().join("peak")).unwrap();
                Some(peak.split_whitespace().nth(1).unwrap().parse().unwrap())
            }
        };
        let reader = TraceReader::open(&self.output).unwrap();
        assert!(reader.is_complete());
        assert_eq!(reader.readable_bytes(), done.bytes);
        let mut records = Vec::new();
        let mut events: HashMap<_, Vec<Event>> = HashMap::new();
        let mut chunk = Vec::new();
        for entry in reader.entries() {
            match entry.unwrap() {
                Entry::Record(record) => records.push(record),
                Entry::Events(at) => {
                    let stream = events.entry((at.image, at.stream)).or_default();
                    let counted = stream.iter().filter(|event| event.is_counted()).count();
                    assert_eq!(at.first_ordinal, counted as u64);
                    reader.read_events(&at, &mut chunk).unwrap();
                    stream.append(&mut chunk);
                }
            }
        }
        Recorded {
            done,
            records,
            events,
            peak_kilobytes,
        }
    }
}

impl Recorded {
    /// How each image ended, sorted by image id.
    pub fn exits(&self) -> Vec<(ImageId, Exit)> {
        let end = |record: &Record| match record {
            Record::ImageEnd(end) => Some((end.image, end.exit)),
            _ => None,
        };
        let mut exits: Vec<_> = self.records.iter().filter_map(end).collect();
        exits.sort_by_key(|(image, _)| *image);
        exits
    }

    /// The starts of the images, in order.
    pub fn images(&self) -> Vec<&allotrope_trace::model::ImageStart> {
        self.records
            .iter()
            .filter_map(|record| match record {
                Record::ImageStart(start) => Some(start),
                _ => None,
            })
            .collect()
    }

    /// The counted events of each of an image's streams, sorted by stream id.
    pub fn counted(&self, image: ImageId) -> Vec<(StreamId, Vec<Event>)> {
        let of_image = self.events.iter().filter(|((of, _), _)| *of == image);
        let mut streams: Vec<_> = of_image
            .map(|((_, stream), events)| {
                let counted = events.iter().filter(|event| event.is_counted());
                (*stream, counted.copied().collect())
            })
            .collect();
        streams.sort_by_key(|(stream, _)| *stream);
        streams
    }

    /// The losses of an image: number of the reason, lost events.
    pub fn losses(&self, image: ImageId) -> Vec<(u8, u64)> {
        let loss = |record: &Record| match record {
            Record::Loss(loss) if loss.image == image => Some((loss.reason as u8, loss.events)),
            _ => None,
        };
        self.records.iter().filter_map(loss).collect()
    }
}
