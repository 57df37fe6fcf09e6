//! The beginning of a process image: its slot in the arena and its `Image` event. A
//! forked child begins likewise, and adds where its parent's streams stood.

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicUsize, fence};

use allotrope_shm::layout::{self, image_state};
use allotrope_shm::wire;

use crate::capture::unwind;
use crate::emit::events;
use crate::emit::mode;
use crate::state::image;
use crate::state::live_blocks;
use crate::state::process;
use crate::state::thread::{OwnThread, Thread};
use crate::sys::arch;
use crate::sys::system;

/// Longest wait for the collector, and for how long it sleeps at once, in milliseconds.
const MAX_WAIT: u64 = 40;
const SLEEP: u64 = 4;

/// Largest number of fork points that an image event can hold beside its texts.
const MAX_FORK_POINTS: usize = 180;

/// Fork points of the child that this process has become: pairs of ring and
/// ordinal.
struct ForkPoints {
    words: UnsafeCell<[u64; MAX_FORK_POINTS * 2]>,
    count: AtomicUsize,
}
// SAFETY: written and read under the process lock.
unsafe impl Sync for ForkPoints {}
static FORK_POINTS: ForkPoints = ForkPoints {
    words: UnsafeCell::new([0; MAX_FORK_POINTS * 2]),
    count: AtomicUsize::new(0),
};

/// Claims an image slot for this process.
pub fn begin(how: u32, parent: u32) -> bool {
    let fork_state = process::fork_state();
    let hint = process::shared().image_hint.fetch_add(1, Relaxed) as usize;
    if hint > 0 && process::control().no_follow.load(Relaxed) != 0 {
        return false;
    }
    let Some(index) = (0..layout::IMAGES)
        .map(|step| (hint + step) % layout::IMAGES)
        .find(|&index| {
            let state = &process::slots()[index].state;
            state.load(Relaxed) == image_state::FREE
                && state
                    .compare_exchange(image_state::FREE, image_state::CLAIMED, Acquire, Relaxed)
                    .is_ok()
        })
    else {
        process::shared().images_refused.fetch_add(1, Relaxed);
        return false;
    };
    let process_id = system::process_id();
    process::slots()[index].pid.store(process_id, Relaxed);
    process::PARENT_ID.store(process::PROCESS_ID.swap(process_id, Relaxed), Relaxed);
    process::LAST_SLOT.store(index as u32, Relaxed);
    fork_state.slot.store(index as u32, Relaxed);
    fork_state.origin.store(how, Relaxed);
    fork_state.parent.store(parent, Relaxed);
    fork_state.announced.store(0, Relaxed);
    fork_state.alive.store(1, Release);
    live_blocks::publish_size();
    true
}

/// Notes where the parent's streams stood, from this forked child's copy of the thread
/// states: first that of the thread that forked, if it is known. The process lock is held.
pub fn note_fork_points(forking: Option<&'static Thread>) {
    // SAFETY: under the process lock, which `announce` holds, too.
    let points = unsafe { &mut *FORK_POINTS.words.get() };
    let is_forking = |state: &Thread| forking.is_some_and(|forking| state.is(forking));
    let others = process::threads().filter(|state| !is_forking(state));
    let mut count = 0;
    for (pair, state) in points.chunks_exact_mut(2).zip(
        forking
            .into_iter()
            .chain(others)
            .filter(|state| state.writer.is_attached()),
    ) {
        pair[0] = u64::from(state.ring_index.load(Relaxed));
        pair[1] = state.events.load(Relaxed);
        count += 1;
    }
    FORK_POINTS.count.store(count, Relaxed);
}

/// Writes the `Image` event as the first of `thread`'s ring and waits a moment
/// for the collector to know the process, so that it can watch its end. The process
/// lock is held.
pub fn announce(thread: OwnThread) -> bool {
    let fork_state = process::fork_state();
    let (slot, origin) = (process::slot(), fork_state.origin.load(Relaxed));
    let points = if origin == wire::origin::FORK {
        FORK_POINTS.count.load(Relaxed)
    } else {
        0
    };
    // SAFETY: under the process lock, as in `note_fork_points`.
    let fork_points = unsafe { &(&*FORK_POINTS.words.get())[..points * 2] };
    let event = wire::Image {
        pid: system::process_id(),
        parent_pid: process::parent_id(),
        tick: arch::tick(),
        origin,
        parent_slot: fork_state.parent.load(Relaxed).checked_sub(1),
        fork_points,
        executable: image::executable(),
        command: image::command(),
    };
    if !events::write_long(thread, &event) {
        return false;
    }
    // A forked child has its parent's modules, whose files are open.
    if origin != wire::origin::FORK && mode::current().writes_events {
        unwind::write_modules(thread);
    }
    let ring = thread.ring_index.load(Relaxed);
    slot.first_ring.store(ring, Relaxed);
    slot.state.store(image_state::READY, Release);
    fence(SeqCst);
    events::ring_doorbell();
    // The collector opens a descriptor of this process meanwhile, with which
    // it learns of its end and status, and the files of the modules; without them it
    // learns less.
    for _ in 0..MAX_WAIT / SLEEP {
        if slot.state.load(Acquire) != image_state::READY {
            return true;
        }
        system::futex_wait(&slot.state, image_state::READY, SLEEP);
    }
    events::note_unread_modules();
    true
}
