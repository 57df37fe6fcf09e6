//! The beginning of a forked child. Nothing runs at the fork itself: the child's first
//! event finds that the kernel has wiped the state, and comes here.

use core::sync::atomic::Ordering::Relaxed;

use allotrope_shm::wire::origin;

use crate::emit::mode;
use crate::lifecycle::new_image;
use crate::lifecycle::rings;
use crate::lifecycle::watch;
use crate::state::process::{self, Lock};
use crate::state::thread::{OwnThread, Thread};
use crate::sys::system::SignalsBlocked;

/// Sets a forked child up. `forking` is the state of the thread that forked, if it is
/// known: the first among the fork points. Signals are blocked and the lock is held.
pub fn begin_child(forking: Option<&'static Thread>) -> bool {
    if process::control().stopped.load(Relaxed) != 0 {
        process::turn_off();
        return false;
    }
    let parent = process::LAST_SLOT.load(Relaxed) + 1;
    new_image::note_fork_points(forking);
    process::HAS_INHERITED.store(forking.is_none(), Relaxed);
    // Their threads do not exist here.
    for state in process::threads() {
        state.tid.store(0, Relaxed);
        state.writer.detach();
        state.inherited.store(forking.is_none(), Relaxed);
        if !forking.is_some_and(|forking| state.is(forking)) {
            state.hook_sp.store(0, Relaxed);
            state.suspended_call.store(0, Relaxed);
        }
    }
    if mode::is_watching() {
        watch::begin_child();
        return true;
    }
    if !new_image::begin(origin::FORK, parent) {
        process::turn_off();
        return false;
    }
    true
}

/// What a thread of a watched process does that finds itself in a forked child.
#[cold]
pub fn continue_watched(thread: OwnThread) {
    let _blocked = SignalsBlocked::new();
    let _locked = Lock::take();
    if process::is_forked() && begin_child(Some(thread.state())) {
        thread.nested.set(None);
        watch::begin_thread(thread);
    }
}

/// What a thread that finds itself in a forked child does before its event.
#[cold]
pub fn continue_in_child(thread: OwnThread) -> bool {
    let _blocked = SignalsBlocked::new();
    let _locked = Lock::take();
    if process::is_forked() && !begin_child(Some(thread.state())) {
        return false;
    }
    if !thread.writer.is_attached() {
        for state in process::threads() {
            state.inherited.store(false, Relaxed);
        }
        process::HAS_INHERITED.store(false, Relaxed);
        thread.nested.set(None);
        return rings::attach(thread);
    }
    true
}
