//! What the books ask of live blocks, however these are found.

use allotrope_trace::model::Event;

use super::{AHEAD, BlockNumber, EMPTY, LiveBlock, LiveBlocks, hands_out, number_of};
use crate::place::place_of;
use crate::subject::Subject;

/// What is known of live blocks, by their numbers.
pub(crate) trait KnownBlocks {
    /// What is known of a block.
    fn block(&self, number: BlockNumber) -> LiveBlock;
    /// Notes what is known of a block.
    fn describe(
        &mut self,
        number: BlockNumber,
        size_and_time: (u64, u64),
        site_and_thread: (u32, u32),
    );
    /// Place and number of every live block, in no order.
    fn iter(&self) -> impl Iterator<Item = (u64, BlockNumber)>;
    /// Whether they are so many that it is better to [look](Self::look_ahead)
    /// before.
    fn is_large(&self) -> bool;
    /// Has what is known brought near of the blocks of which the first [`AHEAD`]
    /// of these events speak, and what helps to find those of the next ones.
    fn look_ahead(&self, events: &[Event], subjects: &[Subject]);
}

impl KnownBlocks for LiveBlocks {
    #[inline]
    fn block(&self, number: BlockNumber) -> LiveBlock {
        self.records.get(number)
    }

    #[inline]
    fn describe(
        &mut self,
        number: BlockNumber,
        size_and_time: (u64, u64),
        site_and_thread: (u32, u32),
    ) {
        self.records
            .describe(number, size_and_time, site_and_thread);
    }

    fn iter(&self) -> impl Iterator<Item = (u64, BlockNumber)> {
        let taken = self.slots.iter().filter(|&slot| slot != EMPTY);
        taken.map(|slot| (self.records.place(number_of(slot)), number_of(slot)))
    }

    #[inline]
    fn is_large(&self) -> bool {
        self.is_worth_looking_ahead()
    }

    #[inline]
    fn look_ahead(&self, events: &[Event], _: &[Subject]) {
        let (next, after) = events.split_at(events.len().min(AHEAD));
        let after = &after[..after.len().min(AHEAD)];
        // An allocation needs no record of a block that is live.
        let next = next.iter().filter(|event| !hands_out(event));
        self.ask_for_places(next.map(place_of), after.iter().map(place_of));
    }
}
