//! Which places are live, and what is known of the block at each.
//!
//! A block has a small number that no other live block has, so that whoever keeps
//! something about blocks keeps it in an array: an event needs one look-up, made
//! where the events are put in order. What the books of an image keep lies here
//! with the block's place, in one record of half a cache line. Of a single stream
//! the blocks are [numbered](crate::resolve) before, with nothing but their
//! [places](LivePlaces).
//!
//! Open addressing with linear probing, 8 bytes a slot, at most five of eight
//! slots taken; removing moves what follows back, so that nothing is left
//! behind. A slot is a block's number and the highest bits of its place's hash:
//! these tell nearly always whether the record is worth looking at, and where
//! the slot's home is. In place of a general hash map because every event passes
//! here, and because a program may have millions of live blocks: the next
//! places can be [looked at](LiveBlocks::look_ahead) before they are needed.

mod known;
mod memory;
mod numbered;
mod places;
mod records;
mod shadow;
mod slots;
mod sparse;
mod unused;

use allotrope_trace::model::{Event, EventKind};

use crate::cursor::Step;
use crate::place::place_of;
pub(crate) use known::KnownBlocks;
pub(crate) use numbered::NumberedBlocks;
pub(crate) use places::{CellNumber, LivePlaces};
pub(crate) use records::LiveBlock;
use records::Records;
use slots::Slots;
use unused::Unused;

/// Number of a live block.
pub(crate) type BlockNumber = usize;

/// No block.
pub(crate) const NO_BLOCK: BlockNumber = usize::MAX;

/// Site of blocks that the image inherited.
pub(crate) const INHERITED: u32 = u32::MAX;

const FEWEST_SLOTS: usize = 1 << 10;
/// How many bits of a slot are the number, plus one. 2^36 records would take two
/// terabytes.
const NUMBER_BITS: u32 = 36;
const NUMBER: u64 = (1 << NUMBER_BITS) - 1;
/// How many bits of a slot are the hash's highest.
const TAG_BITS: u32 = u64::BITS - NUMBER_BITS;
const EMPTY: u64 = 0;
/// Tables with more slots than this do not fit a core's own cache, with their
/// records.
const WORTH_LOOKING_AHEAD: usize = 1 << 14;
/// For how many events is looked ahead at a time: about as much memory as a core
/// can ask for at the same time.
pub(crate) const AHEAD: usize = 24;

/// What an event meant to the live blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// The block that was handed out or given back; [`NO_BLOCK`] if none is
    /// known at the place that was given back.
    pub block: BlockNumber,
    /// The block that was believed live where one was handed out, else [`NO_BLOCK`].
    pub replaced: BlockNumber,
}

/// Where a place is, or would be, in the table.
#[derive(Clone, Copy)]
pub(crate) struct Spot {
    pub at: usize,
    hash: u64,
    /// The block there, or [`NO_BLOCK`].
    pub block: BlockNumber,
}

/// The live blocks by place, with all that is known of each.
pub(crate) struct LiveBlocks {
    slots: Slots,
    mask: usize,
    shift: u32,
    taken: usize,
    /// By number.
    records: Records,
    unused: Unused,
}

impl LiveBlocks {
    /// Blocks of these places and sizes that were inherited at `now`; they have
    /// the numbers from 0 on.
    pub(crate) fn new(inherited: impl Iterator<Item = (u64, u64)>, now: u64) -> Self {
        let mut live = Self {
            slots: Slots::new(FEWEST_SLOTS),
            mask: FEWEST_SLOTS - 1,
            shift: u64::BITS - FEWEST_SLOTS.trailing_zeros(),
            taken: 0,
            records: Records::default(),
            unused: Unused::default(),
        };
        for (place, size) in inherited {
            let block = live.hand_out(place).block;
            live.records
                .describe(block, (size, now), (INHERITED, u32::MAX));
        }
        live
    }

