//! A shadow of the program's memory: for each place at which a block may begin
//! a cell with the number of the block that is live there.
//!
//! Blocks begin at multiples of 16 bytes and lie close together in most
//! programs, and one that is looked for is nearly always near one that was
//! looked for shortly before. So a cell is found where its place is, in one of few
//! regions of the program's memory; a table by single places has to be looked
//! through at as good as random, and what is found there compared. A region costs
//! its cells however few blocks begin in it: how many there may be is for the
//! caller to say.

use memmap2::MmapMut;

use super::hash_of;
use super::memory::{HUGE_PAGE, zeroed};
use crate::near::bring_near;

/// Places that differ in the lowest bits of their addresses are in different
/// regions, for blocks begin at multiples of so many bytes.
const ALIGNMENT_BITS: u32 = 4;
/// Cells of a region, of 64 KiB of the program's memory.
const CELLS_BITS: u32 = 12;
const CELLS: usize = 1 << CELLS_BITS;
/// A block's number plus one; zero where none is live.
type Cell = [u8; size_of::<u32>()];
const EMPTY: Cell = [0; size_of::<u32>()];
/// Of one length, which spares most of looking whether a cell is in it.
type Page = [u8; HUGE_PAGE];
const WHOLE: &str = "all pages are mapped in one size";
const CELLS_OF_PAGE: usize = HUGE_PAGE / size_of::<Cell>();
const FEWEST_SLOTS: usize = 1 << 6;
/// Cells of a page of the smallest size.
const CELLS_OF_SMALL_PAGE: usize = 4096 / size_of::<Cell>();

/// Number of a cell among those of all regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CellNumber(u32);

impl CellNumber {
    /// No cell has it.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// A slot of the table of regions.
#[derive(Clone, Copy)]
struct Slot {
    region: u64,
    /// Number of the region's first cell.
    first: u32,
}

impl Slot {
    /// No region has this many bits.
    const EMPTY: Self = Self {
        region: u64::MAX,
        first: 0,
    };
}

/// See the [module](self).
pub(super) struct Shadow {
    /// Regions by hash, with linear probing; at most half of the slots are taken.
    slots: Vec<Slot>,
    shift: u32,
    /// Only the first is not in huge memory, for most programs need no other.
    pages: Vec<MmapMut>,
    regions: usize,
}

impl Shadow {
    /// More regions can not be told apart by the numbers of their cells.
    const MOST_REGIONS: usize = (u32::MAX as usize + 1) / CELLS - 1;

    /// Of no region.
    pub(super) fn new() -> Self {
        Self {
            slots: vec![Slot::EMPTY; FEWEST_SLOTS],
            shift: u64::BITS - FEWEST_SLOTS.trailing_zeros(),
            pages: Vec::new(),
            regions: 0,
        }
    }

    /// Whether another region may be added, if all cells may take so many bytes.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.regions < (bytes / size_of::<[Cell; CELLS]>()).min(Self::MOST_REGIONS)
    }

    /// The cell of a place; none if its region is not in the shadow.
    #[inline]
    pub(super) fn find(&self, place: u64) -> CellNumber {
        let (region, within) = split(place);
        let mask = self.slots.len() - 1;
        let mut at = (hash_of(region) >> self.shift) as usize;
        loop {
            let slot = &self.slots[at & mask];
            if slot.region == region {
                return CellNumber(slot.first | within);
            }
            if slot.region == Slot::EMPTY.region {
                return CellNumber::NONE;
            }
            at += 1;
        }
    }

    /// Has the cell brought near, if it is one.
    #[inline]
    pub(super) fn bring_near(&self, number: CellNumber) {
        if let Some(cell) = self.cell(number) {
            bring_near(cell);
        }
    }

    /// The block of a cell, if it is one.
    #[inline]
    pub(super) fn get(&self, number: CellNumber) -> Option<u32> {
        u32::from_ne_bytes(*self.cell(number)?).checked_sub(1)
    }

    /// Whether it is a cell without a block.
    #[inline]
    pub(super) fn is_free(&self, number: CellNumber) -> bool {
        self.cell(number) == Some(&EMPTY)
    }

    /// Puts a block's number, or that there is none, into the cell, if it is one, and
    /// gives what was there before.
    #[inline]
    pub(super) fn replace(&mut self, number: CellNumber, block: Option<u32>) -> Option<u32> {
        let block = block.map_or(0, |number| number + 1).to_ne_bytes();
        let before = std::mem::replace(self.cell_mut(number)?, block);
        u32::from_ne_bytes(before).checked_sub(1)
    }

    /// Puts a block's number into the cell if none is there; else, and if it is no
    /// cell, gives `None`.
    #[inline]
    pub(super) fn add(&mut self, number: CellNumber, block: u32) -> Option<()> {
        let cell = self.cell_mut(number)?;
        if *cell != EMPTY {
            return None;
        }
        *cell = (block + 1).to_ne_bytes();
        Some(())
    }

