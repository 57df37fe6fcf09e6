//! An allocator that a program reports: `programs/client_allocator.c`.

use crate::support::{compiled, record, truth};

const SOURCE: &str = "client_allocator.c";

#[test]
fn each_call_is_one_event() {
    truth::check(SOURCE, "counted");
}

#[test]
fn a_call_within_a_call_is_part_of_it() {
    truth::check(SOURCE, "nested");
}

#[test]
fn a_call_left_by_longjmp_has_ended() {
    truth::check(SOURCE, "left_by_a_jump");
}

/// The parent's totals are those that its source states. The child ends within the
/// call: it has the blocks inherited from the parent and none of its own.
#[test]
fn a_fork_within_a_call() {
    let recording = record(compiled(SOURCE)).arg("forked").run();
    let report = recording.ok().report();
    let processes = report.processes();
    assert!(processes.iter().all(|p| p.number("lost_events") == 0));
    let parent = truth::stated(SOURCE, "forked");
    let total = |name| processes[0].total(name);
    assert_eq!(total("allocations"), parent["allocations"]);
    assert_eq!(total("allocated_bytes"), parent["bytes"]);
    assert_eq!(total("leaked_bytes"), parent["leaked_bytes"]);
    for child in &processes[1..] {
        assert_eq!(child.total("allocations"), 0);
    }
}
