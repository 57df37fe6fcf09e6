//! Collects [`Evidence`] while an image is aggregated.

use rustc_hash::FxHashSet;

use super::{CHAIN_GROWTHS, Evidence, GrowthEvidence, PAGE_BYTES, SiteEvidence};
use crate::block_key::address_of;
use crate::live::{BlockId, INHERITED, LiveBlock, LiveBlocks, NO_BLOCK};

/// Size from which on glibc's `realloc` may move a block without copying it (mallopt(3),
/// `M_MMAP_THRESHOLD`).
const MOVED_BY_KERNEL: u64 = 128 * 1024;
/// Pages are counted if not more than one in so many of the blocks at the peak are live.
const FEW_LEFT: u64 = 4;
/// Least number of blocks at a peak after which pages are counted before the end.
const MIN_PEAK: u64 = 512;
/// The part of the time so far for which nothing happens in a pause.
const PAUSE: u64 = 64;
/// The part of the time so far within which a fall may go on after a pause.
const SOON: u64 = 8;
/// The most pages of inherited blocks that are counted.
const MAX_PAGES: usize = 1 << 20;

/// What each deallocation of a site changes: one cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Frees {
    freed: u64,
    by_others: u64,
    in_order: u64,
    /// When the block that was freed last was allocated, in nanoseconds.
    last_ns: u64,
    smallest: u64,
    largest: u64,
    /// The threads of the first block that another thread freed.
    from: u32,
    by: u32,
    /// Whether other threads followed.
    other_from: bool,
    other_by: bool,
    /// A growth has resulted in a block of the site.
    grows: bool,
}

impl Default for Frees {
    fn default() -> Self {
        Self {
            freed: 0,
            by_others: 0,
            in_order: 0,
            last_ns: u64::MAX,
            smallest: u64::MAX,
            largest: 0,
            from: 0,
            by: 0,
            other_from: false,
            other_by: false,
            grows: false,
        }
    }
}

impl Frees {
    #[inline(always)]
    fn size(&mut self, size: u64) {
        if size < self.smallest {
            self.smallest = size;
        }
        if size > self.largest {
            self.largest = size;
        }
    }
}

/// What only some sites have: reallocated blocks and growth.
#[derive(Clone, Copy, Default)]
struct Growth {
    reallocated: u64,
    reallocated_temporary: u64,
    growth: GrowthEvidence,
}

/// A block that a thread is reallocating.
#[derive(Clone, Copy)]
pub(crate) struct Reallocated {
    pub block: LiveBlock,
    pub key: u64,
    pub temporary: bool,
    /// The growths that led to it.
    growths: u32,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct EvidenceBuilder {
    frees: Vec<Frees>,
    /// Sum of the lifetimes, by site, of the temporary blocks that were freed, in nanoseconds.
    temporary_ns: Vec<u64>,
    growth: Vec<Growth>,
    /// Number of growths, by block id, that led to the block. Only blocks of sites that grow have a
    /// number; it is set to 0 when the block is freed.
    growths: Vec<u32>,
    /// Block whose reallocation has begun, by thread.
    pending: Vec<Option<Reallocated>>,
    inherited_freed_bytes: u64,
    inherited_pages: FxHashSet<u64>,
}

impl EvidenceBuilder {
    #[inline(always)]
    fn frees(&mut self, site: u32) -> &mut Frees {
        let site = site as usize;
        if self.frees.len() <= site {
            add_sites(&mut self.frees, site);
        }
        &mut self.frees[site]
    }

    /// Adds a block that a thread allocated and freed with nothing between, and how long it
    /// lived.
    #[inline(always)]
    pub(crate) fn pair(&mut self, block: &LiveBlock, lived_ns: u64) {
        self.free(block, block.thread);
        self.temporary(block.site, lived_ns);
    }

    /// Adds the lifetime of a temporary block that was freed.
    #[inline(always)]
    pub(crate) fn temporary(&mut self, site: u32, lived_ns: u64) {
        let site = site as usize;
        if self.temporary_ns.len() <= site {
            self.temporary_ns.resize(site + 1, 0);
        }
        let sum = &mut self.temporary_ns[site];
        *sum = sum.saturating_add(lived_ns);
    }

