//! Processes in standby are sampled sparsely from their first allocation: one of 32 MiB. Blocks of
//! 512 MiB, which are never touched, are sampled nearly for certain: one is missed with a probability
//! of e^−16.

use std::process::Command;

use allotrope_sampling::Period;
use rustix::process::Signal;
use serde_json::Value;

use crate::process::Watcher;
use crate::support::record::command;
use crate::support::watched::{Program, state_of};
use crate::support::{Text, run};

const BLOCK: i64 = 512 << 20;
const SPARSE: u64 = 32 << 20;
const DENSE: u64 = 512 << 10;
const JSON: [&str; 5] = ["--headless", "--every", "100ms", "--format", "json"];

fn watch(program: &Program, options: &[&str]) -> Watcher {
    let id = program.id().to_string();
    Watcher::new(&[&["watch", &id][..], options].concat())
}

fn once(program: &Program, options: &[&str]) -> Command {
    let mut watch = command();
    let id = program.id().to_string();
    watch.args(["watch", &id, "--once", "--every", "100ms"]);
    watch.args(options);
    watch
}

fn end(watcher: Watcher) {
    watcher.signal(Signal::TERM);
    watcher.wait();
}

fn period(program: &Program) -> u64 {
    program.state().period.map_or(0, Period::bytes)
}

/// The periods of the only process, in bytes.
fn periods(report: &Value) -> Vec<u64> {
    let periods = report["processes"][0]["periods"]
        .as_array()
        .expect("periods");
    let periods = periods.iter().map(|it| it["period_bytes"].as_u64());
    periods.map(|it| it.expect("bytes")).collect()
}

/// A weight is 1/(1 − e^−16), not 1.
fn is_near(figure: &Value, expected: i64) -> bool {
    figure
        .as_i64()
        .is_some_and(|it| it.abs_diff(expected) < 1000)
}

/// Reported: "live" has only what was allocated since the watcher came, and what is freed of the
/// rest is not subtracted.
#[test]
fn what_lived_before_the_watcher_came_is_in_its_figures() {
    let mut program = Program::new(&[]);
    assert_eq!(program.state().standby, Some(Period::SPARSE));
    assert_eq!(period(&program), SPARSE);
    program.tell(&format!("malloc 3 {BLOCK}"));
    let mut watcher = watch(&program, &JSON);
    let report = watcher.report(|_| true);
    assert_eq!(report["samples"], 3);
    assert!(is_near(&report["live_bytes"], 3 * BLOCK), "{report:#}");
    let process = &report["processes"][0];
    assert_eq!(
        (&process["period_bytes"], &process["is_complete"]),
        (&DENSE.into(), &true.into())
    );
    assert!(process["sampled_since"].is_f64() && process["sampled_until"].is_null());
    assert_eq!(periods(&report), [SPARSE]);
    // The thread looks after 64 KiB at most. Old blocks bound what else may be live.
    program.tell("malloc 1 65536");
    let report = watcher.report(|it| periods(it) == [SPARSE, DENSE]);
    let high = report["live_bytes_high"].as_i64().expect("a number");
    assert!(high > 3 * BLOCK + (90 << 20) && high < 3 * BLOCK + (130 << 20));
    program.tell("free");
    watcher.report(|it| it["live_bytes"] == 0 && is_near(&it["grown_bytes"], -3 * BLOCK));
    end(watcher);
    assert_eq!(period(&program), SPARSE);
}

#[test]
fn a_period_that_was_chosen_is_not_made_shorter() {
    let program = Program::new(&[]);
    run(&mut once(&program, &["--period", "1MiB", "--leave"]), b"").ok();
    assert_eq!(period(&program), 1 << 20);
    run(&mut once(&program, &[]), b"").ok();
    assert_eq!((period(&program), program.state().standby), (1 << 20, None));
    let chosen = Program::new(&["--period", "32MiB"]);
    assert_eq!(chosen.state().standby, None);
    let mut watcher = watch(&chosen, &JSON);
    let report = watcher.report(|_| true);
    assert_eq!(report["processes"][0]["period_bytes"], SPARSE);
    end(watcher);
    assert_eq!(period(&chosen), SPARSE);
    // `--off` is off, whatever it was before.
    run(&mut once(&program, &["--off"]), b"").ok();
    assert_eq!(period(&program), 0);
}

/// Reported: a program in equilibrium seems to grow after a late switch.
#[test]
fn where_sampling_began_late_the_figures_say_so() {
    let mut program = Program::new(&["--period", "off"]);
    assert_eq!(period(&program), 0);
    program.tell(&format!("malloc 3 {BLOCK}"));
    let mut watcher = watch(&program, &JSON);
    watcher.report(|it| it["processes"][0]["period_bytes"] == DENSE);
    program.tell("malloc 1 65536");
    program.tell(&format!("malloc 1 {BLOCK}"));
    let report = watcher.report(|it| it["live_bytes"] == BLOCK);
    assert!(report["live_bytes_low"] == BLOCK && report["live_bytes_high"].is_null());
    assert!(report["grown_bytes_low"].is_null(), "{report:#}");
    let process = &report["processes"][0];
    assert_eq!(process["is_complete"], false);
    assert!(process["sampled_since"].is_f64());
    assert_eq!(periods(&report), [0, DENSE]);
    let text = run(&mut once(&program, &[]), b"").ok().text();
    text.has_all([
        "live: 512.0 MiB (at least 512.0 MiB)",
        "sampled since ",
        "after its start: nothing is known of",
    ]);
    // A gap in the middle is one, too.
    end(watcher);
    program.tell("malloc 1 65536");
    let text = run(&mut once(&program, &[]), b"").ok().text();
    text.has_all(["(at least 512.", ", off from ", "until "]);
}

#[test]
fn nothing_sampled_is_an_answer() {
    let program = Program::new(&[]);
    // 32 MiB times ln 20: a hit in as many bytes has a probability of 95 %.
    let text = run(&mut once(&program, &[]), b"").ok().text();
    text.has("nothing was sampled: under 95.9 MiB were live, with 95 %");
    // The switch to the watcher's period was not noticed: nothing was allocated since.
    let periods = "one of 32.0 MiB sampled from its start, of 512.0 KiB from now on";
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").has(periods);
}

#[test]
fn what_the_program_starts_is_in_standby_too() {
    let mut program = Program::new(&[]);
    let mut watcher = watch(&program, &JSON);
    watcher.report(|_| true);
    assert_eq!(period(&program), DENSE);
    program.tell("malloc 1 65536");
    let child = program.ask("fork").parse().expect("an id");
    program.tell("malloc 1 2000000");
    let state = state_of(child);
    assert_eq!(
        (state.period, state.standby),
        (Some(Period::SPARSE), Some(Period::SPARSE))
    );
    assert!(state.periods.is_complete());
    assert_eq!(program.ask("exit 3"), "3");
    end(watcher);
}

/// What it has set is what the next one finds, but not what was there before.
#[test]
fn a_process_is_in_standby_again_after_a_watcher_that_was_killed() {
    let program = Program::new(&[]);
    let mut watcher = watch(&program, &[&JSON[..], &["--period", "4KiB"]].concat());
    watcher.report(|_| true);
    drop(watcher);
    assert_eq!(period(&program), 4096);
    let report = run(&mut once(&program, &["--format", "json"]), b"").json();
    assert_eq!(report["processes"][0]["period_bytes"], 4096);
    assert_eq!(period(&program), SPARSE);
}
