//! What is known of each live block, by its number: an array that grows without
//! moving what is in it, and in which a record never lies in two cache lines.

use memmap2::MmapMut;

use super::BlockNumber;
use super::memory::{HUGE_PAGE, zeroed};
use crate::near::bring_near;

/// Of one length, which spares most of looking whether a record is in it.
type Page = [u8; HUGE_PAGE];
const WHOLE: &str = "all pages are mapped in one size";

type Word = [u8; size_of::<u64>()];

/// A [`LiveBlock`], of which the place is the first word: half a cache line, for
/// nearly every record that is looked at has to come from far away.
type Record = [Word; 4];
/// Which of them tells the site and the thread.
const ORIGIN: usize = 3;

/// What is known of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LiveBlock {
    /// Of an unused record the next unused one, plus one.
    pub place: u64,
    pub size: u64,
    pub allocated_ns: u64,
    /// [`INHERITED`](super::INHERITED), or the number of its stack's site.
    pub site: u32,
    pub thread: u32,
}

impl LiveBlock {
    /// A block at this place of which nothing else is known yet.
    #[inline]
    pub(super) fn at(place: u64) -> Self {
        Self {
            place,
            size: 0,
            allocated_ns: 0,
            site: 0,
            thread: 0,
        }
    }

    #[inline]
    fn record(&self) -> Record {
        let origin = origin(self.site, self.thread);
        [self.place, self.size, self.allocated_ns, origin].map(u64::to_ne_bytes)
    }

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

#[inline]
fn origin(site: u32, thread: u32) -> u64 {
    u64::from(site) | u64::from(thread) << 32
}

/// Records by number. A single vector of them would be moved when it grows,
/// which takes as much memory again.
#[derive(Default)]
pub(super) struct Records {
    /// The first ones are not in huge memory, for most programs need no other.
    pages: Vec<MmapMut>,
    /// How many of them besides the very first.
    more_small_pages: usize,
    length: usize,
}

impl Records {
    /// Records of a page, which is a huge one.
    const PAGE: usize = 1 << Self::PAGE_BITS;
    const PAGE_BITS: u32 = (HUGE_PAGE / size_of::<Record>()).trailing_zeros();

    /// No records, of which so many pages, but at least one, will not be in huge memory.
    pub(super) fn with_small_pages(pages: usize) -> Self {
        Self {
            more_small_pages: pages.saturating_sub(1),
            ..Self::default()
        }
    }

    /// Has memory for the record with this number and those below it: zeros, where
    /// nothing was written.
    pub(super) fn make_room_for(&mut self, number: BlockNumber) {
        while self.pages.len() <= number >> Self::PAGE_BITS {
            self.add_page();
        }
    }

    /// Adds a record, and gives its number.
    #[inline]
    pub(super) fn add(&mut self, block: LiveBlock) -> BlockNumber {
        let number = self.length;
        if number == self.pages.len() << Self::PAGE_BITS {
            self.add_page();
        }
        self.length += 1;
        *self.at_mut(number) = block.record();
        number
    }

    #[cold]
    fn add_page(&mut self) {
        let huge = self.pages.len() > self.more_small_pages;
        self.pages.push(zeroed(HUGE_PAGE, huge));
    }

    #[inline]
    fn at(&self, number: BlockNumber) -> &Record {
        let page: &Page = self.pages[number >> Self::PAGE_BITS]
            .first_chunk()
            .expect(WHOLE);
        &page.as_chunks().0.as_chunks().0[number % Self::PAGE]
    }

    #[inline]
    fn at_mut(&mut self, number: BlockNumber) -> &mut Record {
        let page = &mut self.pages[number >> Self::PAGE_BITS];
        let page: &mut Page = page.first_chunk_mut().expect(WHOLE);
        &mut page.as_chunks_mut().0.as_chunks_mut().0[number % Self::PAGE]
    }

    /// The record with this number.
    #[inline]
    pub(super) fn get(&self, number: BlockNumber) -> LiveBlock {
        LiveBlock::of(self.at(number))
    }

    /// The record with this number, if there is memory for one.
    #[inline]
    pub(super) fn find(&self, number: BlockNumber) -> Option<LiveBlock> {
        let page: &Page = self.pages.get(number >> Self::PAGE_BITS)?.first_chunk()?;
        let records: &[Record] = page.as_chunks().0.as_chunks().0;
        Some(LiveBlock::of(&records[number % Self::PAGE]))
    }

    /// Makes the word zero that tells the record's site and thread, if `wanted` says
    /// so of what is in the record, and gives that.
    #[inline]
    pub(super) fn end_if(
        &mut self,
        number: BlockNumber,
        wanted: impl FnOnce(&LiveBlock) -> bool,
    ) -> Option<LiveBlock> {
        let page = self.pages.get_mut(number >> Self::PAGE_BITS)?;
        let page: &mut Page = page.first_chunk_mut()?;
        let records: &mut [Record] = page.as_chunks_mut().0.as_chunks_mut().0;
        let record = &mut records[number % Self::PAGE];
        let block = LiveBlock::of(record);
        wanted(&block).then(|| {
            record[ORIGIN] = Word::default();
            block
        })
    }

    #[inline]
    pub(super) fn set(&mut self, number: BlockNumber, block: LiveBlock) {
        *self.at_mut(number) = block.record();
    }

    /// Writes everything but the place.
    #[inline]
    pub(super) fn describe(
        &mut self,
        number: BlockNumber,
        (size, allocated_ns): (u64, u64),
        (site, thread): (u32, u32),
    ) {
        let described = [size, allocated_ns, origin(site, thread)];
        let words = self.at_mut(number).iter_mut().skip(1);
        for (word, described) in words.zip(described) {
            *word = described.to_ne_bytes();
        }
    }

    #[inline]
    pub(super) fn place(&self, number: BlockNumber) -> u64 {
        u64::from_ne_bytes(self.at(number)[0])
    }

    /// Puts another block's record there, and gives what was there.
    #[inline]
    pub(super) fn replace(&mut self, number: BlockNumber, block: LiveBlock) -> LiveBlock {
        LiveBlock::of(&std::mem::replace(self.at_mut(number), block.record()))
    }

    /// Has the record brought near, if there is one with this number.
    #[inline]
    pub(super) fn bring_near(&self, number: BlockNumber) {
        if number >> Self::PAGE_BITS < self.pages.len() {
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
        let count = 2 * Records::PAGE + 1;
        for number in 0..count {
            assert_eq!(records.add(LiveBlock::at(block(number).place)), number);
            assert_eq!(records.place(number), block(number).place);
            records.set(number, block(number));
        }
        assert!((0..count).all(|number| records.get(number) == block(number)));
        assert_eq!(records.replace(7, block(count)), block(7));
        assert_eq!(records.get(7), block(count));
        assert_eq!(records.get(8), block(8));
    }

    #[test]
    fn no_record_lies_in_two_cache_lines() {
        let mut records = Records::default();
        records.add(LiveBlock::at(0));
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
