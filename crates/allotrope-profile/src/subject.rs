//! The block of which an event of a single stream speaks, found before the
//! event is replayed (see [`crate::resolve`]).

use crate::live::{BlockNumber, NO_BLOCK};

/// The block of which an event speaks, in 4 bytes: one more than the place of its
/// record, 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Subject(u32);

/// Of a short-lived block: something may have been live at its place before.
const UNPROVEN: u32 = 1 << 31;
/// Numbers of short-lived blocks stand above those of all others.
const FIRST_SHORT_LIVED: BlockNumber = 1 << 32;
/// Place of the first record of a block that is not short-lived. Those of short-lived
/// ones come before it, the first one last: so the records in use are one range.
pub(crate) const FIRST_RECORD: usize = Subject::MOST_SHORT_LIVED;

impl Subject {
    /// No block; of an allocation, that it takes the place of a live one.
    pub(crate) const NONE: Self = Self(0);
    /// How many short-lived blocks can be told apart: as many as a trace's longest
    /// run has events.
    pub(crate) const MOST_SHORT_LIVED: usize = 1 << 16;
    /// How many blocks that are not short-lived can be told apart.
    pub(crate) const MOST: usize = UNPROVEN as usize - 1 - FIRST_RECORD;

    /// A block with a number below [`Self::MOST`].
    #[inline]
    pub(crate) fn block(number: BlockNumber) -> Self {
        Self((FIRST_RECORD + number) as u32 + 1)
    }

    /// A short-lived block, which dies within the run of the event, with a number below
    /// [`Self::MOST_SHORT_LIVED`].
    #[inline]
    pub(crate) fn short_lived(number: u32, unproven: bool) -> Self {
        Self((FIRST_RECORD as u32 - number) | if unproven { UNPROVEN } else { 0 })
    }

    #[inline]
    pub(crate) fn is_short_lived(self) -> bool {
        self.proven().is_told()
    }

    /// Whether nothing has to be looked up to know the block.
    #[inline]
    pub(crate) fn is_told(self) -> bool {
        self.0.wrapping_sub(1) < FIRST_RECORD as u32
    }

    /// The same short-lived block, at whose place nothing was live.
    #[inline]
    pub(crate) fn proven(self) -> Self {
        Self(self.0 & !UNPROVEN)
    }

    /// The block's number; among short-lived blocks, if it is one.
    #[inline]
    pub(crate) fn number(self) -> Option<usize> {
        let above = (self.proven().0 as usize).checked_sub(1)?;
        let long = above.checked_sub(FIRST_RECORD);
        Some(long.unwrap_or_else(|| FIRST_RECORD - 1 - above))
    }

    /// A number that no other block has, short-lived or not.
    #[inline]
    pub(crate) fn block_number(self) -> Option<BlockNumber> {
        (self != Self::NONE).then(|| number_of(self.proven().record()))
    }

    /// The place of the record of a block that is [told](Self::is_told) or not
    /// short-lived; of no block, one where there is none.
    #[inline]
    pub(crate) fn record(self) -> usize {
        (self.0 as usize).wrapping_sub(1)
    }
}

/// The place of the record of the block with this number.
#[inline]
pub(crate) fn record_of(number: BlockNumber) -> usize {
    match number.checked_sub(FIRST_SHORT_LIVED) {
        None => FIRST_RECORD + number,
        Some(number) => (FIRST_RECORD - 1).checked_sub(number).unwrap_or(NO_BLOCK),
    }
}

/// The number of the block with this record.
#[inline]
pub(crate) fn number_of(record: usize) -> BlockNumber {
    match record.checked_sub(FIRST_RECORD) {
        None => FIRST_SHORT_LIVED + (FIRST_RECORD - 1 - record),
        Some(NO_RECORD) => NO_BLOCK,
        Some(number) => number,
    }
}

/// What lies so far behind the first record is the record of [`NO_BLOCK`].
const NO_RECORD: usize = NO_BLOCK - FIRST_RECORD;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_apart() {
        assert_eq!(Subject::NONE.number(), None);
        assert_eq!(Subject::NONE.block_number(), None);
        assert!(!Subject::NONE.is_short_lived());
        for number in [0, 1, Subject::MOST - 1] {
            let subject = Subject::block(number);
            assert!(!subject.is_short_lived() && !subject.is_told());
            assert_eq!(subject.number(), Some(number));
            assert_eq!(subject.block_number(), Some(number));
            assert_eq!(record_of(number), subject.record());
            assert!(subject.record() >= FIRST_RECORD);
        }
        for number in [0, 1, Subject::MOST_SHORT_LIVED - 1] {
            for unproven in [false, true] {
                let subject = Subject::short_lived(number as u32, unproven);
                assert!(subject.is_short_lived());
                assert_eq!(subject.is_told(), !unproven);
                assert_eq!(subject.number(), Some(number));
                let proven = Subject::short_lived(number as u32, false);
                assert_eq!(subject.proven(), proven);
                let among_all = subject.block_number().expect("a block");
                assert!(among_all >= Subject::MOST);
                assert_eq!(record_of(among_all), proven.record());
                assert_eq!(number_of(proven.record()), among_all);
                assert!(proven.record() < FIRST_RECORD);
            }
        }
    }

    #[test]
    fn no_block_has_a_record_that_no_block_has() {
        assert_eq!(number_of(record_of(NO_BLOCK)), NO_BLOCK);
        assert_eq!(Subject::NONE.record(), record_of(NO_BLOCK));
    }
}
