//! Windows: named spans that the program opens and closes, and which of its
//! events belong to them.
//!
//! The image has one word, its *epoch*, that counts openings and closings.
//! Every event loads it together with the coarse clock. A thread that sees it
//! changed writes it into its own ring before its next event: what follows was
//! recorded at that epoch. An event belongs to a window if its epoch is at
//! least the one that the opening made and below the one that the closing made.
//!
//! That is exact without any fence: an event that the program's own
//! synchronisation puts behind the opening can not load an older value than the
//! opening stored (coherence), and one that it puts before the closing can not
//! load the value that the closing is yet to store.
//!
//! A window is known by the epoch of its opening. The word is copied by `fork`
//! and goes on from there, so that a child never uses an epoch of its parent's
//! again: the parent's windows are not open in the child, and a child that
//! closes one by its number closes nothing. There is no table of open windows:
//! nothing to be full, to lock, or to be found half-written by a signal handler.
//!
//! Where calls are only counted there are no events: then each end of a window
//! writes what was counted up to it (see `emit::counts`), and their difference is
//! the window's. The word itself is in `state::epoch`.

use core::sync::atomic::Ordering::Relaxed;

use allotrope_shm::numbers::QuietWait;
use allotrope_shm::wire::{
    self, Encode, Sums, WINDOW_COUNTS_WORDS, WINDOW_NAME_BYTES, window_flag,
};

use crate::client::quiet;
use crate::emit::counts;
use crate::emit::events;
use crate::lifecycle::enter;
use crate::lifecycle::ready;
use crate::state::epoch;
use crate::state::thread::Thread;
use crate::sys::arch;

/// Options of the client interface.
pub mod option {
    /// Only this thread's events belong to the window.
    pub const THIS_THREAD_ONLY: u32 = 1;
    /// Wait for quiet before.
    pub const QUIET: u32 = 2;
    /// Compare open file descriptors at the window's ends.
    pub const DESCRIPTORS: u32 = 4;
}

/// No window opens at an epoch beyond the first and none closes beyond the
/// second: it must not come round.
const LAST_OPENING: u64 = 0xf000_0000;
const LAST_CLOSING: u64 = 0xffff_0000;

/// In a window's number: descriptors are compared at its end.
const COMPARES_DESCRIPTORS: u64 = 1 << 32;

/// Longest wait for quiet that a window makes, and what is quiet: no event of
/// another thread for longer than the scheduler keeps a thread from running.
const QUIET_MILLISECONDS: u32 = 20;
const QUIET_TIMEOUT_MILLISECONDS: u32 = 2000;

/// Opens a window; gives its number, or 0 if that can not be recorded.
pub unsafe fn open(name: &[u8], iterations: u64, options: u32) -> u64 {
    let quiet = wait_for_quiet(options);
    let compares = options & option::DESCRIPTORS != 0;
    let mut flags = quiet << window_flag::QUIET_SHIFT;
    if options & option::THIS_THREAD_ONLY != 0 {
        flags |= window_flag::THIS_THREAD_ONLY;
    }
    if compares {
        flags |= window_flag::DESCRIPTORS;
    }
    let opened = with_state(|thread| {
        // SAFETY: `with_state` gives this thread's state, ready for an event.
        unsafe {
            if compares && !ask_for_descriptors(thread) {
                return 0;
            }
            write_window(thread, cut(name), iterations, flags)
        }
    });
    match opened {
        0 => 0,
        opened if compares => opened | COMPARES_DESCRIPTORS,
        opened => opened,
    }
}

/// Closes a window; nothing if it is none.
pub unsafe fn close(window: u64, options: u32) {
    let opened = window & (COMPARES_DESCRIPTORS - 1);
    if opened == 0 || window >= COMPARES_DESCRIPTORS << 1 || opened > epoch::word() >> 32 {
        return;
    }
    let quiet = wait_for_quiet(options);
    let compares = window & COMPARES_DESCRIPTORS != 0;
    let mut flags = quiet << window_flag::QUIET_SHIFT;
    if compares {
        flags |= window_flag::DESCRIPTORS;
    }
    with_state(|thread| {
        // SAFETY: as above.
        unsafe {
            write_window_end(thread, opened, flags);
            if compares {
                // The program must not close a descriptor before they are read.
                events::wait_until_read(thread);
            }
        }
        0
    });
}

