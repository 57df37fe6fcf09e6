//! Counting without stacks: each call adds to its thread's counters in shared
//! memory, where they outlive the process, and writes no event.
//!
//! The usual case is [`crate::arch::counting`]'s. It needs the thread's counters
//! in thread-local storage and [`MODE`] set, and everything unusual — a
//! thread's first call, a forked child, a call inside the allocator's own —
//! is one of the two missing: then the call goes the way of an event, is
//! refused there by `events::ready`, and comes here.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU8};

use allotrope_ring::layout::{COUNTED_ENTRIES, Counters, EntryCounters};

use crate::arch::{counting, thread_slot};
use crate::process;
use crate::system;
use crate::thread::Thread;

/// A page of its own, which the kernel wipes in a forked child: until the
/// child has counters of its own, nothing is counted in its parent's.
#[repr(C, align(4096))]
pub struct Mode {
    /// Non-zero: a thread that has counters counts in them.
    pub counts: AtomicU8,
    _rest: [AtomicU8; 4095],
}

/// See [`Mode`].
pub static MODE: Mode = Mode {
    counts: AtomicU8::new(0),
    _rest: [const { AtomicU8::new(0) }; 4095],
};

/// The recording counts only; a forked child knows it too.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Whether calls are counted in place of being recorded.
#[inline]
pub fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// Begins to count. `false` if a fork would go unnoticed.
pub fn turn_on() -> bool {
    let page = (&raw const MODE).cast_mut().cast::<u8>();
    if !system::advise(page, size_of::<Mode>(), libc::MADV_WIPEONFORK) {
        return false;
    }
    IS_ON.store(true, Relaxed);
    true
}

/// Lets the thread count on its own from now on.
pub unsafe fn attach(thread: *mut Thread) {
    // SAFETY: the thread's own state.
    unsafe {
        // A nested state's events are few, and the slot is the thread's own.
        // Inside a call of the allocator's, the allocator's calls do not count.
        if (*thread).is_nested || (*thread).idle != 0 {
            return;
        }
        if process::is_forked() || (*thread).lane.is_null() {
            return;
        }
        thread_slot::set_counters(process::counters((*thread).lane_index));
    }
    // The thread that forked may not have come forward: its slot still holds
    // its parent's counters.
    if !process::has_inherited_states() {
        MODE.counts.store(1, Relaxed);
    }
}

/// The thread is not to count on its own any more.
pub fn detach() {
    thread_slot::set_counters(core::ptr::null());
}

/// The thread's counters for one entry point; `None`: not to be counted.
unsafe fn counters(thread: *mut Thread, entry: u8) -> Option<&'static EntryCounters> {
    // SAFETY: the thread's own state.
    unsafe {
        if !is_on() || !process::is_recording() || process::is_forked() {
            return None;
        }
        if (*thread).lane.is_null() {
            return None;
        }
        let counters: &Counters = &*process::counters((*thread).lane_index);
        Some(&counters.entries[usize::from(entry) % COUNTED_ENTRIES])
    }
}

/// Whether the thread's calls are counted.
#[cold]
pub unsafe fn are_kept(thread: *mut Thread) -> bool {
    // SAFETY: passed on.
    unsafe { counters(thread, 0).is_some() }
}

/// Counts an allocation, if calls are counted.
#[cold]
pub unsafe fn allocation(thread: *mut Thread, entry: u8, size: usize) {
    // SAFETY: passed on.
    if let Some(counters) = unsafe { counters(thread, entry) } {
        counting::add(&counters.allocations, 1);
        counting::add(&counters.allocated_bytes, size as u64);
    }
}

/// Counts a deallocation, if calls are counted.
#[cold]
pub unsafe fn deallocation(thread: *mut Thread, entry: u8) {
    // SAFETY: passed on.
    if let Some(counters) = unsafe { counters(thread, entry) } {
        counting::add(&counters.deallocations, 1);
    }
}

/// Counts a reallocation that gave a block for a block, if calls are counted.
#[cold]
pub unsafe fn reallocation(thread: *mut Thread, entry: u8, size: usize) {
    // SAFETY: passed on.
    if let Some(counters) = unsafe { counters(thread, entry) } {
        counting::add(&counters.allocations, 1);
        counting::add(&counters.allocated_bytes, size as u64);
        counting::add(&counters.deallocations, 1);
        counting::add(&counters.reallocations, 1);
    }
}