    /// Whether the table is so large that it is better to [look](Self::look_ahead)
    /// before.
    #[inline]
    pub(crate) fn is_worth_looking_ahead(&self) -> bool {
        self.slots.len() > WORTH_LOOKING_AHEAD
    }

    /// Has the record of a block brought near.
    #[inline]
    pub(crate) fn ask_for(&self, number: BlockNumber) {
        self.records.bring_near(number);
    }

    /// Has what is known brought near of the blocks of which the first [`AHEAD`]
    /// of these events speak, and what helps to find those of the next ones.
    #[inline]
    pub(crate) fn look_ahead(&self, events: &[Event]) {
        let (next, after) = events.split_at(events.len().min(AHEAD));
        let after = &after[..after.len().min(AHEAD)];
        // An allocation needs no record of a block that is live.
        let next = next.iter().filter(|event| !hands_out(event));
        self.ask_for_places(next.map(place_of), after.iter().map(place_of));
    }

    /// Has the records brought near of what is at the next places, of which slots
    /// were brought near in the call before, and the slots of those after them.
    #[inline]
    fn ask_for_places(&self, next: impl Iterator<Item = u64>, after: impl Iterator<Item = u64>) {
        for place in after {
            // The one behind it is looked at too, in most cases, and may lie in the
            // next cache line.
            let home = self.home(hash_of(place));
            self.slots.bring_near(home);
            self.slots.bring_near((home + 1) & self.mask);
        }
        for place in next {
            let hash = hash_of(place);
            let home = self.home(hash);
            let first = self.slots.get(home);
            let second = self.slots.get((home + 1) & self.mask);
            let slot = if is_tagged(first, hash) {
                first
            } else {
                second
            };
            self.ask_for(number_of(slot));
        }
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }

    /// The home of a taken slot.
    #[inline]
    fn home_of(&self, slot: u64) -> usize {
        if self.shift >= u64::BITS - TAG_BITS {
            self.home(slot)
        } else {
            self.home(hash_of(self.records.place(number_of(slot))))
        }
    }

    /// Where the place is, or would be.
    #[inline]
    pub(crate) fn find(&self, place: u64) -> Spot {
        let hash = hash_of(place);
        let mut at = self.home(hash);
        loop {
            at &= self.mask;
            let slot = self.slots.get(at);
            if slot == EMPTY {
                let block = NO_BLOCK;
                return Spot { at, hash, block };
            }
            if is_tagged(slot, hash) {
                let block = number_of(slot);
                if self.records.place(block) == place {
                    return Spot { at, hash, block };
                }
            }
            at += 1;
        }
    }

    /// Whether a block is live at the place.
    #[inline]
    pub(crate) fn contains(&self, place: u64) -> bool {
        self.find(place).block != NO_BLOCK
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
        let block = if step.allocates {
            self.add(step.address)
        } else {
            self.end(step.address)
        };
        let replaced = NO_BLOCK;
        block.map(|block| Blocks { block, replaced })
    }

    /// A new block at the place, if none is live there.
    #[inline]
    pub(crate) fn add(&mut self, place: u64) -> Option<BlockNumber> {
        let spot = self.find(place);
        if spot.block != NO_BLOCK {
            return None;
        }
        let number = self.forgotten_number(place);
        self.put(spot, number);
        Some(number)
    }

    /// Ends the block that is live at the place, if there is one. Its number stays
    /// its own until it is [forgotten](Self::forget).
    #[inline]
    pub(crate) fn end(&mut self, place: u64) -> Option<BlockNumber> {
        let block = self.take(place);
        (block != NO_BLOCK).then_some(block)
    }

    /// Undoes the latest step that was not undone yet.
    pub(crate) fn undo(&mut self, step: &Step, blocks: Blocks) {
        let spot = self.find(step.address);
        if !step.allocates {
            if blocks.block != NO_BLOCK {
                self.put(spot, blocks.block);
            }
            return;
        }
        if blocks.replaced == NO_BLOCK {
            self.clear(spot.at);
        } else {
            self.slots.set(spot.at, slot_of(spot.hash, blocks.replaced));
        }
        self.recycle(blocks.block);
    }

