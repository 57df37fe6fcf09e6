//! When the blocks of each site were allocated and freed: the number and bytes of the
//! blocks that were allocated in one *bucket* of time and freed in another.
//!
//! With it every question about a range of time is one pass over the table: what was
//! allocated in the range, what of it was live at its end, what was live at a moment, what
//! was freed. The answers are exact if the range begins and ends where buckets do. So the
//! buckets, which are of equal width, are divided at the times that a caller asks for, and
//! where windows open and close.
//!
//! ```text
//!             freed in bucket
//!              0   1   2   …  live at the end
//! allocated 0  ·   ·   ·        ·             a cell: number of blocks, their bytes
//! in bucket 1      ·   ·        ·
//!           2          ·        ·
//! ```

mod buckets;
mod builder;
pub(crate) mod tables;

pub(crate) use buckets::Buckets;
pub(crate) use builder::TableBuilder;

/// Value in place of the bucket in which a block was freed: it was live at the end.
pub const LIVE_AT_END: u16 = u16::MAX;

/// Blocks of one site that were allocated in one bucket and freed in one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct TimeCell {
    /// Index into [`Process::sites`](crate::Process::sites); in the table of threads into
    /// [`Process::threads`](crate::Process::threads).
    pub site: u32,
    /// The bucket in which they were allocated.
    pub allocated: u16,
    /// The bucket in which they were freed, or [`LIVE_AT_END`].
    pub freed: u16,
    /// Number of the blocks.
    pub blocks: u64,
    /// The sum of their requested bytes.
    pub bytes: u64,
}

/// When the blocks of each site of a process were allocated and freed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimeTable {
    /// The start of each bucket, in nanoseconds since the start of the recording,
    /// ascending. A bucket ends where the next begins, the last one at the end.
    pub starts_ns: Vec<u64>,
    /// The end of the image, in nanoseconds since the start of the recording.
    pub end_ns: u64,
    /// The cells in order of site, then time.
    pub cells: Vec<TimeCell>,
    /// Binary logarithm, for each site, of how many buckets its cells put together: 0
    /// unless there would have been too many cells. Then a cell names the first of these
    /// buckets. Empty if it is 0 for all sites.
    pub widened: Vec<u8>,
    /// Index of the first cell of each site, and the number of cells at the end.
    first: Vec<u32>,
}

/// Blocks and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockSum {
    /// The number of blocks.
    pub blocks: u64,
    /// The sum of their requested bytes.
    pub bytes: u64,
}

/// What happened to the blocks of a site in a range of time. A block that was allocated
/// at the very start of the range was allocated in it; one that was freed at its very end
/// was live there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RangeFigures {
    /// Allocated in the range.
    pub allocated: BlockSum,
    /// Blocks that were allocated in the range and live at its end.
    pub kept: BlockSum,
    /// Freed in the range, whenever they were allocated.
    pub freed: BlockSum,
    /// Live at its start.
    pub live_at_start: BlockSum,
    /// Live at its end.
    pub live_at_end: BlockSum,
}

impl BlockSum {
    fn add(&mut self, cell: &TimeCell) {
        self.blocks += cell.blocks;
        self.bytes = self.bytes.wrapping_add(cell.bytes);
    }

    /// The part of these that is not in `other`, which contains no others.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self {
            blocks: self.blocks - other.blocks,
            bytes: self.bytes.wrapping_sub(other.bytes),
        }
    }
}

impl RangeFigures {
    /// Allocated in the range and freed in it.
    pub fn allocated_and_freed(&self) -> BlockSum {
        self.allocated.without(self.kept)
    }

    fn add(&mut self, cell: &TimeCell, [from, to]: [usize; 2]) {
        let allocated = usize::from(cell.allocated);
        let freed = match cell.freed {
            LIVE_AT_END => usize::MAX,
            freed => usize::from(freed),
        };
        let in_range = (from..to).contains(&allocated);
        if in_range {
            self.allocated.add(cell);
        }
        if in_range && freed >= to {
            self.kept.add(cell);
        }
        if (from..to).contains(&freed) {
            self.freed.add(cell);
        }
        if allocated < from && freed >= from {
            self.live_at_start.add(cell);
        }
        if allocated < to && freed >= to {
            self.live_at_end.add(cell);
        }
    }
}

