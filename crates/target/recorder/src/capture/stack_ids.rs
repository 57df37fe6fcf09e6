//! Assigns new stack ids in a thread's ring. The cache of those that were assigned lately
//! is part of the thread's state.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::compiler_fence;

use allotrope_shm::numbers::stack_end;
use allotrope_shm::wire::{self, STACK_IDS};
use allotrope_unwind::Reserved;

use crate::emit::events;
use crate::state::thread::OwnThread;

/// Makes every stack id of the ring undefined, because they are used up.
/// `false`: there is no space for the event, and nothing has changed.
#[cold]
fn reset(thread: OwnThread) -> bool {
    let Some(space) = events::reserve(thread, 1) else {
        return false;
    };
    space.write(wire::reset_stack_ids());
    thread.fork_local().ids.forget();
    begin(thread);
    true
}

/// Begins with no stack ids, in a ring that is new. The cache is empty: a new
/// mapping's is, and the kernel wiped that of a forked child.
pub fn begin(thread: OwnThread) {
    thread.fork_local().unwinder.forget_stack();
    thread.next_id.store(stack_end::FIRST_NODE, Relaxed);
}

/// The next id, of those that [`reserve`] reserved. It is used up before anything leads
/// to it: an id is never assigned twice, even if a signal handler jumps away.
#[inline(always)]
pub fn take(thread: OwnThread) -> u32 {
    let id = thread.next_id.load(Relaxed);
    thread.next_id.store(id + 1, Relaxed);
    compiler_fence(SeqCst);
    id
}

/// Reserves `count` new ids, and space for their events.
#[inline(always)]
pub fn reserve(thread: OwnThread, count: usize) -> Reserved {
    if events::reserve(thread, 2 * count as u64 + 4).is_none() {
        return Reserved::Nothing;
    }
    if thread.next_id.load(Relaxed) + count as u32 <= STACK_IDS {
        return Reserved::Room;
    }
    if reset(thread) {
        Reserved::AfterRestart
    } else {
        Reserved::Nothing
    }
}