/// The calling thread's events belong to no window from here on, or do again.
pub unsafe fn opt_out(on: bool) {
    let here = 0usize;
    // SAFETY: as any hook; the local's address stands for the stack pointer.
    unsafe {
        let thread = enter::enter(&raw const here as usize);
        if thread.is_null() {
            return;
        }
        let root = (*thread).root;
        let opted_out = &(*root).opted_out;
        if on {
            opted_out.fetch_add(1, Relaxed);
        } else if opted_out.load(Relaxed) > 0 {
            opted_out.fetch_sub(1, Relaxed);
        }
        // The next event looks, and writes the mark.
        (&raw mut (*root).last_state).write_volatile(events::STATE_UNKNOWN);
        if counts::is_ready(root) {
            counts::attach(root);
        }
        enter::leave(thread);
    }
}

/// Waits until the image's other threads make no events, if `options` ask for
/// it; gives a [`QuietWait`] as a number.
fn wait_for_quiet(options: u32) -> u8 {
    if options & option::QUIET == 0 {
        return QuietWait::NotRequested as u8;
    }
    match quiet::wait(QUIET_MILLISECONDS, QUIET_TIMEOUT_MILLISECONDS) {
        true => QuietWait::Reached as u8,
        false => QuietWait::TimedOut as u8,
    }
}

/// Gives `write` this thread's state, ready for an event; 0 if there is none.
fn with_state(write: impl FnOnce(*mut Thread) -> u64) -> u64 {
    let here = 0usize;
    // SAFETY: as any hook; the local's address stands for the stack pointer.
    unsafe {
        let thread = enter::enter(&raw const here as usize);
        if thread.is_null() {
            return 0;
        }
        let result = if ready::ready_must_succeed(thread) {
            write(thread)
        } else {
            0
        };
        enter::leave(thread);
        result
    }
}

/// Has the collector read which descriptors are open; waits for it.
unsafe fn ask_for_descriptors(thread: *mut Thread) -> bool {
    // SAFETY: the thread's own state.
    unsafe {
        if !events::reserve_must_succeed(thread, 1) {
            return false;
        }
        events::write(thread, wire::descriptors());
        events::wait_until_read(thread)
    }
}

/// Writes the event of an opening; gives the epoch that it made. The epoch changes
/// last, so that few events of other threads fall between it and the event.
unsafe fn write_window(thread: *mut Thread, name: &[u8], iterations: u64, flags: u8) -> u64 {
    let mut window = wire::Window {
        flags,
        opened: 0,
        iterations,
        tick: 0,
        name,
    };
    let words = (window.most_words() + WINDOW_COUNTS_WORDS) as u64;
    // SAFETY: the thread's own state.
    unsafe {
        if epoch::word() >> 32 >= LAST_OPENING || !events::reserve_must_succeed(thread, words) {
            return 0;
        }
        window.tick = arch::tick();
        window.opened = epoch::advance();
        events::write_long(thread, &window);
        if counts::is_on() {
            write_counts(thread, window.opened, Counted::now(thread));
        }
    }
    window.opened
}

/// What was counted up to a moment.
struct Counted {
    image: Sums,
    thread: Sums,
}

impl Counted {
    unsafe fn now(thread: *mut Thread) -> Self {
        Self {
            image: counts::of_image(),
            // SAFETY: passed on.
            thread: unsafe { counts::of_thread(thread) },
        }
    }
}

/// Writes what was counted at the end of a window that made the epoch. The
/// caller made room.
unsafe fn write_counts(thread: *mut Thread, epoch: u64, counted: Counted) {
    let words = wire::window_counts(epoch, counted.image, counted.thread);
    // SAFETY: the thread's own state.
    unsafe { events::write(thread, words) };
}

/// Writes the event of a closing, the new epoch first of all.
unsafe fn write_window_end(thread: *mut Thread, opened: u64, flags: u8) {
    const LENGTH: usize = 4;
    if epoch::word() >> 32 >= LAST_CLOSING {
        return;
    }
    let closed = epoch::advance();
    // SAFETY: the thread's own state.
    unsafe {
        let counted = counts::is_on().then(|| Counted::now(thread));
        if !events::reserve_must_succeed(thread, (LENGTH + WINDOW_COUNTS_WORDS) as u64) {
            return;
        }
        events::write(
            thread,
            wire::window_end(flags, opened, closed, arch::tick()),
        );
        if let Some(counted) = counted {
            write_counts(thread, closed, counted);
        }
    }
}

/// The part of a name that is written, whole characters.
fn cut(name: &[u8]) -> &[u8] {
    if name.len() <= WINDOW_NAME_BYTES {
        return name;
    }
    let is_inside = |at: &usize| name[*at] & 0xc0 == 0x80;
    let mut at = WINDOW_NAME_BYTES;
    while at > 0 && is_inside(&at) {
        at -= 1;
    }
    &name[..at]
}
