//! Names stacks: an id for each (parent id, address).
//!
//! Ids belong to a lane. A direct-mapped cache, the thread's own, knows the
//! ids given lately; what it does not know gets a new id and a `Node` event in
//! the same ring, before the event that uses it. So nothing is shared between
//! threads, memory is bounded, and a node that was pushed out of the cache is
//! merely told again: the collector knows that it is the same.

use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

use allotrope_ring::words::STACK_IDS;

use crate::arch::rule::EXACT;
use crate::events;
use crate::thread::{IDS, Thread};

/// An entry of the cache.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct IdEntry {
    /// Address (with the exact mark) and mapping << 48; 0: empty.
    pub place: u64,
    /// Parent << 32 | id.
    pub ids: u64,
}

#[inline(always)]
fn slot(place: u64, parent: u32) -> usize {
    let hash =
        (place ^ u64::from(parent) << 20 ^ u64::from(parent)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> 40) as usize & (IDS - 1)
}

/// The id of the stack whose innermost frame is at `pc` in `mapping` and whose
/// callers are `parent`. The caller made room for an event and ids.
#[inline(always)]
pub unsafe fn id(thread: *mut Thread, parent: u32, pc: u64, mapping: u16) -> u32 {
    let place = pc | u64::from(mapping) << 48;
    // SAFETY: the thread's own state.
    unsafe {
        let entry = (&raw mut (*Thread::guarded(thread)).ids)
            .cast::<IdEntry>()
            .add(slot(place, parent));
        if (*entry).place == place && (*entry).ids >> 32 == u64::from(parent) {
            return (*entry).ids as u32;
        }
        define(thread, entry, parent, pc, mapping)
    }
}

#[cold]
unsafe fn define(
    thread: *mut Thread,
    entry: *mut IdEntry,
    parent: u32,
    pc: u64,
    mapping: u16,
) -> u32 {
    let place = pc | u64::from(mapping) << 48;
    // SAFETY: the thread's own state. Should this be left in the middle (a
    // signal handler that jumps away), the entry is empty or whole, and an id
    // is never given twice.
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
        (&raw mut (*entry).place).write_volatile(0);
        compiler_fence(SeqCst);
        (&raw mut (*entry).ids).write_volatile(u64::from(parent) << 32 | u64::from(id));
        compiler_fence(SeqCst);
        (&raw mut (*entry).place).write_volatile(place);
        id
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
