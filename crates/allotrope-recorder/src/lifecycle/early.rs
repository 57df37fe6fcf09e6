//! Allocations that come before the recorder can work: an ifunc resolver may allocate
//! while the loader still relocates this library. The bump area of [`next`] serves
//! them; they are noted here and written with the first event, each with the one frame
//! that is known, its caller.
//!
//! The loader runs on a single thread, so the notes are taken by one, too.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use allotrope_shm::numbers::{EntryPoint, LossReason};
use allotrope_shm::wire::kind;

use crate::capture::unwind;
use crate::emit::counts;
use crate::emit::events;
use crate::lifecycle::ready;
use crate::state::process;
use crate::state::thread::Thread;
use crate::sys::next;

/// Most notes; further allocations are counted as lost.
const NOTES: usize = 256;
/// There is no such block.
const NONE: usize = usize::MAX;

/// One allocation.
#[derive(Clone, Copy)]
struct Note {
    entry: u8,
    alignment_log2: u8,
    block: u64,
    size: u64,
    /// Where the call returns to.
    pc: u64,
    /// The note of the block that it replaced, as `realloc` does.
    replaces: usize,
    /// It was freed before it was written.
    freed: bool,
}

struct Notes(UnsafeCell<[Note; NOTES]>);
// SAFETY: filled by the loader's only thread; written to a ring by whoever first sees
// `STATE` change, once.
unsafe impl Sync for Notes {}

static NOTED: Notes = Notes(UnsafeCell::new(
    [Note {
        entry: 0,
        alignment_log2: 0,
        block: 0,
        size: 0,
        pc: 0,
        replaces: NONE,
        freed: false,
    }; NOTES],
));
static COUNT: AtomicUsize = AtomicUsize::new(0);
static OVERFLOWED: AtomicUsize = AtomicUsize::new(0);
/// Notes that have been written as events, from the first.
static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// The bump area handed out `block`, in the place of `replaces` if that is not
/// null.
#[cold]
pub unsafe fn note(
    entry: u8,
    block: *mut c_void,
    size: usize,
    alignment: usize,
    replaces: *mut c_void,
    sp: *const u64,
) {
    if block.is_null() || next::is_resolving() {
        return;
    }
    let index = COUNT.load(Relaxed);
    if index == NOTES {
        OVERFLOWED.fetch_add(1, Relaxed);
        return;
    }
    let alignment = alignment.max(1).next_power_of_two();
    // SAFETY: see `Notes`; the entry stub gives the stack pointer as it was.
    unsafe {
        (*NOTED.0.get())[index] = Note {
            entry,
            alignment_log2: if alignment <= 16 {
                0
            } else {
                alignment.trailing_zeros() as u8
            },
            block: block as u64,
            size: size as u64,
            pc: sp.read(),
            replaces: find(replaces).unwrap_or(NONE),
            freed: false,
        };
    }
    COUNT.store(index + 1, Release);
}

/// The latest note of a block.
fn find(block: *mut c_void) -> Option<usize> {
    let count = COUNT.load(Acquire);
    // SAFETY: notes below the count are complete.
    let notes = unsafe { &(&*NOTED.0.get())[..count] };
    notes.iter().rposition(|note| note.block == block as u64)
}

/// A block of the bump area is freed. `true`: its allocation has been written, so
/// this is to be recorded as well.
#[cold]
pub fn is_recorded(block: *mut c_void) -> bool {
    match find(block) {
        Some(index) if index < WRITTEN.load(Acquire) => true,
        Some(index) => {
            // SAFETY: nobody writes it yet, see `Notes`.
            unsafe { (*NOTED.0.get())[index].freed = true };
            false
        }
        None => false,
    }
}

/// Allocations that could not be noted.
pub fn overflowed() -> u64 {
    OVERFLOWED.load(Relaxed) as u64
}

/// Whether there are notes that are not written yet.
#[inline]
pub fn is_pending() -> bool {
    WRITTEN.load(Relaxed) < COUNT.load(Relaxed)
}

/// Writes the notes as the events that they stand for.
#[cold]
pub unsafe fn write(thread: *mut Thread) {
    let count = COUNT.load(Acquire);
    let first = WRITTEN.swap(count, Relaxed);
    for index in first..count {
        // SAFETY: below the count; the thread's own state.
        unsafe {
            let note = (*NOTED.0.get())[index];
            if !write_one(thread, &note) {
                process::lost(LossReason::TooEarly);
            }
        }
    }
}

unsafe fn write_one(thread: *mut Thread, note: &Note) -> bool {
    // SAFETY: the thread's own state; `ready` leaves room for an event.
    unsafe {
        if counts::is_on() {
            if note.replaces == NONE {
                counts::allocation(thread, note.entry, note.size as usize);
            } else {
                counts::reallocation(thread, note.entry, note.size as usize);
            }
            if note.freed {
                counts::deallocation(thread, EntryPoint::Free as u8);
            }
            return true;
        }
        if note.replaces != NONE {
            if !ready::ready(thread) {
                return false;
            }
            let old = (*NOTED.0.get())[note.replaces].block;
            events::block_event(thread, kind::REALLOCATION_START, note.entry, old);
        }
        if !ready::ready(thread) {
            return false;
        }
        let Some(stack) = unwind::id_of_lone_frame(thread, note.pc) else {
            return false;
        };
        if note.replaces == NONE {
            let alignment = note.alignment_log2;
            events::allocation(thread, note.entry, note.block, note.size, alignment, stack);
        } else {
            events::reallocation_end(thread, note.entry, note.block, note.size, stack);
        }
        if note.freed && ready::ready(thread) {
            let free = EntryPoint::Free as u8;
            events::block_event(thread, kind::DEALLOCATION, free, note.block);
        }
    }
    true
}
