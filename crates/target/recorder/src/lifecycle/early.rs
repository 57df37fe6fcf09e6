//! Allocations that come before the recorder can work: an ifunc resolver may allocate
//! while the loader still relocates this library. The bump area of [`next`] serves
//! them; they are noted here and written with the first event, each with the one frame
//! that is known, its caller.
//!
//! The loader runs on a single thread, so the notes are taken by one, too.

use core::ffi::c_void;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};

use allotrope_shm::hook_api::Caller;
use allotrope_shm::numbers::{EntryPoint, LossReason};
use allotrope_shm::wire::kind;

use crate::capture::unwind;
use crate::emit::counts::Call;
use crate::emit::events;
use crate::emit::mode;
use crate::lifecycle::ready;
use crate::state::process;
use crate::state::thread::OwnThread;
use crate::sys::next;

/// Largest number of notes; further allocations are counted as lost.
const NOTES: usize = 256;
/// There is no such block.
const NONE: usize = usize::MAX;

/// One allocation. It is complete before it is counted; then only `freed` changes.
struct Note {
    entry: AtomicU8,
    alignment_log2: AtomicU8,
    block: AtomicU64,
    size: AtomicU64,
    /// Where the call returns to.
    pc: AtomicU64,
    /// The note of the block that it replaced, as `realloc` does.
    replaces: AtomicUsize,
    /// It was freed before it was written.
    freed: AtomicBool,
}

impl Note {
    const fn empty() -> Self {
        Self {
            entry: AtomicU8::new(0),
            alignment_log2: AtomicU8::new(0),
            block: AtomicU64::new(0),
            size: AtomicU64::new(0),
            pc: AtomicU64::new(0),
            replaces: AtomicUsize::new(NONE),
            freed: AtomicBool::new(false),
        }
    }
}

static NOTED: [Note; NOTES] = [const { Note::empty() }; NOTES];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static OVERFLOWED: AtomicUsize = AtomicUsize::new(0);
/// Notes that have been written as events, from the first.
static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// `block` was allocated from the bump area, in the place of `replaces` if that is not
/// null.
#[cold]
pub fn note(
    entry: EntryPoint,
    block: *mut c_void,
    size: usize,
    alignment: usize,
    replaces: *mut c_void,
    caller: Caller<'_>,
) {
    if block.is_null() || next::is_resolving() {
        return;
    }
    let index = COUNT.load(Relaxed);
    let Some(note) = NOTED.get(index) else {
        OVERFLOWED.fetch_add(1, Relaxed);
        return;
    };
    let alignment_log2 = match alignment.max(1).next_power_of_two() {
        ..=16 => 0,
        alignment => alignment.trailing_zeros() as u8,
    };
    note.entry.store(entry as u8, Relaxed);
    note.alignment_log2.store(alignment_log2, Relaxed);
    note.block.store(block as u64, Relaxed);
    note.size.store(size as u64, Relaxed);
    note.pc.store(caller.return_address(), Relaxed);
    let replaces = find(replaces).unwrap_or(NONE);
    note.replaces.store(replaces, Relaxed);
    COUNT.store(index + 1, Release);
}

/// The latest note of a block.
fn find(block: *mut c_void) -> Option<usize> {
    let notes = &NOTED[..COUNT.load(Acquire)];
    let is_it = |note: &Note| note.block.load(Relaxed) == block as u64;
    notes.iter().rposition(is_it)
}

/// A block of the bump area is freed. `true`: its allocation has been written, so
/// this is to be recorded as well.
#[cold]
pub fn is_recorded(block: *mut c_void) -> bool {
    match find(block) {
        Some(index) if index < WRITTEN.load(Acquire) => true,
        Some(index) => {
            NOTED[index].freed.store(true, Relaxed);
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
pub fn write(thread: OwnThread) {
    let count = COUNT.load(Acquire);
    let first = WRITTEN.swap(count, Relaxed);
    for note in &NOTED[first.min(count)..count] {
        let is_done = if mode::current().writes_events {
            write_one(thread, note).is_some()
        } else {
            count_one(thread, note);
            true
        };
        if !is_done {
            process::lost(LossReason::TooEarly);
        }
    }
}

fn count_one(thread: OwnThread, note: &Note) {
    let size = note.size.load(Relaxed) as usize;
    let call = match note.replaces.load(Relaxed) {
        NONE => Call::Allocation(size),
        _ => Call::Reallocation(size),
    };
    let count = mode::current().count;
    count(thread.state(), entry(note), call);
    if note.freed.load(Relaxed) {
        count(thread.state(), EntryPoint::Free, Call::Deallocation);
    }
}

fn entry(note: &Note) -> EntryPoint {
    EntryPoint::ALL[usize::from(note.entry.load(Relaxed))]
}

fn write_one(thread: OwnThread, note: &Note) -> Option<()> {
    let (block, size) = (note.block.load(Relaxed), note.size.load(Relaxed));
    let entry = entry(note);
    let replaced = NOTED.get(note.replaces.load(Relaxed));
    if let Some(old) = replaced {
        let old = old.block.load(Relaxed);
        events::block_event(ready::ready(thread)?, kind::REALLOCATION_START, entry, old);
    }
    let space = ready::ready(thread)?;
    let stack = unwind::id_of_lone_frame(space, note.pc.load(Relaxed))?;
    if replaced.is_none() {
        let alignment_log2 = note.alignment_log2.load(Relaxed);
        events::allocation(space, entry, block, size, alignment_log2, stack);
    } else {
        events::reallocation_end(space, entry, block, size, stack);
    }
    if note.freed.load(Relaxed)
        && let Some(space) = ready::ready(thread)
    {
        events::block_event(space, kind::DEALLOCATION, EntryPoint::Free, block);
    }
    Some(())
}
