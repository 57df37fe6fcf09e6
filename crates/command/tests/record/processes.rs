//! Process trees: which processes the report has, what each allocated, what a child
//! inherits: `programs/processes.c`.

use std::process::Stdio;

use crate::support::{Process, Report, Started, compiled, record};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;

const SOURCE: &str = "processes.c";

fn report(arguments: &[&str], status: i32) -> Report {
    record(compiled(SOURCE))
        .args(arguments)
        .run()
        .code(status)
        .report()
}

fn complete(report: &Report) {
    for process in report.processes() {
        assert_eq!(process.number("lost_events"), 0, "{}", report.summary());
        assert_eq!(process.json["complete"], true, "{}", report.summary());
    }
}

/// The image that ran `leaf 6 4`: six blocks of six bytes and status 4.
fn expect_leaf(report: &Report, leaf: &Process<'_>) {
    let work = leaf.under("leaf_work");
    assert_eq!(
        (work.allocations, work.bytes),
        (6, 36),
        "{}",
        report.summary()
    );
    assert_eq!(*leaf.exit(), json!({"status": 4}));
    assert_eq!(
        leaf.total("inherited_allocations"),
        0,
        "exec inherits nothing"
    );
}

#[test]
fn a_child_inherits_its_parents_blocks() {
    let report = report(&["inherited"], 0);
    complete(&report);
    let processes = report.processes();
    assert_eq!(processes.len(), 2, "{}", report.summary());
    let (parent, child) = (processes[0], processes[1]);

    assert_eq!(*parent.exit(), json!({"status": 0}));
    assert_eq!(parent.total("allocations"), 10);
    assert_eq!(parent.total("deallocations"), 10);
    assert_eq!(parent.total("leaked_allocations"), 0);
    assert_eq!(parent.total("peak_bytes"), 1_000);
    assert_eq!(parent.total("inherited_allocations"), 0);

    assert_eq!(*child.exit(), json!({"status": 3}));
    assert_eq!(child.json["parent_pid"], parent.json["pid"]);
    assert_eq!(child.total("inherited_allocations"), 10);
    assert_eq!(child.total("inherited_bytes"), 1_000);
    assert_eq!(child.total("inherited_deallocations"), 4);
    assert_eq!(child.total("allocations"), 3);
    assert_eq!(child.total("allocated_bytes"), 150);
    assert_eq!(child.total("leaked_allocations"), 2);
    assert_eq!(child.total("leaked_bytes"), 100);
    assert_eq!(child.total("peak_bytes"), 150);
    assert_eq!(child.total("peak_allocations"), 3);
    let work = child.under("child_work");
    assert_eq!((work.allocations, work.temporary), (3, 1));
}

#[test]
fn four_generations() {
    let report = report(&["generations"], 0);
    complete(&report);
    let processes = report.processes();
    assert_eq!(processes.len(), 4, "{}", report.summary());
    let mut inherited = 0;
    for (process, count) in processes.iter().zip(1..) {
        let work = process.under("generation_work");
        assert_eq!((work.allocations, work.bytes), (count, 10 * count));
        assert_eq!(process.total("inherited_allocations"), inherited);
        assert_eq!(process.total("inherited_bytes"), 10 * inherited);
        inherited += count;
    }
    for pair in processes.windows(2) {
        assert_eq!(pair[1].json["parent_pid"], pair[0].json["pid"]);
    }
}

#[test]
fn forks_of_a_threaded_program() {
    let report = report(&["threaded"], 0);
    complete(&report);
    let processes = report.processes();
    assert_eq!(processes.len(), 21, "{}", report.summary());
    assert_eq!(processes[0].under("forked_work").allocations, 0);
    for child in &processes[1..] {
        let work = child.under("forked_work");
        assert_eq!((work.allocations, work.bytes), (7, 77));
        assert_eq!(work.leaked, 7);
        assert_eq!(
            child.under("noise").allocations,
            0,
            "only the forking thread lives on"
        );
    }
}

#[test]
fn an_exec_chain_is_one_pid_and_several_images() {
    let report = report(&["chain", "4"], 5);
    complete(&report);
    let processes = report.processes();
    assert_eq!(processes.len(), 4, "{}", report.summary());
    for (process, count) in processes.iter().zip([4, 3, 2, 1]) {
        assert_eq!(process.json["pid"], processes[0].json["pid"]);
        let work = process.under("leaf_work");
        assert_eq!((work.allocations, work.bytes), (count, count * count));
        assert_eq!(work.leaked, count, "live when the image was replaced");
        let exit = if count > 1 {
            json!({"exec": true})
        } else {
            json!({"status": 5})
        };
        assert_eq!(*process.exit(), exit);
    }
}

