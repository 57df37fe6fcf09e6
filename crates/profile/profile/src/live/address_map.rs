//! A map from [block key](crate::block_key) to block id: a two-level page table, and a
//! hash map for programs whose blocks lie far apart.
//!
//! ```text
//! key ──▶ regions: hash table ─▶ first cell ─┐   one cell for every 16 bytes of
//!  │      (64 KiB of addresses)             ▼   the program's memory
//!  │                              cells: [0][7+1][0][0][9+1] …
//!  └────▶ sparse: hash map of single keys, once cells would take too much memory
//! ```
//!
//! A program's blocks begin at multiples of 16 bytes and lie close together, and the
//! next event is nearly always about a block near one of the last. So the cells that
//! are looked up lie in few cache lines, unlike the slots of one large hash table. A
//! region takes 16 KiB however few blocks begin in it; so the map adds regions only
//! while they take no more memory than a hash map would.

use rustc_hash::FxHashMap;

use crate::prefetch::prefetch;

/// Allocators align blocks to 16 bytes. Keys that differ in the lowest bits lie in
/// different regions.
const ALIGNMENT_BITS: u32 = 4;
/// Cells of a region: 4096, for 64 KiB of addresses.
const CELL_BITS: u32 = 12;
const CELLS: usize = 1 << CELL_BITS;
/// Limit for the bytes of cells, whatever the number of blocks.
const FREE_BYTES: usize = 1 << 20;
/// The limit grows by this for each block that was live at once: about what an entry of a
/// hash map takes while the map grows.
const BYTES_A_BLOCK: usize = 48;
const MIN_SLOTS: usize = 1 << 6;

/// Index of a key's cell in [`AddressMap::cells`], or [`Cell::NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell(u32);

impl Cell {
    /// The key lies in no region.
    const NONE: Self = Self(u32::MAX);
}

/// A slot of the table of regions.
#[derive(Clone, Copy)]
struct Region {
    /// Number of the region, from [`split`]; [`NO_REGION`] in an empty slot.
    number: u64,
    /// Index of its first cell.
    first: u32,
}

/// Number that no region has: those have fewer bits.
const NO_REGION: u64 = u64::MAX;
const EMPTY: Region = Region {
    number: NO_REGION,
    first: 0,
};

/// See the [module](self).
pub(super) struct AddressMap {
    /// An open-addressing hash table with linear probing, at most half full. Nothing is
    /// ever removed. Every event looks up a region; that takes a quarter of the time it
    /// takes in the standard library's map.
    regions: Vec<Region>,
    /// Id + 1; 0 where no block is live.
    cells: Vec<u32>,
    /// Ids of keys whose region is not in `regions`.
    sparse: FxHashMap<u64, u32>,
    /// No region is added any more, since the first one that would have exceeded the
    /// limit. So no key is both in a region and in `sparse`.
    is_full: bool,
}

impl Default for AddressMap {
    fn default() -> Self {
        Self {
            regions: vec![EMPTY; MIN_SLOTS],
            cells: Vec::new(),
            sparse: FxHashMap::default(),
            is_full: false,
        }
    }
}

impl AddressMap {
    /// The cell of a key; [`Cell::NONE`] if the key lies in no region.
    #[inline]
    pub(super) fn cell(&self, key: u64) -> Cell {
        let (number, within) = split(key);
        let region = self.regions[self.slot(number)];
        if region.number == number {
            Cell(region.first | within)
        } else {
            Cell::NONE
        }
    }

