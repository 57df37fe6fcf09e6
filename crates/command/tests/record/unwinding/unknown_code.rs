//! Code without unwind information: the stack ends there, and never goes on wrongly.

use crate::unwinding::building::c;
use crate::unwinding::truth;

#[test]
fn assembler_without_call_frame_information() {
    truth::check(&c("unknown_code.c"), "assembler");
}

#[test]
fn assembler_that_needs_the_general_unwinder() {
    truth::check(&c("unknown_code.c"), "register_frames");
}

#[test]
fn the_general_unwinder_on_small_stacks() {
    truth::check(&c("unknown_code.c"), "small_stacks");
}

#[test]
fn jit_code_without_unwind_information() {
    let recording = truth::check(&c("unknown_code.c"), "jit_code");
    let report = recording.report();
    // Allocated by the JIT code itself: 50 blocks of 7 bytes, one frame.
    let found = report.only().where_stack(|stack| stack.len() == 1);
    assert_eq!((found.allocations, found.bytes), (50, 50 * 7));
}
