//! Builds a [`TimeTable`] while an image is aggregated.
//!
//! Most blocks are freed in the present bucket, and belong to few sites at a time. So a
//! small table in the processor's cache sums up the cells of the present bucket; a cell
//! that has to make room for another one is written to a log. When the log is full, equal
//! cells in it are added up. If too many are left, the buckets of the sites with the fewest
//! blocks for each cell are widened.

use super::{Buckets, LIVE_AT_END, TimeCell, TimeTable};

/// The most cells of an image.
const MAX_CELLS: usize = 2_000_000;
/// Slots of the small table: 96 KiB at most, and less for an image of few events.
const SLOTS: [usize; 2] = [64, 4096];
/// The binary logarithm of the widest buckets: then all times are one bucket.
const WIDEST: u8 = 16;
/// Factor of Fibonacci hashing: 2^64 divided by the golden ratio (Knuth, The Art of
/// Computer Programming, volume 3, section 6.4).
const HASH: u64 = 0x9e37_79b9_7f4a_7c15;

/// See the [module](self).
pub(crate) struct TableBuilder {
    buckets: Buckets,
    /// The present bucket, its start and its end.
    now: u16,
    since: u64,
    until: u64,
    slots: Vec<TimeCell>,
    /// Leaves the bits of a hash that are a slot.
    shift: u32,
    log: Vec<TimeCell>,
    /// The most cells, and the number at which the log is summed up.
    most: usize,
    full: usize,
    /// Binary logarithm of the width of each site's buckets; empty if it is 0 for all.
    widened: Vec<u8>,
}

impl TableBuilder {
    /// Returns a builder for an image of so many events.
    pub(crate) fn new(buckets: Buckets, events: u64) -> Self {
        Self::with_most(buckets, events, MAX_CELLS)
    }

    fn with_most(buckets: Buckets, events: u64, most: usize) -> Self {
        let events = usize::try_from(events).unwrap_or(usize::MAX);
        let slots = events.clamp(SLOTS[0], SLOTS[1]).next_power_of_two();
        Self {
            since: buckets.starts().first().copied().unwrap_or(0),
            until: buckets.end_of(0),
            now: 0,
            buckets,
            slots: vec![TimeCell::default(); slots],
            shift: 64 - slots.trailing_zeros(),
            log: Vec::new(),
            most,
            full: 2 * most,
            widened: Vec::new(),
        }
    }

    /// Adds a block of a site that was allocated at `allocated_ns` and is freed now. Times
    /// of deallocation must not decrease.
    #[inline]
    pub(crate) fn free(&mut self, site: u32, bytes: u64, allocated_ns: u64, now_ns: u64) {
        if now_ns >= self.until {
            self.advance(now_ns);
        }
        // Most blocks do not live long.
        let allocated = match allocated_ns >= self.since {
            true => self.now,
            false => self.buckets.of(allocated_ns),
        };
        self.add(site, allocated, self.now, bytes);
    }

    /// Adds a block that is live at the end.
    pub(crate) fn survive(&mut self, site: u32, bytes: u64, allocated_ns: u64) {
        let allocated = self.buckets.of(allocated_ns);
        self.add(site, allocated, LIVE_AT_END, bytes);
    }

    #[inline]
    fn add(&mut self, site: u32, allocated: u16, freed: u16, bytes: u64) {
        let key = u64::from(site) << 16 | u64::from(allocated);
        let slot = (key.wrapping_mul(HASH) >> self.shift) as usize;
        let cell = &mut self.slots[slot];
        if cell.site == site && cell.allocated == allocated && cell.freed == freed {
            cell.blocks += 1;
            cell.bytes = cell.bytes.wrapping_add(bytes);
            return;
        }
        let before = std::mem::replace(
            cell,
            TimeCell {
                site,
                allocated,
                freed,
                blocks: 1,
                bytes,
            },
        );
        if before.blocks > 0 {
            self.write(before);
        }
    }

    #[cold]
    fn advance(&mut self, now_ns: u64) {
        self.now = self.buckets.of(now_ns);
        self.since = self.buckets.starts()[usize::from(self.now)];
        self.until = self.buckets.end_of(self.now);
    }