    #[inline]
    pub(crate) fn hand_out(&mut self, place: u64) -> Blocks {
        let spot = self.find(place);
        let replaced = spot.block;
        let block = self.forgotten_number(place);
        if replaced == NO_BLOCK {
            self.put(spot, block);
        } else {
            self.slots.set(spot.at, slot_of(spot.hash, block));
        }
        Blocks { block, replaced }
    }

    /// A number that no other block has, for this one.
    #[inline]
    fn number(&mut self, block: LiveBlock) -> BlockNumber {
        let Some(number) = self.unused.linked.checked_sub(1) else {
            return self.records.add(block);
        };
        self.unused.linked = self.records.replace(number as usize, block).place;
        // What is used next may have been unused for long.
        self.ask_for((self.unused.linked as BlockNumber).wrapping_sub(1));
        number as usize
    }

    /// As [`Self::number`], of one that was [forgotten](Self::forget) if there is one.
    #[inline]
    fn forgotten_number(&mut self, place: u64) -> BlockNumber {
        let Some(number) = self.unused.take() else {
            return self.number(LiveBlock::at(place));
        };
        if let Some(coming) = self.unused.coming() {
            self.ask_for(coming);
        }
        self.records.replace(number, LiveBlock::at(place));
        number
    }

    /// Nobody speaks any more of the block that the event ended.
    #[inline]
    pub(crate) fn forget(&mut self, allocates: bool, blocks: Blocks) {
        let ended = if allocates {
            blocks.replaced
        } else {
            blocks.block
        };
        if ended != NO_BLOCK && !self.unused.give(ended) {
            self.recycle(ended);
        }
    }

    /// Nobody speaks any more of the block, which has no place.
    #[inline]
    pub(crate) fn recycle(&mut self, number: BlockNumber) -> LiveBlock {
        let next = LiveBlock::at(self.unused.linked);
        self.unused.linked = number as u64 + 1;
        self.records.replace(number, next)
    }

    /// A new block, whose place's spot is empty.
    #[inline]
    pub(crate) fn fill(&mut self, spot: Spot, block: LiveBlock) -> BlockNumber {
        let number = self.number(block);
        self.put(spot, number);
        number
    }

    /// Puts the block into the empty spot.
    #[inline]
    fn put(&mut self, spot: Spot, block: BlockNumber) {
        self.slots.set(spot.at, slot_of(spot.hash, block));
        self.taken += 1;
        if self.taken > self.slots.len() / 8 * 5 {
            self.grow();
        }
    }

    /// Takes away what is at the place.
    #[inline]
    fn take(&mut self, place: u64) -> BlockNumber {
        let spot = self.find(place);
        if spot.block != NO_BLOCK {
            self.clear(spot.at);
        }
        spot.block
    }

    /// Takes the block away that is at this spot, and forgets its number.
    #[inline]
    pub(crate) fn remove(&mut self, spot: Spot) -> LiveBlock {
        self.clear(spot.at);
        self.recycle(spot.block)
    }

