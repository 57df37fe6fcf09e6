//! Names stacks: an id for each (parent id, address).
//!
//! Ids belong to a ring. A cache, the thread's own, knows the ids given
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

use allotrope_shm::wire::{Node, STACK_BITS, STACK_IDS};

use crate::arch::rule::{EXACT, Rule};
use crate::events;
use crate::places;
use crate::recent::enter;
use crate::thread::{Guarded, Thread};

/// Entries of the cache. cc1plus told 1.2 nodes an allocation with 16 K entries of
/// which two shared a set, 0.75 with 64 K.
const ENTRIES: usize = 1 << 16;
/// Entries among which one can be. They share a cache line.
const WAYS: usize = 8;
const SETS: usize = ENTRIES / WAYS;

/// The cache: place << `PLACE_SHIFT` | parent << `STACK_BITS` | id; 0: empty.
pub type StackIds = [[u64; WAYS]; SETS];

/// Where an entry has its place's number, which is never 0.
const PLACE_SHIFT: u32 = 2 * STACK_BITS;
const _: () = assert!(PLACE_SHIFT == Rule::NUMBER_SHIFT);

/// An entry without the id.
#[inline(always)]
const fn key(place: u16, parent: u32) -> u64 {
    (place as u64) << PLACE_SHIFT | (parent as u64) << STACK_BITS
}

/// The path of no frame in a stack that ends so.
#[inline(always)]
pub fn root(end: u32) -> u64 {
    u64::from(end) << 32
}

/// A path and one frame more, inside of it.
#[inline(always)]
pub fn extend(path: u64, place: u16) -> u64 {
    // The upper bits say where to look; they depend on all others.
    (path ^ u64::from(place)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[inline(always)]
unsafe fn set(guarded: *mut Guarded, path: u64) -> *mut u64 {
    let set = (path >> (u64::BITS - SETS.trailing_zeros())) as usize;
    // SAFETY: the thread's own state.
    unsafe { (&raw mut (*guarded).ids).cast::<u64>().add(set * WAYS) }
}

/// The id of the stack with this path, whose innermost frame is at `place` and
/// whose callers are `parent`, if it is known.
#[inline(always)]
pub unsafe fn known(guarded: *mut Guarded, path: u64, place: u16, parent: u32) -> Option<u32> {
    // SAFETY: the thread's own state.
    unsafe {
        let set = set(guarded, path);
        let key = key(place, parent);
        let id = *set ^ key;
        if id >> STACK_BITS == 0 {
            return Some(id as u32);
        }
        known_later(set, key)
    }
}

/// [`known`] for those that are not first in their set.
#[inline(always)]
unsafe fn known_later(set: *mut u64, key: u64) -> Option<u32> {
    // SAFETY: a set has so many.
    unsafe {
        for way in 1..WAYS {
            let entry = *set.add(way);
            let id = entry ^ key;
            if id >> STACK_BITS == 0 {
                // The one that was not used for longest is pushed out.
                enter(set, way, entry);
                return Some(id as u32);
            }
        }
        None
    }
}

/// Gives the stack a new id. The caller made room for the event and the id.
#[inline(always)]
pub unsafe fn define(thread: *mut Thread, path: u64, parent: u32, pc: u64, place: u16) -> u32 {
    // SAFETY: the thread's own state. Should this be left in the middle (a
    // signal handler that jumps away), entries are whole, and an id is never
    // given twice.
    unsafe {
        let guarded = Thread::guarded(thread);
        let id = (*thread).next_id;
        (&raw mut (*thread).next_id).write_volatile(id + 1);
        compiler_fence(SeqCst);
        events::node(
            thread,
            Node {
                address: pc & (EXACT - 1),
                exact: pc & EXACT != 0,
                parent,
                id,
                mapping: places::mapping(guarded, place),
            },
        );
        enter(
            set(guarded, path),
            WAYS - 1,
            key(place, parent) | u64::from(id),
        );
        id
    }
}

/// The id of a stack of one frame. The caller made room for an event and an id.
pub unsafe fn of_one_frame(thread: *mut Thread, end: u32, pc: u64, place: u16) -> u32 {
    let path = extend(root(end), place);
    // SAFETY: the thread's own state.
    unsafe {
        known(Thread::guarded(thread), path, place, end)
            .unwrap_or_else(|| define(thread, path, end, pc, place))
    }
}

/// Forgets which ids stand for what. They stay given.
pub unsafe fn forget(guarded: *mut Guarded) {
    // SAFETY: the thread's own state.
    unsafe { (&raw mut (*guarded).ids).write_bytes(0, 1) };
}

/// Makes sure that `count` new ids and their events fit.
#[inline(always)]
pub unsafe fn room(thread: *mut Thread, count: usize) -> bool {
    // SAFETY: the thread's own state.
    unsafe {
        events::reserve(thread, 2 * count as u64 + 4)
            && ((*thread).next_id + count as u32 <= STACK_IDS || events::reset_stack_ids(thread))
    }
}