    #[inline(never)]
    fn write(&mut self, cell: TimeCell) {
        self.log.push(cell);
        if self.log.len() >= self.full {
            self.sum_up();
            self.widen();
        }
    }

    /// Brings the cells of each site together and adds up equal ones.
    fn sum_up(&mut self) {
        self.group_by_site();
        let widened = std::mem::take(&mut self.widened);
        self.for_each_site(|site, cells| {
            add_up(cells, widened.get(site as usize).copied().unwrap_or(0))
        });
        self.widened = widened;
    }

    /// Sorts the log by site, by counting: sites are numbered without gaps, and there are
    /// many cells for each. Cells of a site keep their order.
    fn group_by_site(&mut self) {
        let mut starts: Vec<usize> = Vec::new();
        for cell in &self.log {
            let site = cell.site as usize;
            if starts.len() <= site {
                starts.resize(site + 1, 0);
            }
            starts[site] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += std::mem::replace(start, sum);
        }
        let mut grouped = vec![TimeCell::default(); self.log.len()];
        for cell in &self.log {
            let next = &mut starts[cell.site as usize];
            grouped[*next] = *cell;
            *next += 1;
        }
        self.log = grouped;
    }

    /// Calls `change` with the cells of each site; the log must be in order of site. Only
    /// the first cells are kept: as many as it returns.
    fn for_each_site(&mut self, mut change: impl FnMut(u32, &mut [TimeCell]) -> usize) {
        let (mut from, mut kept) = (0, 0);
        while let Some(&TimeCell { site, .. }) = self.log.get(from) {
            let others = self.log[from..].iter().position(|cell| cell.site != site);
            let end = others.map_or(self.log.len(), |count| from + count);
            let count = change(site, &mut self.log[from..end]);
            self.log.copy_within(from..from + count, kept);
            kept += count;
            from = end;
        }
        self.log.truncate(kept);
    }

    /// Widens the buckets of sites until there are not too many cells: first of those with the
    /// fewest blocks for each cell, whose cells say least.
    fn widen(&mut self) {
        while self.log.len() > self.most {
            let width = |site: u32| self.widened.get(site as usize).copied().unwrap_or(0);
            let mut sites: Vec<(u64, u32, usize)> = self
                .log
                .chunk_by(|a, b| a.site == b.site)
                .filter(|cells| width(cells[0].site) < WIDEST)
                .map(|cells| {
                    let blocks: u64 = cells.iter().map(|cell| cell.blocks).sum();
                    (blocks / cells.len() as u64, cells[0].site, cells.len())
                })
                .collect();
            if sites.is_empty() {
                break;
            }
            sites.sort_unstable();
            // As many sites as have half of the cells. Others follow if that is too little.
            let half = sites.iter().map(|(.., cells)| cells).sum::<usize>() / 2;
            let mut covered = 0;
            let chosen = sites.iter().take_while(|(.., cells)| {
                let is_chosen = covered <= half;
                covered += cells;
                is_chosen
            });
            let mut is_chosen = Vec::new();
            for &(_, site, _) in chosen {
                let at = site as usize;
                if is_chosen.len() <= at {
                    is_chosen.resize(at + 1, false);
                }
                is_chosen[at] = true;
            }
            let mut widened = std::mem::take(&mut self.widened);
            widened.resize(is_chosen.len().max(widened.len()), 0);
            self.for_each_site(|site, cells| match is_chosen.get(site as usize) {
                Some(true) => halve(cells, &mut widened[site as usize]),
                _ => cells.len(),
            });
            self.widened = widened;
        }
        self.full = (2 * self.most).max(self.log.len() + self.most / 2);
    }

