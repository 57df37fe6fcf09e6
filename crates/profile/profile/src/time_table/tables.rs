//! The tables of an image while it is aggregated.

use super::TableBuilder;
use crate::live::LiveBlock;

/// The tables of an image while it is aggregated.
pub(crate) struct Tables {
    pub(crate) sites: TableBuilder,
    /// The table by the thread that allocated a block.
    pub(crate) threads: Option<TableBuilder>,
}

impl Tables {
    /// Adds a block that is freed now. Times of deallocation must not decrease.
    #[inline]
    pub(crate) fn free(&mut self, block: &LiveBlock, now_ns: u64) {
        let &LiveBlock {
            size, allocated_ns, ..
        } = block;
        self.sites.free(block.site, size, allocated_ns, now_ns);
        if let Some(threads) = &mut self.threads {
            threads.free(block.thread, size, allocated_ns, now_ns);
        }
    }

    /// Adds a block that is live at the end.
    pub(crate) fn survive(&mut self, block: &LiveBlock) {
        self.sites
            .survive(block.site, block.size, block.allocated_ns);
        if let Some(threads) = &mut self.threads {
            threads.survive(block.thread, block.size, block.allocated_ns);
        }
    }
}
