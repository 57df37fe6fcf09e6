//! Which places are live, and the number of the block at each.
//!
//! A number is a small one that no other live block has, so that whoever keeps
//! something about blocks (the books) keeps it in an array: an event needs one
//! look-up, made where the events are put in order.
//!
//! Open addressing with linear probing, 16 bytes a slot, at most five of eight
//! slots taken; removing moves what follows back, so that nothing is left
//! behind. In place of a general hash map because every event passes here: the
//! slots alone stay in a cache that whole blocks would not fit.

use crate::cursor::Step;

/// Number of a live block.
pub(crate) type BlockNumber = usize;

/// No block.
pub(crate) const NO_BLOCK: BlockNumber = usize::MAX;

const FEWEST_SLOTS: usize = 1 << 10;

#[derive(Clone, Copy)]
struct Slot {
    place: u64,
    /// `NO_BLOCK`: nothing here.
    block: BlockNumber,
}

const EMPTY: Slot = Slot {
    place: 0,
    block: NO_BLOCK,
};

/// What an event meant to the live blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// The block that was handed out or given back; [`NO_BLOCK`] if none is
    /// known at the place that was given back.
    pub block: BlockNumber,
    /// The block that was believed live where one was handed out, else [`NO_BLOCK`].
    pub replaced: BlockNumber,
}

/// The live blocks by place.
pub(crate) struct LiveBlocks {
    slots: Vec<Slot>,
    mask: usize,
    shift: u32,
    taken: usize,
    /// Numbers that were given back.
    unused: Vec<BlockNumber>,
    /// The lowest number that was never handed out.
    fresh: BlockNumber,
}

impl LiveBlocks {
    /// The blocks at these places have the numbers from 0 on.
    pub(crate) fn new(places: impl Iterator<Item = u64>) -> Self {
        let mut live = Self {
            slots: vec![EMPTY; FEWEST_SLOTS],
            mask: FEWEST_SLOTS - 1,
            shift: u64::BITS - FEWEST_SLOTS.trailing_zeros(),
            taken: 0,
            unused: Vec::new(),
            fresh: 0,
        };
        for place in places {
            live.hand_out(place);
        }
        live
    }

