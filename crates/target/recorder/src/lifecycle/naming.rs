//! Emits the name of a thread when it is set, at the thread's end, and at the end of the
//! process: a thread that lives shortly is gone before the collector can read its name, and any
//! thread of the process may have written it to `/proc/self/task/TID/comm` meanwhile. The name
//! with which a thread begins is part of its announcement (`lifecycle::rings`).

use core::ffi::c_void;
use core::sync::atomic::Ordering::Relaxed;

use allotrope_shm::wire::ThreadName;

use crate::emit::mode;
use crate::emit::thread_names;
use crate::lifecycle::enter;
use crate::lifecycle::ready;
use crate::state::process;
use crate::state::thread::{OwnThread, Thread};
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

/// The calling thread ends by the system call `exit`, for which no destructor runs.
#[cold]
pub fn thread_exits() {
    if thread_names::may_ask() && has_own_state() {
        thread_ends(core::ptr::null_mut());
    }
}

/// Whether the state that the calling thread finds is its own. A thread that was made by
/// `clone` alone may have the thread pointer of another one. In a forked child it is.
pub fn has_own_state() -> bool {
    let tid = Thread::current().map(|state| state.tid.load(Relaxed));
    process::is_forked() || tid == Some(system::thread_id())
}

/// Longest time that names of other threads are read for at the end of the process, in
/// milliseconds.
const READING_TIMEOUT: u64 = 20;

/// The process ends, by a call of this thread. The names of all threads that live are emitted
/// if they have changed: who wrote one to a thread's comm file was not seen.
pub fn process_ends(thread: OwnThread) {
    if !is_wanted() || !thread_names::may_ask() {
        return;
    }
    thread_names::emit_own(thread);
    let own = system::thread_id();
    let deadline = system::milliseconds() + READING_TIMEOUT;
    let others = process::threads().filter(|state| state.thread_pointer.load(Relaxed) != 0);
    for state in others {
        let tid = state.tid.load(Relaxed);
        if tid == 0 || tid == own {
            continue;
        }
        if system::milliseconds() >= deadline {
            break;
        }
        thread_names::emit_of(thread, tid, state);
    }
}
