//! The beginning of a process image: its slot in the arena and its `Image` event. A
//! forked child begins likewise, and adds where its parent's streams stood.

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicUsize, fence};

use allotrope_shm::layout::{self, ImageSlot, image_state};
use allotrope_shm::wire;

use crate::emit::events;
use crate::state::image;
use crate::state::process;
use crate::state::thread::Thread;
use crate::sys::arch;
use crate::sys::system;

/// Most fork points that an image event can hold beside its texts.
const MAX_FORK_POINTS: usize = 180;

/// Fork points of the child that this process has become: pairs of ring and
/// ordinal.
struct ForkPoints {
    words: UnsafeCell<[u64; MAX_FORK_POINTS * 2]>,
    count: AtomicUsize,
}
// SAFETY: written under the process lock.
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
            state.load(Relaxed) == layout::image_state::FREE
                && state
                    .compare_exchange(
                        layout::image_state::FREE,
                        layout::image_state::CLAIMED,
                        Acquire,
                        Relaxed,
                    )
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
    true
}

/// Notes where the parent's streams stood, as this forked child's copy of the
/// thread states tells.
pub fn note_fork_points(first: *mut Thread, all: impl Iterator<Item = *mut Thread> + Clone) {
    // SAFETY: under the process lock, in a child whose other states nobody uses.
    unsafe {
        let points = &mut *FORK_POINTS.words.get();
        let mut count = 0;
        let ordered = core::iter::once(first).chain(all.filter(|state| *state != first));
        for state in ordered.filter(|state| !state.is_null() && (**state).writer.is_attached()) {
            if count < MAX_FORK_POINTS {
                points[count * 2] = u64::from((*state).ring_index);
                points[count * 2 + 1] = (*state).events;
                count += 1;
            }
        }
        FORK_POINTS.count.store(count, Relaxed);
    }
}

/// Writes the `Image` event as the first of `thread`'s ring and waits a moment
/// for the collector to know the process, so that it can watch its end.
pub unsafe fn announce(
    thread: *mut Thread,
    origin: u32,
    parent_slot: u32,
    slot: &'static ImageSlot,
) -> bool {
    let points = if origin == wire::origin::FORK {
        FORK_POINTS.count.load(Relaxed)
    } else {
        0
    };
    // SAFETY: the ring was just claimed by this thread, under the process lock,
    // which guards the fork points.
    unsafe {
        let event = wire::Image {
            pid: system::process_id(),
            parent_pid: process::parent_id(),
            tick: arch::tick(),
            origin,
            parent_slot: parent_slot.checked_sub(1),
            fork_points: &(&*FORK_POINTS.words.get())[..points * 2],
            executable: image::executable(),
            command: image::command(),
        };
        if !events::write_long(thread, &event) {
            return false;
        }
        slot.first_ring.store((*thread).ring_index, Relaxed);
    }
    slot.state.store(image_state::READY, Release);
    fence(core::sync::atomic::Ordering::SeqCst);
    events::ring_doorbell();
    // The collector opens a descriptor of this process meanwhile, with which
    // it learns of its end and status; without one it learns less.
    for _ in 0..5 {
        if slot.state.load(Acquire) != image_state::READY {
            break;
        }
        system::futex_wait(&slot.state, image_state::READY, 4);
    }
    true
}
