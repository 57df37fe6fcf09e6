//! `Recorded` around `System`, whose blocks come from `malloc`: the hooks there record
//! them, and only once. All tests of this binary run with it: where nothing records them, it only
//! passes calls on.

use std::alloc::System;

use allotrope_client::Recorded;
use allotrope_trace::model::EntryPoint;

use crate::recorded;

#[global_allocator]
static GLOBAL: Recorded<System> = Recorded::new(System);

#[test]
fn the_workload() {
    recorded::workload();
}

#[test]
fn every_call_is_recorded_once_by_the_hooks() {
    let recording = recorded::expect_truth("recorded_system::the_workload");
    let process = recorded::profiled(&recording);
    assert_eq!(recorded::through(&process, EntryPoint::Reported), (0, 0));
}
