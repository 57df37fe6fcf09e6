//! The numbers of live blocks by place, for blocks so far from one another that a
//! [shadow](super::shadow) of the memory between them would be too large.
//!
//! Open addressing with linear probing, at most five of eight slots taken;
//! removing moves what follows back, so that nothing is left behind. In place of
//! a general hash map because the slot of a coming event can be asked for.

use super::hash_of;
use super::slots::Slots;

const FEWEST_SLOTS: usize = 1 << 10;
/// Words of a slot: the place, and the block's number plus one; the latter is zero in
/// an empty slot.
const WORDS: usize = 2;

/// See the [module](self).
pub(super) struct SparsePlaces {
    words: Slots,
    mask: usize,
    shift: u32,
    taken: usize,
}

impl SparsePlaces {
    pub(super) fn new() -> Self {
        Self::with_slots(FEWEST_SLOTS)
    }

    fn with_slots(count: usize) -> Self {
        Self {
            words: Slots::new(count * WORDS),
            mask: count - 1,
            shift: u64::BITS - count.trailing_zeros(),
            taken: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.taken
    }

    /// Has the slot brought near in which the place's block probably is.
    #[inline]
    pub(super) fn bring_near(&self, place: u64) {
        self.words.bring_near(self.home(place) * WORDS);
    }

    /// The block at the place.
    pub(super) fn get(&self, place: u64) -> Option<u32> {
        self.slot(self.find(place)).1
    }

    /// Puts a block there, and gives the one that was there.
    pub(super) fn insert(&mut self, place: u64, block: u32) -> Option<u32> {
        let at = self.find(place);
        let (_, before) = self.slot(at);
        self.set(at, (place, Some(block)));
        if before.is_none() {
            self.taken += 1;
            if self.taken > (self.mask + 1) / 8 * 5 {
                self.grow();
            }
        }
        before
    }

    /// Takes the block away that is there.
    pub(super) fn remove(&mut self, place: u64) -> Option<u32> {
        let mut hole = self.find(place);
        let (_, removed) = self.slot(hole);
        removed?;
        self.taken -= 1;
        // What was pushed beyond the hole from its home or before moves back.
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let slot = self.slot(at);
            if slot.1.is_none() {
                break;
            }
            let from_home = at.wrapping_sub(self.home(slot.0)) & self.mask;
            if from_home >= (at.wrapping_sub(hole) & self.mask) {
                self.set(hole, slot);
                hole = at;
            }
        }
        self.set(hole, (0, None));
        removed
    }

    #[inline]
    fn home(&self, place: u64) -> usize {
        (hash_of(place) >> self.shift) as usize
    }

    /// The slot of the place, or the empty one in which it belongs.
    #[inline]
    fn find(&self, place: u64) -> usize {
        let mut at = self.home(place);
        loop {
            let (there, block) = self.slot(at);
            if block.is_none() || there == place {
                return at;
            }
            at = (at + 1) & self.mask;
        }
    }

    #[inline]
    fn slot(&self, at: usize) -> (u64, Option<u32>) {
        let block = self.words.get(at * WORDS + 1) as u32;
        (self.words.get(at * WORDS), block.checked_sub(1))
    }

    #[inline]
    fn set(&mut self, at: usize, (place, block): (u64, Option<u32>)) {
        let block = block.map_or(0, |number| number + 1);
        self.words.set(at * WORDS, place);
        self.words.set(at * WORDS + 1, u64::from(block));
    }

    #[cold]
    fn grow(&mut self) {
        let larger = Self::with_slots((self.mask + 1) * 2);
        let before = std::mem::replace(self, larger);
        for at in 0..=before.mask {
            if let (place, Some(block)) = before.slot(at) {
                self.insert(place, block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_is_a_map_that_grows(
            deeds in prop::collection::vec((0..3_u8, 0..2_000_u64), 0..4_000),
            distance in prop::sample::select(vec![1_u64, 4096, 1 << 40]),
        ) {
            let mut table = SparsePlaces::new();
            let mut model = BTreeMap::new();
            for (number, (kind, at)) in (0..).zip(deeds) {
                let place = at.wrapping_mul(distance);
                prop_assert_eq!(table.get(place), model.get(&place).copied());
                if kind == 0 {
                    prop_assert_eq!(table.remove(place), model.remove(&place));
                } else {
                    prop_assert_eq!(table.insert(place, number), model.insert(place, number));
                }
                prop_assert_eq!(table.len(), model.len());
            }
            for (&place, &number) in &model {
                prop_assert_eq!(table.get(place), Some(number));
            }
            for &place in model.keys() {
                prop_assert!(table.remove(place).is_some());
            }
            prop_assert!((0..=table.mask).all(|at| table.slot(at).1.is_none()));
        }
    }
}
