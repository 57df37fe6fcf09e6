//! However a process ends, its last allocation is in the trace and its status
//! is passed on: `programs/endings.c`.

mod support;

use serde_json::{Value, json};
use support::{Recording, compiled, record};

fn expect(arguments: &[&str], status: i32, exit: &Value) -> Recording {
    let recording = record(compiled("endings.c"))
        .args(arguments)
        .run()
        .expect_status(status);
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
    let recording = record(compiled("killed_idle.c"))
        .run()
        .expect_status(128 + 9);
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
    for part in ["1,001", "allotrope report", "recorded.allotrope"] {
        assert!(printed.contains(part), "{part} in {printed}");
    }
}