    /// Index of a region's slot, or of the empty slot for it.
    #[inline]
    fn slot(&self, number: u64) -> usize {
        let mask = self.regions.len() - 1;
        // Fibonacci hashing: the high bits of the product depend on all bits.
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut at = (hash >> 32) as usize & mask;
        loop {
            let there = self.regions[at].number;
            if there == number || there == NO_REGION {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    /// The id at a key, whose cell this is.
    #[inline]
    pub(super) fn get(&self, key: u64, cell: Cell) -> Option<u32> {
        match self.cells.get(cell.0 as usize) {
            Some(&id) => id.checked_sub(1),
            None if self.sparse.is_empty() => None,
            None => self.sparse.get(&key).copied(),
        }
    }

    /// Sets the id at a key, whose cell this is. `blocks` is the largest number of blocks
    /// that were live at once so far; it sets the limit for the memory of cells.
    #[inline]
    pub(super) fn set(&mut self, key: u64, cell: Cell, id: u32, blocks: usize) {
        match self.cells.get_mut(cell.0 as usize) {
            Some(at) => *at = id + 1,
            None => self.set_outside(key, id, blocks),
        }
    }

    /// Sets the id at a key that lies in no region: adds its region, or an entry in
    /// `sparse`.
    #[cold]
    #[inline(never)]
    fn set_outside(&mut self, key: u64, id: u32, blocks: usize) {
        let bytes = (self.cells.len() + CELLS) * size_of::<u32>();
        self.is_full |= bytes > FREE_BYTES + blocks * BYTES_A_BLOCK
            || self.cells.len() + CELLS > u32::MAX as usize;
        if self.is_full {
            self.sparse.insert(key, id);
            return;
        }
        let (number, within) = split(key);
        let first = self.cells.len();
        self.cells.resize(first + CELLS, 0);
        self.cells[first | within as usize] = id + 1;
        if first / CELLS >= self.regions.len() / 2 {
            let larger = vec![EMPTY; self.regions.len() * 2];
            let before = std::mem::replace(&mut self.regions, larger);
            before.into_iter().for_each(|region| self.add(region));
        }
        self.add(Region {
            number,
            first: first as u32,
        });
    }

    fn add(&mut self, region: Region) {
        let at = self.slot(region.number);
        self.regions[at] = region;
    }

    /// Removes the id at a key, whose cell this is.
    #[inline]
    pub(super) fn clear(&mut self, key: u64, cell: Cell) {
        match self.cells.get_mut(cell.0 as usize) {
            Some(at) => *at = 0,
            None => {
                self.sparse.remove(&key);
            }
        }
    }

    /// The number of cells.
    #[inline]
    pub(super) fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Every key and its id, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u32)> {
        let of_region = |region: &Region| {
            let (number, first) = (region.number, region.first as usize);
            let cells = &self.cells[first..][..CELLS];
            let taken = (0..).zip(cells).filter(|&(_, &id)| id != 0);
            taken.map(move |(within, &id)| (join(number, within), id - 1))
        };
        let regions = self.regions.iter();
        let regions = regions.filter(|region| region.number != NO_REGION);
        let sparse = self.sparse.iter().map(|(&key, &id)| (key, id));
        regions.flat_map(of_region).chain(sparse)
    }

    /// Prefetches the cell of a key.
    #[inline]
    pub(super) fn prefetch(&self, key: u64) {
        if let Some(cell) = self.cells.get(self.cell(key).0 as usize) {
            prefetch(cell);
        }
    }
}

/// The number of a key's region, and the index of the key's cell in the region.
#[inline]
fn split(key: u64) -> (u64, u32) {
    // The lowest bits become the highest, so that unaligned keys get regions of their
    // own.
    let key = key.rotate_right(ALIGNMENT_BITS);
    (key >> CELL_BITS, key as u32 % CELLS as u32)
}

/// The inverse of [`split`].
fn join(region: u64, within: u32) -> u64 {
    (region << CELL_BITS | u64::from(within)).rotate_left(ALIGNMENT_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Includes keys that are not aligned, and keys so far apart that not all of them
        /// get a region.
        #[test]
        fn it_behaves_like_a_map(
            operations in prop::collection::vec((0..3_u8, 0..500_u64), 0..2_000),
            distance in prop::sample::select(vec![1_u64, 16, 1 << 10, 1 << 20, 1 << 50]),
        ) {
            let mut map = AddressMap::default();
            let mut model = BTreeMap::new();
            for (id, (kind, at)) in (0..).zip(operations) {
                let key = at.wrapping_mul(distance);
                let cell = map.cell(key);
                prop_assert_eq!(map.get(key, cell), model.get(&key).copied());
                if kind == 0 {
                    map.clear(key, cell);
                    model.remove(&key);
                } else {
                    map.set(key, cell, id, model.len());
                    model.insert(key, id);
                }
            }
            prop_assert_eq!(map.iter().collect::<BTreeMap<_, _>>(), model);
        }
    }

    #[test]
    fn keys_far_apart_take_little_more_memory_than_a_hash_map_of_them() {
        let mut map = AddressMap::default();
        let count = 100_000;
        for id in 0..count {
            let key = u64::from(id) << 20;
            map.set(key, map.cell(key), id, id as usize);
        }
        let most = FREE_BYTES + count as usize * BYTES_A_BLOCK;
        assert!(map.cells.len() * size_of::<u32>() <= most);
        assert_eq!(map.iter().count(), count as usize);
    }
}