    /// Adds a block that the thread `by` freed. Returns whether blocks of its site grow.
    #[inline(always)]
    fn free(&mut self, block: &LiveBlock, by: u32) -> bool {
        let frees = self.frees(block.site);
        frees.freed += 1;
        frees.in_order += u64::from(block.allocated_ns >= frees.last_ns);
        frees.last_ns = block.allocated_ns;
        frees.size(block.size);
        if block.thread != by {
            if frees.by_others == 0 {
                (frees.from, frees.by) = (block.thread, by);
            }
            frees.by_others += 1;
            frees.other_from |= frees.from != block.thread;
            frees.other_by |= frees.by != by;
        }
        frees.grows
    }

    /// Adds the block of this id that the thread `by` freed. `latest` is the live block
    /// that the thread allocated last, or [`NO_BLOCK`].
    #[inline(always)]
    pub(crate) fn deallocated(
        &mut self,
        (id, block): (BlockId, &LiveBlock),
        by: u32,
        latest: BlockId,
        live: &LiveBlocks,
    ) {
        let grows = self.free(block, by);
        if block.thread == by && latest != NO_BLOCK {
            let next = live.block(latest);
            if next.site == block.site && is_growth(block.size, next.size) {
                return self.copied((id, block), (latest, &next));
            }
        }
        if grows {
            self.end_chain(id, block);
        }
    }

    /// Adds that a block was freed whose contents are in another block now, in that which
    /// its thread allocated before.
    #[cold]
    #[inline(never)]
    fn copied(&mut self, (id, block): (BlockId, &LiveBlock), (next, to): (BlockId, &LiveBlock)) {
        let growths = self.take_growths(id);
        if self.growths.get(next).is_some_and(|&growths| growths > 0) {
            // It has grown out of another block already.
            return self.add_chain(growths, block);
        }
        self.set_growths(next, to.site, growths.saturating_add(1));
        let growth = &mut self.growth(to.site).growth;
        growth.growths += 1;
        growth.copied_bytes = growth.copied_bytes.saturating_add(block.size);
    }

    /// Begins the reallocation of the block of this id.
    #[inline]
    pub(crate) fn reallocation(
        &mut self,
        key: u64,
        id: BlockId,
        block: &LiveBlock,
        temporary: bool,
    ) -> Reallocated {
        let frees = self.frees(block.site);
        frees.size(block.size);
        let growths = match frees.grows {
            true => self.take_growths(id),
            false => 0,
        };
        Reallocated {
            block: *block,
            key,
            temporary,
            growths,
        }
    }

    /// Stores the block whose reallocation a thread has begun.
    pub(crate) fn set_pending(&mut self, thread: u32, block: Option<Reallocated>) {
        let thread = thread as usize;
        if self.pending.len() <= thread {
            self.pending.resize(thread + 1, None);
        }
        self.pending[thread] = block;
    }

    /// Takes the block whose reallocation a thread has begun.
    pub(crate) fn take_pending(&mut self, thread: u32) -> Option<Reallocated> {
        self.pending.get_mut(thread as usize)?.take()
    }

    /// Adds that a reallocation resulted in the block of this id and key.
    #[inline]
    pub(crate) fn reallocated(&mut self, old: &Reallocated, key: u64, id: BlockId, to: &LiveBlock) {
        let replaced = self.growth(old.block.site);
        replaced.reallocated += 1;
        replaced.reallocated_temporary += u64::from(old.temporary);
        let grows = to.size > old.block.size;
        let growths = old.growths.saturating_add(u32::from(grows));
        if growths > 0 {
            self.set_growths(id, to.site, growths);
        }
        if !grows {
            return;
        }
        let is_copied = key != old.key && old.block.size < MOVED_BY_KERNEL;
        let growth = &mut self.growth(to.site).growth;
        growth.growths += 1;
        if is_copied {
            growth.copied_bytes = growth.copied_bytes.saturating_add(old.block.size);
        }
    }