#[test]
fn vfork_and_spawn_children_begin_with_their_exec() {
    for case in ["vfork", "spawn"] {
        let report = report(&[case], 4);
        complete(&report);
        let processes = report.processes();
        assert_eq!(processes.len(), 2, "{case}: {}", report.summary());
        assert_eq!(processes[0].under("starter_work").allocations, 1);
        assert_eq!(*processes[0].exit(), json!({"status": 4}));
        expect_leaf(&report, &processes[1]);
        assert_eq!(processes[1].json["parent_pid"], processes[0].json["pid"]);
    }
}

#[test]
fn what_system_starts() {
    let report = report(&["system"], 4);
    complete(&report);
    let leaves = report.with_argument("leaf");
    let leaf = leaves.iter().find(|process| {
        process
            .command()
            .first()
            .is_some_and(|word| !word.ends_with("sh"))
    });
    expect_leaf(&report, leaf.expect("the shell's child is recorded"));
    assert_eq!(report.processes()[0].under("starter_work").bytes, 9);
}

/// An image whose environment does not name the recorder runs on. It is recorded, or
/// the summary says that it is not.
#[test]
fn an_empty_environment() {
    let recording = record(compiled(SOURCE)).arg("bare").run().code(4);
    let report = recording.report();
    let leaves = report.with_argument("leaf");
    match leaves.as_slice() {
        [leaf] => expect_leaf(&report, leaf),
        _ => assert!(
            recording.stderr.contains("not recorded") || recording.stderr.contains("unrecorded"),
            "{}\n{}",
            recording.stderr,
            report.summary()
        ),
    }
    assert_eq!(report.processes()[0].under("starter_work").bytes, 9);
}

#[test]
fn a_pipeline_of_a_shell() {
    let program = compiled(SOURCE);
    let line = format!("{0} leaf 3 0 | {0} leaf 4 0 | cat", program.display());
    let recording = record("sh").args(["-c", &line]).run().ok();
    let report = recording.report();
    complete(&report);
    for (count, bytes) in [(3, 9), (4, 16)] {
        let count_text = count.to_string();
        let found: Vec<_> = report
            .processes()
            .into_iter()
            .filter(|p| p.command().get(1..3) == Some(&["leaf", &count_text]))
            .collect();
        assert_eq!(found.len(), 1, "{}", report.summary());
        let work = found[0].under("leaf_work");
        assert_eq!((work.allocations, work.bytes), (count, bytes));
    }
    assert!(
        report.processes().iter().any(|p| p.command() == ["cat"]),
        "{}",
        report.summary()
    );
}

/// `record` ends when the last recorded process has ended, with the status of the
/// first.
#[test]
fn a_child_that_outlives_its_parent() {
    let report = report(&["orphan"], 0);
    complete(&report);
    let processes = report.processes();
    assert_eq!(processes.len(), 2, "{}", report.summary());
    assert_eq!(processes[1].under("forked_work").allocations, 7);
    assert_eq!(*processes[1].exit(), json!({"status": 0}));
}

/// Once the first process has ended, `record` prints for which it waits. An interrupt
/// then ends the recording and none of them.
#[test]
fn an_interrupt_ends_the_recording_and_not_the_processes() {
    let run = record(compiled(SOURCE)).arg("lingering");
    let mut command = run.command();
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut recording = Started::with_own_streams(&mut command);
    let waited_for = loop {
        let line = recording.error_line();
        let numbers = line.split(|c: char| !c.is_ascii_digit());
        if let Some(pid) = numbers.filter_map(|n| n.parse().ok()).find(|n| *n > 1) {
            break Pid::from_raw(pid).expect("above 0");
        }
    };
    recording.signal(Signal::INT);
    let output = recording.end();
    test_kill_process(waited_for).expect("the process lives on");
    kill_process(waited_for, Signal::KILL).expect("and ends now");

    let recording = run.recorded(output).code(6);
    let report = recording.report();
    let processes = report.processes();
    assert_eq!(processes.len(), 2, "{}", report.summary());
    assert_eq!(*processes[0].exit(), json!({"status": 6}));
    assert_eq!(*processes[1].exit(), json!({"running": true}));
    assert_eq!(processes[1].json["pid"], waited_for.as_raw_nonzero().get());
    assert_eq!(processes[1].under("forked_work").leaked, 7);
}

#[test]
fn no_follow_records_the_first_image_only() {
    for arguments in [&["inherited"][..], &["spawn"], &["vfork"]] {
        let status = if arguments == ["inherited"] { 0 } else { 4 };
        let recording = record(compiled(SOURCE))
            .option("--no-follow")
            .args(arguments)
            .run()
            .code(status);
        let report = recording.report();
        assert_eq!(report.processes().len(), 1, "{}", report.summary());
    }
}
