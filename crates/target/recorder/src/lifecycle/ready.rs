//! Prepares a thread for its next event. Almost always that is two comparisons; else
//! the slow path finds out what is due: a timestamp, space in the ring, the end of the
//! recording, or the beginning of a forked child.

use core::sync::atomic::Ordering::Relaxed;

use crate::emit::events::{self, Space};
use crate::emit::mode;
use crate::lifecycle::fork;
use crate::state::process;
use crate::state::thread::OwnThread;

/// Prepares the thread for an event: one comparison covers the next timestamp, a
/// full ring, a recording that has stopped, and a fork; another one the epoch and
/// whether the thread was preempted. `None`: there is to be no event, or there
/// can be none.
#[inline(always)]
pub fn ready(thread: OwnThread) -> Option<Space> {
    let is_due = thread.writer.position() >= thread.limits().check_at.load(Relaxed);
    if is_due && !slow_path(thread) {
        return None;
    }
    // SAFETY: `check_at` is 0, which no position is below, where there is no ring: a
    // fork wipes it. `slow_path` has reserved space in a ring.
    let space = unsafe { Space::new(thread) };
    if !is_due && events::current_state(thread) != thread.last_state() {
        events::write_timestamp(space);
    }
    Some(space)
}

/// Prepares the thread of a process that is watched, where there are no events: a forked child
/// begins here.
#[inline(always)]
pub fn ready_to_sample(thread: OwnThread) {
    if process::is_forked() {
        fork::continue_watched(thread);
    }
}

/// Same as [`ready`], for an event that must not be dropped: waits whatever
/// [`allotrope_shm::layout::OnFull`] is.
pub fn ready_must_succeed(thread: OwnThread) -> Option<Space> {
    // A child that has yet to begin gets an empty ring.
    let begins_child = process::is_forked() || !thread.writer.is_attached();
    if !begins_child {
        events::reserve_must_succeed(thread, events::TIMESTAMP_WORDS)?;
    }
    // In a mode without events `ready` has no space for one, but it sets a child up.
    if let Some(space) = ready(thread) {
        return Some(space);
    }
    if !(mode::current().is_counting)(&thread) {
        return None;
    }
    events::reserve_must_succeed(thread, events::TIMESTAMP_WORDS)
}

/// Same as [`ready`], but also succeeds in a mode without events: for notes of an exit or
/// exec.
pub fn ready_for_note(thread: OwnThread) -> Option<Space> {
    if let Some(space) = ready(thread) {
        return Some(space);
    }
    if !(mode::current().is_counting)(&thread) {
        return None;
    }
    events::reserve(thread, events::TIMESTAMP_WORDS)
}

/// The position `check_at` is reached: finds out why, and sets the next one.
/// `false`: this event cannot be recorded.
#[cold]
fn slow_path(thread: OwnThread) -> bool {
    if !process::is_recording() {
        return false;
    }
    if mode::is_watching() {
        ready_to_sample(thread);
        return false;
    }
    let begins_child = process::is_forked() || !thread.writer.is_attached();
    if begins_child && !fork::continue_in_child(thread) {
        return false;
    }
    if !mode::current().writes_events {
        mode::attach(thread.state());
        return false;
    }
    let Some(space) = events::reserve(thread, events::TIMESTAMP_WORDS) else {
        events::count_lost(thread);
        return false;
    };
    let position = thread.writer.position();
    if position - thread.doorbell_position.load(Relaxed) >= events::DOORBELL_WORDS {
        thread.doorbell_position.store(position, Relaxed);
        events::ring_doorbell();
    }
    let is_single_threaded = process::claims().is_single();
    if thread.was_single_threaded.load(Relaxed) && !is_single_threaded {
        events::write_second_thread_timestamp(space);
    }
    let position = thread.writer.position();
    events::write_timestamp(space);
    if thread.is_nested.load(Relaxed) {
        // Each of its events takes the slow path: `check_at` stays 0.
        return true;
    }
    let words = events::words_to_next_timestamp(&thread, position, is_single_threaded);
    let was = &thread.was_single_threaded;
    was.store(is_single_threaded, Relaxed);
    let check_at = thread.writer.position() + words;
    process::claims().set_check_at(thread.limits(), check_at, is_single_threaded);
    true
}
