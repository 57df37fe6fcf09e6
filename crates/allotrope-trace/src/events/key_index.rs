//! A map from 64-bit keys to positions that is emptied in no time, because an
//! encoder needs two of them for each chunk. Linear probing; entries of an
//! earlier chunk are told by their generation. Keys are never removed.

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    key: u64,
    position: u32,
    generation: u32,
}

#[derive(Debug, Default)]
pub(crate) struct KeyIndex {
    slots: Vec<Slot>,
    mask: usize,
    shift: u32,
    generation: u32,
}

impl KeyIndex {
    /// Empties the map and makes room for `keys` different keys.
    pub(crate) fn reset(&mut self, keys: usize) {
        let size = (keys.max(8) * 2).next_power_of_two();
        if self.slots.len() < size || self.generation == u32::MAX {
            self.slots.clear();
            self.slots.resize(size, Slot::default());
            self.generation = 0;
        }
        self.generation += 1;
        self.mask = size - 1;
        self.shift = 64 - size.trailing_zeros();
    }

    #[inline]
    fn slot(&self, key: u64) -> usize {
        // Fibonacci hashing: the high bits of the product depend on all bits
        // of the key, and neighbouring addresses are spread evenly.
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        loop {
            let slot = &self.slots[at & self.mask];
            if slot.generation != self.generation || slot.key == key {
                return at & self.mask;
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
        self.slots[at] = Slot {
            key,
            position,
            generation: self.generation,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn answers_as_a_map_does_and_forgets_on_reset() {
        let mut index = KeyIndex::default();
        for round in 0..3_u32 {
            let mut map = HashMap::new();
            index.reset(1000);
            for i in 0..1000_u64 {
                // 500 different keys, close together as addresses are.
                let key = (i % 500) * 16 + u64::from(round);
                index.insert(key, i as u32);
                map.insert(key, i as u32);
            }
            for key in 0..10_000 {
                assert_eq!(index.get(key), map.get(&key).copied());
            }
        }
    }
}