    /// Forgets the block of this id, whose deallocation was lost.
    pub(crate) fn lost(&mut self, id: BlockId) {
        self.take_growths(id);
    }

    /// Adds an inherited block that the process freed or reallocated.
    #[cold]
    pub(crate) fn inherited(&mut self, key: u64, size: u64) {
        self.inherited_freed_bytes = self.inherited_freed_bytes.saturating_add(size);
        if self.inherited_pages.len() < MAX_PAGES {
            self.inherited_pages.insert(address_of(key) / PAGE_BYTES);
        }
    }

    /// Adds the block of this id, which is live at the end.
    pub(crate) fn survived(&mut self, id: BlockId, block: &LiveBlock) {
        let frees = self.frees(block.site);
        frees.size(block.size);
        if frees.grows {
            self.end_chain(id, block);
        }
    }

    #[inline(never)]
    fn end_chain(&mut self, id: BlockId, block: &LiveBlock) {
        let growths = self.take_growths(id);
        self.add_chain(growths, block);
    }

    fn add_chain(&mut self, growths: u32, last: &LiveBlock) {
        if growths < CHAIN_GROWTHS {
            return;
        }
        let growth = &mut self.growth(last.site).growth;
        growth.chains += 1;
        growth.chain_growths += u64::from(growths);
        growth.final_bytes = growth.final_bytes.saturating_add(last.size);
        growth.final_squares += last.size as f64 * last.size as f64;
        growth.final_largest = growth.final_largest.max(last.size);
    }

    #[inline]
    fn take_growths(&mut self, id: BlockId) -> u32 {
        self.growths.get_mut(id).map_or(0, std::mem::take)
    }

    #[inline]
    fn set_growths(&mut self, id: BlockId, site: u32, growths: u32) {
        if self.growths.len() <= id {
            // Ids grow by one with each block; this happens for one in many.
            self.growths.resize((id + 1).next_power_of_two(), 0);
        }
        self.growths[id] = growths;
        self.frees(site).grows = true;
    }

    #[inline]
    fn growth(&mut self, site: u32) -> &mut Growth {
        let site = site as usize;
        if self.growth.len() <= site {
            self.growth.resize(site + 1, Growth::default());
        }
        &mut self.growth[site]
    }

