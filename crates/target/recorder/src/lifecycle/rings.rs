//! Attaches a ring to a thread's state: claims one in the arena, and writes what every
//! ring begins with, the `Image` event if it is the image's first, and `Thread`.

use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, fence};

use allotrope_shm::layout::MAX_STATE;
use allotrope_shm::numbers::LossReason;

use crate::capture::stack_ids;
use crate::emit::events;
use crate::emit::mode;
use crate::emit::thread_names;
use crate::lifecycle::new_image;
use crate::state::arena;
use crate::state::process;
use crate::state::thread::{OwnThread, Thread};
use crate::sys::arch;
use crate::sys::arch::stack_switch;
use crate::sys::system;

/// Calls that could not be recorded since no ring was free: only every 256th of them
/// looks for one again.
pub static REFUSED: AtomicU32 = AtomicU32::new(0);

/// Counts the claim of a ring by `thread`. The second claim ends the time in which the
/// image is single-threaded (`allotrope_shm::ring::Claims`); its time is noted for the
/// first thread. The lock is held.
fn note_claim(thread: &Thread) {
    // States without a ring belong to another image.
    let attached = process::threads().filter(|state| state.writer.is_attached());
    if !process::claims().add(attached.map(Thread::limits)) {
        return;
    }
    // A signal handler that interrupted the recorder claims within an event of the
    // first ring; with a time, that event would count as an earlier one.
    if !thread.is_nested.load(Relaxed) {
        fence(SeqCst);
        process::fork_state()
            .second_thread_tick
            .store(arch::tick(), Relaxed);
    }
}

/// Same as [`attach`], on the second stack of the state, which is not in use yet: a thread's
/// first event may be that of a signal handler on a small stack.
pub fn attach_on_second_stack(thread: OwnThread) -> bool {
    // SAFETY: the state was just claimed, no walk is under way, and signals are blocked:
    // nobody uses its second stack.
    unsafe { stack_switch::on_stack(thread.stack_top(), || attach(thread)) }
}

/// Claims a ring for `thread`, announces the image if that has not happened,
/// and the thread. The lock is held and signals are blocked.
pub fn attach(thread: OwnThread) -> bool {
    match attach_ring(thread) {
        Ok(()) => announce(thread),
        Err(reason) => {
            process::lost(reason);
            false
        }
    }
}

fn attach_ring(thread: OwnThread) -> Result<(), LossReason> {
    let index = arena::claim_ring(process::owner()).map_err(|refusal| match refusal {
        arena::Refusal::NoRing => {
            REFUSED.fetch_add(1, Relaxed);
            LossReason::NoRing
        }
        arena::Refusal::NoMemory => LossReason::NoMemory,
    })?;
    REFUSED.store(0, Relaxed);
    let ring = &process::rings()[index];
    let tid = system::thread_id();
    ring.tid.store(tid, Relaxed);
    ring.claims.fetch_add(1, Relaxed);
    note_memory(thread.state(), index);
    let parts = arena::ring(index).ok_or(LossReason::NoMemory)?;
    if !(mode::current().commit)(index) {
        return Err(LossReason::NoMemory);
    }
    thread.ring_index.store(index as u32, Relaxed);
    thread.writer.attach(parts, thread.limits());
    let position = thread.writer.position();
    thread.doorbell_position.store(position, Relaxed);
    thread.measured_position.store(position, Relaxed);
    thread.was_single_threaded.store(false, Relaxed);
    let depth_limit = process::control().depth_limit.load(Relaxed);
    let depth_limit = depth_limit.clamp(1, allotrope_unwind::DEPTH as u32);
    thread.depth_limit.store(depth_limit, Relaxed);
    thread.events.store(0, Relaxed);
    thread.last_state.store(0, Relaxed);
    thread.stream_epoch.store(0, Relaxed);
    thread.tid.store(tid, Relaxed);
    stack_ids::begin(thread);
    note_claim(&thread);
    Ok(())
}

const _: () = assert!(size_of::<Thread>() as u64 <= MAX_STATE);

/// Tells the collector where the memory of this ring and of the thread's state is: the kernel
/// counts it as the program's.
fn note_memory(state: &'static Thread, ring: usize) {
    let [tables, region] = arena::addresses(ring);
    let header = &process::rings()[ring];
    header.region.store(region, Relaxed);
    header.state.store(ptr::from_ref(state) as u64, Relaxed);
    let slot = process::slot();
    slot.tables.store(tables, Relaxed);
    slot.state_bytes.store(size_of::<Thread>() as u64, Relaxed);
}

fn announce(thread: OwnThread) -> bool {
    let announced = &process::fork_state().announced;
    if announced.load(Relaxed) == 0 {
        if !new_image::announce(thread) {
            return false;
        }
        announced.store(1, Relaxed);
    }
    if !events::announce_thread(thread) {
        return false;
    }
    thread_names::announce(thread);
    true
}