    /// Empties the slot, which is taken.
    #[inline]
    pub(crate) fn clear(&mut self, at: usize) {
        let mut hole = at;
        self.taken -= 1;
        // What was pushed beyond the hole from its home or before moves back.
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let slot = self.slots.get(at);
            if slot == EMPTY {
                break;
            }
            let from_home = at.wrapping_sub(self.home_of(slot)) & self.mask;
            if from_home >= (at.wrapping_sub(hole) & self.mask) {
                self.slots.set(hole, slot);
                hole = at;
            }
        }
        self.slots.set(hole, EMPTY);
    }

    #[cold]
    fn grow(&mut self) {
        let size = self.slots.len() * 2;
        let before = std::mem::replace(&mut self.slots, Slots::new(size));
        self.mask = size - 1;
        self.shift -= 1;
        // The slots from here on to the end are empty and are not looked at, for a
        // look at memory that was never written costs a fault of its own. So what
        // was pushed beyond the end comes last, the rest nearly in order of homes.
        let mut untouched = 0;
        let begin = before.iter().position(|slot| slot == EMPTY).unwrap_or(0);
        for part in [begin..before.len(), 0..begin] {
            for slot in before.range(part).filter(|&slot| slot != EMPTY) {
                let mut at = self.home_of(slot);
                while at < untouched && self.slots.get(at) != EMPTY {
                    at = (at + 1) & self.mask;
                }
                self.slots.set(at, slot);
                untouched = untouched.max(at + 1);
            }
        }
    }
}

/// Whether the event is an allocation.
#[inline]
fn hands_out(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::Allocation | EventKind::ReallocationEnd
    )
}

/// Fibonacci hashing: the high bits of the product depend on all bits.
#[inline]
pub(crate) fn hash_of(place: u64) -> u64 {
    place.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[inline]
fn slot_of(hash: u64, block: BlockNumber) -> u64 {
    (hash & !NUMBER) | ((block as u64 + 1) & NUMBER)
}

/// Whether the slot has the highest bits of this hash.
#[inline]
fn is_tagged(slot: u64, hash: u64) -> bool {
    (slot ^ hash) >> NUMBER_BITS == 0
}

/// The number of the block in a slot; [`NO_BLOCK`] of an empty one.
#[inline]
fn number_of(slot: u64) -> BlockNumber {
    ((slot & NUMBER) as usize).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Subject;
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
            subject: Subject::NONE,
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
            let mut live = LiveBlocks::new([(0, 1), (spread, 1)].into_iter(), 0);
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

    /// The place with this hash, which is the place times an odd number.
    fn place_with(hash: u64) -> u64 {
        let times = hash_of(1);
        // Each step doubles how many of the lowest bits are right.
        let inverse = (0..6).fold(1_u64, |x, _| {
            x.wrapping_mul(2_u64.wrapping_sub(times.wrapping_mul(x)))
        });
        hash.wrapping_mul(inverse)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Also where many have one home and are pushed from it, beyond the end too.
        #[test]
        fn it_grows_with_blocks_that_are_pushed_from_their_homes(
            homes in prop::collection::btree_set(
                prop_oneof![0..3_u64, 500..540_u64, 1018..1024_u64],
                1..40,
            ),
            deeds in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 0..8_u8), 1500),
        ) {
            let homes: Vec<u64> = homes.into_iter().collect();
            let home_bits = FEWEST_SLOTS.trailing_zeros();
            let mut live = LiveBlocks::new(std::iter::empty(), 0);
            let mut model = BTreeMap::new();
            for (which, rest, kind) in deeds {
                let home = homes[which.index(homes.len())];
                let hash = home << (u64::BITS - home_bits) | rest >> home_bits;
                prop_assert_eq!(live.home(hash) >> (live.mask.count_ones() - home_bits), home as usize);
                model.insert(place_with(hash), live.apply(&step(true, place_with(hash))).block);
                if kind == 0 {
                    let (&gone, &number) = model.range(rest..).next().or(model.first_key_value()).unwrap();
                    let blocks = live.apply(&step(false, gone));
                    prop_assert_eq!(blocks.block, number);
                    live.forget(false, blocks);
                    model.remove(&gone);
                }
            }
            prop_assert!(live.slots.len() > FEWEST_SLOTS);
            agree(&live, &model);
            for (&place, &number) in &model {
                prop_assert_eq!(live.find(place).block, number);
            }
        }
    }

    #[test]
    fn it_grows_and_shrinks_with_many_blocks() {
        let mut live = LiveBlocks::new(std::iter::empty(), 0);
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
        assert!(live.slots.iter().all(|slot| slot == EMPTY));
    }
}
