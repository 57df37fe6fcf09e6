//! What is known of the live blocks of an image with a single stream, whose
//! events name their blocks by numbers that were [found](crate::resolve) before:
//! nothing has to be looked for here.
//!
//! The records of short-lived blocks and of all others are one array, so that
//! every event's [`Subject`] is a [place in it](Subject::record). A record of zeros
//! is that of no live block: memory that was never written needs no other look.

use std::ops::Range;

use super::records::Records;
use super::{BlockNumber, Blocks, INHERITED, KnownBlocks, LiveBlock, NO_BLOCK};
use crate::cursor::Step;
use crate::resolve::Replaced;
use crate::subject::{FIRST_RECORD, Subject, number_of, record_of};

/// Site of a block that is not live.
const ENDED: u32 = INHERITED - 1;
/// With fewer records than this they fit a core's own cache.
const WORTH_LOOKING_AHEAD: usize = 1 << 13;
/// So many records, which are a page of memory, come into use together.
const TOGETHER: usize = 1 << 7;

/// The blocks by the place of their records.
pub(crate) struct NumberedBlocks {
    /// The site of each is masked, see [`masked`].
    records: Records,
    /// Those that came into use.
    used: Range<usize>,
}

/// With the site as it is in a record, or from there: what is not live is 0 there.
#[inline(always)]
fn masked(block: LiveBlock) -> LiveBlock {
    LiveBlock {
        site: block.site ^ ENDED,
        ..block
    }
}

impl NumberedBlocks {
    /// Blocks of these places and sizes that were inherited at `now`; they have
    /// the numbers from 0 on.
    pub(crate) fn new(inherited: impl Iterator<Item = (u64, u64)>, now: u64) -> Self {
        let mut blocks = Self {
            // Most programs need one of short-lived blocks and one of others.
            records: Records::with_small_pages(2),
            used: FIRST_RECORD..FIRST_RECORD,
        };
        for (number, (place, size)) in inherited.enumerate() {
            let block = LiveBlock {
                place,
                size,
                allocated_ns: now,
                site: INHERITED,
                thread: u32::MAX,
            };
            blocks.begin(record_of(number), block);
        }
        blocks
    }

    /// Begins the life of a block.
    // Inlined in any case, for a block that is handed over in memory is read there
    // in larger pieces than it was written, which makes the processor wait.
    #[inline(always)]
    pub(crate) fn begin(&mut self, record: usize, block: LiveBlock) {
        if !self.used.contains(&record) {
            self.make_room_for(record);
        }
        self.records.set(record, masked(block));
    }

    /// Ends the life of the block that is given back at this place, and gives what
    /// was known of it; `None` if it is not live.
    #[inline(always)]
    pub(crate) fn give_back(&mut self, record: usize, place: u64) -> Option<LiveBlock> {
        let is_live = |block: &LiveBlock| block.place == place && masked(*block).site != ENDED;
        self.records.end_if(record, is_live).map(masked)
    }

    fn is_live_at(&self, record: usize, place: u64) -> bool {
        let block = self.records.find(record).map(masked);
        block.is_some_and(|block| block.place == place && block.site != ENDED)
    }

    /// What the stream's next step does to the live blocks, and, of an allocation
    /// without a subject, what it replaces.
    pub(crate) fn apply(&mut self, step: &Step, replaced: Option<Replaced>) -> Blocks {
        let told = step.subject.block_number();
        let is_live = |number: &BlockNumber| self.is_live_at(record_of(*number), step.address);
        if !step.allocates {
            return Blocks {
                block: told.filter(is_live).unwrap_or(NO_BLOCK),
                replaced: NO_BLOCK,
            };
        }
        let told = told.map(|block| (block, NO_BLOCK));
        // Every allocation has one of the two.
        let (block, replaced) = told.or(replaced).unwrap_or_default();
        // The cursor may have seen that a reallocation had ended it.
        let replaced = Some(replaced).filter(is_live).unwrap_or(NO_BLOCK);
        let place = step.address;
        let ended = LiveBlock::ENDED;
        self.begin(record_of(block), LiveBlock { place, ..ended });
        Blocks { block, replaced }
    }

    /// Nobody speaks any more of the block that the step ended.
    pub(crate) fn forget(&mut self, allocates: bool, blocks: Blocks) {
        let ended = if allocates {
            blocks.replaced
        } else {
            blocks.block
        };
        if ended != NO_BLOCK {
            self.records.end_if(record_of(ended), |_| true);
        }
    }

    /// Whether they are so many that it is better to have them [brought
    /// near](Self::bring_near) before.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.used.end > FIRST_RECORD + WORTH_LOOKING_AHEAD
    }

    /// Has what is known brought near of the blocks of which coming events speak.
    #[inline]
    pub(crate) fn bring_near(&self, subjects: &[Subject]) {
        for subject in subjects {
            self.records.bring_near(subject.record());
        }
    }

    #[cold]
    #[inline(never)]
    fn make_room_for(&mut self, record: usize) {
        let first = record / TOGETHER * TOGETHER;
        let used = &mut self.used;
        *used = used.start.min(first)..used.end.max(first + TOGETHER);
        self.records.make_room_for(used.end - 1);
    }
}

impl KnownBlocks for NumberedBlocks {
    #[inline]
    fn block(&self, number: BlockNumber) -> LiveBlock {
        masked(self.records.get(record_of(number)))
    }

    fn describe(
        &mut self,
        number: BlockNumber,
        size_and_time: (u64, u64),
        (site, thread): (u32, u32),
    ) {
        let masked = (site ^ ENDED, thread);
        self.records
            .describe(record_of(number), size_and_time, masked);
    }

    fn iter(&self) -> impl Iterator<Item = (u64, BlockNumber)> {
        let records = self.used.clone();
        let blocks = records.map(|record| (masked(self.records.get(record)), record));
        let live = blocks.filter(|(block, _)| block.site != ENDED);
        live.map(|(block, record)| (block.place, number_of(record)))
    }
}

impl LiveBlock {
    /// A block that is not live.
    const ENDED: Self = Self {
        place: 0,
        size: 0,
        allocated_ns: 0,
        site: ENDED,
        thread: u32::MAX,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(place: u64) -> LiveBlock {
        LiveBlock {
            place,
            size: 10,
            allocated_ns: 20,
            site: 0,
            thread: 0,
        }
    }

    #[test]
    fn blocks_are_live_until_they_are_given_back_at_their_place() {
        let mut blocks = NumberedBlocks::new([(160, 5)].into_iter(), 7);
        let records = [
            Subject::short_lived(0, false),
            Subject::short_lived(40_000, false),
            Subject::block(1),
            Subject::block(200_000),
        ]
        .map(Subject::record);
        for (place, record) in (0..).zip(records) {
            assert_eq!(blocks.give_back(record, place), None);
            blocks.begin(record, block(place));
        }
        let mut live: Vec<u64> = blocks.iter().map(|(place, _)| place).collect();
        live.sort_unstable();
        assert_eq!(live, [0, 1, 2, 3, 160]);
        for (place, record) in (0..).zip(records) {
            assert_eq!(blocks.give_back(record, place + 1), None);
            assert_eq!(blocks.block(number_of(record)), block(place));
            assert_eq!(blocks.give_back(record, place), Some(block(place)));
            assert_eq!(blocks.give_back(record, place), None);
        }
        let left: Vec<_> = blocks.iter().collect();
        assert_eq!(left, [(160, 0)]);
        assert_eq!(blocks.block(0).site, INHERITED);
        assert_eq!(blocks.give_back(Subject::NONE.record(), 0), None);
    }
}
