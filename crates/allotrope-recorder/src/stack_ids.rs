//! Names stacks: an id for each (parent id, address).
//!
//! Ids belong to a lane. A cache, the thread's own, knows the ids given
//! lately; what it does not know gets a new id and a `Node` event in the same
//! ring, before the event that uses it. So nothing is shared between threads,
//! memory is bounded, and a node that was pushed out of the cache is merely told
//! again: the collector knows that it is the same.
//!
//! Where an entry is looked for depends on a hash of all addresses from the
//! outermost frame, its *path*, and not on the parent's id: so the entries of
//! the frames of a walk do not wait for one another to come from memory. That
//! an entry is the right one is then known from address and parent's id.

use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

use allotrope_ring::words::STACK_IDS;

use crate::arch::rule::EXACT;
use crate::events;
use crate::thread::{Guarded, IDS, Thread};

/// An entry of the cache.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct IdEntry {
    /// [`place`]; 0: empty.
    pub place: u64,
    /// Parent << 32 | id.
    pub ids: u64,
}

/// Entries among which one can be. They share a cache line.
const WAYS: usize = 2;

/// Address (with the exact mark) and mapping.
#[inline(always)]
pub fn place(pc: u64, mapping: u16) -> u64 {
    pc | u64::from(mapping) << 48
}

/// The path of no frame in a stack that ends so.
#[inline(always)]
pub fn root(end: u32) -> u64 {
    u64::from(end) << 32
}

/// A path and one frame more, inside of it.
#[inline(always)]
pub fn extend(path: u64, place: u64) -> u64 {
    // The upper bits say where to look; they depend on all others.
    (path ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[inline(always)]
unsafe fn entries(guarded: *mut Guarded, path: u64) -> *mut IdEntry {
    const SETS: u32 = (IDS / WAYS).trailing_zeros();
    let set = (path >> (u64::BITS - SETS)) as usize;
    // SAFETY: the thread's own state.
    unsafe { (&raw mut (*guarded).ids).cast::<IdEntry>().add(set * WAYS) }
}

/// The id of the stack with this path, whose innermost frame is at `place` and
/// whose callers are `parent`, if it is known.
#[inline(always)]
pub unsafe fn known(guarded: *mut Guarded, path: u64, place: u64, parent: u32) -> Option<u32> {
    // SAFETY: the thread's own state.
    unsafe {
        let entries = entries(guarded, path);
        for way in 0..WAYS {
            let IdEntry { place: known, ids } = *entries.add(way);
            if known == place && ids >> 32 == u64::from(parent) {
                if way > 0 {
                    // The one that was not used for longest is pushed out.
                    let first = *entries;
                    enter(entries, IdEntry { place, ids });
                    enter(entries.add(way), first);
                }
                return Some(ids as u32);
            }
        }
        None
    }
}

/// Gives the stack a new id. The caller made room for the event and the id.
#[inline(always)]
pub unsafe fn define(thread: *mut Thread, path: u64, parent: u32, pc: u64, mapping: u16) -> u32 {
    // SAFETY: the thread's own state. Should this be left in the middle (a
    // signal handler that jumps away), the entries are empty or whole, and an
    // id is never given twice.
    unsafe {
        let id = (*thread).next_id;
        (&raw mut (*thread).next_id).write_volatile(id + 1);
        compiler_fence(SeqCst);
        events::node(
            thread,
            pc & (EXACT - 1),
            pc & EXACT != 0,
            parent,
            id,
            mapping,
        );
        let entries = entries(Thread::guarded(thread), path);
        for way in (1..WAYS).rev() {
            enter(entries.add(way), *entries.add(way - 1));
        }
        let ids = u64::from(parent) << 32 | u64::from(id);
        let place = place(pc, mapping);
        enter(entries, IdEntry { place, ids });
        id
    }
}

#[inline(always)]
unsafe fn enter(entry: *mut IdEntry, new: IdEntry) {
    // SAFETY: the thread's own state.
    unsafe {
        (&raw mut (*entry).place).write_volatile(0);
        compiler_fence(SeqCst);
        (&raw mut (*entry).ids).write_volatile(new.ids);
        compiler_fence(SeqCst);
        (&raw mut (*entry).place).write_volatile(new.place);
    }
}

/// The id of a stack of one frame. The caller made room for an event and an id.
pub unsafe fn of_one_frame(thread: *mut Thread, end: u32, pc: u64, mapping: u16) -> u32 {
    let place = place(pc, mapping);
    let path = extend(root(end), place);
    // SAFETY: the thread's own state.
    unsafe {
        known(Thread::guarded(thread), path, place, end)
            .unwrap_or_else(|| define(thread, path, end, pc, mapping))
    }
}

/// Makes sure that `count` new ids and their events fit.
#[inline(always)]
pub unsafe fn room(thread: *mut Thread, count: usize) -> bool {
    // SAFETY: the thread's own state.
    unsafe {
        events::room(thread, 2 * count as u64 + 4)
            && ((*thread).next_id + count as u32 <= STACK_IDS || events::restart_ids(thread))
    }
}
