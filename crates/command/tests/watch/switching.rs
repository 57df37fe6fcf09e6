//! Sampling is switched on and restored; one watcher at a time; watchers that are killed.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use crate::process::Program;

const DEFAULT: u64 = 512 << 10;
const JSON: [&str; 4] = ["--every", "100ms", "--format", "json"];

#[test]
fn a_watcher_restores_what_it_found() {
    for (kind, before) in [("prepared", 0), ("sampled", DEFAULT)] {
        let mut program = Program::new(kind);
        assert_eq!(program.setting(), before);
        for signal in [Signal::TERM, Signal::INT] {
            let mut watcher = program.start_watch(&[&JSON[..], &["--period", "4KiB"]].concat());
            watcher.report(|_| true);
            assert_eq!(program.setting(), 4096);
            watcher.signal(signal);
            assert_eq!(watcher.wait(), Some(128 + signal.as_raw()));
            assert_eq!(program.setting(), before, "{kind}");
        }
    }
}

#[test]
fn without_a_period_sampling_is_switched_on_with_the_usual_one() {
    let mut program = Program::new("prepared");
    let mut watcher = program.start_watch(&JSON);
    watcher.report(|_| true);
    assert_eq!(program.setting(), DEFAULT);
    drop(watcher);
    // One that is set stays.
    program.report(&["--every", "100ms", "--period", "1MiB", "--leave"]);
    assert_eq!(program.setting(), 1 << 20);
    program.report(&[]);
    assert_eq!(program.setting(), 1 << 20);
    program.report(&["--off"]);
    assert_eq!(program.setting(), 0);
}

#[test]
fn one_report_of_a_process_in_standby_comes_after_a_while_and_leaves_it_off() {
    let mut program = Program::new("prepared");
    let report = program.report(&["--every", "100ms"]);
    assert_eq!(report["processes"][0]["period_bytes"], DEFAULT);
    assert_eq!(program.setting(), 0);
}

#[test]
fn a_second_watcher_that_sets_the_period_is_refused_unless_it_takes_over() {
    let mut program = Program::new("prepared");
    let mut first = program.start_watch(&[&JSON[..], &["--period", "4KiB"]].concat());
    first.report(|_| true);
    for options in [&["--period", "1MiB"][..], &["--off"], &["--leave"]] {
        let options = [&["--once"], options].concat();
        let refused = program.watch(&options).error_lines(1);
        refused.fails(
            2,
            "is being watched already, and that watcher sets the period",
        );
        assert_eq!(program.setting(), 4096);
    }
    let mut second = program.start_watch(&[&JSON[..], &["--take-over"]].concat());
    second.report(|_| true);
    first.object(|it| it["kind"] == "process_taken_over");
    assert_eq!(first.wait(), Some(0));
    assert_eq!(program.setting(), 4096);
    // It restores what the first one found.
    second.signal(Signal::TERM);
    second.wait();
    assert_eq!(program.setting(), 0);
}

/// Reported: nobody else can look at a process that a daemon watches.
#[test]
fn others_may_look_at_a_process_that_is_watched() {
    let mut program = Program::new("prepared");
    let mut first = program.start_watch(&[&JSON[..], &["--period", "4KiB"]].concat());
    first.report(|_| true);
    program.tell("alloc leak 10 100000 0");
    // One report, at once: sampling is on.
    let report = program.report(&["--every", "1h"]);
    assert_eq!(report["samples"], 10);
    assert_eq!(report["processes"][0]["period_bytes"], 4096);
    // And one that stays for longer than the first watcher.
    let mut second = program.start_watch(&JSON);
    second.report(|it| it["samples"] == 10);
    let mut third = program.start_watch(&JSON);
    third.report(|it| it["samples"] == 10);
    third.signal(Signal::TERM);
    assert_eq!(third.wait(), Some(128 + Signal::TERM.as_raw()));
    assert_eq!(program.setting(), 4096);
    first.report(|it| it["samples"] == 10);
    first.signal(Signal::TERM);
    first.wait();
    // The second one sets the period now, and at its end what it was before.
    second.report(|it| it["processes"][0]["period_bytes"] == DEFAULT);
    assert_eq!(program.setting(), DEFAULT);
    second.signal(Signal::TERM);
    second.wait();
    assert_eq!(program.setting(), 0);
}

