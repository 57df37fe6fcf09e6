//! Processes: a late reader finds the memory of a running one, and keeps that of a dead one.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use allotrope_shm::samples::file::{FindError, Mapped, find};
use allotrope_shm::samples::reader::State;

use crate::support::{TestProcess, is_whole, sample};

/// Set for a process that is to be watched.
const VARIABLE: &str = "ALLOTROPE_TEST_WATCHED";
/// Set for a watcher, to the id of the process.
const WATCHER_VARIABLE: &str = "ALLOTROPE_TEST_WATCHER";
/// Samples that it has before it says that it is ready.
const SAMPLES: u64 = 1000;
/// Samples that it replaces all the time.
const OTHERS: u64 = 100;

/// Not a test of its own: what the watched process runs.
#[test]
fn watched_process() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let watched = TestProcess::new();
    let writer = watched.writer();
    for number in 1..=SAMPLES {
        assert!(writer.insert(&sample(number * 32, number)));
    }
    // Goes on until it is killed, in the middle of anything.
    for number in 0.. {
        let address = (number % OTHERS + 10_000) * 32;
        writer.take(address);
        writer.insert(&sample(address, number % 1000));
        if number == OTHERS {
            println!("\nready");
        }
    }
}

/// A process that is killed with the test.
struct Process(Child);

impl Process {
    fn start() -> Self {
        let mut child = Command::new("/proc/self/exe")
            .args(["--exact", "processes::watched_process", "--nocapture"])
            .env(VARIABLE, "1")
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = child.stdout.take().expect("its output");
        let mut lines = BufReader::new(output).lines();
        assert!(lines.any(|line| line.is_ok_and(|it| it == "ready")));
        Self(child)
    }

    fn kill(&mut self) {
        self.0.kill().expect("SIGKILL");
        self.0.wait().expect("its end");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn assert_complete(state: &State, process: u32) {
    assert_eq!(state.process.id, u64::from(process));
    assert!(state.samples.iter().all(is_whole));
    let first = state.samples.iter().filter(|it| it.address <= SAMPLES * 32);
    assert_eq!(first.count() as u64, SAMPLES);
    assert_eq!(state.malformed, 0);
}

#[test]
fn a_late_reader_finds_the_memory_and_keeps_it_after_sigkill() {
    for _ in 0..20 {
        let mut process = Process::start();
        let id = process.0.id();
        let file = find(id).expect("the memory");
        let mapped = Mapped::new(&file).expect("a mapping");
        assert_complete(&State::read(mapped.memory()).expect("a state"), id);
        process.kill();
        // Whoever has a descriptor has the last state.
        let state = State::read(mapped.memory()).expect("a state");
        assert_complete(&state, id);
        assert_eq!(state.unstable, 0);
        // At most one sample was being replaced.
        let others = state.samples.len() as u64 - SAMPLES;
        assert!((OTHERS - 1..=OTHERS).contains(&others), "{others}");
        let again = Mapped::new(&file).expect("a second mapping");
        assert_eq!(
            State::read(again.memory()).expect("a state").samples,
            state.samples
        );
    }
}

/// Not a test of its own: a watcher that looks, and sets another period, until it is killed.
#[test]
fn watcher() {
    let Ok(process) = std::env::var(WATCHER_VARIABLE) else {
        return;
    };
    let file = find(process.parse().expect("a number")).expect("the memory");
    let mapped = Mapped::new(&file).expect("a mapping");
    for round in 1u64.. {
        let period = &mapped.memory().control.0.period;
        period.store(round % 1000 * 4096, Relaxed);
        State::read(mapped.memory()).expect("a state");
    }
}

/// Watchers are killed at any moment: the process goes on, and its samples are all there. With
/// `ALLOTROPE_SLOW=1` a thousand of them.
#[test]
fn the_death_of_a_watcher_loses_nothing() {
    let slow = std::env::var_os("ALLOTROPE_SLOW");
    let is_slow = slow.is_some_and(|it| it != "0" && !it.is_empty());
    let process = Process::start();
    let id = process.0.id();
    let mapped = Mapped::new(find(id).expect("the memory")).expect("a mapping");
    for round in 0..if is_slow { 1000 } else { 50 } {
        let sampled = State::read(mapped.memory())
            .expect("a state")
            .counters
            .sampled;
        let mut watcher = Command::new("/proc/self/exe")
            .args(["--exact", "processes::watcher"])
            .env(WATCHER_VARIABLE, id.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a watcher");
        // From before it has started to in the middle of its work.
        std::thread::sleep(Duration::from_micros(round * 7919 % 12_000));
        watcher.kill().expect("SIGKILL");
        let status = watcher.wait().expect("its end");
        assert_eq!(status.signal(), Some(9), "it had ended before");
        let state = State::read(mapped.memory()).expect("a state");
        assert_complete(&state, id);
        assert_eq!(state.counters.lost_samples, 0);
        // The process goes on; it may have to wait for a processor.
        let begin = Instant::now();
        let counters = &mapped.memory().counters.0;
        while counters.sampled.load(Relaxed) == sampled {
            assert!(begin.elapsed() < Duration::from_secs(60), "it stands still");
            std::thread::yield_now();
        }
    }
}

#[test]
fn processes_without_a_memory_are_named() {
    let mut other = Command::new("sleep").arg("60").spawn().expect("sleep");
    let error = find(other.id()).expect_err("no memory");
    assert!(matches!(error, FindError::NotWatched(_)), "{error}");
    other.kill().expect("SIGKILL");
    let id = other.id();
    other.wait().expect("its end");
    let error = find(id).expect_err("no process");
    assert!(matches!(error, FindError::NoProcess(_)), "{error}");
}
