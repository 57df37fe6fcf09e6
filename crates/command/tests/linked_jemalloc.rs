//! jemalloc as the global allocator of a Rust program that knows nothing of Allotrope
//! (`tikv-jemallocator`): every call is recorded.

mod recorded;
mod support;

use allotrope_trace::model::EntryPoint;
use support::{Text, allotrope};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static GLOBAL: Jemalloc = Jemalloc;

#[test]
fn the_workload() {
    recorded::workload();
}

#[test]
fn every_call_is_recorded() {
    let recording = recorded::expect_truth("the_workload");
    let printed = &recording.stderr;
    printed.lacks("warning");
    let process = recorded::profiled(&recording);
    // Only `Recorded` reports.
    assert_eq!(recorded::through(&process, EntryPoint::Reported), (0, 0));
    let (allocations, _) = recorded::through(&process, EntryPoint::Malloc);
    assert!(allocations > 0);
    let (_, deallocations) = recorded::through(&process, EntryPoint::Sdallocx);
    assert!(deallocations > 0);
}

#[test]
fn doctor_tells_beforehand() {
    let program = std::env::current_exe().expect("it runs");
    let printed = allotrope(["doctor".as_ref(), program.as_os_str()]).text();
    let what = "jemalloc is linked into the program; its calls are recorded by patching";
    printed.has(what);
}
