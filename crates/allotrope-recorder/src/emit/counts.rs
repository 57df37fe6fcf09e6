//! Counting without stacks: each call adds to its thread's counters in shared
//! memory, where they outlive the process, and writes no event.
//!
//! The usual case is `hooks::x86_64::counting`'s. It needs the thread's counters
//! in thread-local storage and [`MODE`] set, and everything unusual — a
//! thread's first call, a forked child, a call inside the allocator's own —
//! is one of the two missing: then the call goes the way of an event, is
//! refused there by `lifecycle::ready`, and comes here.
//!
//! What a thread does that has opted out of windows has counters of its own:
//! the others' sums, taken at a window's ends, differ by what belongs to it.
//! A call that the program's own synchronisation puts before an end has been
//! counted where that end can see it; one behind it has not.

use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicU8};

use allotrope_shm::layout::{COUNTED_ENTRIES, Counters, EntryCounters};
use allotrope_shm::wire::Sums;

use crate::state::arena;
use crate::state::process;
use crate::state::thread::Thread;
use crate::sys::arch;
use crate::sys::arch::thread_slot;
use crate::sys::kernel::Advice;
use crate::sys::system;

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
    if !system::advise(page, size_of::<Mode>(), Advice::WipeOnFork) {
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
        if process::is_forked() || !(*thread).writer.is_attached() {
            return;
        }
        let Some(counters) = arena::counters((*thread).ring_index) else {
            return;
        };
        loop {
            let opted_out = Thread::is_opted_out(thread);
            thread_slot::set_counters(half(counters, opted_out).as_ptr());
            // A handler may have opted out or come back.
            if Thread::is_opted_out(thread) == opted_out {
                break;
            }
        }
    }
    // The thread that forked may not have come forward: its slot still holds
    // its parent's counters.
    if !process::has_inherited_states() {
        MODE.counts.store(1, Relaxed);
    }
}

/// The counters of a thread that has opted out of windows, or has not.
fn half(counters: &Counters, opted_out: bool) -> &[EntryCounters; COUNTED_ENTRIES] {
    if opted_out {
        &counters.opted_out
    } else {
        &counters.entries
    }
}

/// Whether this image counts, and the thread has where.
pub unsafe fn is_ready(thread: *mut Thread) -> bool {
    // SAFETY: the thread's own state.
    is_on()
        && process::is_recording()
        && !process::is_forked()
        && unsafe { (*thread).writer.is_attached() }
}

/// The thread is not to count on its own any more.
pub fn detach() {
    thread_slot::set_counters(core::ptr::null());
}

/// The thread's counters for one entry point; `None`: not to be counted.
unsafe fn counters(thread: *mut Thread, entry: u8) -> Option<&'static EntryCounters> {
    // SAFETY: the thread's own state.
    unsafe {
        if !is_ready(thread) {
            return None;
        }
        let counters = arena::counters((*home(thread)).ring_index)?;
        let half = half(counters, Thread::is_opted_out(thread));
        Some(&half[usize::from(entry) % COUNTED_ENTRIES])
    }
}

/// The state in whose ring the thread counts: one thread, one ring, also in
/// its signal handlers. A child that was forked by one has no other.
unsafe fn home(thread: *mut Thread) -> *mut Thread {
    // SAFETY: a state's root is a state, and states are never unmapped.
    unsafe {
        let root = (*thread).root;
        if (*root).writer.is_attached() {
            root
        } else {
            thread
        }
    }
}

/// What all threads of the image have counted, those too that are gone.
pub fn of_image() -> Sums {
    let owner = process::owner();
    let rings = process::rings().iter().enumerate();
    let own = rings.filter(|(_, ring)| ring.owner.load(Acquire) == owner);
    own.fold([0; 4], |sums, (index, _)| plus(sums, of_ring(index as u32)))
}

/// What the ring of the state's thread has counted.
pub unsafe fn of_thread(thread: *mut Thread) -> Sums {
    // SAFETY: passed on.
    of_ring(unsafe { (*home(thread)).ring_index })
}

fn of_ring(ring: u32) -> Sums {
    // One that another thread is claiming has counted nothing yet.
    let entries = arena::counters(ring).map(|counters| &counters.entries);
    let entries = entries.into_iter().flatten();
    entries.map(sums).fold([0; 4], plus)
}

/// Changes whenever a thread counts in the ring, opted out or not.
pub fn activity_of(ring: u32) -> u64 {
    let counters = arena::counters(ring).into_iter().flat_map(Counters::all);
    let [allocations, _, deallocations, _] = counters.map(sums).fold([0; 4], plus);
    allocations.wrapping_add(deallocations)
}

/// What came through an entry point.
pub fn sums(counters: &EntryCounters) -> Sums {
    [
        &counters.allocations,
        &counters.allocated_bytes,
        &counters.deallocations,
        &counters.reallocations,
    ]
    .map(|counter| counter.load(Relaxed))
}

fn plus(sums: Sums, more: Sums) -> Sums {
    core::array::from_fn(|at| sums[at].wrapping_add(more[at]))
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
        arch::add(&counters.allocations, 1);
        arch::add(&counters.allocated_bytes, size as u64);
    }
}

/// Counts a deallocation, if calls are counted.
#[cold]
pub unsafe fn deallocation(thread: *mut Thread, entry: u8) {
    // SAFETY: passed on.
    if let Some(counters) = unsafe { counters(thread, entry) } {
        arch::add(&counters.deallocations, 1);
    }
}

/// Counts a reallocation that gave a block for a block, if calls are counted.
#[cold]
pub unsafe fn reallocation(thread: *mut Thread, entry: u8, size: usize) {
    // SAFETY: passed on.
    if let Some(counters) = unsafe { counters(thread, entry) } {
        arch::add(&counters.allocations, 1);
        arch::add(&counters.allocated_bytes, size as u64);
        arch::add(&counters.deallocations, 1);
        arch::add(&counters.reallocations, 1);
    }
}
