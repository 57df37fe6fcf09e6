//! Claims a state for a thread that has none: that of a thread that is gone, or a new
//! one.

use core::ptr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, Release};

use allotrope_shm::layout::RINGS;
use allotrope_shm::numbers::LossReason;

use crate::emit::counts;
use crate::emit::events;
use crate::lifecycle::fork;
use crate::lifecycle::rings;
use crate::state::process::{self, Lock};
use crate::state::thread::{self, Thread};
use crate::sys::system;

/// A state with a ring for this thread: one whose thread is gone, or a new
/// one. Signals are blocked.
#[cold]
pub unsafe fn claim(nested: bool) -> *mut Thread {
    if !process::is_recording() {
        return ptr::null_mut();
    }
    if rings::REFUSED.load(Relaxed) & 0xff != 0 {
        rings::REFUSED.fetch_add(1, Relaxed);
        process::lost(LossReason::NoRing);
        return ptr::null_mut();
    }
    let _locked = Lock::take();
    if process::is_forked() && !fork::begin_child(ptr::null_mut()) {
        return ptr::null_mut();
    }
    // SAFETY: the lock is held.
    let thread = unsafe { take_over_or_create() };
    if thread.is_null() {
        let is_crowded = process::THREAD_COUNT.load(Relaxed) as usize >= RINGS;
        process::lost(if is_crowded {
            LossReason::NoRing
        } else {
            LossReason::NoMemory
        });
        return ptr::null_mut();
    }
    // SAFETY: the state is nobody else's now.
    unsafe {
        (*thread).preemption_word = events::preemption_word();
        (*thread).is_nested = nested;
        (*thread).root = thread;
        (*thread).opted_out.store(0, Relaxed);
        (*thread).busy = 0;
        (*thread).idle = 0;
        (*thread).nested = ptr::null_mut();
        if !(*thread).writer.is_attached() {
            if !rings::attach_on_second_stack(thread) {
                return ptr::null_mut();
            }
        } else {
            if counts::is_on() && !events::counts(thread) {
                return ptr::null_mut();
            }
            (*Thread::fork_local(thread)).unwinder.forget_stack();
            (*thread).tid.store(system::thread_id(), Relaxed);
            let ring = &process::rings()[(*thread).ring_index as usize % RINGS];
            ring.tid.store(system::thread_id(), Relaxed);
            if !events::announce_thread(thread) {
                return ptr::null_mut();
            }
        }
    }
    thread
}

unsafe fn take_over_or_create() -> *mut Thread {
    // With many living threads, to inspect all of them for every new one would be
    // quadratic: inspect some, beginning elsewhere each time.
    const INSPECTED: usize = 32;
    static BEGIN: AtomicU32 = AtomicU32::new(0);
    let count = (process::THREAD_COUNT.load(Relaxed) as usize).min(RINGS);
    let begin = BEGIN.fetch_add(INSPECTED as u32, Relaxed) as usize;
    for step in 0..count.min(INSPECTED) {
        let state = process::THREADS[(begin + step) % count].load(Relaxed);
        if thread::is_abandoned(state) {
            return state;
        }
    }
    if count == RINGS {
        return ptr::null_mut();
    }
    let state = thread::create();
    if !state.is_null() {
        process::THREADS[count].store(state, Relaxed);
        process::THREAD_COUNT.store(count as u32 + 1, Release);
    }
    state
}
