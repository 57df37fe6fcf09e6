//! The block of which an event of a single stream speaks, found before the
//! event is replayed (see [`crate::resolve`]).

use crate::live::BlockNumber;

/// The block of which an event speaks, in 4 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Subject(u32);

/// The block lives and dies within the run of the event.
const SHORT_LIVED: u32 = 1 << 31;
/// Of such a block: something may have been live at its place before.
const UNPROVEN: u32 = 1 << 30;
/// Numbers of short-lived blocks stand above those of all others.
pub(crate) const FIRST_SHORT_LIVED: BlockNumber = 1 << 32;

impl Subject {
    /// No block; of an allocation, that it takes the place of a live one.
    pub(crate) const NONE: Self = Self(0);
    /// How many blocks that are not short-lived can be told apart.
    pub(crate) const MOST: usize = SHORT_LIVED as usize - 1;
    /// How many short-lived blocks can be told apart.
    pub(crate) const MOST_SHORT_LIVED: usize = UNPROVEN as usize - 1;

    /// A block with a number below [`Self::MOST`].
    #[inline]
    pub(crate) fn block(number: BlockNumber) -> Self {
        Self(number as u32 + 1)
    }

    /// A short-lived block with a number below [`Self::MOST_SHORT_LIVED`].
    #[inline]
    pub(crate) fn short_lived(number: u32, unproven: bool) -> Self {
        Self((number + 1) | SHORT_LIVED | if unproven { UNPROVEN } else { 0 })
    }

    #[inline]
    pub(crate) fn is_short_lived(self) -> bool {
        self.0 & SHORT_LIVED != 0
    }

    /// Whether nothing has to be looked up to know the block.
    #[inline]
    pub(crate) fn is_told(self) -> bool {
        self.0 & (SHORT_LIVED | UNPROVEN) == SHORT_LIVED
    }

    /// The same short-lived block, at whose place nothing was live.
    #[inline]
    pub(crate) fn proven(self) -> Self {
        Self(self.0 & !UNPROVEN)
    }

    /// The block's number; among short-lived blocks, if it is one.
    #[inline]
    pub(crate) fn number(self) -> Option<usize> {
        let short_lived = self.is_short_lived();
        let bits = if short_lived {
            SHORT_LIVED | UNPROVEN
        } else {
            0
        };
        ((self.0 & !bits) as usize).checked_sub(1)
    }

    /// A number that no other block has, short-lived or not.
    #[inline]
    pub(crate) fn block_number(self) -> Option<BlockNumber> {
        let first = if self.is_short_lived() {
            FIRST_SHORT_LIVED
        } else {
            0
        };
        Some(first + self.number()?)
    }
}

/// The number among short-lived blocks of what has this number among all.
#[inline]
pub(crate) fn among_short_lived(number: BlockNumber) -> Option<usize> {
    number.checked_sub(FIRST_SHORT_LIVED)
}

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
            assert_eq!(among_short_lived(number), None);
        }
        for number in [0, 1, Subject::MOST_SHORT_LIVED - 1] {
            for unproven in [false, true] {
                let subject = Subject::short_lived(number as u32, unproven);
                assert!(subject.is_short_lived());
                assert_eq!(subject.is_told(), !unproven);
                assert_eq!(subject.number(), Some(number));
                assert_eq!(subject.proven(), Subject::short_lived(number as u32, false));
                let among_all = subject.block_number().expect("a block");
                assert_eq!(among_short_lived(among_all), Some(number));
            }
        }
    }
}
