//! The numbers of live blocks by place, for whoever keeps nothing else of them.
//!
//! Nearly all are in a [shadow](super::shadow) of the program's memory. Where a
//! program's blocks lie so far from one another that the shadow would need much
//! more memory than a table of single places, those in further regions are in
//! such a table.

use rustc_hash::FxHashMap;

use super::shadow::{CellNumber, Shadow};
use super::{BlockNumber, Blocks, NO_BLOCK};

/// Bytes of the shadow that any program may have.
const FREE_BYTES: usize = 1 << 20;
/// How many more it may have for each number that was handed out: a table of places
/// has as many, while it grows.
const BYTES_A_BLOCK: usize = 48;

/// See the [module](self).
pub(crate) struct LivePlaces {
    shadow: Shadow,
    /// Once the shadow was too large, it gets no more regions: nothing is in this
    /// table whose region is in the shadow.
    is_sparse: bool,
    table: FxHashMap<u64, u32>,
    /// Numbers that were given back, to be used again: the last one first, for what
    /// is kept under it is nearest.
    unused: Vec<u32>,
    /// Numbers from this one on were never handed out.
    next: u32,
}

/// Where the number of the block at a place is kept.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Approached {
    place: u64,
    /// `None` if its region was not in the shadow when it was looked for.
    cell: Option<CellNumber>,
}

impl LivePlaces {
    /// Blocks at these places have the numbers from 0 on.
    pub(crate) fn new(places: impl Iterator<Item = u64>) -> Self {
        let mut live = Self {
            shadow: Shadow::new(),
            is_sparse: false,
            table: FxHashMap::default(),
            unused: Vec::new(),
            next: 0,
        };
        for place in places {
            live.hand_out(live.approach(place));
        }
        live
    }

    /// Where the number of the block at this place is kept; what is kept there is
    /// brought near.
    #[inline]
    pub(crate) fn approach(&self, place: u64) -> Approached {
        let cell = self.shadow.find(place);
        if let Some(cell) = cell {
            self.shadow.bring_near(cell);
        }
        Approached { place, cell }
    }

    /// A new block, and what was live at its place.
    #[inline]
    pub(crate) fn hand_out(&mut self, place: Approached) -> Blocks {
        let number = self.unused.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        let replaced = match place.cell {
            Some(cell) => self.shadow.replace(cell, Some(number)),
            None => self.hand_out_further(place.place, number),
        };
        Blocks {
            block: number as BlockNumber,
            replaced: replaced.map_or(NO_BLOCK, |number| number as BlockNumber),
        }
    }

    /// A new block at a place whose region was not in the shadow.
    #[cold]
    #[inline(never)]
    fn hand_out_further(&mut self, place: u64, number: u32) -> Option<u32> {
        let allowed = FREE_BYTES + self.next as usize * BYTES_A_BLOCK;
        let cell = match self.shadow.find(place) {
            Some(cell) => cell,
            None if !self.is_sparse && self.shadow.bytes() < allowed => {
                self.shadow.add_region(place)
            }
            None => {
                self.is_sparse = true;
                return self.table.insert(place, number);
            }
        };
        self.shadow.replace(cell, Some(number))
    }

    /// Takes the block away that is live at the place. Its number stays its own
    /// until it is [given back](Self::recycle).
    #[inline]
    pub(crate) fn take(&mut self, place: Approached) -> BlockNumber {
        let taken = match place.cell.or_else(|| self.shadow.find(place.place)) {
            Some(cell) => self.shadow.replace(cell, None),
            None => self.table.remove(&place.place),
        };
        taken.map_or(NO_BLOCK, |number| number as BlockNumber)
    }

    /// The block that is live at the place.
    #[inline]
    pub(crate) fn at(&self, place: Approached) -> BlockNumber {
        let live = match place.cell.or_else(|| self.shadow.find(place.place)) {
            Some(cell) => self.shadow.get(cell),
            None => self.table.get(&place.place).copied(),
        };
        live.map_or(NO_BLOCK, |number| number as BlockNumber)
    }

    /// Nobody speaks any more of the block of this number, which has no place.
    #[inline]
    pub(crate) fn recycle(&mut self, number: BlockNumber) {
        self.unused.push(number as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Also where places are approached long before they are needed, and where
        /// blocks are so far from one another that the shadow is not for all.
        #[test]
        fn it_is_a_map_and_no_two_live_blocks_have_one_number(
            batches in prop::collection::vec(
                prop::collection::vec((0..3_u8, 0..300_u64), 1..60),
                1..30,
            ),
            distance in prop::sample::select(vec![8_u64, 16, 1 << 10, 1 << 20, 1 << 50]),
        ) {
            let mut live = LivePlaces::new([0, distance].into_iter());
            let mut model = BTreeMap::from([(0, 0), (distance, 1)]);
            for batch in batches {
                let approached: Vec<_> = (batch.iter())
                    .map(|&(_, at)| live.approach(at.wrapping_mul(distance)))
                    .collect();
                for ((kind, _), at) in batch.into_iter().zip(approached) {
                    if kind == 0 {
                        let taken = live.take(at);
                        prop_assert_eq!(taken, model.remove(&at.place).unwrap_or(NO_BLOCK));
                        if taken != NO_BLOCK {
                            live.recycle(taken);
                        }
                    } else {
                        let blocks = live.hand_out(at);
                        prop_assert!(model.values().all(|&number| number != blocks.block));
                        let old = model.insert(at.place, blocks.block);
                        prop_assert_eq!(blocks.replaced, old.unwrap_or(NO_BLOCK));
                        if let Some(old) = old {
                            live.recycle(old);
                        }
                    }
                }
                for &place in model.keys().chain([&(distance / 2)]) {
                    let expected = model.get(&place).copied().unwrap_or(NO_BLOCK);
                    prop_assert_eq!(live.at(live.approach(place)), expected);
                }
            }
        }
    }

    #[test]
    fn blocks_far_from_one_another_take_little_more_memory_than_a_table_of_them() {
        let mut live = LivePlaces::new(std::iter::empty());
        let count = 100_000;
        let place = |number: u32| u64::from(number) << 20;
        for number in 0..count {
            live.hand_out(live.approach(place(number)));
        }
        let regions = live.shadow.bytes() / 16_384;
        // One block a region, of 16 KiB, of which each block may have 48 bytes.
        assert!(live.is_sparse);
        assert!((64..66).contains(&regions), "{regions} regions");
        for number in 0..count {
            let taken = live.take(live.approach(place(number)));
            assert_eq!(taken, number as BlockNumber);
        }
        assert!(live.table.is_empty());
    }
}
