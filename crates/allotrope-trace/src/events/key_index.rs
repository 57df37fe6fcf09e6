//! A map from 64-bit keys to positions that is emptied in no time, because an
//! encoder needs two of them for each chunk. Linear probing; entries of an
//! earlier chunk are told by their generation. Keys are never removed.
//!
//! It is only as large as its keys need: most chunks have few shapes and few
//! addresses, and what is looked up for each event should stay in the cache.

/// Slots of a map that was not used yet.
const FEWEST_SLOTS: usize = 256;

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    key: u64,
    position: u32,
    generation: u32,
}

#[derive(Debug)]
pub(crate) struct KeyIndex {
    /// A power of two of them.
    slots: Vec<Slot>,
    /// 64 less the bits of a slot's number.
    shift: u32,
    generation: u32,
    keys: usize,
}

impl Default for KeyIndex {
    fn default() -> Self {
        Self {
            slots: vec![Slot::default(); FEWEST_SLOTS],
            shift: 64 - FEWEST_SLOTS.trailing_zeros(),
            generation: 1,
            keys: 0,
        }
    }
}

impl KeyIndex {
    /// Empties the map. One that has become much larger than its last keys
    /// needed becomes smaller.
    pub(crate) fn reset(&mut self) {
        if self.keys * 8 < self.slots.len() && self.slots.len() > FEWEST_SLOTS {
            self.resize(self.slots.len() / 2);
        } else if self.generation == u32::MAX {
            self.resize(self.slots.len());
        } else {
            self.generation += 1;
        }
        self.keys = 0;
    }

    /// Empties the map and gives it that many slots.
    fn resize(&mut self, slots: usize) {
        self.slots.clear();
        self.slots.resize(slots, Slot::default());
        self.shift = 64 - slots.trailing_zeros();
        self.generation = 1;
    }

    #[inline]
    fn slot(&self, key: u64) -> usize {
        // Fibonacci hashing: the high bits of the product depend on all bits
        // of the key, and neighbouring addresses are spread evenly.
        let mask = self.slots.len() - 1;
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        loop {
            let slot = &self.slots[at & mask];
            if slot.generation != self.generation || slot.key == key {
                return at & mask;
            }
            at += 1;
        }
    }

    /// The position last inserted for the key.
    #[inline]
    pub(crate) fn get(&self, key: u64) -> Option<u32> {
        let slot = &self.slots[self.slot(key)];
        (slot.generation == self.generation).then_some(slot.position)
    }

    /// Sets the key's position.
    #[inline]
    pub(crate) fn insert(&mut self, key: u64, position: u32) {
        let at = self.slot(key);
        let slot = &mut self.slots[at];
        let is_new = slot.generation != self.generation;
        *slot = Slot {
            key,
            position,
            generation: self.generation,
        };
        // Without a branch: which keys are new is hard to foresee.
        self.keys += usize::from(is_new);
        if self.keys * 2 > self.slots.len() {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        let generation = self.generation;
        self.resize(old.len() * 2);
        for slot in old.iter().filter(|slot| slot.generation == generation) {
            let at = self.slot(slot.key);
            self.slots[at] = Slot {
                generation: self.generation,
                ..*slot
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn answers_as_a_map_does_and_forgets_on_reset() {
        let mut index = KeyIndex::default();
        // Many keys make it grow, few make it shrink again.
        for (round, keys) in [1000, 20, 5, 5, 5000, 0, 0].into_iter().enumerate() {
            let mut map = HashMap::new();
            index.reset();
            for i in 0..keys * 2 {
                // Each key twice, close together as addresses are.
                let key = (i % keys) * 16 + round as u64;
                index.insert(key, i as u32);
                map.insert(key, i as u32);
            }
            for key in 0..100_000 {
                assert_eq!(index.get(key), map.get(&key).copied());
            }
        }
        // Half full at most with 5000 keys, and once halved since.
        assert_eq!(index.slots.len(), 10_000_usize.next_power_of_two() / 2);
    }

    #[test]
    fn generations_that_are_used_up_begin_anew() {
        let mut index = KeyIndex::default();
        index.insert(7, 1);
        index.generation = u32::MAX;
        index.insert(9, 2);
        index.reset();
        assert_eq!((index.get(7), index.get(9)), (None, None));
    }
}
