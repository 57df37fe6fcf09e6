//! `allotrope record` and its collector: when one of the two is killed, at
//! whatever moment, the other notices, and the program runs on to its end.
//!
//! Each round waits a little longer before it kills; the assertions hold for every
//! moment.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{Started, compiled, record};
use rustix::process::{Pid, Signal, kill_process};

/// Far above what an end takes on a machine under load.
const LIMIT: Duration = Duration::from_secs(120);
/// How much longer a round waits than the one before, and how many there are.
const STEP: Duration = Duration::from_micros(700);
const ROUNDS: u32 = 24;

/// State and parent of a process, from `/proc/PID/stat`.
fn state(pid: u32) -> Option<(String, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = text.rsplit_once(") ")?.1.split(' ');
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}

/// The collector among the children of a process.
fn collector_of(launcher: u32) -> Option<u32> {
    let entries = fs::read_dir("/proc").ok()?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| state(*pid).is_some_and(|(_, parent)| parent == launcher))
        .find(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(b"__collect")
        })
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // It may have ended by itself.
    let _ = kill_process(pid.expect("ids are positive"), Signal::KILL);
}

/// Waits until the process has ended, as a zombie has.
#[track_caller]
fn expect_end(pid: u32, what: &str) {
    let start = Instant::now();
    while state(pid).is_some_and(|(state, _)| state != "Z") {
        assert!(start.elapsed() < LIMIT, "{what} {pid} has not ended");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Starts a recording and waits for its collector; `None` if the recording ended
/// first.
fn started(done: &Path) -> (crate::support::Record, Started, Option<u32>) {
    let script = format!("\"$0\" 20000; echo done > '{}'", done.display());
    let run = record("sh").args(["-c", &script]).arg(compiled("stream.c"));
    let mut command = run.command();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = Started::with_own_streams(command.stderr(Stdio::piped()));
    let collector = loop {
        let collector = collector_of(child.id());
        if collector.is_some() || child.has_ended() {
            break collector;
        }
    };
    (run, child, collector)
}

#[test]
fn a_killed_collector_ends_the_recording_and_not_the_program() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for round in 0..ROUNDS {
        let done = folder.path().join(format!("done.{round}"));
        let (_run, child, collector) = started(&done);
        std::thread::sleep(STEP * round);
        if let Some(collector) = collector {
            kill(collector);
        }
        let output = child.end();
        let printed = output.errors();
        match output.status.code() {
            // The collector had already done its work.
            Some(0) => assert!(done.exists(), "round {round}: {printed}"),
            // Killed before the program's start: it never runs. Later: it runs to its end.
            Some(125) => assert!(!printed.is_empty(), "round {round}"),
            other => panic!("round {round}: {other:?}: {printed}"),
        }
        let was_started = !printed.contains("could not be started");
        assert_eq!(done.exists(), was_started, "round {round}: {printed}");
    }
}

#[test]
fn a_killed_launcher_leaves_no_collector_behind() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for round in 0..ROUNDS {
        let done = folder.path().join(format!("done.{round}"));
        let (_run, mut child, collector) = started(&done);
        std::thread::sleep(STEP * round);
        child.kill();
        if let Some(collector) = collector {
            expect_end(collector, "the collector");
        }
    }
}
