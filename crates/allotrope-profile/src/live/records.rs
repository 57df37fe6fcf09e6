//! What is known of each live block, by its number: an array that grows without
//! moving what is in it, and in which a record never lies in two cache lines.

use memmap2::MmapMut;

use super::BlockNumber;
use super::memory::{HUGE_PAGE, zeroed};
use crate::near::bring_near;

/// Records of a page, which is a huge one.
const PAGE: usize = 1 << PAGE_BITS;
const PAGE_BITS: u32 = (HUGE_PAGE / size_of::<Record>()).trailing_zeros();

type Word = [u8; size_of::<u64>()];

/// Half a cache line, for nearly every record that is looked at has to come from
/// far away: the words of a [`LiveBlock`], of which the place is the first.
type Record = [Word; 4];

/// What is known of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LiveBlock {
    /// Of an unused record the next unused one, plus one.
    pub(super) place: u64,
    pub size: u64,
    pub allocated_ns: u64,
    /// [`INHERITED`](super::INHERITED), or the number of its stack's site.
    pub site: u32,
    pub thread: u32,
}

impl LiveBlock {
    #[inline]
    fn of(record: &Record) -> Self {
        let [place, size, allocated_ns, origin] = record.map(u64::from_ne_bytes);
        Self {
            place,
            size,
            allocated_ns,
            site: origin as u32,
            thread: (origin >> 32) as u32,
        }
    }
}

/// Records by number. A single vector of them would be moved when it grows,
/// which takes as much memory again.
#[derive(Default)]
pub(super) struct Records {
    /// Only the first is not in huge memory, for most programs need no other.
    pages: Vec<MmapMut>,
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
        self.set_place(number, place);
        number
    }

    #[cold]
    fn add_page(&mut self) {
        self.pages.push(zeroed(HUGE_PAGE, !self.pages.is_empty()));
    }

    #[inline]
    fn at(&self, number: BlockNumber) -> &Record {
        let page = &self.pages[number >> PAGE_BITS];
        &page.as_chunks().0.as_chunks().0[number % PAGE]
    }

    #[inline]
    fn at_mut(&mut self, number: BlockNumber) -> &mut Record {
        let page = &mut self.pages[number >> PAGE_BITS];
        &mut page.as_chunks_mut().0.as_chunks_mut().0[number % PAGE]
    }

    /// The record with this number.
    #[inline]
    pub(super) fn get(&self, number: BlockNumber) -> LiveBlock {
        LiveBlock::of(self.at(number))
    }

    /// Writes everything but the place.
    #[inline]
    pub(super) fn describe(
        &mut self,
        number: BlockNumber,
        (size, allocated_ns): (u64, u64),
        (site, thread): (u32, u32),
    ) {
        let origin = u64::from(site) | u64::from(thread) << 32;
        let [_, described @ ..] = self.at_mut(number);
        *described = [size, allocated_ns, origin].map(u64::to_ne_bytes);
    }

    #[inline]
    pub(super) fn place(&self, number: BlockNumber) -> u64 {
        u64::from_ne_bytes(self.at(number)[0])
    }

    /// Writes the place, and gives what was there.
    #[inline]
    pub(super) fn replace_place(&mut self, number: BlockNumber, place: u64) -> u64 {
        let word = &mut self.at_mut(number)[0];
        u64::from_ne_bytes(std::mem::replace(word, place.to_ne_bytes()))
    }

    #[inline]
    pub(super) fn set_place(&mut self, number: BlockNumber, place: u64) {
        self.at_mut(number)[0] = place.to_ne_bytes();
    }

    /// Has the record brought near, if there is one with this number.
    #[inline]
    pub(super) fn bring_near(&self, number: BlockNumber) {
        if number >> PAGE_BITS < self.pages.len() {
            bring_near(self.at(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of which no word and no half of one is another's.
    fn block(number: BlockNumber) -> LiveBlock {
        let number = number as u64;
        LiveBlock {
            place: number << 32 | 1,
            size: number << 32 | 2,
            allocated_ns: number << 32 | 3,
            site: number as u32,
            thread: !number as u32,
        }
    }

    #[test]
    fn a_record_stays_as_it_is_while_others_are_added() {
        let mut records = Records::default();
        let count = 2 * PAGE + 1;
        for number in 0..count {
            assert_eq!(records.add(block(number).place), number);
            assert_eq!(records.place(number), block(number).place);
            let LiveBlock {
                size,
                allocated_ns,
                site,
                thread,
                ..
            } = block(number);
            records.describe(number, (size, allocated_ns), (site, thread));
        }
        assert!((0..count).all(|number| records.get(number) == block(number)));
        records.set_place(7, 0);
        let unplaced = LiveBlock {
            place: 0,
            ..block(7)
        };
        assert_eq!(records.get(7), unplaced);
    }

    #[test]
    fn no_record_lies_in_two_cache_lines() {
        let mut records = Records::default();
        records.add(0);
        assert_eq!(records.pages[0].as_ptr().addr() % size_of::<Record>(), 0);
        assert_eq!(64 % size_of::<Record>(), 0);
    }

    #[test]
    fn asking_for_a_record_that_is_none_does_nothing() {
        let records = Records::default();
        records.bring_near(0);
        records.bring_near(usize::MAX);
    }
}
