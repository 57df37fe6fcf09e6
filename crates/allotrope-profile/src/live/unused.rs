//! Numbers that no live block has, to be used again: those that were given back
//! last first, for what was kept under them is nearest.
//!
//! They are linked in their records, which may have been unused for long, and which
//! one follows is known only from the record before it. Where several threads are
//! merged tens of thousands of blocks are forgotten at once: of those the numbers
//! are in an array, and their records are asked for some time before they are
//! needed.

use super::BlockNumber;

/// Most numbers in the array: as many as steps may be tentative.
const MOST_RECENT: usize = 1 << 16;
/// How many numbers before its own a record is asked for.
const AHEAD: usize = 8;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Unused {
    recent: Vec<u32>,
    /// The latest of those that are linked, plus one; 0 if there is none.
    pub(super) linked: u64,
}

impl Unused {
    /// The last number of the array.
    #[inline]
    pub(super) fn take(&mut self) -> Option<BlockNumber> {
        self.recent.pop().map(|number| number as BlockNumber)
    }

    /// A number that will be taken soon.
    #[inline]
    pub(super) fn coming(&self) -> Option<BlockNumber> {
        let coming = self.recent.len().wrapping_sub(AHEAD);
        let number = self.recent.get(coming);
        number.map(|&number| number as BlockNumber)
    }

    /// Keeps the number, if there is room in the array.
    #[inline]
    pub(super) fn give(&mut self, number: BlockNumber) -> bool {
        match u32::try_from(number) {
            Ok(number) if self.recent.len() < MOST_RECENT => {
                self.recent.push(number);
                true
            }
            _ => false,
        }
    }
}
