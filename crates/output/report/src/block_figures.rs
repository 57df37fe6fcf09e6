//! Figures of single blocks that sites do not have: how many of each size, how many from
//! each thread, and how their lifetimes are distributed.

use std::cmp::Reverse;

use allotrope_profile::Block;
use allotrope_trace::model::ImageId;
use rustc_hash::FxHashMap;

/// Largest number of sizes that are counted separately.
const SIZES: usize = 4096;
/// Buckets of lifetimes for each power of two: a quantile is at most an eighth too large.
const PARTS: u32 = 8;

/// Figures of some blocks, which are added one by one.
#[derive(Debug, Clone, Default)]
pub struct BlockFigures {
    sizes: FxHashMap<u64, u64>,
    /// Blocks of further sizes.
    other_sizes: u64,
    threads: FxHashMap<(ImageId, u32), u64>,
    /// Number of freed blocks in each bucket of lifetimes.
    lifetimes: FxHashMap<u32, u64>,
    freed: u64,
    live: u64,
}

impl BlockFigures {
    /// Adds a block.
    pub fn add(&mut self, block: &Block) {
        let is_full = self.sizes.len() >= SIZES;
        match self.sizes.get_mut(&block.size) {
            Some(blocks) => *blocks += 1,
            None if is_full => self.other_sizes += 1,
            None => {
                self.sizes.insert(block.size, 1);
            }
        }
        *self.threads.entry((block.image, block.thread)).or_default() += 1;
        match block.lifetime_ns {
            Some(ns) => {
                self.freed += 1;
                *self.lifetimes.entry(bucket(ns)).or_default() += 1;
            }
            None => self.live += 1,
        }
    }

    /// The number of blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.freed + self.live
    }

    /// The number of those that were freed.
    pub(crate) fn freed(&self) -> u64 {
        self.freed
    }

    /// The number of those that were live at the end.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// Sizes and their numbers of blocks, the most frequent first.
    pub(crate) fn sizes(&self) -> Vec<(u64, u64)> {
        let mut sizes: Vec<(u64, u64)> = self.sizes.iter().map(|(&it, &n)| (it, n)).collect();
        sizes.sort_by_key(|&(size, blocks)| (Reverse(blocks), size));
        sizes
    }

    /// Threads (process, index in its threads) and their numbers of blocks, the most first.
    pub(crate) fn threads(&self) -> Vec<((ImageId, u32), u64)> {
        let threads = self
            .threads
            .iter()
            .map(|(&thread, &blocks)| (thread, blocks));
        let mut threads: Vec<_> = threads.collect();
        threads.sort_by_key(|&(thread, blocks)| (Reverse(blocks), thread));
        threads
    }

    /// The time in nanoseconds within which this share of the freed blocks was freed,
    /// rounded up by an eighth at most; `None` if none was.
    pub(crate) fn lifetime_quantile(&self, share: f64) -> Option<u64> {
        let wanted = (self.freed as f64 * share).ceil() as u64;
        let mut buckets: Vec<(u32, u64)> = self.lifetimes.iter().map(|(&b, &n)| (b, n)).collect();
        buckets.sort_unstable();
        let mut seen = 0;
        for (bucket, blocks) in buckets {
            seen += blocks;
            if seen >= wanted.max(1) {
                return Some(upper_end(bucket));
            }
        }
        None
    }
}

/// The bucket of a lifetime: eight for each power of two, as in HdrHistogram.
fn bucket(ns: u64) -> u32 {
    let shift = ns.max(1).ilog2().saturating_sub(PARTS.ilog2());
    shift * PARTS + (ns >> shift) as u32
}

/// The largest lifetime of a bucket.
fn upper_end(bucket: u32) -> u64 {
    // `ns >> shift` is below `PARTS` only if nothing was shifted.
    let shift = (bucket / PARTS).saturating_sub(1);
    let part = u64::from(bucket - shift * PARTS);
    (((part as u128 + 1) << shift) - 1).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(size: u64, thread: u32, lifetime_ns: Option<u64>) -> Block {
        Block {
            image: 0,
            stack: 1,
            address: 0,
            size,
            thread,
            allocated_ns: 0,
            lifetime_ns,
            freed_by: None,
            freed_at: 0,
        }
    }

    #[test]
    fn a_lifetime_is_in_the_bucket_that_it_is_given() {
        for ns in (0..2_000).chain([u64::MAX, 1 << 40, (1 << 40) + 12_345]) {
            let end = upper_end(bucket(ns));
            assert!(end >= ns, "{ns}: {end}");
            assert!(end - ns <= ns / 8, "{ns}: {end}");
        }
    }

    #[test]
    fn figures_add_up() {
        let mut figures = BlockFigures::default();
        for n in 1..=99 {
            figures.add(&block(32, 0, Some(n)));
        }
        figures.add(&block(7, 1, None));
        assert_eq!(
            (figures.blocks(), figures.freed(), figures.live()),
            (100, 99, 1)
        );
        assert_eq!(figures.sizes(), [(32, 99), (7, 1)]);
        assert_eq!(figures.threads(), [((0, 0), 99), ((0, 1), 1)]);
        let median = figures.lifetime_quantile(0.5).expect("blocks");
        assert!((50..=56).contains(&median), "{median}");
        assert_eq!(BlockFigures::default().lifetime_quantile(0.5), None);
    }
}
