//! Blocks that no hook sees and that the program reports itself: of its pools, and of an
//! allocator that is linked into it (Rust's `Recorded`). These are the functions behind
//! `allotrope_pool_…` and `allotrope_allocator_…`, whose contract is in `allotrope.h`
//! and in `docs/client-abi.md`. The functions `reported_…` are what they have in common,
//! and what the library for C++ operators calls (`hook_api`).
//!
//! A pool's block lies in memory that was allocated, and both are recorded: a
//! pool is a second account of the same memory, with addresses of its own. An
//! allocator's call is *the* allocation: what it calls meanwhile on the same
//! thread is part of it and not recorded again, as with every other entry
//! point.

use core::ffi::c_void;

use allotrope_shm::hook_api::Caller;
use allotrope_shm::numbers::EntryPoint;

use crate::hooks::record::{
    finish_reallocation, record_aligned, record_allocation, record_deallocation, start_reallocation,
};
use crate::lifecycle::enter;

const POOL: EntryPoint = EntryPoint::Pool;
const REPORTED: EntryPoint = EntryPoint::Reported;

/// Bit of a reallocation's token: its start was recorded. The other bits are the block.
const STARTED: u64 = 1 << 63;

pub extern "C" fn pool_allocation(
    block: *mut c_void,
    size: usize,
    alignment: usize,
    caller: Caller<'_>,
) {
    if !block.is_null() {
        reported_allocation(POOL, block, size, alignment, caller);
    }
}

pub extern "C" fn pool_deallocation(block: *mut c_void, caller: Caller<'_>) {
    if !block.is_null() {
        reported_deallocation(POOL, block, caller);
    }
}

/// Records the start of a reallocation; one of a null block is an allocation, and has none.
pub extern "C" fn pool_reallocation_start(block: *mut c_void, caller: Caller<'_>) -> u64 {
    if block.is_null() || reported_reallocation_start(POOL, block, caller) {
        block as u64 | STARTED
    } else {
        0
    }
}

pub extern "C" fn pool_reallocation_end(
    token: u64,
    result: *mut c_void,
    size: usize,
    caller: Caller<'_>,
) {
    if token & STARTED == 0 {
        return;
    }
    let block = (token & !STARTED) as *mut c_void;
    if block.is_null() {
        pool_allocation(result, size, 0, caller);
    } else {
        end_reallocation(POOL, block, result, size, caller);
    }
}

/// A reallocation without a result failed, also one to 0 bytes: a program that frees a
/// block reports a deallocation.
fn end_reallocation(
    entry: EntryPoint,
    block: *mut c_void,
    result: *mut c_void,
    size: usize,
    caller: Caller<'_>,
) {
    let size = if result.is_null() { size.max(1) } else { size };
    reported_reallocation_end(entry, block, result, size, caller);
}

pub extern "C" fn allocator_enter(caller: Caller<'_>) -> u64 {
    enter::enter_reported(caller)
}

pub extern "C" fn allocator_leave(token: u64) {
    if token != 0 {
        enter::leave_reported(token);
    }
}

pub extern "C" fn allocator_allocation(
    token: u64,
    block: *mut c_void,
    size: usize,
    alignment: usize,
    caller: Caller<'_>,
) {
    allocator_leave(token);
    if token != 0 && !block.is_null() {
        reported_allocation(REPORTED, block, size, alignment, caller);
    }
}

/// A call within another allocator's is recognised by its mark; the event
/// itself is refused for the same reason.
pub extern "C" fn allocator_deallocation(block: *mut c_void, caller: Caller<'_>) -> u64 {
    reported_deallocation(REPORTED, block, caller);
    enter::enter_reported(caller)
}

pub extern "C" fn allocator_reallocation_start(block: *mut c_void, caller: Caller<'_>) -> u64 {
    if !reported_reallocation_start(REPORTED, block, caller) {
        return 0;
    }
    enter::enter_reported(caller)
}

/// Records the end of a reallocation, if its token says that its start was recorded.
pub extern "C" fn allocator_reallocation_end(
    token: u64,
    block: *mut c_void,
    result: *mut c_void,
    size: usize,
    caller: Caller<'_>,
) {
    allocator_leave(token);
    if token != 0 {
        end_reallocation(REPORTED, block, result, size, caller);
    }
}

pub extern "C" fn reported_allocation(
    entry: EntryPoint,
    block: *mut c_void,
    size: usize,
    alignment: usize,
    caller: Caller<'_>,
) {
    if alignment <= 1 {
        record_allocation(entry, block, size, 0, caller);
    } else {
        record_aligned(entry, block, alignment, size, caller);
    }
}

pub extern "C" fn reported_deallocation(entry: EntryPoint, block: *mut c_void, caller: Caller<'_>) {
    record_deallocation(entry, block, caller);
}

pub extern "C" fn reported_reallocation_start(
    entry: EntryPoint,
    block: *mut c_void,
    caller: Caller<'_>,
) -> bool {
    start_reallocation(entry, block, caller)
}

pub extern "C" fn reported_reallocation_end(
    entry: EntryPoint,
    block: *mut c_void,
    result: *mut c_void,
    size: usize,
    caller: Caller<'_>,
) {
    finish_reallocation(entry, block, result, size, caller);
}
