//! The live blocks of an image: which block is live at which [key](crate::block_key), and
//! a record of size, time, site and thread for each.
//!
//! ```text
//! key ──▶ AddressMap ──▶ block id ──▶ blocks: [LiveBlock] (24 bytes each)
//!                            ▲
//!          free_ids ─────────┘  a stack: ids of freed blocks
//! ```
//!
//! The speculative log applies events to the map long before the accumulators get them,
//! and rolls some of them back. So the id of a freed block is not used again until the
//! accumulators have got the deallocation. Data that others have for each block is in
//! arrays of theirs, by id.

mod address_map;

use allotrope_trace::model::{Event, EventKind};

use crate::block_key::block_key;
use crate::prefetch::prefetch;
use crate::step::Step;
use address_map::{AddressMap, Cell};

/// Index of a live block.
pub(crate) type BlockId = usize;

/// No block.
pub(crate) const NO_BLOCK: BlockId = usize::MAX;

/// Site of blocks that the image inherited.
pub(crate) const INHERITED: u32 = u32::MAX;

/// Prefetching pays with more than this many blocks and cells: their records and cells no
/// longer fit a core's own cache.
const WORTH_PREFETCHING: usize = 1 << 13;
const MANY_CELLS: usize = 1 << 16;
/// Events whose records are prefetched at a time: about as many cache lines as a
/// core can request at once.
pub(crate) const AHEAD: usize = 24;

/// The record of a block. The accumulator writes it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LiveBlock {
    pub size: u64,
    pub allocated_ns: u64,
    /// [`INHERITED`], or the index of its stack's site.
    pub site: u32,
    /// Dense number of the thread that allocated it.
    pub thread: u32,
}

/// The effect of an event on the live blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// The block that was allocated or freed; [`NO_BLOCK`] for a deallocation at a key
    /// where none was live.
    pub block: BlockId,
    /// The block that was still live at the key of an allocation, else [`NO_BLOCK`].
    pub replaced: BlockId,
}

/// The result of looking a key up.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    key: u64,
    cell: Cell,
    /// The block there, or [`NO_BLOCK`].
    pub block: BlockId,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct LiveBlocks {
    ids: AddressMap,
    /// Live blocks by id.
    blocks: Vec<LiveBlock>,
    free_ids: Vec<u32>,
}

impl LiveBlocks {
    /// The blocks that an image inherited at `now`, by key and size.
    pub(crate) fn new(inherited: impl Iterator<Item = (u64, u64)>, now: u64) -> Self {
        let mut live = Self::default();
        for (key, size) in inherited {
            let block = live.insert(key).block;
            live.blocks[block] = LiveBlock {
                size,
                allocated_ns: now,
                site: INHERITED,
                thread: u32::MAX,
            };
        }
        live
    }

    /// The record of a block.
    #[inline]
    pub(crate) fn block(&self, id: BlockId) -> LiveBlock {
        self.blocks[id]
    }

    /// Sets the record of a block.
    #[inline]
    pub(crate) fn describe(&mut self, id: BlockId, block: LiveBlock) {
        self.blocks[id] = block;
    }

