//! `watch -- PROGRAM`: a program that the watcher starts is sampled from its first allocation, and
//! its processes are followed. With a period of one byte every block is sampled.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::watched::{Program, state_of};
use crate::support::{Ended, Started, Text, allotrope, command, run, until};
use allotrope_sampling::Period;
use rustix::process::{Pid, Signal, test_kill_process};
use serde_json::Value;

/// Much longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A watcher that has started `programs/watched.c`, which does what it reads.
struct FromStart {
    program: Program,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl FromStart {
    fn new(before: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let mut watch = command();
        watch.args([
            "watch", "--period", "1", "--every", "100ms", "--format", "json",
        ]);
        watch.arg("--log").arg(&log);
        Self {
            program: Program::start_below(&mut watch, before),
            log,
            _folder: folder,
        }
    }

    /// The reports up to now; the last line may not be complete yet.
    fn reports(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines = text.lines().filter_map(|it| serde_json::from_str(it).ok());
        lines.filter(|it: &Value| it["sites"].is_array()).collect()
    }

    /// The first report for which this is true.
    fn wait_for(&self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(report) = self.reports().into_iter().find(&is_wanted) {
                return report;
            }
            sleep(Duration::from_millis(20));
        }
        panic!("{:?}", self.reports().pop());
    }

    /// Ends the program's input, and waits for the watcher's end.
    #[track_caller]
    fn end(&mut self) -> Ended {
        self.program.close_input();
        self.program.wait(PATIENCE)
    }
}

/// The live blocks of this function, of all processes.
fn blocks_of(report: &Value, function: &str) -> f64 {
    let sites = report["sites"].as_array().expect("sites").iter();
    let has = |site: &&Value| {
        let frames = site["stack"].as_array().expect("a stack");
        frames.iter().any(|it| it["function"] == function)
    };
    let blocks = sites.filter(has).map(|it| it["live_blocks"].as_f64());
    blocks.map(|it| it.expect("a number")).sum()
}

fn process_count(report: &Value) -> usize {
    report["processes"].as_array().expect("processes").len()
}

#[test]
fn a_program_is_sampled_from_the_start_and_its_last_state_reported() {
    let mut started = FromStart::new(&[]);
    started.program.tell("malloc 123 1000");
    started.wait_for(|it| blocks_of(it, "by_malloc") == 123.0);
    started.program.tell("calloc 45 2000");
    started.end().ok();
    let last = started.reports().pop().expect("a report");
    assert_eq!(blocks_of(&last, "by_malloc"), 123.0);
    assert_eq!(blocks_of(&last, "by_calloc"), 45.0);
}

#[test]
fn the_exit_status_is_the_programs() {
    let mut started = FromStart::new(&[]);
    started.program.send("exit 3");
    started.end().code(3);
    let mut started = FromStart::new(&[]);
    started.program.send("kill 9");
    started.end().code(128 + 9);
}

#[test]
fn the_programs_children_are_watched_too() {
    let mut started = FromStart::new(&[]);
    started.program.tell("malloc 100 1000");
    started.program.send("fork");
    let child = started.program.line();
    started.program.tell("malloc 23 1000");
    // The blocks that a child gets by the fork are its parent's.
    let report = started.wait_for(|it| blocks_of(it, "by_malloc") == 123.0);
    assert_eq!(process_count(&report), 2);
    let processes = report["processes"].as_array().expect("processes").iter();
    let ids: Vec<String> = processes.map(|it| it["pid"].to_string()).collect();
    assert!(ids.contains(&child), "{ids:?} {child}");
    started.end();
}

#[test]
fn a_process_that_has_lost_its_parent_is_watched_and_waited_for() {
    // The program itself is the shell, which ends before it.
    let mut started = FromStart::new(&["sh", "-c", "exec 3<&0; \"$0\" <&3 & exit 4"]);
    started.program.tell("malloc 100 1000");
    let end = Instant::now() + PATIENCE;
    while blocks(&started) != Some(100.0) && Instant::now() < end {
        sleep(Duration::from_millis(20));
    }
    assert_eq!(blocks(&started), Some(100.0));
    assert!(!started.program.has_ended());
    started.end().code(4);
}

#[test]
fn a_process_that_is_prepared_after_the_program_has_ended_is_watched() {
    // The second shell is not prepared, nor is what it leaves behind before that is the program.
    let leaving = "exec 3<&0; export KEPT=\"$LD_PRELOAD\"; exec env -u LD_PRELOAD sh -c \
                   '(sleep 1; LD_PRELOAD=\"$KEPT\" exec \"$0\") <&3 & exit 4' \"$0\"";
    let mut started = FromStart::new(&["sh", "-c", leaving]);
    started.program.tell("malloc 100 1000");
    started.wait_for(|it| blocks_of(it, "by_malloc") == 100.0);
    started.end().code(4);
}

/// In the last report.
fn blocks(started: &FromStart) -> Option<f64> {
    let last = started.reports().pop()?;
    Some(blocks_of(&last, "by_malloc"))
}