    #[inline]
    fn cell(&self, CellNumber(number): CellNumber) -> Option<&Cell> {
        let page = self.pages.get(number as usize / CELLS_OF_PAGE)?;
        let page: &Page = page.first_chunk().expect(WHOLE);
        page.as_chunks().0.get(number as usize % CELLS_OF_PAGE)
    }

    #[inline]
    fn cell_mut(&mut self, CellNumber(number): CellNumber) -> Option<&mut Cell> {
        let page = self.pages.get_mut(number as usize / CELLS_OF_PAGE)?;
        let page: &mut Page = page.first_chunk_mut().expect(WHOLE);
        let cells: &mut [Cell] = page.as_chunks_mut().0;
        cells.get_mut(number as usize % CELLS_OF_PAGE)
    }

    /// Adds the region of this place, which is not in the shadow and for which there
    /// [is room](Self::has_room); gives the place's cell.
    pub(super) fn add_region(&mut self, place: u64) -> CellNumber {
        if self.regions == self.pages.len() * (CELLS_OF_PAGE / CELLS) {
            let huge = !self.pages.is_empty();
            self.pages.push(zeroed(HUGE_PAGE, huge));
        }
        if self.regions >= self.slots.len() / 2 {
            self.grow();
        }
        let (region, within) = split(place);
        let first = (self.regions * CELLS) as u32;
        self.put(Slot { region, first });
        self.regions += 1;
        self.touch(first);
        CellNumber(first | within)
    }

    /// Writes to the memory of a new region's cells: to be read first costs memory
    /// a fault of its own, after which all threads have to look at it anew.
    fn touch(&mut self, first: u32) {
        for at in (first..)
            .step_by(CELLS_OF_SMALL_PAGE)
            .take(CELLS / CELLS_OF_SMALL_PAGE)
        {
            if let Some(cell) = self.cell_mut(CellNumber(at)) {
                *cell = EMPTY;
            }
        }
    }

    fn put(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = (hash_of(slot.region) >> self.shift) as usize;
        while self.slots[at & mask].region != Slot::EMPTY.region {
            at += 1;
        }
        self.slots[at & mask] = slot;
    }

    fn grow(&mut self) {
        let larger = vec![Slot::EMPTY; self.slots.len() * 2];
        let before = std::mem::replace(&mut self.slots, larger);
        self.shift -= 1;
        for slot in before {
            if slot.region != Slot::EMPTY.region {
                self.put(slot);
            }
        }
    }
}

/// The region of a place, and which of its cells is the place's.
#[inline]
fn split(place: u64) -> (u64, u32) {
    // The lowest bits stand above all others.
    let place = place.rotate_right(ALIGNMENT_BITS);
    (place >> CELLS_BITS, (place % CELLS as u64) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn no_place_shares_its_cell() {
        let region = 1_u64 << (CELLS_BITS + ALIGNMENT_BITS);
        let places = (0..2 * region).chain([u64::MAX, 1 << 62, 3 << 62]);
        let distinct: BTreeSet<_> = places.clone().map(split).collect();
        assert_eq!(distinct.len(), places.count());
        assert!(
            distinct
                .iter()
                .all(|&(region, within)| { region != Slot::EMPTY.region && within < CELLS as u32 })
        );
        assert_eq!(split(0).0, split(region - 16).0);
        assert_ne!(split(0).0, split(region).0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Among them regions beyond the first page, and a table that has grown.
        #[test]
        fn it_is_a_map_of_the_places_in_its_regions(
            deeds in prop::collection::vec((any::<bool>(), 0..300_u64, 0..64_u64), 1_500),
        ) {
            let mut shadow = Shadow::new();
            let mut model = BTreeMap::new();
            let mut regions = BTreeSet::new();
            for (number, (allocates, region, within)) in (0..).zip(deeds) {
                let place = region << 40 | within << 3;
                let cell = if regions.insert(split(place).0) {
                    prop_assert_eq!(shadow.find(place), CellNumber::NONE);
                    prop_assert_eq!(shadow.replace(CellNumber::NONE, Some(number)), None);
                    prop_assert_eq!(shadow.get(CellNumber::NONE), None);
                    shadow.add_region(place)
                } else {
                    shadow.find(place)
                };
                let before = if allocates {
                    model.insert(place, number)
                } else {
                    model.remove(&place)
                };
                prop_assert_eq!(shadow.get(cell), before);
                let number = allocates.then_some(number);
                prop_assert_eq!(shadow.replace(cell, number), before);
                prop_assert_eq!(shadow.get(cell), number);
            }
            prop_assert!(shadow.has_room((regions.len() + 1) * 4 * CELLS));
            prop_assert!(!shadow.has_room(regions.len() * 4 * CELLS));
            prop_assert!(shadow.pages.len() > 1 && shadow.slots.len() > FEWEST_SLOTS);
            for (&place, &number) in &model {
                let cell = shadow.find(place);
                prop_assert_eq!(shadow.get(cell), Some(number));
            }
        }
    }
}