    /// Key and id of every live block, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, BlockId)> {
        self.ids.iter().map(|(key, id)| (key, id as BlockId))
    }

    /// Looks up a key.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Slot {
        let cell = self.ids.cell(key);
        let id = self.ids.get(key, cell);
        Slot {
            key,
            cell,
            block: id.map_or(NO_BLOCK, |id| id as BlockId),
        }
    }

    /// Whether a block is live at the key.
    #[inline]
    pub(crate) fn contains(&self, key: u64) -> bool {
        self.find(key).block != NO_BLOCK
    }

    /// Applies the step, legal or not. The id of a block that it ends stays in use until
    /// [`Self::release`].
    #[inline]
    pub(crate) fn apply(&mut self, step: &Step) -> Blocks {
        if step.allocates {
            self.insert(step.key)
        } else {
            Blocks {
                block: self.end(step.key).unwrap_or(NO_BLOCK),
                replaced: NO_BLOCK,
            }
        }
    }

    /// Adds a block at the key; `None` if one is live there.
    #[inline]
    pub(crate) fn add(&mut self, key: u64) -> Option<BlockId> {
        let slot = self.find(key);
        (slot.block == NO_BLOCK).then(|| self.fill(slot, LiveBlock::default()))
    }

    /// Removes the block at the key; `None` if none is live there. Its id stays in use
    /// until [`Self::release`].
    #[inline]
    pub(crate) fn end(&mut self, key: u64) -> Option<BlockId> {
        let slot = self.find(key);
        (slot.block != NO_BLOCK).then(|| {
            self.ids.clear(key, slot.cell);
            slot.block
        })
    }

    /// Undoes a step: the latest one that was applied and is not undone. `blocks` is what
    /// [`Self::apply`] returned for it.
    pub(crate) fn undo(&mut self, step: &Step, blocks: Blocks) {
        let slot = self.find(step.key);
        let before = if step.allocates {
            blocks.replaced
        } else {
            blocks.block
        };
        if before != NO_BLOCK {
            self.set(slot, before);
        } else if step.allocates {
            self.ids.clear(slot.key, slot.cell);
        }
        if step.allocates {
            self.release_id(blocks.block);
        }
    }

    /// Adds a block at the key, in place of one that is live there.
    #[inline]
    fn insert(&mut self, key: u64) -> Blocks {
        let slot = self.find(key);
        Blocks {
            block: self.fill(slot, LiveBlock::default()),
            replaced: slot.block,
        }
    }

    /// Puts a new block into a slot.
    #[inline]
    pub(crate) fn fill(&mut self, slot: Slot, block: LiveBlock) -> BlockId {
        let id = match self.free_ids.pop() {
            Some(id) => {
                self.blocks[id as usize] = block;
                id as BlockId
            }
            None => {
                self.blocks.push(block);
                self.blocks.len() - 1
            }
        };
        self.set(slot, id);
        id
    }

    #[inline]
    fn set(&mut self, slot: Slot, id: BlockId) {
        // 2^32 records take 96 GiB: memory ends before the ids do.
        let most = self.blocks.len();
        self.ids.set(slot.key, slot.cell, id as u32, most);
    }

    /// Removes the block of a slot, releases its id, and returns its record.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) -> LiveBlock {
        self.ids.clear(slot.key, slot.cell);
        self.release_id(slot.block);
        self.blocks[slot.block]
    }

    /// Releases, after an event has been accumulated, the id of the block that it ended,
    /// if it ended one.
    #[inline]
    pub(crate) fn release(&mut self, allocates: bool, blocks: Blocks) {
        let ended = if allocates {
            blocks.replaced
        } else {
            blocks.block
        };
        if ended != NO_BLOCK {
            self.release_id(ended);
        }
    }

    #[inline]
    fn release_id(&mut self, id: BlockId) {
        self.free_ids.push(id as u32);
    }

    /// Whether there are enough blocks for [`Self::prefetch`] to pay.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.blocks.len() > WORTH_PREFETCHING && self.ids.cells() > MANY_CELLS
    }

    /// Prefetches the records of the blocks that the first [`AHEAD`] events free, and
    /// the cells of the [`AHEAD`] events after those.
    #[inline]
    pub(crate) fn prefetch(&self, events: &[Event]) {
        let (next, after) = events.split_at(events.len().min(AHEAD));
        for event in after.iter().take(AHEAD) {
            self.ids.prefetch(block_key(event));
        }
        for event in next {
            if event.kind != EventKind::Allocation
                && let Some(block) = self.blocks.get(self.find(block_key(event)).block)
            {
                prefetch(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_events::step;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn it_behaves_like_a_map_whose_steps_can_be_undone(
            operations in prop::collection::vec((0..4_u8, 0..40_u64), 0..400),
            spread in prop::sample::select(vec![1_u64, 16, 48, 4096, 1 << 40]),
        ) {
            let mut live = LiveBlocks::new([(0, 1), (spread, 1)].into_iter(), 0);
            let mut model = BTreeMap::from([(0, 0), (spread, 1)]);
            // The steps since the last release, with the model before each.
            let mut done = Vec::new();
            for (kind, at) in operations {
                let key = at * spread;
                prop_assert_eq!(live.contains(key), model.contains_key(&key));
                match kind {
                    0..=2 => {
                        let step = step(kind < 2, key);
                        let before = model.clone();
                        let blocks = live.apply(&step);
                        if step.allocates {
                            let old = model.insert(key, blocks.block);
                            prop_assert_eq!(blocks.replaced, old.unwrap_or(NO_BLOCK));
                        } else {
                            prop_assert_eq!(blocks.block, model.remove(&key).unwrap_or(NO_BLOCK));
                        }
                        done.push((step, blocks, before));
                    }
                    _ if at % 2 == 0 => {
                        if let Some((step, blocks, before)) = done.pop() {
                            live.undo(&step, blocks);
                            model = before;
                        }
                    }
                    _ => for (step, blocks, _) in done.drain(..) {
                        live.release(step.allocates, blocks);
                    },
                }
                let seen: BTreeMap<_, _> = live.iter().collect();
                prop_assert_eq!(&seen, &model);
                let ids: BTreeSet<_> = model.values().collect();
                prop_assert_eq!(ids.len(), model.len(), "every block has its own id");
            }
        }
    }

    #[test]
    fn ids_are_used_again() {
        let mut live = LiveBlocks::default();
        for round in 0..3 {
            for at in 0..1_000 {
                let slot = live.find(at * 16 + round);
                assert!(live.fill(slot, LiveBlock::default()) < 1_000);
            }
            for at in 0..1_000 {
                live.remove(live.find(at * 16 + round));
            }
        }
        assert_eq!(live.iter().count(), 0);
    }
}