    /// The finished table. `positions` has the index of each site in the profile; the image
    /// ended at `end_ns`.
    pub(crate) fn finish(mut self, positions: &[u32], end_ns: u64) -> TimeTable {
        let slots = std::mem::take(&mut self.slots);
        self.log
            .extend(slots.into_iter().filter(|cell| cell.blocks > 0));
        let position = |site: u32| positions.get(site as usize).copied().unwrap_or(site);
        for cell in &mut self.log {
            cell.site = position(cell.site);
        }
        if !self.widened.is_empty() {
            let mut widened = vec![0; positions.len()];
            for (site, &width) in (0_u32..).zip(&self.widened) {
                if let Some(at) = widened.get_mut(position(site) as usize) {
                    *at = width;
                }
            }
            self.widened = widened;
        }
        self.sum_up();
        self.widen();
        self.log.shrink_to_fit();
        // The last bucket may be what follows the peak at the very end.
        let end_ns = match self.buckets.starts() {
            [_, .., last] => end_ns.max(last.saturating_add(1)),
            _ => end_ns,
        };
        TimeTable::new(
            self.buckets.starts().to_vec(),
            end_ns,
            self.log,
            self.widened,
        )
    }
}

impl TimeTable {
    /// Returns the table with at most so many cells, where wider buckets can do this: for the sites
    /// with the fewest blocks for each cell first.
    #[must_use]
    pub fn with_at_most(&self, cells: usize) -> Self {
        if self.cells.len() <= cells {
            return self.clone();
        }
        let mut builder = TableBuilder::with_most(Buckets::new(0, 0, &[]), 0, cells);
        builder.log.clone_from(&self.cells);
        builder.widened.clone_from(&self.widened);
        builder.widen();
        Self::new(
            self.starts_ns.clone(),
            self.end_ns,
            builder.log,
            builder.widened,
        )
    }
}

/// Widens the cells of a site, sorts them by time, and adds up those that are equal: the
/// sums are the first cells. Returns their number.
fn add_up(cells: &mut [TimeCell], width: u8) -> usize {
    let key = |cell: &TimeCell| u32::from(cell.allocated) << u16::BITS | u32::from(cell.freed);
    if width > 0 {
        cells
            .iter_mut()
            .for_each(|cell| *cell = wider(*cell, width));
    }
    cells.sort_unstable_by_key(key);
    let mut last = 0;
    for at in 1..cells.len() {
        let cell = cells[at];
        if key(&cells[last]) == key(&cell) {
            cells[last].blocks += cell.blocks;
            cells[last].bytes = cells[last].bytes.wrapping_add(cell.bytes);
        } else {
            last += 1;
            cells[last] = cell;
        }
    }
    (last + 1).min(cells.len())
}

/// Widens the cells of a site until there are at most half as many, or there is one bucket.
/// Returns their number.
fn halve(cells: &mut [TimeCell], width: &mut u8) -> usize {
    let mut count = cells.len();
    while count > cells.len() / 2 && *width < WIDEST {
        // One step seldom helps.
        *width = (*width + 2).min(WIDEST);
        count = add_up(&mut cells[..count], *width);
    }
    count
}

