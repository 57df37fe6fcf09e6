//! Prepares a thread for its next event. Almost always that is two comparisons; else
//! the slow path finds out what is due: a timestamp, space in the ring, the end of the
//! recording, or the beginning of a forked child.

use core::sync::atomic::Ordering::Relaxed;

use crate::emit::counts;
use crate::emit::events;
use crate::lifecycle::fork;
use crate::state::process;
use crate::state::thread::Thread;

/// Prepares the thread for an event: one comparison covers the next timestamp, a
/// full ring, a recording that has stopped, and a fork; another one the epoch and
/// whether the thread was preempted. `false`: there is to be no event, or there
/// can be none.
#[inline(always)]
pub unsafe fn ready(thread: *mut Thread) -> bool {
    // SAFETY: the thread's own state.
    unsafe {
        if (*thread).writer.position() >= Thread::limits(thread).check_at.load(Relaxed) {
            return slow_path(thread);
        }
        if events::current_state(thread) != (*thread).last_state {
            events::write_timestamp(thread);
        }
    }
    true
}

/// As [`ready`], for an event that must not be dropped: waits whatever
/// [`allotrope_shm::layout::OnFull`] says.
pub unsafe fn ready_must_succeed(thread: *mut Thread) -> bool {
    // SAFETY: the thread's own state.
    unsafe {
        // A child that has yet to begin gets an empty ring.
        let is_childs = process::is_forked() || !(*thread).writer.is_attached();
        if !is_childs && !events::reserve_must_succeed(thread, events::TIMESTAMP_WORDS) {
            return false;
        }
        // Where calls are only counted `ready` is always false, but it sets a
        // child up.
        ready(thread)
            || (counts::is_ready(thread)
                && events::reserve_must_succeed(thread, events::TIMESTAMP_WORDS))
    }
}

/// As [`ready`], but also succeeds where calls are only counted: for notes of an
/// exit or exec.
pub unsafe fn ready_for_note(thread: *mut Thread) -> bool {
    // SAFETY: the thread's own state.
    unsafe {
        ready(thread)
            || (counts::is_ready(thread) && events::reserve(thread, events::TIMESTAMP_WORDS))
    }
}

/// The position `check_at` is reached: finds out why, and sets the next one.
/// `false`: this event can not be recorded.
#[cold]
unsafe fn slow_path(thread: *mut Thread) -> bool {
    if !process::is_recording() {
        return false;
    }
    // SAFETY: the thread's own state.
    unsafe {
        let is_childs = process::is_forked() || !(*thread).writer.is_attached();
        if is_childs && !fork::continue_in_child(thread) {
            return false;
        }
        if counts::is_on() {
            counts::attach(thread);
            return false;
        }
        if !events::reserve(thread, events::TIMESTAMP_WORDS) {
            events::count_lost(thread);
            return false;
        }
        let position = (*thread).writer.position();
        if position - (*thread).doorbell_position >= events::DOORBELL_WORDS {
            (*thread).doorbell_position = position;
            events::ring_doorbell();
        }
        let is_single_threaded = process::claims().is_single();
        if (*thread).was_single_threaded && !is_single_threaded {
            events::write_second_thread_timestamp(thread);
        }
        let position = (*thread).writer.position();
        events::write_timestamp(thread);
        if (*thread).is_nested {
            // Each of its events takes the slow path: `check_at` stays 0.
            return true;
        }
        let words = events::words_to_next_timestamp(thread, position, is_single_threaded);
        (*thread).was_single_threaded = is_single_threaded;
        let check_at = (*thread).writer.position() + words;
        process::claims().set_check_at(Thread::limits(thread), check_at, is_single_threaded);
    }
    true
}
