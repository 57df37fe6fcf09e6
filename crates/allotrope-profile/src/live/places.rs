//! The numbers of live blocks by place, for whoever keeps nothing else of them.
//!
//! Nearly all are in a [shadow](super::shadow) of the program's memory. Where a
//! program's blocks lie so far from one another that the shadow would need much
//! more memory than a table of single places, those in further regions are in
//! such a table.

pub(crate) use super::shadow::CellNumber;
use super::shadow::Shadow;
use super::sparse::SparsePlaces;
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
    table: SparsePlaces,
    /// Numbers that were given back, to be used again: the last one first, for what
    /// is kept under it is nearest.
    unused: Vec<u32>,
    /// Numbers from this one on were never handed out.
    next: u32,
}

impl LivePlaces {
    /// Blocks at these places have the numbers from 0 on.
    pub(crate) fn new(places: impl Iterator<Item = u64>) -> Self {
        let mut live = Self {
            shadow: Shadow::new(),
            is_sparse: false,
            table: SparsePlaces::new(),
            unused: Vec::new(),
            next: 0,
        };
        for place in places {
            live.hand_out(place);
        }
        live
    }

    /// The place's cell in the shadow. What is needed for the place is brought near.
    #[inline]
    pub(crate) fn approach(&self, place: u64) -> CellNumber {
        let cell = self.shadow.find(place);
        self.shadow.bring_near(cell);
        if cell == CellNumber::NONE {
            self.table.bring_near(place);
        }
        cell
    }

    /// Whether this is a cell and no block is live there.
    #[inline]
    pub(crate) fn is_free(&self, cell: CellNumber) -> bool {
        self.shadow.is_free(cell)
    }

    /// A new block at this cell; `None` if there already is one, or no such cell.
    #[inline]
    pub(crate) fn add(&mut self, cell: CellNumber) -> Option<BlockNumber> {
        let number = self.unused.last().copied().unwrap_or(self.next);
        self.shadow.add(cell, number)?;
        if self.unused.pop().is_none() {
            self.next += 1;
        }
        Some(number as BlockNumber)
    }

    /// Takes the block of this cell away. Its number stays its own until it is
    /// [given back](Self::recycle).
    #[inline]
    pub(crate) fn end(&mut self, cell: CellNumber) -> Option<BlockNumber> {
        let number = self.shadow.replace(cell, None);
        number.map(|number| number as BlockNumber)
    }

    /// A new block, and what was live at its place.
    pub(crate) fn hand_out(&mut self, place: u64) -> Blocks {
        let number = self.unused.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        let replaced = match self.cell_for(place) {
            CellNumber::NONE => self.table.insert(place, number),
            cell => self.shadow.replace(cell, Some(number)),
        };
        Blocks {
            block: number as BlockNumber,
            replaced: replaced.map_or(NO_BLOCK, |number| number as BlockNumber),
        }
    }

    /// The cell for a new block at this place; none if it belongs into the table.
    fn cell_for(&mut self, place: u64) -> CellNumber {
        let cell = self.shadow.find(place);
        if cell != CellNumber::NONE {
            return cell;
        }
        let allowed = FREE_BYTES + self.next as usize * BYTES_A_BLOCK;
        self.is_sparse |= !self.shadow.has_room(allowed);
        if self.is_sparse {
            return CellNumber::NONE;
        }
        self.shadow.add_region(place)
    }

    /// Takes the block away that is live at the place. Its number stays its own
    /// until it is [given back](Self::recycle).
    pub(crate) fn take(&mut self, place: u64) -> Option<BlockNumber> {
        let taken = match self.shadow.find(place) {
            CellNumber::NONE => self.table.remove(place),
            cell => self.shadow.replace(cell, None),
        };
        taken.map(|number| number as BlockNumber)
    }

    /// The block that is live at the place.
    pub(crate) fn at(&self, place: u64) -> Option<BlockNumber> {
        let live = match self.shadow.find(place) {
            CellNumber::NONE => self.table.get(place),
            cell => self.shadow.get(cell),
        };
        live.map(|number| number as BlockNumber)
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
                prop::collection::vec((0..4_u8, 0..300_u64), 1..60),
                1..30,
            ),
            distance in prop::sample::select(vec![8_u64, 16, 1 << 10, 1 << 20, 1 << 50]),
        ) {
            let mut live = LivePlaces::new([0, distance].into_iter());
            let mut model = BTreeMap::from([(0, 0), (distance, 1)]);
            for batch in batches {
                let cells: Vec<_> = (batch.iter())
                    .map(|&(_, at)| live.approach(at.wrapping_mul(distance)))
                    .collect();
                for ((kind, at), cell) in batch.into_iter().zip(cells) {
                    let place = at.wrapping_mul(distance);
                    let before = model.get(&place).copied();
                    prop_assert_eq!(live.is_free(cell), cell != CellNumber::NONE && before.is_none());
                    if kind < 2 {
                        let taken = if kind == 0 { live.end(cell) } else { live.take(place) };
                        prop_assert!(taken == before || kind == 0 && cell == CellNumber::NONE);
                        if let Some(taken) = taken {
                            model.remove(&place);
                            live.recycle(taken);
                        }
                        continue;
                    }
                    let added = live.add(cell);
                    prop_assert!(added.is_none() || before.is_none());
                    let blocks = added.map_or_else(
                        || live.hand_out(place),
                        |block| Blocks { block, replaced: NO_BLOCK },
                    );
                    prop_assert!(model.values().all(|&number| number != blocks.block));
                    prop_assert_eq!(blocks.replaced, before.unwrap_or(NO_BLOCK));
                    model.insert(place, blocks.block);
                    if let Some(before) = before {
                        live.recycle(before);
                    }
                }
                for &place in model.keys().chain([&(distance / 2)]) {
                    prop_assert_eq!(live.at(place), model.get(&place).copied());
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
            live.hand_out(place(number));
        }
        // A region has one block and 16 KiB, of which 48 bytes a block are allowed.
        assert!(live.shadow.has_room(66 * (16 << 10)));
        assert!(!live.shadow.has_room(64 * (16 << 10)));
        for number in 0..count {
            assert_eq!(live.take(place(number)), Some(number as BlockNumber));
        }
        assert!(live.table.len() == 0);
    }
}
