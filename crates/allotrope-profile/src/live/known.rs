//! What the books ask of live blocks, however these are found.

use super::{BlockNumber, EMPTY, LiveBlock, LiveBlocks, number_of};

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
}
