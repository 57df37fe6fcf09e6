//! What is known of the live blocks of an image with a single stream, whose
//! events name their blocks by numbers that were [found](crate::resolve) before:
//! nothing has to be looked for here.

use allotrope_trace::model::Event;

use super::records::Records;
use super::{AHEAD, BlockNumber, Blocks, INHERITED, KnownBlocks, LiveBlock, NO_BLOCK};
use crate::cursor::Step;
use crate::resolve::Replaced;
use crate::subject::{FIRST_SHORT_LIVED, Subject, among_short_lived};

/// Site of a block that is not live.
const ENDED: u32 = INHERITED - 1;
/// With fewer records than this they fit a core's own cache.
const WORTH_LOOKING_AHEAD: usize = 1 << 13;

/// The blocks by number.
pub(crate) struct NumberedBlocks {
    records: Records,
    /// By their number among the short-lived ones.
    short_lived: Vec<LiveBlock>,
}

impl NumberedBlocks {
    /// Blocks of these places and sizes that were inherited at `now`; they have
    /// the numbers from 0 on.
    pub(crate) fn new(inherited: impl Iterator<Item = (u64, u64)>, now: u64) -> Self {
        let mut blocks = Self {
            records: Records::default(),
            short_lived: Vec::new(),
        };
        for (place, size) in inherited {
            blocks.records.add(LiveBlock {
                place,
                size,
                allocated_ns: now,
                site: INHERITED,
                thread: u32::MAX,
            });
        }
        blocks
    }

    /// What is known of the block that is given back at this place; `None` if it
    /// is not live.
    #[inline]
    pub(crate) fn live_at(&self, number: BlockNumber, place: u64) -> Option<LiveBlock> {
        let block = match among_short_lived(number) {
            Some(number) => *self.short_lived.get(number)?,
            None if number < self.records.len() => self.records.get(number),
            None => return None,
        };
        (block.site != ENDED && block.place == place).then_some(block)
    }

    /// Begins the life of a block.
    // Inlined in any case, for a block that is handed over in memory is read there
    // in larger pieces than it was written, which makes the processor wait.
    #[inline(always)]
    pub(crate) fn begin(&mut self, number: BlockNumber, block: LiveBlock) {
        if let Some(number) = among_short_lived(number) {
            if number >= self.short_lived.len() {
                self.make_room_for_short_lived(number);
            }
            self.short_lived[number] = block;
        } else {
            if number == self.records.len() {
                self.records.add(block);
                return;
            }
            if number > self.records.len() {
                self.make_room_for(number);
            }
            self.records.set(number, block);
        }
    }

    /// Ends the life of a block, if there is one of this number.
    #[inline]
    pub(crate) fn end(&mut self, number: BlockNumber) {
        if let Some(number) = among_short_lived(number) {
            if let Some(block) = self.short_lived.get_mut(number) {
                block.site = ENDED;
            }
        } else {
            self.records.describe(number, (0, 0), (ENDED, u32::MAX));
        }
    }

    /// What the stream's next step does to the live blocks, and, of an allocation
    /// without a subject, what it replaces.
    pub(crate) fn apply(&mut self, step: &Step, replaced: Option<Replaced>) -> Blocks {
        let told = step.subject.block_number();
        if !step.allocates {
            let live = told.filter(|&number| self.live_at(number, step.address).is_some());
            return Blocks {
                block: live.unwrap_or(NO_BLOCK),
                replaced: NO_BLOCK,
            };
        }
        let told = told.map(|block| (block, NO_BLOCK));
        // Every allocation has one of the two.
        let (block, replaced) = told.or(replaced).unwrap_or_default();
        let place = step.address;
        // The cursor may have seen that a reallocation had ended it.
        let replaced = self.live_at(replaced, place).map_or(NO_BLOCK, |_| replaced);
        let ended = LiveBlock::ENDED;
        self.begin(block, LiveBlock { place, ..ended });
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
            self.end(ended);
        }
    }

    #[cold]
    #[inline(never)]
    fn make_room_for(&mut self, number: BlockNumber) {
        while self.records.len() <= number {
            self.records.add(LiveBlock::ENDED);
        }
    }

    #[cold]
    #[inline(never)]
    fn make_room_for_short_lived(&mut self, number: usize) {
        self.short_lived.resize(number + 1, LiveBlock::ENDED);
    }
}

impl KnownBlocks for NumberedBlocks {
    #[inline]
    fn block(&self, number: BlockNumber) -> LiveBlock {
        among_short_lived(number).map_or_else(
            || self.records.get(number),
            |number| self.short_lived[number],
        )
    }

    fn describe(
        &mut self,
        number: BlockNumber,
        (size, allocated_ns): (u64, u64),
        (site, thread): (u32, u32),
    ) {
        if let Some(number) = among_short_lived(number) {
            self.short_lived[number] = LiveBlock {
                place: self.short_lived[number].place,
                size,
                allocated_ns,
                site,
                thread,
            };
        } else {
            self.records
                .describe(number, (size, allocated_ns), (site, thread));
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u64, BlockNumber)> {
        let long = (0..self.records.len()).map(|number| (self.records.get(number), number));
        let short = self.short_lived.iter().copied().zip(FIRST_SHORT_LIVED..);
        let live = long.chain(short).filter(|(block, _)| block.site != ENDED);
        live.map(|(block, number)| (block.place, number))
    }

    #[inline]
    fn is_large(&self) -> bool {
        self.records.len() > WORTH_LOOKING_AHEAD
    }

    #[inline]
    fn look_ahead(&self, _: &[Event], subjects: &[Subject]) {
        for subject in subjects.iter().take(AHEAD) {
            if let (false, Some(number)) = (subject.is_short_lived(), subject.number()) {
                self.records.bring_near(number);
            }
        }
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
