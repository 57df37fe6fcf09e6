//! What is known of each live block, by its number: an array that grows without
//! moving what is in it, and in which a record never lies in two cache lines.

use std::ops::{Index, IndexMut};

use super::{BlockNumber, INHERITED};

/// Records of a page; it takes 128 KiB.
const PAGE: usize = 1 << PAGE_BITS;
const PAGE_BITS: u32 = 12;

/// What is known of a block: half a cache line, and aligned so, for nearly every
/// record that is looked at has to come from far away.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(crate) struct LiveBlock {
    /// Of an unused record the next unused one, plus one.
    pub(super) place: u64,
    pub size: u64,
    pub allocated_ns: u64,
    /// [`INHERITED`], or the number of its stack's site.
    pub site: u32,
    pub thread: u32,
}

/// Records by number. A single vector of them would either be moved when it
/// grows, which takes as much memory again, or not be aligned: what the
/// allocator can grow in place begins behind its own 16 bytes.
#[derive(Default)]
pub(super) struct Records {
    pages: Vec<Box<[LiveBlock; PAGE]>>,
    length: usize,
}

impl Records {
    /// Adds a record for this place, and gives its number.
    pub(super) fn add(&mut self, place: u64) -> BlockNumber {
        let number = self.length;
        if number == self.pages.len() << PAGE_BITS {
            self.add_page();
        }
        self.length += 1;
        self[number].place = place;
        number
    }

    #[cold]
    fn add_page(&mut self) {
        let nothing = LiveBlock {
            place: 0,
            size: 0,
            allocated_ns: 0,
            site: INHERITED,
            thread: u32::MAX,
        };
        let page: Box<[LiveBlock]> = vec![nothing; PAGE].into();
        self.pages.extend(page.try_into());
    }

    /// The record, if there is one with this number.
    #[inline]
    pub(super) fn get(&self, number: BlockNumber) -> Option<&LiveBlock> {
        let page = self.pages.get(number >> PAGE_BITS)?;
        Some(&page[number % PAGE])
    }
}

impl Index<BlockNumber> for Records {
    type Output = LiveBlock;

    #[inline]
    fn index(&self, number: BlockNumber) -> &LiveBlock {
        &self.pages[number >> PAGE_BITS][number % PAGE]
    }
}

impl IndexMut<BlockNumber> for Records {
    #[inline]
    fn index_mut(&mut self, number: BlockNumber) -> &mut LiveBlock {
        &mut self.pages[number >> PAGE_BITS][number % PAGE]
    }
}