impl TimeTable {
    /// `cells` are in order of site.
    fn new(starts_ns: Vec<u64>, end_ns: u64, cells: Vec<TimeCell>, widened: Vec<u8>) -> Self {
        let mut first = Vec::new();
        for (index, cell) in (0..).zip(&cells) {
            // Also of the sites before it that have no cells.
            while first.len() <= cell.site as usize {
                first.push(index);
            }
        }
        first.push(cells.len() as u32);
        Self {
            starts_ns,
            end_ns,
            cells,
            widened,
            first,
        }
    }

    /// The cells of a site, by its index in [`Process::sites`](crate::Process::sites).
    pub fn cells_of(&self, site: u32) -> &[TimeCell] {
        let site = site as usize;
        match self.first.get(site..site.saturating_add(2)) {
            Some(&[from, to]) => &self.cells[from as usize..to as usize],
            _ => &[],
        }
    }

    /// Keeps only the cells of these sites, by index of the site, which are numbered anew
    /// without gaps.
    pub(crate) fn retain_sites(&mut self, is_kept: &[bool]) {
        let mut numbers = Vec::with_capacity(is_kept.len());
        let mut next = 0;
        for &kept in is_kept {
            numbers.push(kept.then_some(next));
            next += u32::from(kept);
        }
        let cells = self.cells.iter().filter_map(|cell| {
            let site = *numbers.get(cell.site as usize)?;
            Some(TimeCell {
                site: site?,
                ..*cell
            })
        });
        let widened = self.widened.iter().zip(is_kept);
        let widened = widened.filter_map(|(&width, &kept)| kept.then_some(width));
        let (cells, widened) = (cells.collect(), widened.collect());
        let starts_ns = std::mem::take(&mut self.starts_ns);
        *self = Self::new(starts_ns, self.end_ns, cells, widened);
    }

    /// The bucket that contains a time; the first or last one for a time outside.
    pub fn bucket_at(&self, ns: u64) -> usize {
        let after = self.starts_ns.partition_point(|&start| start <= ns);
        after.saturating_sub(1)
    }

    /// The buckets that lie in a range of time, as their first one and the one after the
    /// last. The range is rounded outwards to whole buckets.
    pub fn buckets_in(&self, [from_ns, to_ns]: [u64; 2]) -> [usize; 2] {
        let to = self.starts_ns.partition_point(|&start| start < to_ns);
        let from = self.bucket_at(from_ns);
        [from, to.max(from)]
    }

    /// Whether a time is the start of a bucket, or not within the image: so that what is
    /// asked there is exact, unless the site's buckets are [widened](Self::widened).
    pub fn is_exact_at(&self, ns: u64) -> bool {
        let within = self.starts_ns.first() < Some(&ns) && ns < self.end_ns;
        !within || self.starts_ns.binary_search(&ns).is_ok()
    }

    /// The figures of a site in these buckets.
    pub fn of_site(&self, site: u32, buckets: [usize; 2]) -> RangeFigures {
        let mut figures = RangeFigures::default();
        for cell in self.cells_of(site) {
            figures.add(cell, buckets);
        }
        figures
    }

    /// The figures of all sites together in these buckets.
    pub fn total(&self, buckets: [usize; 2]) -> RangeFigures {
        let mut figures = RangeFigures::default();
        for cell in &self.cells {
            figures.add(cell, buckets);
        }
        figures
    }

    /// The live blocks of some cells at the end of each bucket.
    pub fn live_at_ends<'c>(&self, cells: impl IntoIterator<Item = &'c TimeCell>) -> Vec<BlockSum> {
        let count = self.starts_ns.len();
        // The changes from one bucket to the next, then their running sums.
        let mut changes = vec![(0_i64, 0_i64); count + 1];
        for cell in cells {
            let change = (cell.blocks as i64, cell.bytes as i64);
            let at = &mut changes[usize::from(cell.allocated).min(count)];
            *at = (at.0 + change.0, at.1.wrapping_add(change.1));
            let at = &mut changes[usize::from(cell.freed).min(count)];
            *at = (at.0 - change.0, at.1.wrapping_sub(change.1));
        }
        changes.truncate(count);
        let sums = changes.into_iter().scan((0_i64, 0_i64), |sum, change| {
            *sum = (sum.0 + change.0, sum.1.wrapping_add(change.1));
            Some(BlockSum {
                blocks: sum.0.max(0) as u64,
                bytes: sum.1 as u64,
            })
        });
        sums.collect()
    }
}
