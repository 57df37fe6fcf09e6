//! A program with four threads that also forks, sampled for a long time, while watchers come,
//! switch sampling on and off, and are killed. `scripts/soak` runs it for 30 minutes, continuous
//! integration for two, and an ordinary run of the tests for some seconds.

use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::compile::compiled;
use crate::support::{Started, command};
use allotrope_shm::samples::file::{Mapped, find};
use allotrope_shm::samples::reader::State;
use rustix::process::Signal;

/// How long the program works, in seconds.
fn seconds() -> u64 {
    let wanted = std::env::var("ALLOTROPE_SOAK_SECONDS");
    wanted.map_or(8, |it| it.parse().expect("a number of seconds"))
}

fn watcher(process: u32, options: &[&str], reports: Stdio) -> Started {
    let mut watch = command();
    watch.args(["watch", &process.to_string(), "--headless"]);
    watch.stdout(reports).stderr(Stdio::null());
    Started::with_own_streams(watch.args(options))
}

#[test]
fn it_is_sampled_right_for_a_long_time() {
    let seconds = seconds();
    let mut program = command();
    program
        .args(["standby", "--no-holder", "--period", "64KiB", "--"])
        .arg(compiled("soak.c"))
        .arg(seconds.to_string());
    let mut program = Started::new(&mut program);
    let process = program.id();
    let start = Instant::now();
    let part = |part: f64| start + Duration::from_secs_f64(seconds as f64 * part);
    // First many watchers, of which every other one is killed.
    let mut watchers = 0;
    while Instant::now() < part(0.5) {
        let period = ["4KiB", "64KiB", "512KiB", "32MiB"][watchers % 4];
        let end = ["--leave", "--off"][watchers / 2 % 2];
        let options = ["--every", "200ms", "--old", "1s", "--period", period, end];
        let watcher = watcher(process, &options, Stdio::null());
        sleep(Duration::from_millis(300 + 70 * (watchers as u64 % 10)));
        watcher.signal(if watchers % 2 == 0 {
            Signal::KILL
        } else {
            Signal::TERM
        });
        watchers += 1;
    }
    // Then one, whose memory stays as it is from its first reports on. It is started when the
    // machine lets it, so that its reports tell how far it is, not the time.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("reports");
    let reports = || {
        let text = std::fs::read_to_string(&file).expect("the reports");
        text.lines().filter(|it| it.starts_with("live: ")).count()
    };
    let options = "--every 100ms --period 64KiB --track-high-water-mark";
    let options: Vec<&str> = options.split(' ').collect();
    let output = std::fs::File::create(&file).expect("a file");
    let watcher = watcher(process, &options, output.into());
    while Instant::now() < part(0.6) || (reports() < 5 && Instant::now() < part(0.95)) {
        sleep(Duration::from_millis(50));
    }
    let early = watcher.resident_kib();
    while Instant::now() < part(0.95) {
        sleep(Duration::from_millis(50));
    }
    let late = watcher.resident_kib();
    assert_eq!(program.line(), "done");
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
    program.end().ok();
}
