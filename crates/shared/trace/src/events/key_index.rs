//! An approximate hash map from 64-bit keys to 16-bit positions, for the encoder:
//! open addressing with linear probing. Keys are never removed one by one.
//!
//! Emptying the map is O(1), because the encoder empties two maps for each chunk: a
//! slot has the generation in which it was written, and slots of earlier generations
//! count as empty.
//!
//! A slot has eight bytes. It stores 32 bits of the key's hash instead of the key.
//! If two keys have the same hash, the later one replaces the earlier one. So the
//! caller must compare the key of a result with its own, and a key may be missing
//! although it was inserted. The encoder then writes a few more bytes.
//!
//! The map shrinks and grows with the number of keys, so that the map of a chunk
//! with few keys stays in the CPU cache.

/// Smallest number of slots.
const MIN_SLOTS: usize = 256;

/// Slot of the hash table. From the high bits: hash (32), generation (16), position (16).
type Slot = u64;

const fn generation_of(slot: Slot) -> u16 {
    (slot >> 16) as u16
}

#[derive(Debug)]
pub(crate) struct KeyIndex {
    /// Slots of the hash table; their number is a power of two.
    slots: Vec<Slot>,
    /// 32 minus the base-2 logarithm of the number of slots. The upper bits of a hash,
    /// shifted down by this, are the first slot to probe.
    shift: u32,
    generation: u16,
    /// Number of keys of the current generation.
    keys: usize,
}

impl Default for KeyIndex {
    fn default() -> Self {
        Self {
            slots: vec![0; MIN_SLOTS],
            shift: 32 - MIN_SLOTS.trailing_zeros(),
            generation: 1,
            keys: 0,
        }
    }
}

impl KeyIndex {
    /// Empties the map. Halves it if less than an eighth of the slots were used.
    pub(crate) fn reset(&mut self) {
        if self.keys * 8 < self.slots.len() && self.slots.len() > MIN_SLOTS {
            self.resize(self.slots.len() / 2);
        } else if self.generation == u16::MAX {
            self.resize(self.slots.len());
        } else {
            self.generation += 1;
        }
        self.keys = 0;
    }

    /// Empties the map and sets the number of slots.
    fn resize(&mut self, slots: usize) {
        self.slots.clear();
        self.slots.resize(slots, 0);
        self.shift = 32 - slots.trailing_zeros();
        self.generation = 1;
    }

    /// Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, section
    /// 6.4): the high bits of the product depend on all bits of the key, and keys at
    /// regular distances are spread evenly.
    #[inline(always)]
    fn hash(key: u64) -> u32 {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }

    /// The upper 48 bits of a slot with this hash.
    #[inline(always)]
    fn entry(&self, hash: u32) -> u64 {
        u64::from(hash) << 16 | u64::from(self.generation)
    }

    /// The position that was last inserted for the key, or for another key with the
    /// same hash.
    #[inline(always)]
    pub(crate) fn get(&self, key: u64) -> Option<u16> {
        let hash = Self::hash(key);
        let entry = self.entry(hash);
        let slots = &self.slots[..];
        let mask = slots.len() - 1;
        let mut at = (hash >> self.shift) as usize;
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

    /// Sets the position of the key.
    #[inline(always)]
    pub(crate) fn insert(&mut self, key: u64, position: u16) {
        let hash = Self::hash(key);
        let entry = self.entry(hash);
        let slots = &mut self.slots[..];
        let mask = slots.len() - 1;
        let mut at = (hash >> self.shift) as usize;
        loop {
            let slot = &mut slots[at & mask];
            let is_new = generation_of(*slot) != self.generation;
            if is_new || *slot >> 16 == entry {
                *slot = entry << 16 | u64::from(position);
                // No branch, because the CPU would mispredict it.
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
            self.reinsert(slot);
        }
    }

    /// Inserts the slot of a smaller map.
    fn reinsert(&mut self, entry: Slot) {
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
                // Every key twice; distances of 16, as addresses have.
                let key = (i % keys) * 16 + round as u64;
                index.insert(key, i as u16);
                map.insert(key, i as u16);
            }
            for key in 0..100_000 {
                assert_eq!(index.get(key), map.get(&key).copied());
            }
        }
        // Large enough for 5000 keys at half load, then halved once.
        assert_eq!(index.slots.len(), 10_000_usize.next_power_of_two() / 2);
    }

    #[test]
    fn the_last_generation_is_followed_by_an_empty_map() {
        let mut index = KeyIndex::default();
        index.insert(7, 1);
        index.generation = u16::MAX;
        index.insert(9, 2);
        index.reset();
        assert_eq!((index.get(7), index.get(9)), (None, None));
    }
}
