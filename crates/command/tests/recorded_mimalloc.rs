//! `Recorded` around an allocator that is linked into the program under names
//! of its own, mimalloc: every call is recorded.

mod recorded;
mod support;

use std::ffi::OsStr;

use allotrope_client::Recorded;
use allotrope_trace::model::EntryPoint;
use mimalloc::MiMalloc;
use support::{Text, allotrope};

#[global_allocator]
static GLOBAL: Recorded<MiMalloc> = Recorded::new(MiMalloc);

#[test]
fn the_workload() {
    recorded::workload();
}

#[test]
fn every_call_is_recorded() {
    let recording = recorded::expect_truth("the_workload");
    let process = recorded::profiled(&recording);
    let (allocations, deallocations) = recorded::through(&process, EntryPoint::Reported);
    assert!(allocations >= recorded::allocations_of_workload());
    // What leaks: five blocks, and what the runtime and the harness keep.
    assert!(deallocations <= allocations - 5);
    recording.stderr.lacks("warning");
}

/// The wrapper's own frames are not shown.
#[test]
fn a_report_begins_with_the_allocations_caller() {
    let recording = recorded::expect_truth("the_workload");
    let text = allotrope([
        OsStr::new("report"),
        recording.trace.as_os_str(),
        OsStr::new("--lists"),
        OsStr::new("--filter"),
        OsStr::new("boxes"),
    ])
    .text();
    text.has("100 at 1 site");
    text.lacks_all(["Recorded<", "allotrope_client", "target/client/src"]);
}

#[test]
fn doctor_sees_that_the_blocks_are_reported() {
    let program = std::env::current_exe().expect("it runs");
    allotrope(["doctor".as_ref(), program.as_os_str()]).has("which reports its blocks");
}
