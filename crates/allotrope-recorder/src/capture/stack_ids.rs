//! Gives new stack ids in a thread's ring. The cache of those that were given lately is
//! part of the thread's state.

use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

use allotrope_shm::numbers::stack_end;
use allotrope_shm::wire::{self, STACK_IDS};
use allotrope_unwind::Reserved;

use crate::emit::events;
use crate::state::thread::Thread;

/// Makes every stack id of the ring undefined, because they are used up.
/// `false`: there is no space for the event, and nothing has changed.
#[cold]
unsafe fn reset(thread: *mut Thread) -> bool {
    // SAFETY: the thread's own state.
    unsafe {
        if !events::reserve(thread, 1) {
            return false;
        }
        events::write(thread, wire::reset_stack_ids());
        (*Thread::fork_local(thread)).ids.forget();
        begin(thread);
    }
    true
}

/// Begins with no stack ids, in a ring that is new. The cache is empty: a new
/// mapping's is, and the kernel wiped that of a forked child.
pub unsafe fn begin(thread: *mut Thread) {
    // SAFETY: the thread's own state.
    unsafe {
        (*Thread::fork_local(thread)).unwinder.forget_stack();
        (*thread).next_id = stack_end::FIRST_NODE;
    }
}

/// The next id, for which [`reserve`] made room. It is used up before anything leads
/// to it: an id is never given twice, even if a signal handler jumps away.
#[inline(always)]
pub unsafe fn take(thread: *mut Thread) -> u32 {
    // SAFETY: the thread's own state.
    unsafe {
        let id = (*thread).next_id;
        (&raw mut (*thread).next_id).write_volatile(id + 1);
        compiler_fence(SeqCst);
        id
    }
}

/// Makes room for `count` new ids and their events.
#[inline(always)]
pub unsafe fn reserve(thread: *mut Thread, count: usize) -> Reserved {
    // SAFETY: the thread's own state.
    unsafe {
        if !events::reserve(thread, 2 * count as u64 + 4) {
            return Reserved::Nothing;
        }
        if (*thread).next_id + count as u32 <= STACK_IDS {
            return Reserved::Room;
        }
        if reset(thread) {
            Reserved::AfterRestart
        } else {
            Reserved::Nothing
        }
    }
}
