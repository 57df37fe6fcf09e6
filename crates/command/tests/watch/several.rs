//! Several processes: told apart and summed.

use std::time::{Duration, Instant};

use crate::support::{Ended, Text, run};
use serde_json::Value;

use crate::process::{Program, Watcher, assert_holds, site};
use crate::support::record::command;

const LARGE: i64 = 64 << 20;

fn of_process(list: &Value, process: u32) -> Value {
    let list = list.as_array().expect("processes");
    let found = list.iter().find(|it| it["pid"] == process);
    found
        .unwrap_or_else(|| panic!("no process {process} in {list:?}"))
        .clone()
}

#[test]
fn two_processes_are_told_apart_and_summed() {
    let (mut one, mut two) = (Program::new("sampled"), Program::new("sampled"));
    one.tell(&format!("alloc leak 3 {LARGE} 0"));
    two.tell(&format!("alloc leak 4 {LARGE} 0"));
    two.tell(&format!("alloc cache 1 {LARGE} 0"));
    let ids = [one.id().to_string(), two.id().to_string()];
    let report: Value = run(
        command().args(["watch", &ids[0], &ids[1], "--once", "--format", "json"]),
        b"",
    )
    .json();
    assert_holds(&report, "live_blocks", 8);
    let leak = site(&report, "story_leak");
    assert_holds(leak, "live_bytes", 7 * LARGE);
    for (program, all, leaked) in [(&one, 3, 3), (&two, 5, 4)] {
        let process = of_process(&report["processes"], program.id());
        assert_eq!(process["live_bytes"], all * LARGE);
        let in_site = of_process(&leak["processes"], program.id());
        assert_eq!(in_site["live_bytes"], leaked * LARGE);
    }
}

/// Reported: one of several processes cannot be watched, so that none is.
#[test]
fn one_that_cannot_be_watched_is_named_and_the_others_are_watched() {
    let mut one = Program::new("sampled");
    one.tell(&format!("alloc leak 3 {LARGE} 0"));
    let not_prepared = Program::new("none");
    let ids = [one.id().to_string(), not_prepared.id().to_string()];
    let watch = ["watch", &ids[0], &ids[1], "--once", "--format", "json"];
    let ended = run(command().args(watch), b"").ok().error_lines(1);
    let named = format!("process {} is not prepared", not_prepared.id());
    ended.errors().has(named);
    let report: Value = ended.json();
    assert_eq!(report["processes"].as_array().map(Vec::len), Some(1));
    assert_holds(&report, "live_blocks", 3);
}

#[test]
fn all_of_a_name_are_found_while_they_come_and_go() {
    // The name is that of this test in this run.
    let name = format!("all-{}", std::process::id());
    let mut one = Program::named("prepared", &name);
    let other = Program::named("prepared", "another");
    let arguments = [
        "watch", "--all", "--comm", &name, "--every", "100ms", "--format", "json",
    ];
    let mut watcher = Watcher::new(&arguments);
    let report = watcher.report(|_| true);
    assert_eq!(report["processes"].as_array().map(Vec::len), Some(1));
    assert_eq!(of_process(&report["processes"], one.id())["pid"], one.id());
    let mut two = Program::named("prepared", &name);
    two.tell(&format!("alloc leak 2 {LARGE} 0"));
    watcher.object(|it| it["kind"] == "process_found" && it["pid"] == two.id());
    let report = watcher.report(|it| it["samples"] == 2);
    assert_eq!(report["processes"].as_array().map(Vec::len), Some(2));
    assert_eq!((one.setting(), two.setting()), (512 << 10, 512 << 10));
    let first = one.id();
    one.end();
    watcher.object(|it| it["kind"] == "process_ended" && it["pid"] == first);
    two.end();
    assert_eq!(watcher.wait(), Some(0));
    drop(other);
}

/// One of two has ended before the time of the report, which is about both.
///
/// Reported: `watch --once` does not wait when one of several processes ends.
#[test]
fn one_report_waits_for_its_time_when_one_process_ends() {
    let (mut one, mut two) = (Program::new("prepared"), Program::new("prepared"));
    one.tell(&format!("alloc leak 3 {LARGE} 0"));
    let ids = [one.id().to_string(), two.id().to_string()];
    let options = ["--once", "--every", "3s", "--format", "json"];
    let mut watcher = Watcher::new(&[&["watch", &ids[0], &ids[1]], &options[..]].concat());
    one.wait_for_watcher();
    let start = Instant::now();
    two.wait_for_watcher();
    let first = one.id();
    one.end();
    two.tell(&format!("alloc cache 4 {LARGE} 0"));
    let report = watcher.report(|_| true);
    // Half a second less than that: the watcher may have been first.
    assert!(start.elapsed() > Duration::from_millis(2500));
    let live = |process| of_process(&report["processes"], process)["live_bytes"].as_i64();
    assert_eq!(
        (live(first), live(two.id())),
        (Some(3 * LARGE), Some(4 * LARGE))
    );
    assert_eq!(watcher.wait(), Some(0));
    assert_eq!(two.setting(), 0);
}

/// Nothing more can come when all have ended.
#[test]
fn one_report_comes_at_once_when_all_processes_have_ended() {
    let (mut one, mut two) = (Program::new("prepared"), Program::new("prepared"));
    one.tell(&format!("alloc leak 3 {LARGE} 0"));
    let ids = [one.id().to_string(), two.id().to_string()];
    let options = ["--once", "--every", "1h", "--format", "json"];
    let mut watcher = Watcher::new(&[&["watch", &ids[0], &ids[1]], &options[..]].concat());
    one.wait_for_watcher();
    two.wait_for_watcher();
    one.end();
    two.end();
    assert_eq!(watcher.report(|_| true)["samples"], 3);
    assert_eq!(watcher.wait(), Some(0));
}

/// Each process takes two descriptors, and a quarter of so low a limit is left for other things.
#[test]
fn processes_for_which_there_are_no_descriptors_are_counted() {
    let name = format!("few-{}", std::process::id());
    let programs: Vec<Program> = (0..12).map(|_| Program::named("sampled", &name)).collect();
    let watch = |limit: &str, arguments: &[&str]| {
        let script = format!("ulimit {limit}; exec \"$@\"");
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", &script, "sh"])
            .arg(command().get_program());
        shell.arg("watch").args(arguments);
        run(shell.args(["--once", "--format", "json"]), b"")
    };
    let watched = |output: &Ended| {
        let report: Value = output.json();
        report["processes"].as_array().map_or(0, Vec::len)
    };
    // The soft limit is raised.
    let all = ["--all", "--comm", &name];
    let output = watch("-Sn 24", &all);
    assert_eq!(
        (watched(&output), output.errors()),
        (programs.len(), String::new())
    );
    let output = watch("-n 24", &all);
    let few = watched(&output);
    assert!((1..programs.len()).contains(&few), "{few}");
    let rest = programs.len() - few;
    let sentence = format!("{rest} further processes are not watched: too many open files");
    output.errors().has(&sentence);
    assert_eq!(output.status.code(), Some(0));
    // The same where they are named.
    let ids: Vec<String> = programs.iter().map(|it| it.id().to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let output = watch("-n 24", &ids).ok();
    assert_eq!(watched(&output), few);
    output.errors().has(&sentence);
}