    /// Place and number of every live block, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, BlockNumber)> {
        let taken = self.slots.iter().filter(|slot| slot.block != NO_BLOCK);
        taken.map(|slot| (slot.place, slot.block))
    }

    #[inline]
    fn home(&self, place: u64) -> usize {
        // Fibonacci hashing: the high bits of the product depend on all bits.
        (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// The slot of the place, or the empty one where it would be.
    #[inline]
    fn find(&self, place: u64) -> usize {
        let mut at = self.home(place);
        loop {
            let slot = &self.slots[at & self.mask];
            if slot.block == NO_BLOCK || slot.place == place {
                return at & self.mask;
            }
            at += 1;
        }
    }

    /// Whether a block is live at the place.
    #[inline]
    pub(crate) fn contains(&self, place: u64) -> bool {
        self.slots[self.find(place)].block != NO_BLOCK
    }

    /// What the step does to the live blocks. The number of a block that it
    /// ends stays that block's own until it is [forgotten](Self::forget).
    #[inline]
    pub(crate) fn apply(&mut self, step: &Step) -> Blocks {
        if step.allocates {
            self.hand_out(step.address)
        } else {
            Blocks {
                block: self.take(step.address),
                replaced: NO_BLOCK,
            }
        }
    }

    /// As [`Self::apply`] of a step that agrees with what is live; otherwise
    /// nothing happens.
    #[inline]
    pub(crate) fn apply_legal(&mut self, step: &Step) -> Option<Blocks> {
        let at = self.find(step.address);
        let empty = self.slots[at].block == NO_BLOCK;
        if empty != step.allocates {
            return None;
        }
        let block = if empty {
            let block = self.number();
            self.fill(at, step.address, block);
            block
        } else {
            self.clear(at)
        };
        Some(Blocks {
            block,
            replaced: NO_BLOCK,
        })
    }

    /// Undoes the latest step that was not undone yet.
    pub(crate) fn undo(&mut self, step: &Step, blocks: Blocks) {
        let before = if step.allocates {
            self.recycle(blocks.block);
            blocks.replaced
        } else {
            blocks.block
        };
        if before != NO_BLOCK {
            self.put(step.address, before);
        } else if step.allocates {
            self.take(step.address);
        }
    }

    #[inline]
    fn hand_out(&mut self, place: u64) -> Blocks {
        let block = self.number();
        let replaced = self.put(place, block);
        Blocks { block, replaced }
    }

    /// A number that no block has.
    #[inline]
    fn number(&mut self) -> BlockNumber {
        self.unused.pop().unwrap_or_else(|| {
            self.fresh += 1;
            self.fresh - 1
        })
    }

    /// Nobody speaks any more of the block that the event ended.
    #[inline]
    pub(crate) fn forget(&mut self, allocates: bool, blocks: Blocks) {
        let ended = if allocates {
            blocks.replaced
        } else {
            blocks.block
        };
        if ended != NO_BLOCK {
            self.recycle(ended);
        }
    }

    #[inline]
    fn recycle(&mut self, block: BlockNumber) {
        self.unused.push(block);
    }

    /// Puts the block at the place and gives the one that was there.
    #[inline]
    fn put(&mut self, place: u64, block: BlockNumber) -> BlockNumber {
        let at = self.find(place);
        let before = self.slots[at].block;
        if before == NO_BLOCK {
            self.fill(at, place, block);
        } else {
            self.slots[at].block = block;
        }
        before
    }

    /// Puts the block at the place into the empty slot where it belongs.
    #[inline]
    fn fill(&mut self, at: usize, place: u64, block: BlockNumber) {
        self.slots[at] = Slot { place, block };
        self.taken += 1;
        if self.taken > self.slots.len() / 8 * 5 {
            self.grow();
        }
    }

    /// Takes away what is at the place.
    #[inline]
    fn take(&mut self, place: u64) -> BlockNumber {
        let at = self.find(place);
        if self.slots[at].block == NO_BLOCK {
            return NO_BLOCK;
        }
        self.clear(at)
    }

    /// Empties the slot, which is taken, and gives what was in it.
    #[inline]
    fn clear(&mut self, at: usize) -> BlockNumber {
        let mut hole = at;
        let block = self.slots[hole].block;
        self.taken -= 1;
        // What was pushed beyond the hole from its home or before moves back.
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let slot = self.slots[at];
            if slot.block == NO_BLOCK {
                break;
            }
            let from_home = at.wrapping_sub(self.home(slot.place)) & self.mask;
            if from_home >= (at.wrapping_sub(hole) & self.mask) {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
        block
    }

    #[cold]
    fn grow(&mut self) {
        let size = self.slots.len() * 2;
        let before = std::mem::replace(&mut self.slots, vec![EMPTY; size]);
        self.mask = size - 1;
        self.shift -= 1;
        for slot in before.into_iter().filter(|slot| slot.block != NO_BLOCK) {
            let at = self.find(slot.place);
            self.slots[at] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn step(allocates: bool, address: u64) -> Step {
        Step {
            address,
            size: 0,
            time: 0,
            lower: 0,
            upper: 0,
            ordinal: 0,
            stack: 8,
            thread: 0,
            rank: 0,
            entry: allotrope_trace::model::EntryPoint::Malloc,
            allocates,
            reallocation: false,
            ambiguous: false,
            ordered: false,
            opted_out: false,
            tries: 0,
        }
    }

    fn agree(live: &LiveBlocks, model: &BTreeMap<u64, BlockNumber>) {
        let seen: BTreeMap<_, _> = live.iter().collect();
        assert_eq!(&seen, model);
        assert_eq!(live.taken, model.len());
        let numbers: BTreeSet<_> = model.values().collect();
        assert_eq!(numbers.len(), model.len(), "no two have one number");
    }

    proptest! {
        #[test]
        fn it_is_a_map_whose_steps_can_be_undone(
            deeds in prop::collection::vec((0..4_u8, 0..40_u64), 0..400),
            spread in prop::sample::select(vec![1_u64, 16, 48, 4096, 1 << 40]),
        ) {
            let mut live = LiveBlocks::new([0, spread].into_iter());
            let mut model = BTreeMap::from([(0, 0), (spread, 1)]);
            // What was done since the last forgetting, and the model before it.
            let mut done = Vec::new();
            for (kind, at) in deeds {
                let place = at * spread;
                prop_assert_eq!(live.contains(place), model.contains_key(&place));
                match kind {
                    0..=2 => {
                        let step = step(kind < 2, place);
                        let before = model.clone();
                        let legal = model.contains_key(&place) != step.allocates;
                        let quick = (at % 3 == 0).then(|| live.apply_legal(&step)).flatten();
                        prop_assert_eq!(quick.is_some(), at % 3 == 0 && legal);
                        let blocks = quick.unwrap_or_else(|| live.apply(&step));
                        if step.allocates {
                            let old = model.insert(place, blocks.block);
                            prop_assert_eq!(blocks.replaced, old.unwrap_or(NO_BLOCK));
                        } else {
                            prop_assert_eq!(blocks.block, model.remove(&place).unwrap_or(NO_BLOCK));
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
                        live.forget(step.allocates, blocks);
                    },
                }
                agree(&live, &model);
            }
        }
    }

    #[test]
    fn it_grows_and_shrinks_with_many_blocks() {
        let mut live = LiveBlocks::new(std::iter::empty());
        let count = 10 * FEWEST_SLOTS as u64;
        for at in 0..count {
            assert_eq!(live.apply(&step(true, at * 16)).replaced, NO_BLOCK);
        }
        assert_eq!(live.taken as u64, count);
        for at in (0..count).rev() {
            let blocks = live.apply(&step(false, at * 16));
            assert_eq!(blocks.block as u64, at);
            live.forget(false, blocks);
        }
        assert_eq!(live.taken, 0);
        assert!(live.slots.iter().all(|slot| slot.block == NO_BLOCK));
    }
}
