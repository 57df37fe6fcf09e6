//! A program with four threads that also forks, sampled for a long time, while watchers come,
//! switch sampling on and off, and are killed. `scripts/soak` runs it for 30 minutes, continuous
//! integration for two, and an ordinary run of the tests for some seconds.

use std::fs;
use std::io::Read;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::compile::compiled;
use crate::support::record::command;
use allotrope_shm::samples::file::{Mapped, find};
use allotrope_shm::samples::reader::State;
use rustix::process::{Pid, Signal, kill_process};

/// How long the program works, in seconds.
fn seconds() -> u64 {
    let wanted = std::env::var("ALLOTROPE_SOAK_SECONDS");
    wanted.map_or(8, |it| it.parse().expect("a number of seconds"))
}

/// A child that is killed if the test fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Killed {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it was not waited for");
    }

    /// Returns the resident set in KiB.
    fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()));
        let status = status.expect("our child");
        let mut lines = status.lines().filter_map(|it| it.strip_prefix("VmRSS:"));
        let resident = lines.next().expect("a resident set");
        resident
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .expect("KiB")
    }
}

fn watcher(process: u32, options: &[&str]) -> Killed {
    let mut watch = command();
    watch
        .args(["watch", &process.to_string(), "--headless"])
        .args(options)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Killed(watch.spawn().expect("the command"))
}

#[test]
fn it_is_sampled_right_for_a_long_time() {
    let seconds = seconds();
    let mut program = command();
    program
        .args(["standby", "--no-holder", "--period", "64KiB", "--"])
        .arg(compiled("soak.c"))
        .arg(seconds.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut program = Killed(program.spawn().expect("it starts"));
    let process = program.0.id();
    let start = Instant::now();
    let part = |part: f64| start + Duration::from_secs_f64(seconds as f64 * part);
    // First many watchers, of which every other one is killed.
    let mut watchers = 0;
    while Instant::now() < part(0.5) {
        let period = ["4KiB", "64KiB", "512KiB", "32MiB"][watchers % 4];
        let end = ["--leave", "--off"][watchers / 2 % 2];
        let options = ["--every", "200ms", "--old", "1s", "--period", period, end];
        let watcher = watcher(process, &options);
        sleep(Duration::from_millis(300 + 70 * (watchers as u64 % 10)));
        watcher.signal(if watchers % 2 == 0 {
            Signal::KILL
        } else {
            Signal::TERM
        });
        watchers += 1;
    }
    // Then one, whose memory stays as it is.
    let options = [
        "--every",
        "100ms",
        "--period",
        "64KiB",
        "--track-high-water-mark",
    ];
    let watcher = watcher(process, &options);
    while Instant::now() < part(0.6) {
        sleep(Duration::from_millis(50));
    }
    let early = watcher.resident_kib();
    while Instant::now() < part(0.95) {
        sleep(Duration::from_millis(50));
    }
    let late = watcher.resident_kib();
    let mut text = [0; 5];
    let output = program.0.stdout.as_mut().expect("a pipe");
    output.read_exact(&mut text).expect("it is done");
    assert_eq!(&text, b"done\n");
    let file = find(process).expect("a memory");
    let state = State::read(Mapped::new(&file).expect("a mapping").memory()).expect("a state");
    println!(
        "{watchers} watchers, then one of {early} KiB and later {late} KiB; {:?}",
        state.counters
    );
    let counters = &state.counters;
    assert!(counters.sampled > 1000, "{counters:?}");
    let lost = [
        counters.lost_samples,
        counters.lost_stacks,
        counters.lost_modules,
        counters.lost_totals,
        counters.uncommitted,
        state.malformed,
    ];
    assert_eq!(lost, [0; 6], "{counters:?}");
    // What is left are blocks of the C library's, such as those of its threads.
    assert_eq!(
        counters.sampled - counters.freed,
        state.samples.len() as u64
    );
    assert!(state.samples.len() < 20, "{:?}", state.samples);
    assert!(late < early + 8192, "{early} KiB became {late} KiB");
    drop(program.0.stdin.take());
    assert!(program.0.wait().expect("our child").success());
}
