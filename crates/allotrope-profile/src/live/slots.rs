//! The slots of a table of live blocks, one word each or several. What a word means
//! is the table's affair.

use std::ops::Range;

use memmap2::MmapMut;

use super::memory::{HUGE_PAGE, zeroed};
use crate::near::bring_near;

type Word = [u8; size_of::<u64>()];

/// Slots by position, empty (zero) at first.
pub(super) struct Slots {
    memory: MmapMut,
}

impl Slots {
    pub(super) fn new(count: usize) -> Self {
        let bytes = count * size_of::<Word>();
        Self {
            memory: zeroed(bytes, bytes >= HUGE_PAGE),
        }
    }

    #[inline]
    fn words(&self) -> &[Word] {
        self.memory.as_chunks().0
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.memory.len() / size_of::<Word>()
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.words()[at])
    }

    #[inline]
    pub(super) fn set(&mut self, at: usize, slot: u64) {
        self.memory.as_chunks_mut().0[at] = slot.to_ne_bytes();
    }

    #[inline]
    pub(super) fn bring_near(&self, at: usize) {
        bring_near(&self.words()[at]);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.range(0..self.len())
    }

    pub(super) fn range(&self, part: Range<usize>) -> impl Iterator<Item = u64> {
        let words = &self.words()[part];
        words.iter().map(|&word| u64::from_ne_bytes(word))
    }
}
