//! What cannot be watched, and bad usage: one sentence and the documented status.

use std::path::Path;
use std::process::Command;

use crate::process::Program;
use crate::support::record::command;
use crate::support::{Ended, Text, allotrope, compiled_with, is_root, run, skip};

/// Fails unless the command says this, and nothing else.
#[track_caller]
fn assert_refused(output: Ended, part: &str) {
    let output = output.fails(2, part).error_lines(1);
    assert_eq!(output.errors().matches(part).count(), 1, "{output}");
    assert!(output.stdout.is_empty(), "{output}");
}

#[test]
fn processes_that_cannot_be_watched() {
    assert_refused(
        allotrope(["watch", "4194304"]),
        "there is no process 4194304",
    );
    let zero = allotrope(["watch", "0"]);
    zero.fails(2, "write a whole number such as 12, at least 1");
    let program = Program::new("none");
    assert_refused(
        program.watch(&[]),
        "is not prepared; start the program by `allotrope standby",
    );
    let program = Program::new("other size");
    assert_refused(program.watch(&[]), "another version of Allotrope");
    let mut program = Program::new("sampled");
    program.tell("version");
    assert_refused(program.watch(&[]), "version 99 of the memory's layout");
    program.tell("damage");
    assert_refused(program.watch(&[]), "has no complete header");
    let all = ["watch", "--all", "--comm", "no process has this name"];
    assert_refused(
        allotrope(all),
        "no prepared process has a name (/proc/PID/comm) that matches `no process has this name`",
    );
}

/// Reported: a server is down because it cannot be watched.
#[test]
fn or_plain_starts_what_cannot_be_watched() {
    let program = compiled_with("stream.c", &["-static"]);
    let standby = |options: &[&str], program: &Path, argument: &str| {
        let mut command = command();
        command
            .args(["standby", "--quiet", "--no-holder"])
            .args(options);
        run(command.arg(program).arg(argument), b"")
    };
    standby(&[], &program, "10").fails(125, "static");
    let plain = run(Command::new(&program).arg("10"), b"").ok();
    let started = standby(&["--or-plain"], &program, "10").ok();
    assert_eq!(started.stdout, plain.stdout);
    let warning = started.error_lines(1).errors();
    warning.has_all([
        "warning: cannot watch",
        "static",
        "It runs without Allotrope",
    ]);
    // A recorder that is not there, and what can be watched.
    let watchable = compiled_with("stream.c", &[]);
    let missing = ["--or-plain", "--recorder", "/no/such/file"];
    standby(&missing, &watchable, "10").ok().error_lines(1);
    standby(&["--or-plain"], &watchable, "10")
        .ok()
        .error_lines(0);
    // A program that is not there does not start.
    standby(&["--or-plain"], Path::new("/no/such/program"), "10").fails(127, "not found");
}

#[test]
fn another_users_process() {
    if is_root() {
        skip("root may watch every process");
        return;
    }
    assert_refused(allotrope(["watch", "1"]), "belongs to another one");
}

#[test]
fn bad_usage() {
    let program = Program::new("sampled");
    for (options, part) in [
        (&["--period", "0"][..], "1 byte to 1 TiB"),
        (&["--period", "2TiB"], "1 byte to 1 TiB"),
        (&["--period", "large"], "write a size"),
        (&["--every", "0"], "100ms"),
        (&["--every", "soon"], "write a time"),
        (&["--old", "-1"], ""),
        (&["--top", "1001"], "1001"),
        (&["--all"], "--all"),
        (&["--comm", "x"], "--comm"),
        (&["--leave", "--off"], "--off"),
        // A profile has all stacks.
        (&["--output", "x", "--suppressions", "y"], "--suppressions"),
    ] {
        program.watch(options).fails(2, part);
    }
    let output = allotrope(["watch"]);
    assert_refused(
        output,
        "a process id, --all for all prepared processes, or -- PROGRAM",
    );
    for option in [
        "--output=x",
        "--leave",
        "--off",
        "--take-over",
        "--track-high-water-mark",
        "--suppressions=x",
    ] {
        allotrope(["watch", "--perf-script", "/dev/null", option]).fails(2, "cannot be used with");
    }
    assert_refused(
        program.watch(&["--output", "/"]),
        "cannot write /: it is a folder; name a file",
    );
    assert_refused(
        program.watch(&["--log", "/no/such/folder/log", "--once"]),
        "cannot append to /no/such/folder/log",
    );
    assert_refused(
        program.watch(&["--log", "/dev/full", "--once"]),
        "cannot append to /dev/full",
    );
    assert_refused(
        program.watch(&["--suppressions", "/no/such/file", "--once"]),
        "/no/such/file",
    );
}

#[test]
fn a_report_that_cannot_be_written_restores_the_process() {
    let mut program = Program::new("prepared");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("log");
    let log = log.to_str().expect("a plain name");
    // No file may have a byte.
    run(
        Command::new("prlimit")
            .args(["--fsize=0", env!("CARGO_BIN_EXE_allotrope")])
            .args(program.arguments(&["--log", log, "--once", "--every", "100ms"])),
        b"",
    )
    .fails(1, format!("cannot write to {log}"));
    assert_eq!(program.setting(), 0);
}

#[test]
fn a_memory_that_is_damaged_later_is_given_up() {
    let mut program = Program::new("sampled");
    let mut watcher = program.start_watch(&["--every", "100ms", "--format", "json"]);
    watcher.report(|_| true);
    program.tell("damage");
    assert_eq!(watcher.wait(), Some(0));
}

#[test]
fn any_contents_are_read_within_bounds() {
    for seed in 1..4 {
        let mut program = Program::new("sampled");
        program.tell(&format!("garbage {seed}"));
        for format in ["text", "json"] {
            let output = program.watch(&["--once", "--format", format]).ok();
            assert!(!output.stdout.is_empty() && !output.stdout.contains(&0x1b));
        }
    }
}