#[test]
fn a_signal_to_the_watcher_ends_the_program() {
    let mut started = FromStart::new(&[]);
    let report = started.wait_for(|it| process_count(it) == 1);
    let process = report["processes"][0]["pid"].as_i64().expect("an id");
    let process = Pid::from_raw(i32::try_from(process).expect("an id")).expect("an id");
    started.program.signal(Signal::TERM);
    started.program.wait(PATIENCE).code(128 + 15);
    assert!(test_kill_process(process).is_err());
}

/// It was never without samples, and a later watcher needs those.
#[test]
fn a_program_that_outlives_its_watcher_is_in_standby() {
    let ignoring = "trap '' TERM; exec \"$0\"";
    let mut started = FromStart::new(&["sh", "-c", ignoring]);
    let report = started.wait_for(|it| process_count(it) == 1);
    let process = report["processes"][0]["pid"].as_u64().expect("an id");
    let process = u32::try_from(process).expect("an id");
    started.program.signal(Signal::TERM);
    sleep(Duration::from_millis(500));
    started.program.signal(Signal::TERM);
    until("the period is that of standby", || {
        state_of(process).period == Some(Period::SPARSE)
    });
    assert_eq!(state_of(process).standby, Some(Period::SPARSE));
    started.end();
}

#[test]
fn what_cannot_be_started_is_refused() {
    let watch = |arguments: &[&str]| run(command().arg("watch").args(arguments), b"");
    watch(&["--", "/no/such/program"]).code(127).error_lines(1);
    watch(&["--", "/etc/passwd"]).code(126).error_lines(1);
    for conflict in ["--once", "--all", "--take-over", "1", "--output=x"] {
        watch(&[conflict, "--", "true"]).fails(2, "cannot be used with");
    }
}

#[test]
fn a_program_without_the_recorder_runs_to_its_end() {
    // The environment is cleared, so that the program is not prepared.
    let words = ["watch", "--", "env", "-i", "sh", "-c", "echo done; exit 7"];
    allotrope(words).code(7).has("done");
}

/// A shell that has a limit, and becomes the command.
fn limited(limit: &str, arguments: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")]);
    shell.arg(env!("CARGO_BIN_EXE_allotrope")).args(arguments);
    shell
}

#[test]
fn a_limit_that_prevents_watching_is_named() {
    let few = "the limit of descriptors (ulimit -n) is 64";
    let errors = |mut command: Command| run(&mut command, b"").errors();
    let standby = ["standby", "--", "true"];
    let text = errors(limited("-n 64", &standby));
    text.has(few).lacks("postmortem");
    // 4 MiB, in blocks of 512 bytes.
    let text = errors(limited(
        "-f 8192",
        &["standby", "--no-holder", "--", "true"],
    ));
    text.has("the limit of file sizes (ulimit -f)");
    let watch = ["watch", "--headless", "--", "sleep", "0.3"];
    let text = errors(limited("-n 64", &watch));
    text.has("has ended without a memory for samples");
    // A program that is done in a moment may have had one.
    text.has("had ended before it was looked at");
    run(&mut limited("-n 64", &["doctor"]), b"").has(few);
}

/// The kernel ends a process by `SIGXFSZ` that writes more than it may; the program finds that so.
///
/// Reported: with a limit of file sizes (`ulimit -f`), SIGXFSZ ends the command.
#[test]
fn a_limit_of_file_sizes_does_not_end_the_command() {
    let standby = ["standby", "--no-holder", "--", "sh", "-c"];
    // The warning about the limit would be written there.
    let file = tempfile::tempfile().expect("a file");
    let run = |limit: &str, script: &str| {
        let arguments = [&standby[..], &[script]].concat();
        let mut command = limited(limit, &arguments);
        command.stderr(file.try_clone().expect("a file"));
        command.status().expect("a shell")
    };
    // The recorder's file is there from now on.
    assert_eq!(run("-f unlimited", "exit 3").code(), Some(3));
    assert_eq!(run("-f 0", "exit 4").code(), Some(4));
    let status = run("-f 0", "kill -XFSZ $$; exit 5");
    assert_eq!(status.signal(), Some(Signal::XFSZ.as_raw()));
}

#[test]
fn a_process_that_has_the_recorder_and_no_memory_is_told_from_others() {
    let words = ["standby", "--no-holder", "--", "sleep", "1000"];
    let program = Started::new(&mut limited("-n 64", &words));
    let end = Instant::now() + PATIENCE;
    let says = || allotrope(["watch", &program.id().to_string()]).errors();
    while !says().contains("has the recorder, but no memory for samples") {
        assert!(Instant::now() < end, "{}", says());
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_process_that_executes_an_unprepared_program_is_let_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let mut watch = command();
    watch.args("watch --period 1 --every 100ms --format json --log".split(' '));
    watch.arg(&log);
    let mut watcher = Started::new(watch.args(["--", "sh", "-c", "sleep 1; exec env -i cat"]));
    let end = Instant::now() + PATIENCE;
    let is_told = || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.contains("\"kind\":\"process_left\"")
    };
    while !is_told() && Instant::now() < end {
        sleep(Duration::from_millis(50));
    }
    assert!(is_told(), "{:?}", fs::read_to_string(&log));
    // It runs on, and the watcher waits for it.
    assert!(!watcher.has_ended());
    watcher.end().ok();
}
