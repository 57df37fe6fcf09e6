//! Frames that are left or reached other than by call and return, and functions of the
//! program that the C library, the loader or the kernel calls.

use crate::support::{record, report::text};
use crate::unwinding::building::cxx;
use crate::unwinding::truth;

macro_rules! cases {
    ($source:literal: $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                truth::check(&cxx($source), stringify!($case));
            }
        )*
    };
}

cases!("control_flow.cc": exceptions long_jumps made_contexts assembler_coroutines recursion);

cases!("callbacks.cc": before_main sorting iterating registering signals small_alternate_stack
    small_threads timer);

/// Frames beyond the limit, and only those, are cut off, and the cut is shown.
#[test]
fn too_deep() {
    let recording = truth::check(&cxx("control_flow.cc"), "too_deep");
    let report = recording.report();
    let process = report.only();
    for site in process.sites_under("allocate") {
        let stack = process.stack(site);
        let is_cut = text(stack[stack.len() - 1], "function") == "[truncated]";
        let is_whole = text(stack[stack.len() - 1], "function") == "_start";
        assert!(is_cut != is_whole, "neither cut nor whole");
        assert!(!is_cut || stack.len() == 4096 + 1, "cut at {}", stack.len());
    }
}

/// A limit that the user chooses.
#[test]
fn a_chosen_limit() {
    let recording = record(cxx("control_flow.cc"))
        .option("--depth")
        .option("5")
        .arg("long_jumps")
        .run()
        .ok();
    let report = recording.report();
    for site in report.only().sites() {
        assert!(report.only().stack(site).len() <= 5 + 1);
    }
}
