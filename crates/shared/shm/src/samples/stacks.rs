//! The stacks of samples: a trie, whose nodes are frames with their callers.
//!
//! A hash table with open addressing maps (callers' id, frame) to the node's id. Its entries
//! are published once and never change. A thread that does not find a node takes the
//! next id, writes the node, and then publishes the id by compare-and-swap of an empty entry. If
//! another thread was faster with the same node, that one's id is used, and the own one
//! stays unused. A child's id is therefore always larger than its callers' id, and a
//! reader that checks this cannot run in circles.
//!
//! Ids below `stack_end::FIRST_NODE` (`allotrope-shm`) are no nodes; as callers they say
//! why the stack ends there.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::numbers::stack_end::FIRST_NODE;

use crate::samples::byte_table::MULTIPLIER;
use crate::samples::layout::{EXACT, INDEX, NODES, WRITTEN, pack_place};
use crate::samples::writer::{Host, Writer};

/// Largest number of entries of the index that a look-up inspects. With at most half of them in
/// use, a longer run of them is less likely than one in a billion.
const PROBES: usize = 128;

/// A frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Return address of the frame, or address of the instruction itself; 48 bits.
    pub address: u64,
    /// It is that of the instruction itself: a signal interrupted the frame there.
    pub exact: bool,
    /// The number of its module; `NO_MAPPING` of `allotrope-shm` if it is in none.
    pub mapping: u16,
}

impl<H: Host> Writer<'_, H> {
    /// The id of a frame with these callers, which have an id. `None`: there is no
    /// place for it. A sample then has no stack; see [`Writer::count_lost_stack`].
    pub fn node(&self, callers: u32, frame: Frame) -> Option<u32> {
        let place = pack_place(frame.address, frame.mapping);
        let exact = if frame.exact { EXACT } else { 0 };
        let parent = u64::from(callers) | exact | WRITTEN;
        let hash = (place ^ parent.rotate_left(40)).wrapping_mul(MULTIPLIER);
        let hash = (hash ^ hash >> 32).wrapping_mul(MULTIPLIER);
        let mut own = None;
        for step in 0..PROBES {
            let entry = &self.memory.index[((hash >> 40) as usize + step) % INDEX];
            let mut id = if self.is_committed(entry) {
                entry.load(Acquire)
            } else {
                0
            };
            if id == 0 {
                let new = match own {
                    Some(id) => id,
                    None => *own.insert(self.new_node(place, parent)?),
                };
                if !self.commits(entry) {
                    return None;
                }
                match entry.compare_exchange(0, new, AcqRel, Acquire) {
                    Ok(_) => return Some(new),
                    Err(other) => id = other,
                }
            }
            // Another process may have written anything here.
            let Some(node) = self.memory.nodes.get(id as usize) else {
                continue;
            };
            if self.is_committed(node)
                && node.place.load(Relaxed) == place
                && node.parent.load(Relaxed) == parent
                && id > callers
            {
                return Some(id);
            }
        }
        None
    }

    /// Writes a node that is not published yet.
    fn new_node(&self, place: u64, parent: u64) -> Option<u32> {
        let counter = &self.memory.counters.0.nodes;
        // Without the comparison a full table would count on, until it begins again.
        if counter.load(Relaxed) >= (NODES - FIRST_NODE as usize) as u64 {
            return None;
        }
        let id = counter.fetch_add(1, Relaxed) + u64::from(FIRST_NODE);
        let node = self.memory.nodes.get(usize::try_from(id).ok()?)?;
        // Callers come first, unless somebody else has changed the counter.
        if !self.commits(node) || id <= parent & u64::from(u32::MAX) {
            return None;
        }
        node.place.store(place, Relaxed);
        node.parent.store(parent, Relaxed);
        Some(id as u32)
    }

    /// A sample goes without its stack, for which there was no place. Its stack's id is
    /// `stack_end::NOT_RECORDED`.
    pub fn count_lost_stack(&self) {
        self.memory.counters.0.lost_stacks.fetch_add(1, Relaxed);
    }
}
