//! Blocks of pools: `programs/client_pools.c`.

use allotrope_profile::{Options, Process, aggregate};
use allotrope_trace::TraceReader;
use allotrope_trace::model::EntryPoint;

use crate::support::{Recording, allotrope, compiled, record, truth};

const SOURCE: &str = "client_pools.c";

#[test]
fn a_block_at_its_arenas_address() {
    truth::check(SOURCE, "same_address");
}

#[test]
fn a_resized_block() {
    truth::check(SOURCE, "resized");
}

#[test]
fn null_blocks() {
    truth::check(SOURCE, "null_blocks");
}

fn profiled(recording: &Recording) -> Process {
    let reader = TraceReader::open(&recording.trace).expect("it was just written");
    let mut profile = aggregate(&reader, &Options::default()).expect("it is whole");
    assert_eq!(profile.processes.len(), 1);
    profile.processes.remove(0)
}

/// Allocations, their bytes, and deallocations through an entry point.
fn through(process: &Process, entry: EntryPoint) -> (u64, u64, u64) {
    let mut entries = process.entries.iter().filter(|found| found.entry == entry);
    entries.next().map_or((0, 0, 0), |found| {
        (
            found.allocations,
            found.allocated_bytes,
            found.deallocations,
        )
    })
}

#[test]
fn pools_are_an_entry_point_of_their_own() {
    let recording = record(compiled(SOURCE)).arg("same_address").run();
    let process = profiled(&recording.ok());
    assert_eq!(through(&process, EntryPoint::Pool), (3, 180, 2));
}

#[test]
fn arenas_that_go_from_thread_to_thread() {
    const CALLS: u64 = 4 * 5000;
    let recording = record(compiled(SOURCE)).arg("threads").run();
    let recording = recording.ok();
    let process = profiled(&recording);
    assert_eq!(process.lost_events, 0);
    assert_eq!(process.unmatched_deallocations, 0);
    let pools = through(&process, EntryPoint::Pool);
    assert_eq!(pools, (CALLS, CALLS * 8, CALLS));
    let report = recording.report();
    let carved = report.only().under("carve");
    assert_eq!(carved.allocations, 2 * CALLS);
    assert_eq!(carved.bytes, CALLS * (64 + 8));
    assert_eq!(carved.leaked, 0);
}

/// The stack begins at the caller of the pool, not at the header's function.
#[test]
fn a_report_begins_with_the_pools_caller() {
    let recording = record(compiled(SOURCE)).arg("same_address").run();
    let recording = recording.ok();
    let report = recording.report();
    assert_eq!(report.only().under("same_address").allocations, 4);
    allotrope([
        "report".as_ref(),
        "--lists".as_ref(),
        recording.trace.as_os_str(),
    ])
    .has("same_address")
    .lacks("allotrope_pool_allocation");
}
