//! The beginning of a forked child. Nothing runs at the fork itself: the child's first
//! event finds that the kernel has wiped the state, and comes here.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use allotrope_shm::wire::origin;

use crate::lifecycle::new_image;
use crate::lifecycle::rings;
use crate::state::process::{self, Lock};
use crate::state::thread::Thread;
use crate::sys::system::SignalsBlocked;

/// Sets a forked child up, with `thread` (the forking one, or null) first
/// among the fork points. Signals are blocked and the lock is held.
pub fn begin_child(thread: *mut Thread) -> bool {
    if process::control().stopped.load(Relaxed) != 0 {
        process::turn_off();
        return false;
    }
    let parent = process::LAST_SLOT.load(Relaxed) + 1;
    new_image::note_fork_points(thread, process::threads());
    process::HAS_INHERITED.store(thread.is_null(), Relaxed);
    for state in process::threads() {
        // SAFETY: states are never unmapped; their threads do not exist here.
        unsafe {
            (*state).tid.store(0, Relaxed);
            (*state).writer.detach();
            (*state).inherited = thread.is_null();
            if state != thread {
                (*state).busy = 0;
                (*state).idle = 0;
            }
        }
    }
    if !new_image::begin(origin::FORK, parent) {
        process::turn_off();
        return false;
    }
    true
}

/// What a thread that finds itself in a forked child does before its event.
#[cold]
pub unsafe fn continue_in_child(thread: *mut Thread) -> bool {
    let _blocked = SignalsBlocked::new();
    let _locked = Lock::take();
    if process::is_forked() && !begin_child(thread) {
        return false;
    }
    // SAFETY: the state is this thread's; the others' threads do not exist here.
    unsafe {
        if !(*thread).writer.is_attached() {
            for state in process::threads() {
                (*state).inherited = false;
            }
            process::HAS_INHERITED.store(false, Relaxed);
            (*thread).nested = ptr::null_mut();
            return rings::attach(thread);
        }
    }
    true
}
