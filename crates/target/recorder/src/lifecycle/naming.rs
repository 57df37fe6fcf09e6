//! Emits the name of a thread when it is set, and at the thread's end: a thread that lives
//! shortly is gone before the collector can read its name, and any thread of the process may
//! have written it to `/proc/self/task/TID/comm` meanwhile. The name with which a thread begins
//! is part of its announcement (`lifecycle::rings`).

use core::ffi::c_void;
use core::sync::atomic::Ordering::Relaxed;

use allotrope_shm::wire::ThreadName;

use crate::emit::mode;
use crate::emit::thread_names;
use crate::lifecycle::enter;
use crate::lifecycle::ready;
use crate::state::process;
use crate::state::thread::Thread;
use crate::sys::arch;
use crate::sys::system;

/// Whether this process emits names: a forked child does so from its first event on.
fn is_wanted() -> bool {
    process::is_recording() && !mode::is_watching() && !process::is_forked()
}

/// A thread of this process, the one with this thread pointer, has just got a name.
pub fn was_set(thread_pointer: u64, name: ThreadName) {
    // A `vfork` child names itself, not its parent's thread.
    if !is_wanted() || !process::is_own_process() {
        return;
    }
    let is_own = thread_pointer == arch::thread_pointer();
    // A thread without an event announces its name with the first one, if it may ask for it.
    if Thread::current().is_none() && (!is_own || thread_names::may_ask()) {
        return;
    }
    let tid = if is_own {
        system::thread_id()
    } else {
        let Some(tid) = tid_of(thread_pointer) else {
            return;
        };
        tid
    };
    enter::without_caller(|thread| {
        if ready::ready_for_note(thread).is_some() {
            thread_names::emit(thread, tid, name);
        }
    });
}

/// The id of another thread that lives and has had an event.
fn tid_of(thread_pointer: u64) -> Option<u32> {
    let mut states = process::threads();
    let state = states.find(|it| it.thread_pointer.load(Relaxed) == thread_pointer)?;
    let tid = state.tid.load(Relaxed);
    (tid != 0 && thread_names::may_ask() && !system::thread_is_gone(tid)).then_some(tid)
}

/// The calling thread ends: the destructor of `state::thread_key`.
pub extern "C" fn thread_ends(_: *mut c_void) {
    let Some(state) = Thread::current().filter(|_| is_wanted()) else {
        return;
    };
    enter::without_caller(|thread| {
        if ready::ready_for_note(thread).is_some() {
            thread_names::emit_own(thread);
        }
    });
    // Another thread may get it.
    state.thread_pointer.store(0, Relaxed);
}