    /// The finished evidence. `positions` has the index of each site in the profile.
    pub(crate) fn finish(self, positions: &[u32], held: Option<HeldPages>) -> Evidence {
        let mut sites = vec![SiteEvidence::default(); positions.len()];
        let held = held.unwrap_or_default();
        for (site, &position) in positions.iter().enumerate() {
            let Some(to) = sites.get_mut(position as usize) else {
                continue;
            };
            if let Some(frees) = self.frees.get(site) {
                let handed = frees.by_others > 0;
                to.freed = frees.freed;
                to.freed_by_others = frees.by_others;
                to.freed_in_order = frees.in_order;
                to.handed_over = [
                    (handed && !frees.other_from).then_some(frees.from),
                    (handed && !frees.other_by).then_some(frees.by),
                ];
                to.smallest = frees.smallest.min(frees.largest);
                to.largest = frees.largest;
            }
            to.temporary_ns = self.temporary_ns.get(site).copied().unwrap_or(0);
            if let Some(growth) = self.growth.get(site) {
                to.reallocated = growth.reallocated;
                to.reallocated_temporary = growth.reallocated_temporary;
                to.growth = growth.growth;
            }
            let [alone, shared] = held.by_site.get(site).copied().unwrap_or_default();
            (to.held_pages, to.shared_pages) = (alone as u64, shared);
        }
        Evidence {
            sites,
            inherited_freed_bytes: self.inherited_freed_bytes,
            inherited_pages: self.inherited_pages.len() as u64,
            held_pages: held.all,
            held_ns: held.ns,
        }
    }
}

/// Pages that live blocks begin in.
#[derive(Debug, Default)]
pub(crate) struct HeldPages {
    /// When they were counted.
    ns: u64,
    all: u64,
    /// By site: the pages in which only its blocks begin, and its parts of those in which others'
    /// do as well.
    by_site: Vec<[f64; 2]>,
}

impl HeldPages {
    /// The pages of the blocks that are live at `ns`, if they are few: `left` of the `most` at
    /// the peak.
    pub(crate) fn new(live: &LiveBlocks, left: u64, most: u64, ns: u64) -> Option<Self> {
        if left.saturating_mul(FEW_LEFT) > most {
            return None;
        }
        let page = |(key, id): (u64, BlockId)| {
            let block = live.block(id);
            // Of the other threads' next events, which are only looked up yet, nothing is written.
            let is_known = block.site != INHERITED && block != LiveBlock::default();
            is_known.then_some((address_of(key) / PAGE_BYTES, block.site))
        };
        let mut pages: Vec<(u64, u32)> = live.iter().filter_map(page).collect();
        pages.sort_unstable();
        let mut held = Self {
            ns,
            ..Self::default()
        };
        for blocks in pages.chunk_by(|a, b| a.0 == b.0) {
            held.all += 1;
            // They are in order of site.
            let sites = blocks.chunk_by(|a, b| a.1 == b.1).count();
            for of_site in blocks.chunk_by(|a, b| a.1 == b.1) {
                let site = of_site[0].1 as usize;
                if held.by_site.len() <= site {
                    held.by_site.resize(site + 1, [0.0; 2]);
                }
                let [alone, shared] = &mut held.by_site[site];
                match sites {
                    1 => *alone += 1.0,
                    _ => *shared += 1.0 / sites as f64,
                }
            }
        }
        Some(held)
    }
}

/// Finds when few of the blocks of a peak are left, to count the pages that they hold: at the
/// end of the run the program may have freed these as well.
///
/// It looks where a bucket of the [series](crate::series) begins. The next count needs a peak of half
/// as many blocks more, so that the counts of all take no longer than the events between them.
#[derive(Debug, Default)]
pub(crate) struct Valley {
    /// When it looked first.
    first_ns: Option<u64>,
    /// Live blocks when it looked last.
    before: u64,
    /// Blocks at the peak before the last count, and at that count.
    peak: u64,
    left: u64,
    held: Option<HeldPages>,
}

impl Valley {
    /// Looks at how many blocks are live and how many were at the peak, and counts the pages if
    /// that is due. `now` is the time of the last event, `next` that of the next one.
    pub(crate) fn look(
        &mut self,
        [left, peak]: [u64; 2],
        [now, next]: [u64; 2],
        live: &LiveBlocks,
    ) {
        let few = left.saturating_mul(FEW_LEFT) <= peak;
        let is_other = peak >= MIN_PEAK && peak >= self.peak.saturating_add(self.peak / 2);
        // One in 20 that is freed since is a fall that goes on, unless nothing happens for a while.
        let since = now.saturating_sub(*self.first_ns.get_or_insert(now));
        let stays = left.saturating_mul(20) >= self.before.saturating_mul(19)
            || next.saturating_sub(now) > since / PAUSE;
        self.before = left;
        // A pause within the fall: what is freed soon after was not left.
        let goes_on = self.held.as_ref().is_some_and(|held| {
            peak == self.peak
                && now.saturating_sub(held.ns) <= since / SOON
                && left.saturating_mul(10) <= self.left.saturating_mul(9)
        });
        if few && stays && (is_other || goes_on) {
            (self.peak, self.left) = (peak, left);
            self.held = HeldPages::new(live, left, peak, now);
        }
    }

    /// The pages that were counted before the end.
    pub(crate) fn into_held(self) -> Option<HeldPages> {
        self.held
    }
}

/// Whether a block of `before` bytes may have grown to one of `after`: containers grow by
/// factors of 1.25 to 2, and some add a header.
#[inline]
fn is_growth(before: u64, after: u64) -> bool {
    let (before, after) = (u128::from(before), u128::from(after));
    before > 0 && 6 * before <= 5 * after && 10 * after <= 22 * before
}

#[cold]
#[inline(never)]
fn add_sites(sites: &mut Vec<Frees>, last: usize) {
    sites.resize(last + 1, Frees::default());
}
