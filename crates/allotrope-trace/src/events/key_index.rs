//! A map from 64-bit keys to positions that is emptied in no time, because an
//! encoder needs two of them for each chunk. Linear probing; entries of an
//! earlier chunk are told by their generation. Keys are never removed.
//!
//! A slot is eight bytes and holds half of its key's hash instead of the key:
//! of two keys with the same half, which hardly ever happens, only the later
//! one is found. So what is found must be looked at, and what is not found may
//! be there all the same; an encoder lives with both.
//!
//! It is only as large as its keys need: most chunks have few shapes and few
//! addresses, and what is looked up for each event should stay in the cache.

/// Slots of a map that was not used yet.
const FEWEST_SLOTS: usize = 256;

/// From the high bits: tag (32), generation (16), position (16).
type Slot = u64;

const fn generation_of(slot: Slot) -> u16 {
    (slot >> 16) as u16
}

#[derive(Debug)]
pub(crate) struct KeyIndex {
    /// A power of two of them.
    slots: Vec<Slot>,
    /// 32 less the bits of a slot's number.
    shift: u32,
    generation: u16,
    keys: usize,
}

impl Default for KeyIndex {
    fn default() -> Self {
        Self {
            slots: vec![0; FEWEST_SLOTS],
            shift: 32 - FEWEST_SLOTS.trailing_zeros(),
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
        } else if self.generation == u16::MAX {
            self.resize(self.slots.len());
        } else {
            self.generation += 1;
        }
        self.keys = 0;
    }

    /// Empties the map and gives it that many slots.
    fn resize(&mut self, slots: usize) {
        self.slots.clear();
        self.slots.resize(slots, 0);
        self.shift = 32 - slots.trailing_zeros();
        self.generation = 1;
    }

    /// Fibonacci hashing: the high bits of the product depend on all bits of
    /// the key, and neighbouring addresses are spread evenly.
    #[inline(always)]
    fn tag(key: u64) -> u32 {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }

    /// What a slot of this tag holds in its upper bits.
    #[inline(always)]
    fn entry(&self, tag: u32) -> u64 {
        u64::from(tag) << 16 | u64::from(self.generation)
    }

    /// The position last inserted for the key, or for one that is taken for it.
    #[inline(always)]
    pub(crate) fn get(&self, key: u64) -> Option<u16> {
        let tag = Self::tag(key);
        let entry = self.entry(tag);
        let slots = &self.slots[..];
        let mask = slots.len() - 1;
        let mut at = (tag >> self.shift) as usize;
        loop {
            let slot = slots[at & mask];
            if slot >> 16 == entry {
                return Some(slot as u16);
            }
            if generation_of(slot) != self.generation {
                return None;
            }
            at += 1;
        }
    }

    /// Sets the key's position.
    #[inline(always)]
    pub(crate) fn insert(&mut self, key: u64, position: u16) {
        let tag = Self::tag(key);
        let entry = self.entry(tag);
        let slots = &mut self.slots[..];
        let mask = slots.len() - 1;
        let mut at = (tag >> self.shift) as usize;
        loop {
            let slot = &mut slots[at & mask];
            let is_new = generation_of(*slot) != self.generation;
            if is_new || *slot >> 16 == entry {
                *slot = entry << 16 | u64::from(position);
                // Without a branch: which keys are new is hard to foresee.
                self.keys += usize::from(is_new);
                break;
            }
            at += 1;
        }
        if self.keys * 2 > self.slots.len() {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        let generation = self.generation;
        self.resize(old.len() * 2);
        self.keys = 0;
        for slot in old
            .into_iter()
            .filter(|&slot| generation_of(slot) == generation)
        {
            self.put_back(slot);
        }
    }

    /// Puts the entry of a smaller map into the first slot that is free for it.
    fn put_back(&mut self, entry: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = ((entry >> 32) as u32 >> self.shift) as usize;
        while generation_of(self.slots[at & mask]) == self.generation {
            at += 1;
        }
        self.slots[at & mask] = entry & !0xffff_0000 | u64::from(self.generation) << 16;
        self.keys += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn finds_what_was_inserted_since_the_last_reset() {
        let mut index = KeyIndex::default();
        for (round, keys) in [10_u64, 5000, 300, 20].into_iter().enumerate() {
            index.reset();
            let mut map = HashMap::new();
            for i in 0..keys * 2 {
                // Every key twice, close together as addresses are.
                let key = (i % keys) * 16 + round as u64;
                index.insert(key, i as u16);
                map.insert(key, i as u16);
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
        index.generation = u16::MAX;
        index.insert(9, 2);
        index.reset();
        assert_eq!((index.get(7), index.get(9)), (None, None));
    }
}
