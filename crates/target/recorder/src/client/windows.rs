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
//! synchronisation puts behind the opening cannot load an older value than the
//! opening stored (coherence), and one that it puts before the closing cannot
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
use allotrope_shm::wire::{self, Encode, WINDOW_COUNTS_WORDS, WINDOW_NAME_BYTES, window_flag};

use crate::client::quiet;
use crate::emit::counts::UpToNow;
use crate::emit::events::{self, Space};
use crate::emit::mode;
use crate::lifecycle::enter;
use crate::lifecycle::ready;
use crate::state::epoch;
use crate::state::thread::OwnThread;
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

/// Bit of a window's number: descriptors are compared at its end.
const COMPARES_DESCRIPTORS: u64 = 1 << 32;

/// Longest wait for quiet that a window makes, and what is quiet: no event of
/// another thread for longer than the scheduler keeps a thread from running.
const QUIET_MILLISECONDS: u32 = 20;
const QUIET_TIMEOUT_MILLISECONDS: u32 = 2000;

/// Opens a window; returns its number, or 0 if that cannot be recorded.
pub fn open(name: &[u8], iterations: u64, options: u32) -> u64 {
    let quiet = wait_for_quiet(options);
    let compares = options & option::DESCRIPTORS != 0;
    let mut flags = quiet << window_flag::QUIET_SHIFT;
    if options & option::THIS_THREAD_ONLY != 0 {
        flags |= window_flag::THIS_THREAD_ONLY;
    }
    if compares {
        flags |= window_flag::DESCRIPTORS;
    }
    let opened = with_space(|space| {
        if compares && !ask_for_descriptors(*space) {
            return None;
        }
        write_window(*space, cut(name), iterations, flags)
    });
    match opened {
        None => 0,
        Some(opened) if compares => opened | COMPARES_DESCRIPTORS,
        Some(opened) => opened,
    }
}

/// Closes a window; nothing if it is none.
pub fn close(window: u64, options: u32) {
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
    with_space(|space| {
        write_window_end(*space, opened, flags);
        if compares {
            // The program must not close a descriptor before they are read.
            events::wait_until_read(*space);
        }
        None::<()>
    });
}

/// The calling thread's events belong to no window from here on, or do again.
pub fn opt_out(on: bool) {
    enter::without_caller(|thread| {
        let Some(root) = thread.root.get() else {
            return;
        };
        let opted_out = &root.opted_out;
        if on {
            opted_out.fetch_add(1, Relaxed);
        } else if opted_out.load(Relaxed) > 0 {
            opted_out.fetch_sub(1, Relaxed);
        }
        // The next event finds that a timestamp is due, and writes it with the epoch.
        root.last_state.store(events::STATE_UNKNOWN, Relaxed);
        mode::attach(root);
    });
}

/// Waits until the image's other threads make no events, if `options` ask for
/// it; a [`QuietWait`] as a number.
fn wait_for_quiet(options: u32) -> u8 {
    if options & option::QUIET == 0 {
        return QuietWait::NotRequested as u8;
    }
    match quiet::wait(QUIET_MILLISECONDS, QUIET_TIMEOUT_MILLISECONDS) {
        true => QuietWait::Reached as u8,
        false => QuietWait::TimedOut as u8,
    }
}

/// Calls `write` with space for an event; `None` if there is none.
fn with_space<R>(write: impl FnOnce(Space) -> Option<R>) -> Option<R> {
    enter::without_caller(|thread| ready::ready_must_succeed(thread).and_then(write)).flatten()
}

/// Has the collector read which descriptors are open; waits for it.
fn ask_for_descriptors(thread: OwnThread) -> bool {
    let Some(space) = events::reserve_must_succeed(thread, 1) else {
        return false;
    };
    space.write(wire::descriptors());
    events::wait_until_read(thread)
}

/// Writes the event of an opening; returns the epoch that it made. The epoch changes
/// last, so that few events of other threads fall between it and the event.
fn write_window(thread: OwnThread, name: &[u8], iterations: u64, flags: u8) -> Option<u64> {
    let mut window = wire::Window {
        flags,
        opened: 0,
        iterations,
        tick: 0,
        name,
    };
    let words = (window.most_words() + WINDOW_COUNTS_WORDS) as u64;
    if epoch::word() >> 32 >= LAST_OPENING {
        return None;
    }
    let space = events::reserve_must_succeed(thread, words)?;
    window.tick = arch::tick();
    window.opened = epoch::advance();
    events::write_long(thread, &window);
    if let Some(counted) = (mode::current().up_to_now)(thread.state()) {
        write_counts(space, window.opened, counted);
    }
    Some(window.opened)
}

/// Writes what was counted at the end of a window that made the epoch.
fn write_counts(space: Space, epoch: u64, counted: UpToNow) {
    space.write(wire::window_counts(epoch, counted.image, counted.thread));
}

/// Writes the event of a closing, the new epoch first of all.
fn write_window_end(thread: OwnThread, opened: u64, flags: u8) {
    const LENGTH: usize = 4;
    if epoch::word() >> 32 >= LAST_CLOSING {
        return;
    }
    let closed = epoch::advance();
    let counted = (mode::current().up_to_now)(thread.state());
    let words = (LENGTH + WINDOW_COUNTS_WORDS) as u64;
    let Some(space) = events::reserve_must_succeed(thread, words) else {
        return;
    };
    space.write(wire::window_end(flags, opened, closed, arch::tick()));
    if let Some(counted) = counted {
        write_counts(space, closed, counted);
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
