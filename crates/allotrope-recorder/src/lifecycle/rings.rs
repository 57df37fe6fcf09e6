//! Attaches a ring to a thread's state: claims one in the arena, and writes what every
//! ring begins with, the `Image` event if it is the image's first, and `Thread`.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, fence};

use allotrope_shm::numbers::LossReason;

use crate::capture::stack_ids;
use crate::emit::counts;
use crate::emit::events;
use crate::lifecycle::new_image;
use crate::state::arena;
use crate::state::process;
use crate::state::thread::Thread;
use crate::sys::arch;
use crate::sys::arch::stack_switch;
use crate::sys::system;

/// Calls that could not be recorded since no ring was free: only every 256th of them
/// looks for one again.
pub static REFUSED: AtomicU32 = AtomicU32::new(0);

/// Counts the claim of a ring by `thread`. The second claim ends the time in which the
/// image is single-threaded (`allotrope_shm::ring::Claims`); its time is noted for the
/// first thread. The lock is held.
fn note_claim(thread: *mut Thread) {
    // SAFETY: states are never unmapped; those without a ring belong to another image.
    let attached = process::threads().filter(|&state| unsafe { (*state).writer.is_attached() });
    // SAFETY: as above.
    let limits = attached.map(|state| unsafe { Thread::limits(state) });
    if !process::claims().add(limits) {
        return;
    }
    // SAFETY: the state is this thread's alone.
    let is_nested = unsafe { (*thread).is_nested };
    // A signal handler that interrupted the recorder claims within an event of the
    // first ring; with a time, that event would count as an earlier one.
    if !is_nested {
        fence(SeqCst);
        process::fork_state()
            .second_thread_tick
            .store(arch::tick(), Relaxed);
    }
}

/// As [`attach`], on the second stack of the state, which is not in use yet: a thread's
/// first event may be that of a signal handler on a small stack.
pub unsafe fn attach_on_second_stack(thread: *mut Thread) -> bool {
    // SAFETY: signals are blocked, so that no hook of this state is at work there; the
    // lock is held.
    unsafe { stack_switch::on_stack(Thread::stack_top(thread), || attach(thread)) }
}

/// Claims a ring for `thread`, announces the image if that has not happened,
/// and the thread. The lock is held and signals are blocked.
pub unsafe fn attach(thread: *mut Thread) -> bool {
    let index = match arena::claim_ring(process::owner()) {
        Ok(index) => index,
        Err(arena::Refusal::NoRing) => {
            REFUSED.fetch_add(1, Relaxed);
            process::lost(LossReason::NoRing);
            return false;
        }
        Err(arena::Refusal::NoMemory) => {
            process::lost(LossReason::NoMemory);
            return false;
        }
    };
    let rings = process::rings();
    REFUSED.store(0, Relaxed);
    let ring = &rings[index];
    let tid = system::thread_id();
    ring.tid.store(tid, Relaxed);
    ring.claims.fetch_add(1, Relaxed);
    let Some(parts) = arena::ring(index) else {
        process::lost(LossReason::NoMemory);
        return false;
    };
    if counts::is_on() && !arena::reserve_counters(index) {
        process::lost(LossReason::NoMemory);
        return false;
    }
    // SAFETY: the state is this thread's alone, and so is the ring that it has claimed.
    unsafe {
        let fork_local = Thread::fork_local(thread);
        (*thread).ring_index = index as u32;
        (*thread).writer.attach(parts, &(*fork_local).limits);
        let position = (*thread).writer.position();
        (*thread).doorbell_position = position;
        (*thread).was_single_threaded = false;
        let depth_limit = process::control().depth_limit.load(Relaxed);
        (*thread).depth_limit = depth_limit.clamp(1, allotrope_unwind::DEPTH as u32);
        (*thread).measured_position = position;
        (*thread).events = 0;
        (*thread).next_id = 0;
        (*thread).last_state = 0;
        (*thread).stream_epoch = 0;
        (*thread).tid.store(tid, Relaxed);
        stack_ids::begin(thread);
        note_claim(thread);
        if process::fork_state().announced.load(Relaxed) == 0 {
            let origin = process::fork_state().origin.load(Relaxed);
            let parent = process::fork_state().parent.load(Relaxed);
            if !new_image::announce(thread, origin, parent, process::slot()) {
                return false;
            }
            process::fork_state().announced.store(1, Relaxed);
        }
        events::announce_thread(thread)
    }
}
