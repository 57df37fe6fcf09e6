//! Counting without stacks: each call adds to its thread's counters in shared
//! memory, where they outlive the process, and writes no event.
//!
//! The usual case is in `hooks::x86_64::counting`. It needs the thread's counters
//! in thread-local storage and [`STUBS`] selected. Where one of the two is missing (a
//! thread's first call, a forked child, a call inside the allocator's own), the call
//! goes the way of an event, gets no space for one from `lifecycle::ready`, and comes
//! here.
//!
//! What a thread does that has opted out of windows has counters of its own:
//! the others' sums at the two ends of a window differ by what belongs to it.
//! A call that the program's own synchronisation puts before an end has been
//! counted where that end can see it; one behind it has not.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use allotrope_shm::layout::{COUNTED_ENTRIES, Counters, EntryCounters};
use allotrope_shm::numbers::EntryPoint;
use allotrope_shm::wire::Sums;

use crate::state::arena;
use crate::state::process;
use crate::state::stubs;
use crate::state::thread::Thread;
use crate::sys::arch;
use crate::sys::arch::thread_slot;

/// The number of the stubs that count (`hooks::x86_64::counting`).
pub const STUBS: u8 = stubs::OTHER;

/// A call without an event.
#[derive(Clone, Copy)]
pub enum Call {
    /// It allocated so many bytes.
    Allocation(usize),
    /// It frees a block.
    Deallocation,
    /// It replaced a block by one of so many bytes.
    Reallocation(usize),
}

/// Commits the page with a ring's counters.
pub fn commit(ring: usize) -> bool {
    arena::reserve_counters(ring)
}

/// Lets the thread count in the stubs from now on.
pub fn attach(thread: &'static Thread) {
    // A nested state's events are few, and the slot is the thread's own.
    // Inside a call of the allocator's, the allocator's calls do not count.
    if thread.is_nested.load(Relaxed)
        || thread.suspended_call.load(Relaxed) != 0
        || !is_ready(thread)
    {
        return;
    }
    let Some(counters) = arena::counters(thread.ring_index.load(Relaxed)) else {
        return;
    };
    // It is no nested state: it is the root.
    let is_opted_out = || thread.opted_out.load(Relaxed) != 0;
    loop {
        let opted_out = is_opted_out();
        thread_slot::set_counters(half(counters, opted_out).as_ptr());
        // A handler may have opted out or come back.
        if is_opted_out() == opted_out {
            break;
        }
    }
    // The thread that forked may not have had an event yet: its slot still holds
    // its parent's counters.
    if !process::has_inherited_states() {
        stubs::select(STUBS);
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

/// Whether this image is recorded and the thread has a ring in it.
pub fn is_ready(thread: &Thread) -> bool {
    process::is_recording() && !process::is_forked() && thread.writer.is_attached()
}

/// The state in whose ring the thread counts: one thread, one ring, also in
/// its signal handlers. A child that was forked by one has no other.
fn home(thread: &'static Thread) -> &'static Thread {
    let root = thread.root.get();
    root.filter(|root| root.writer.is_attached())
        .unwrap_or(thread)
}

/// What was counted up to a moment, for the end of a window.
pub struct UpToNow {
    /// Sums of all threads of the image, also of those that have ended.
    pub image: Sums,
    /// Sums of this thread.
    pub thread: Sums,
}

impl UpToNow {
    /// What was counted until now.
    pub fn of(thread: &'static Thread) -> Self {
        let owner = process::owner();
        let rings = process::rings().iter().enumerate();
        let own = rings.filter(|(_, ring)| ring.owner.load(Acquire) == owner);
        Self {
            image: own.fold([0; 4], |sums, (index, _)| plus(sums, of_ring(index as u32))),
            thread: of_ring(home(thread).ring_index.load(Relaxed)),
        }
    }
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

/// Counts a call, if the thread has counters.
#[cold]
pub fn count(thread: &'static Thread, entry: EntryPoint, call: Call) {
    if !is_ready(thread) {
        return;
    }
    let Some(counters) = arena::counters(home(thread).ring_index.load(Relaxed)) else {
        return;
    };
    let counters = &half(counters, thread.is_opted_out())[entry as usize % COUNTED_ENTRIES];
    if let Call::Allocation(size) | Call::Reallocation(size) = call {
        arch::add(&counters.allocations, 1);
        arch::add(&counters.allocated_bytes, size as u64);
    }
    if let Call::Deallocation | Call::Reallocation(_) = call {
        arch::add(&counters.deallocations, 1);
    }
    if let Call::Reallocation(_) = call {
        arch::add(&counters.reallocations, 1);
    }
}
