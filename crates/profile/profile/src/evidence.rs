//! Evidence for findings: what the figures of a site do not tell, but rules such as "this
//! is a queue" need. Who freed its blocks and in which order, how its blocks grew, and
//! which memory pages the last blocks hold.
//!
//! A *growth* of a block is a reallocation to a larger size, or an allocation after which
//! its thread frees a smaller block of the same site: how containers without `realloc`
//! grow. Growths of one block after the other are a *chain*.

mod builder;

pub(crate) use builder::{EvidenceBuilder, HeldPages, Reallocated, Valley};

/// Growths from which on blocks are a [chain](self).
pub const CHAIN_GROWTHS: u32 = 3;
/// Size of a memory page in bytes.
pub const PAGE_BYTES: u64 = 4096;

/// Evidence about a process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evidence {
    /// Evidence about each site, by index in [`Process::sites`](crate::Process::sites).
    pub sites: Vec<SiteEvidence>,
    /// Bytes of inherited blocks that the process freed or reallocated.
    pub inherited_freed_bytes: u64,
    /// Pages in which these blocks began. The allocator writes into a block that it frees,
    /// so the kernel copied these pages for the process, or for its parent.
    pub inherited_pages: u64,
    /// Pages of 4 KiB in which blocks begin that were live at [`Self::held_ns`].
    pub held_pages: u64,
    /// When pages were counted, in nanoseconds since the start of the recording: when not more than a
    /// quarter of the blocks at the peak were left, and no more were freed for a while; at the end
    /// if that was only then. 0 if it never was.
    pub held_ns: u64,
}

/// Evidence about the blocks of a site.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SiteEvidence {
    /// Blocks that were freed and not reallocated.
    pub freed: u64,
    /// Blocks of [`Self::freed`] that another thread freed than allocated them.
    pub freed_by_others: u64,
    /// Blocks of [`Self::freed`] that were not allocated before the one that was freed before them.
    pub freed_in_order: u64,
    /// The threads that allocated and freed the blocks which another thread freed, as
    /// indexes into [`Process::threads`](crate::Process::threads); `None` if there were
    /// several, or none.
    pub handed_over: [Option<u32>; 2],
    /// Blocks that were reallocated: they live on as other blocks.
    pub reallocated: u64,
    /// Blocks of [`Self::reallocated`] that were temporary allocations.
    pub reallocated_temporary: u64,
    /// The sum of the lifetimes of the other temporary allocations, in nanoseconds.
    pub temporary_ns: u64,
    /// Requested bytes of the smallest block; of those that were freed or live at the end.
    pub smallest: u64,
    /// Requested bytes of the largest of these blocks.
    pub largest: u64,
    /// The growth of its blocks.
    pub growth: GrowthEvidence,
    /// Pages of 4 KiB in which, at [`Evidence::held_ns`], only blocks of this site began.
    pub held_pages: u64,
    /// The site's parts of the other pages in which its blocks begin: half of one in which blocks of one
    /// other site begin.
    pub shared_pages: f64,
}

/// How the blocks of a site grew.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GrowthEvidence {
    /// Blocks that a growth resulted in.
    pub growths: u64,
    /// Bytes that were copied: of blocks that changed their address, without those of
    /// 128 KiB and more that `realloc` may have moved by changing the page table.
    pub copied_bytes: u64,
    /// Chains of at least [`CHAIN_GROWTHS`] that ended in a block of this site.
    pub chains: u64,
    /// The growths in these chains.
    pub chain_growths: u64,
    /// The sum of the sizes of their last blocks.
    pub final_bytes: u64,
    /// The sum of the squares of these sizes.
    pub final_squares: f64,
    /// The largest of these sizes.
    pub final_largest: u64,
}

impl SiteEvidence {
    /// The one size that all blocks have.
    pub fn one_size(&self) -> Option<u64> {
        (self.smallest == self.largest).then_some(self.largest)
    }
}

impl GrowthEvidence {
    /// Adds the growth of the blocks of another site.
    pub fn merge(&mut self, other: &Self) {
        self.growths += other.growths;
        self.copied_bytes = self.copied_bytes.saturating_add(other.copied_bytes);
        self.chains += other.chains;
        self.chain_growths += other.chain_growths;
        self.final_bytes = self.final_bytes.saturating_add(other.final_bytes);
        self.final_squares += other.final_squares;
        self.final_largest = self.final_largest.max(other.final_largest);
    }

    /// The mean size at the end of a chain, in bytes; 0 without chains.
    pub fn final_mean(&self) -> f64 {
        match self.chains {
            0 => 0.0,
            chains => self.final_bytes as f64 / chains as f64,
        }
    }

    /// The standard deviation of these sizes divided by their mean.
    pub fn final_variation(&self) -> f64 {
        let mean = self.final_mean();
        if mean == 0.0 {
            return 0.0;
        }
        let variance = self.final_squares / self.chains as f64 - mean * mean;
        variance.max(0.0).sqrt() / mean
    }
}