/// The cell with buckets that are `2^width` times as wide.
fn wider(cell: TimeCell, width: u8) -> TimeCell {
    let first = |bucket: u16| match width {
        0 => bucket,
        1..WIDEST => bucket >> width << width,
        _ => 0,
    };
    let freed = match cell.freed {
        LIVE_AT_END => LIVE_AT_END,
        freed => first(freed),
    };
    TimeCell {
        allocated: first(cell.allocated),
        freed,
        ..cell
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time_table::{BlockSum, RangeFigures};

    /// A block: site, bytes, when it was allocated and freed.
    type Block = (u32, u64, u64, Option<u64>);

    /// Blocks as they come: in order of deallocation.
    fn table(blocks: &[Block], at: &[u64], most: usize) -> TimeTable {
        let mut builder = TableBuilder::with_most(Buckets::new(0, END, at), 10, most);
        let mut freed: Vec<&Block> = blocks.iter().filter(|block| block.3.is_some()).collect();
        freed.sort_by_key(|block| block.3);
        for &&(site, bytes, allocated, freed) in &freed {
            builder.free(site, bytes, allocated, freed.unwrap_or(0));
        }
        for &(site, bytes, allocated, freed) in blocks {
            if freed.is_none() {
                builder.survive(site, bytes, allocated);
            }
        }
        let positions: Vec<u32> = (0..SITES).rev().collect();
        builder.finish(&positions, END)
    }

    const END: u64 = 100_000;
    const SITES: u32 = 9;

    fn blocks() -> impl Strategy<Value = Vec<Block>> {
        let block = (0..SITES, 0..1000_u64, 0..END, prop::option::of(0..END));
        let block = block.prop_map(|(site, bytes, time, freed)| {
            (
                site,
                bytes,
                time,
                freed.map(|lived| time + lived % (END - time)),
            )
        });
        prop::collection::vec(block, 0..300)
    }

    fn sum<'b>(blocks: impl Iterator<Item = &'b Block>) -> BlockSum {
        let mut sum = BlockSum::default();
        for block in blocks {
            sum.blocks += 1;
            sum.bytes += block.1;
        }
        sum
    }

    /// The figures from the definitions.
    fn expected(blocks: &[Block], [from, to]: [u64; 2]) -> RangeFigures {
        let of = |wanted: &dyn Fn(u64, u64) -> bool| {
            sum(blocks
                .iter()
                .filter(|block| wanted(block.2, block.3.unwrap_or(u64::MAX))))
        };
        let range = from..to;
        RangeFigures {
            allocated: of(&|born, _| range.contains(&born)),
            kept: of(&|born, died| range.contains(&born) && died >= to),
            freed: of(&|_, died| range.contains(&died)),
            live_at_start: of(&|born, died| born < from && died >= from),
            live_at_end: of(&|born, died| born < to && died >= to),
        }
    }

    proptest! {
        #[test]
        fn the_figures_of_a_range_are_exact_at_the_times_asked_for(
            blocks in blocks(),
            from in 1..END,
            length in 0..END,
        ) {
            let range = [from, (from + length).min(END)];
            let table = table(&blocks, &range, MAX_CELLS);
            let buckets = table.buckets_in(range);
            prop_assert!(range.iter().all(|&time| table.is_exact_at(time)));
            prop_assert_eq!(table.total(buckets), expected(&blocks, range));
            for site in 0..SITES {
                let of_site: Vec<Block> =
                    blocks.iter().copied().filter(|block| block.0 == SITES - 1 - site).collect();
                prop_assert_eq!(table.of_site(site, buckets), expected(&of_site, range));
            }
            let live = table.live_at_ends(&table.cells);
            for (start, live) in table.starts_ns.iter().skip(1).zip(&live) {
                prop_assert_eq!(*live, expected(&blocks, [0, *start]).live_at_end);
            }
        }

        /// Too many cells: no block is lost, and the answer says where it is not exact.
        #[test]
        fn widened_sites_lose_nothing(blocks in blocks(), most in 1..60_usize) {
            let table = table(&blocks, &[], most);
            prop_assert!(table.cells.len() <= most.max(2 * SITES as usize));
            let all = table.total([0, table.starts_ns.len()]);
            prop_assert_eq!(all.allocated, sum(blocks.iter()));
            prop_assert_eq!(all.kept, sum(blocks.iter().filter(|block| block.3.is_none())));
            if table.widened.is_empty() {
                prop_assert!(table.cells.len() <= most);
            }
        }
    }

    #[test]
    fn a_block_that_is_freed_at_the_end_of_a_range_is_live_there() {
        let table = table(
            &[(0, 8, 10, Some(500)), (0, 4, 500, None)],
            &[500],
            MAX_CELLS,
        );
        let figures = table.of_site(SITES - 1, table.buckets_in([0, 500]));
        assert_eq!(
            figures.allocated,
            BlockSum {
                blocks: 1,
                bytes: 8
            }
        );
        assert_eq!(figures.kept, figures.allocated);
        assert_eq!(figures.freed, BlockSum::default());
        let figures = table.of_site(SITES - 1, table.buckets_in([500, END]));
        assert_eq!(figures.live_at_start.blocks, 1);
        assert_eq!(
            figures.live_at_end,
            BlockSum {
                blocks: 1,
                bytes: 4
            }
        );
    }
}
