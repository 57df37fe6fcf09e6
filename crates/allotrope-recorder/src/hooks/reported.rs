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

use allotrope_shm::numbers::EntryPoint;
use allotrope_shm::wire::kind;

use crate::hooks::record::{
    finish_reallocation, record_aligned, record_allocation, record_short, start_reallocation,
};
use crate::lifecycle::enter;
use crate::state::thread::Thread;

const POOL: u8 = EntryPoint::Pool as u8;
const REPORTED: u8 = EntryPoint::Reported as u8;

/// In a reallocation's token: its start was recorded. The rest is the block.
const STARTED: u64 = 1 << 63;

pub unsafe extern "C" fn pool_allocation(
    block: *mut c_void,
    size: usize,
    alignment: usize,
    sp: *const u64,
    bp: u64,
) {
    if !block.is_null() {
        // SAFETY: the entry stub gives its caller's registers.
        unsafe { reported_allocation(POOL, block, size, alignment, sp, bp) };
    }
}

pub unsafe extern "C" fn pool_deallocation(block: *mut c_void, sp: *const u64, _: u64) {
    if !block.is_null() {
        // SAFETY: as above.
        unsafe { reported_deallocation(POOL, block, sp) };
    }
}

/// Of a null block it is an allocation: there is nothing to start.
pub unsafe extern "C" fn pool_reallocation_start(
    block: *mut c_void,
    sp: *const u64,
    _: u64,
) -> u64 {
    // SAFETY: as above.
    let started = block.is_null() || unsafe { reported_reallocation_start(POOL, block, sp) };
    if started { block as u64 | STARTED } else { 0 }
}

pub unsafe extern "C" fn pool_reallocation_end(
    token: u64,
    result: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) {
    if token & STARTED == 0 {
        return;
    }
    let block = (token & !STARTED) as *mut c_void;
    // SAFETY: as above.
    unsafe {
        if block.is_null() {
            pool_allocation(result, size, 0, sp, bp);
        } else {
            end_reallocation(POOL, block, result, size, sp, bp);
        }
    }
}

/// A reallocation without a result failed, also one to 0 bytes: who frees a
/// block says so.
unsafe fn end_reallocation(
    entry: u8,
    block: *mut c_void,
    result: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) {
    let size = if result.is_null() { size.max(1) } else { size };
    // SAFETY: the start was recorded on this thread.
    unsafe { reported_reallocation_end(entry, block, result, size, sp, bp) };
}

/// The token is the state that entered: the state of a signal handler's calls
/// is another than that of the calls it interrupted.
fn token(thread: *mut Thread) -> u64 {
    thread as u64
}

unsafe fn leave(token: u64) {
    if token != 0 {
        // SAFETY: states are never unmapped, and this thread entered with it.
        unsafe { enter::leave_reported(token as *mut Thread) };
    }
}

pub unsafe extern "C" fn allocator_enter(sp: *const u64, _: u64) -> u64 {
    // SAFETY: as any hook.
    token(unsafe { enter::enter_reported(sp as usize) })
}

pub unsafe extern "C" fn allocator_leave(token: u64, _: *const u64, _: u64) {
    // SAFETY: the caller entered with it.
    unsafe { leave(token) };
}

pub unsafe extern "C" fn allocator_allocation(
    token: u64,
    block: *mut c_void,
    size: usize,
    alignment: usize,
    sp: *const u64,
    bp: u64,
) {
    // SAFETY: the caller entered with the token; the entry stub gives the
    // caller's registers.
    unsafe {
        leave(token);
        if token != 0 && !block.is_null() {
            reported_allocation(REPORTED, block, size, alignment, sp, bp);
        }
    }
}

/// A call within another allocator's is recognised by its mark; the event
/// itself is refused for the same reason.
pub unsafe extern "C" fn allocator_deallocation(block: *mut c_void, sp: *const u64, _: u64) -> u64 {
    // SAFETY: as above.
    unsafe {
        reported_deallocation(REPORTED, block, sp);
        token(enter::enter_reported(sp as usize))
    }
}

pub unsafe extern "C" fn allocator_reallocation_start(
    block: *mut c_void,
    sp: *const u64,
    _: u64,
) -> u64 {
    // SAFETY: as above.
    unsafe {
        if !reported_reallocation_start(REPORTED, block, sp) {
            return 0;
        }
        token(enter::enter_reported(sp as usize))
    }
}

pub unsafe extern "C" fn allocator_reallocation_end(
    token: u64,
    block: *mut c_void,
    result: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) {
    // SAFETY: as above; a token says that the start was recorded.
    unsafe {
        leave(token);
        if token != 0 {
            end_reallocation(REPORTED, block, result, size, sp, bp);
        }
    }
}

pub unsafe extern "C" fn reported_allocation(
    entry: u8,
    block: *mut c_void,
    size: usize,
    alignment: usize,
    sp: *const u64,
    bp: u64,
) {
    // SAFETY: the caller of the interface gives its caller's registers.
    unsafe {
        if alignment <= 1 {
            record_allocation(entry, block, size, 0, sp, bp);
        } else {
            record_aligned(entry, block, alignment, size, sp, bp);
        }
    }
}

pub unsafe extern "C" fn reported_deallocation(entry: u8, block: *mut c_void, sp: *const u64) {
    // SAFETY: as in `reported_allocation`.
    unsafe { record_short(kind::DEALLOCATION, entry, block, sp) };
}

pub unsafe extern "C" fn reported_reallocation_start(
    entry: u8,
    block: *mut c_void,
    sp: *const u64,
) -> bool {
    // SAFETY: as in `reported_allocation`.
    unsafe { start_reallocation(entry, block, sp) }
}

pub unsafe extern "C" fn reported_reallocation_end(
    entry: u8,
    block: *mut c_void,
    result: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) {
    // SAFETY: as in `reported_allocation`.
    unsafe { finish_reallocation(entry, block, result, size, sp, bp) };
}
