//! Claims a state for a thread that has none: that of a thread that is gone, or a new
//! one.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, Release};

use allotrope_shm::layout::RINGS;
use allotrope_shm::numbers::LossReason;

use crate::emit::events;
use crate::emit::mode;
use crate::emit::thread_names;
use crate::lifecycle::fork;
use crate::lifecycle::rings;
use crate::lifecycle::watch;
use crate::state::process::{self, Lock};
use crate::state::thread::{self, OwnThread, Thread};
use crate::sys::arch;
use crate::sys::system;

/// A state with a ring for this thread: one whose thread has ended, or a new
/// one. Signals are blocked.
#[cold]
pub fn claim(nested: bool) -> Option<OwnThread> {
    if !process::is_recording() {
        return None;
    }
    if rings::REFUSED.load(Relaxed) & 0xff != 0 {
        rings::REFUSED.fetch_add(1, Relaxed);
        process::lost(LossReason::NoRing);
        return None;
    }
    let _locked = Lock::take();
    if process::is_forked() && !fork::begin_child(None) {
        return None;
    }
    let Some(state) = take_over_or_create() else {
        let is_crowded = process::THREAD_COUNT.load(Relaxed) as usize >= RINGS;
        process::lost(if is_crowded {
            LossReason::NoRing
        } else {
            LossReason::NoMemory
        });
        return None;
    };
    // SAFETY: the state is nobody else's, under the lock that every claim takes, and
    // signals are blocked.
    let thread = unsafe { OwnThread::new(state) };
    thread.set_preemption_word(events::preemption_word());
    thread.is_nested.store(nested, Relaxed);
    thread.root.set(Some(state));
    let pointer = if nested { 0 } else { arch::thread_pointer() };
    thread.thread_pointer.store(pointer, Relaxed);
    thread.opted_out.store(0, Relaxed);
    thread.hook_sp.store(0, Relaxed);
    thread.suspended_call.store(0, Relaxed);
    thread.nested.set(None);
    let is_begun = if mode::is_watching() {
        watch::begin_thread(thread);
        true
    } else if thread.writer.is_attached() {
        take_over(thread)
    } else {
        rings::attach_on_second_stack(thread)
    };
    is_begun.then_some(thread)
}

/// Goes on in the ring of a thread that has ended.
fn take_over(thread: OwnThread) -> bool {
    if !(mode::current().take_over)(thread) {
        return false;
    }
    thread.fork_local().unwinder.forget_stack();
    let tid = system::thread_id();
    thread.tid.store(tid, Relaxed);
    let ring = thread.ring_index.load(Relaxed) as usize;
    process::rings()[ring % RINGS].tid.store(tid, Relaxed);
    if !events::announce_thread(thread) {
        return false;
    }
    thread_names::announce(thread);
    true
}

fn take_over_or_create() -> Option<&'static Thread> {
    // With many living threads, to inspect all of them for every new one would be
    // quadratic: inspect some, beginning elsewhere each time.
    const INSPECTED: usize = 32;
    static BEGIN: AtomicU32 = AtomicU32::new(0);
    let count = (process::THREAD_COUNT.load(Relaxed) as usize).min(RINGS);
    let begin = BEGIN.fetch_add(INSPECTED as u32, Relaxed) as usize;
    let mut inspected =
        (0..count.min(INSPECTED)).filter_map(|step| process::THREADS[(begin + step) % count].get());
    if let Some(state) = inspected.find(|state| state.is_abandoned()) {
        return Some(state);
    }
    if count == RINGS {
        return None;
    }
    let state = thread::create()?;
    process::THREADS[count].set(Some(state));
    process::THREAD_COUNT.store(count as u32 + 1, Release);
    Some(state)
}
