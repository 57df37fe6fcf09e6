//! The stack ids that a thread's ring has assigned lately: a cache from (callers' id,
//! code id) to the stack's id.
//!
//! Ids belong to a ring. A stack that is not in the cache gets a new id and a `Node`
//! event in the same ring, before the event that uses it. So nothing is shared
//! between threads, memory is bounded, and a node that was pushed out of the cache
//! is merely emitted again: the collector finds that it is the same.
//!
//! The set of an entry follows from a hash of all frames from the outermost one, not
//! from the callers' id: so the entries of the frames of a walk are loaded
//! independently of one another. That an entry is the right one is then known from
//! code id and callers' id.

use core::sync::atomic::Ordering::Relaxed;

use allotrope_shm::wire::STACK_BITS;
use allotrope_unwind::lru_set::{LruSet, promote};
use allotrope_unwind::{CodeId, StackHash};

/// Entries of the cache. cc1plus emitted 1.2 nodes an allocation with 16 K entries in
/// sets of two, 0.75 with 64 K.
const ENTRIES: usize = 1 << 16;
/// Entries of a set. They share a cache line.
const WAYS: usize = 8;
const SETS: usize = ENTRIES / WAYS;

/// The cache. An entry: code id << `CODE_ID_SHIFT` | callers' id << `STACK_BITS` | id;
/// 0: empty.
#[repr(C, align(64))]
pub struct StackIds([LruSet<WAYS>; SETS]);

/// Where an entry has its code id, which is never 0.
const CODE_ID_SHIFT: u32 = 2 * STACK_BITS;
const _: () = assert!(CODE_ID_SHIFT + u16::BITS == u64::BITS);

/// An entry without the id.
#[inline(always)]
const fn key(code_id: CodeId, parent: u32) -> u64 {
    (code_id.0 as u64) << CODE_ID_SHIFT | (parent as u64) << STACK_BITS
}

impl StackIds {
    #[inline(always)]
    fn set(&self, hash: StackHash) -> &LruSet<WAYS> {
        &self.0[hash.index(SETS.trailing_zeros())]
    }

    /// The id of the stack with this hash, whose innermost frame is at `code_id` and
    /// whose callers are `parent`, if it is known.
    #[inline(always)]
    pub fn known(&self, hash: StackHash, code_id: CodeId, parent: u32) -> Option<u32> {
        let set = self.set(hash);
        let key = key(code_id, parent);
        let id = set[0].load(Relaxed) ^ key;
        if id >> STACK_BITS == 0 {
            return Some(id as u32);
        }
        known_later(set, key)
    }

    /// Adds a stack that is not known.
    #[inline(always)]
    pub fn add(&self, hash: StackHash, code_id: CodeId, parent: u32, id: u32) {
        let entry = key(code_id, parent) | u64::from(id);
        promote(self.set(hash), WAYS - 1, entry);
    }

    /// Forgets which ids stand for what. They are not assigned again.
    pub fn forget(&self) {
        for entry in self.0.as_flattened() {
            entry.store(0, Relaxed);
        }
    }
}

/// [`StackIds::known`] for those that are not first in their set; it then is.
#[inline(always)]
fn known_later(set: &LruSet<WAYS>, key: u64) -> Option<u32> {
    for way in 1..WAYS {
        let entry = set[way].load(Relaxed);
        let id = entry ^ key;
        if id >> STACK_BITS == 0 {
            promote(set, way, entry);
            return Some(id as u32);
        }
    }
    None
}
