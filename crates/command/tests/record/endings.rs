//! However a process ends, its last allocation is in the trace and its status
//! is passed on: `programs/endings.c`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::support::{Recording, Report, Text, compiled, compiled_with, is_root, record, run};
use serde_json::{Value, json};

fn expect(arguments: &[&str], status: i32, exit: &Value) -> Recording {
    let recording = record(compiled("endings.c"))
        .args(arguments)
        .run()
        .code(status);
    let report = recording.report();
    let process = report.only();
    assert_eq!(process.exit(), exit, "{arguments:?}");
    assert_eq!(process.json["complete"], true, "{arguments:?}");
    assert_eq!(process.number("lost_events"), 0, "{arguments:?}");
    let before = process.under("before");
    assert_eq!((before.allocations, before.bytes), (1_000, 20_000));
    assert_eq!(before.leaked, 1_000);
    let last = process.under("last_allocation");
    assert_eq!(
        (last.allocations, last.leaked_bytes),
        (1, 30),
        "{arguments:?}"
    );
    recording
}

#[test]
fn statuses() {
    for status in [0, 7, 255] {
        expect(
            &["return", &status.to_string()],
            status,
            &json!({"status": status}),
        );
    }
}

#[test]
fn exits_that_skip_the_usual_end() {
    for way in ["exit", "_exit", "exit_group", "quick_exit", "thread"] {
        expect(&[way, "5"], 5, &json!({"status": 5}));
    }
}

/// A process that is killed before its first allocation is recorded, too.
#[test]
fn death_without_an_allocation() {
    let recording = record(compiled("killed_idle.c")).run().code(128 + 9);
    let report = recording.report();
    let process = report.only();
    assert_eq!(*process.exit(), json!({"signal": "SIGKILL"}));
    assert_eq!(process.total("allocations"), 0);
}

/// `record` saves everything, then exits with 128 + the signal's number.
#[test]
fn deaths() {
    for (number, name) in [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (9, "SIGKILL"),
        (13, "SIGPIPE"),
        (15, "SIGTERM"),
        (31, "SIGSYS"),
    ] {
        expect(
            &["kill", &number.to_string()],
            128 + number,
            &json!({"signal": name}),
        );
    }
}

#[test]
fn crashes() {
    expect(&["fault"], 128 + 11, &json!({"signal": "SIGSEGV"}));
    expect(&["abort"], 128 + 6, &json!({"signal": "SIGABRT"}));
    expect(&["trap"], 128 + 4, &json!({"signal": "SIGILL"}));
}

#[test]
fn the_summary_has_counts_file_and_next_command() {
    let recording = expect(&["return", "0"], 0, &json!({"status": 0}));
    let printed = &recording.stderr;
    printed.has_all(["1,001", "allotrope report", "recorded.allotrope"]);
}

/// A user without rights.
const NOBODY: u32 = 65_534;

/// Copies an executable in a process of its own: a process that another test starts could
/// inherit a descriptor of ours that is open for writing, and then the copy could not be
/// executed (ETXTBSY).
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg(from).arg(to).status();
    assert!(status.expect("cp(1) starts").success());
}

/// Only the collector can open the file of such a program, and only while the process lives.
/// An ordinary user may not follow `/proc/PID/map_files`.
#[test]
fn programs_that_end_at_once_are_named_however_they_end() {
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do \
                  mkdir d$i && cp program d$i/short && d$i/short $0 0; rm -rf d$i; done";
    for build_id in ["-Wl,--build-id=sha1", "-Wl,--build-id=none"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let folder = folder.path();
        fs::set_permissions(folder, Permissions::from_mode(0o777)).expect("it is ours");
        let command = crate::support::record::command();
        copy(Path::new(command.get_program()), &folder.join("allotrope"));
        copy(
            &compiled_with("endings.c", &[build_id]),
            &folder.join("program"),
        );
        for way in ["return", "exit", "_exit", "exit_group", "quick_exit"] {
            let trace = folder.join(way);
            let mut command = Command::new(folder.join("allotrope"));
            command
                .args(["record", "-o"])
                .arg(&trace)
                .args(["--", "sh", "-c", script, way])
                .env("HOME", folder)
                .env_remove("XDG_CACHE_HOME")
                .env_remove("XDG_RUNTIME_DIR")
                .current_dir(folder);
            if is_root() {
                command.uid(NOBODY).gid(NOBODY);
            }
            run(&mut command, b"").ok();
            let report = Report::of(&trace);
            let processes = report.processes();
            let short = processes.iter().filter(|process| {
                let executable = process.json["executable"].as_str().expect("checked");
                executable.ends_with("/short")
            });
            let named = short.map(|process| process.under("before").allocations);
            let named: Vec<_> = named.collect();
            assert_eq!(named, [1_000; 10], "{way} {build_id}");
        }
    }
}