/// Who only looks follows a process through exec, and takes nothing from the other.
#[test]
fn a_program_that_two_watch_may_call_exec() {
    let mut program = Program::new("prepared");
    let mut first = program.start_watch(&[&JSON[..], &["--period", "4KiB"]].concat());
    first.report(|_| true);
    let mut second = program.start_watch(&JSON);
    second.report(|_| true);
    assert_eq!(program.tell("exec"), "ready");
    for watcher in [&mut first, &mut second] {
        watcher.object(|it| it["kind"] == "process_executed");
    }
    program.tell("alloc leak 3 100000 0");
    for watcher in [&mut first, &mut second] {
        watcher.report(|it| it["samples"] == 3 && it["processes"][0]["period_bytes"] == 4096);
    }
    for watcher in [first, second] {
        watcher.signal(Signal::TERM);
        watcher.wait();
    }
    assert_eq!(program.setting(), 0);
}

#[test]
fn a_watcher_may_be_killed_at_any_moment() {
    let mut program = Program::new("sampled");
    for round in 1..=20 {
        program.tell("alloc leak 10 100000 0");
        let mut watcher = program.start_watch(&JSON);
        // Some are killed while they work, others while they begin.
        if round % 2 == 0 {
            let report = watcher.report(|_| true);
            assert_eq!(report["samples"], 10 * round);
        }
        drop(watcher);
    }
    let report = program.report(&[]);
    assert_eq!(report["samples"], 200);
    assert_eq!(report["processes"][0]["lost_samples"], 0);
    assert_eq!(program.setting(), DEFAULT);
}

#[test]
fn the_watcher_ends_with_the_process() {
    let mut program = Program::new("prepared");
    program.tell("alloc leak 10 100000 0");
    let mut watcher = program.start_watch(&["--every", "1h", "--format", "json"]);
    program.wait_for_watcher();
    program.end();
    let last = watcher.report(|_| true);
    assert_eq!(last["samples"], 10);
    watcher.object(|it| it["kind"] == "process_ended");
    assert_eq!(watcher.wait(), Some(0));
}

#[test]
fn a_program_that_calls_exec_is_watched_on() {
    let mut program = Program::new("prepared");
    program.tell("alloc leak 10 100000 0");
    let mut watcher = program.start_watch(&[&JSON[..], &["--period", "4KiB"]].concat());
    watcher.report(|it| it["samples"] == 10);
    // The new program's memory is another one.
    assert_eq!(program.tell("exec"), "ready");
    watcher.object(|it| it["kind"] == "process_executed");
    program.tell("alloc leak 3 100000 0");
    watcher.report(|it| it["samples"] == 3);
    assert_eq!(program.setting(), 4096);
    watcher.signal(Signal::TERM);
    watcher.wait();
    assert_eq!(program.setting(), 0);
}

/// Far longer than anything here takes, and far shorter than the hour until the next report.
const LONG: Duration = Duration::from_secs(60);

/// Reported: after an exec, `watch --every 1h` does not sample for an hour.
#[test]
fn a_program_that_calls_exec_is_sampled_long_before_the_next_report() {
    let mut program = Program::new("prepared");
    let options = ["--every", "1h", "--period", "4KiB", "--format", "json"];
    let mut watcher = program.start_watch(&options);
    program.wait_for_watcher();
    let start = Instant::now();
    assert_eq!(program.tell("exec"), "ready");
    program.wait_for_watcher();
    assert_eq!(program.setting(), 4096);
    watcher.object(|it| it["kind"] == "process_executed");
    assert!(start.elapsed() < LONG);
}

/// Its blocks are gone with the exec, five seconds before the watcher says that it has left.
///
/// Reported: after an exec, `watch` still reports the blocks from before.
#[test]
fn the_blocks_of_a_program_that_was_replaced_are_not_reported_as_live() {
    for every in ["100ms", "1h"] {
        let mut program = Program::new("prepared");
        program.tell("alloc leak 10 100000 0");
        let mut watcher = program.start_watch(&["--every", every, "--format", "json"]);
        if every == "100ms" {
            watcher.report(|it| it["samples"] == 10);
        } else {
            program.wait_for_watcher();
        }
        let start = Instant::now();
        assert_eq!(program.tell("exec-unprepared"), "ready");
        let executed = SystemTime::now().duration_since(UNIX_EPOCH).expect("1970");
        watcher.object(|it| {
            // Only reports whose look was before.
            let time = it["time"].as_f64().expect("a time");
            let is_left = it["kind"] == "process_left";
            assert!(is_left || time <= executed.as_secs_f64(), "{it:#}");
            is_left
        });
        assert!(start.elapsed() < LONG);
        assert_eq!(watcher.wait(), Some(0));
    }
}
