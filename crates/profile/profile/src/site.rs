//! The figures of each site (call stack) of an image while it is aggregated.
//!
//! Copying the live figures of all sites at every new peak would take too long. Instead
//! peaks are numbered, and a site stores what was live in it at the latest peak just
//! before its first change after that peak (a lazy snapshot).

use allotrope_trace::model::StackId;
use rustc_hash::FxHashMap;

use crate::lifetime::Lifetimes;
use crate::model::Site;
use crate::stack::Stack;

/// Sites by dense index, in order of first allocation.
#[derive(Default, Clone)]
pub(crate) struct Sites {
    figures: Vec<SiteFigures>,
    /// Index + 1 by stack id, for ids in the range that a recorder uses.
    low: Vec<u32>,
    high: FxHashMap<StackId, u32>,
    /// Number of peaks so far.
    peaks: u64,
    /// Few stacks are expected: all ids are in `high`, and `low` takes no memory.
    few: bool,
}

/// The figures of one site.
///
/// The live figures are not stored: they are the allocated ones minus the deallocated.
#[derive(Default, Clone)]
pub(crate) struct SiteFigures {
    temporary: u64,
    /// Lifetimes of the blocks; their number counts only those that live until the end; the others
    /// are added by [`Sites::finish`].
    lifetimes: Lifetimes,
    pub allocations: u64,
    allocated_bytes: u64,
    pub reallocations: u64,
    deallocations: u64,
    deallocated_bytes: u64,
    /// Number of the peak to which the next two fields belong.
    peak: u64,
    allocations_at_peak: u64,
    bytes_at_peak: u64,
    /// See [`Self::note_maximum`].
    max_bytes: u64,
    /// Stops at the largest number: fewer blocks than that can be live at once, because
    /// their ids have 32 bits.
    max_allocations: u32,
    /// How often the last live block was freed; stops at the largest number.
    emptied: u32,
    pub stack_id: StackId,
}

/// Every event changes the figures of a site, and programs have hundreds of thousands of sites: what
/// not every report needs is in [`SiteDetails`](crate::SiteDetails). These have two cache lines, and
/// may have a third one.
const _: () = assert!(size_of::<SiteFigures>() <= 192);

/// Stack ids below this are looked up in a table, the others in a map: a damaged file may
/// contain any id, which must not make the table large.
const LOW_IDS: u32 = 1 << 22;

impl SiteFigures {
    /// Must be called before each change: stores what was live at the latest peak, if this
    /// is the first change after it.
    #[inline]
    fn note_peak(&mut self, peaks: u64) {
        if self.peak != peaks {
            self.peak = peaks;
            self.allocations_at_peak = self.live();
            self.bytes_at_peak = self.live_bytes();
        }
    }

    /// Must be called before each deallocation and at the end: stores what is live if it is
    /// the site's own maximum. Live bytes only rise between two deallocations, so no other
    /// moment can be the maximum. On a tie the latest moment counts, as for the peak of
    /// the image.
    #[inline]
    fn note_maximum(&mut self) {
        let bytes = self.live_bytes();
        if bytes >= self.max_bytes {
            self.max_bytes = bytes;
            self.max_allocations = u32::try_from(self.live()).unwrap_or(u32::MAX);
        }
    }

    #[inline]
    fn live(&self) -> u64 {
        self.allocations - self.deallocations
    }

    #[inline]
    fn live_bytes(&self) -> u64 {
        self.allocated_bytes.wrapping_sub(self.deallocated_bytes)
    }

    /// The finished site, which has this stack; it has no number yet.
    pub(crate) fn with_stack(&self, stack: Stack) -> Site {
        Site {
            number: 0,
            stack_id: self.stack_id,
            stack,
            allocations: self.allocations,
            allocated_bytes: self.allocated_bytes,
            reallocations: self.reallocations,
            temporary_allocations: self.temporary,
            leaked_allocations: self.live(),
            leaked_bytes: self.live_bytes(),
            lost: None,
            bytes_at_peak: self.bytes_at_peak,
            allocations_at_peak: self.allocations_at_peak,
            max_bytes: self.max_bytes,
            max_allocations: self.max_allocations.into(),
            emptied: self.emptied.into(),
            lifetimes: self.lifetimes,
            details: None,
        }
    }
}

impl Sites {
    /// Returns sites for few of an image's stacks, which take less memory, because there is one for
    /// each window.
    pub(crate) fn few() -> Self {
        Self {
            few: true,
            ..Self::default()
        }
    }

    /// The index of a stack's site; adds the site if it is new.
    #[inline]
    pub(crate) fn of_stack(&mut self, stack: StackId) -> u32 {
        match self.low.get(stack as usize) {
            Some(&index) if index != 0 => index - 1,
            _ => self.find_or_add(stack),
        }
    }

    #[cold]
    fn find_or_add(&mut self, stack: StackId) -> u32 {
        let next = self.figures.len() as u32;
        let index = if stack < LOW_IDS && !self.few {
            if self.low.len() <= stack as usize {
                self.low.resize(stack as usize + 1, 0);
            }
            self.low[stack as usize] = next + 1;
            next
        } else {
            *self.high.entry(stack).or_insert(next)
        };
        if index == next {
            self.figures.push(SiteFigures {
                stack_id: stack,
                peak: self.peaks,
                ..SiteFigures::default()
            });
        }
        index
    }

    /// Counts an allocation of this site.
    #[inline]
    pub(crate) fn allocate(&mut self, site: u32, size: u64, reallocation: bool) {
        let figures = &mut self.figures[site as usize];
        figures.note_peak(self.peaks);
        figures.allocations += 1;
        figures.allocated_bytes = figures.allocated_bytes.wrapping_add(size);
        figures.reallocations += u64::from(reallocation);
    }

    /// Counts a deallocation of a block of this site, which lived `lifetime` nanoseconds.
    #[inline]
    pub(crate) fn deallocate(&mut self, site: u32, size: u64, lifetime: u64, temporary: bool) {
        let figures = &mut self.figures[site as usize];
        figures.note_peak(self.peaks);
        figures.note_maximum();
        figures.deallocations += 1;
        figures.emptied = figures
            .emptied
            .saturating_add(u32::from(figures.live() == 0));
        figures.deallocated_bytes = figures.deallocated_bytes.wrapping_add(size);
        figures.temporary += u64::from(temporary);
        figures.lifetimes.extend(lifetime);
    }

    /// Adds a block of this site that is live at the end and has lived `lifetime`
    /// nanoseconds.
    pub(crate) fn add_survivor(&mut self, site: u32, lifetime: u64) {
        self.figures[site as usize].lifetimes.add(lifetime);
    }

    /// Counts a temporary block whose deallocation is not counted here: it happened after
    /// the window was closed.
    pub(crate) fn mark_temporary(&mut self, site: u32, temporary: bool) {
        self.figures[site as usize].temporary += u64::from(temporary);
    }

    /// Makes what is live now the peak.
    #[inline]
    pub(crate) fn mark_peak(&mut self) {
        self.peaks += 1;
    }

    /// The stack of a site.
    pub(crate) fn stack_of(&self, site: u32) -> StackId {
        self.figures[site as usize].stack_id
    }

    /// The finished figures of the sites, in order of first allocation.
    pub(crate) fn finish(mut self) -> Vec<SiteFigures> {
        for figures in &mut self.figures {
            figures.note_peak(self.peaks);
            figures.note_maximum();
            figures.lifetimes.blocks += figures.deallocations;
        }
        self.figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_site_stores_only_what_was_live_at_the_latest_peak() {
        let mut sites = Sites::default();
        let (a, b) = (sites.of_stack(8), sites.of_stack(9));
        sites.allocate(a, 100, false);
        sites.mark_peak();
        sites.allocate(b, 50, false);
        sites.mark_peak();
        sites.deallocate(a, 100, 0, false);
        sites.allocate(b, 7, false);
        let sites = sites.finish();
        assert_eq!(
            (sites[0].bytes_at_peak, sites[0].allocations_at_peak),
            (100, 1)
        );
        assert_eq!(
            (sites[1].bytes_at_peak, sites[1].allocations_at_peak),
            (50, 1)
        );
        assert_eq!(sites[1].live_bytes(), 57);
    }

    #[test]
    fn the_maximum_of_a_site_is_its_own_and_the_latest_of_equal_ones() {
        let mut sites = Sites::default();
        let (a, b) = (sites.of_stack(8), sites.of_stack(9));
        let maximum = |figures: &SiteFigures| (figures.max_bytes, figures.max_allocations);
        sites.allocate(a, 100, false);
        sites.deallocate(a, 100, 0, false);
        // 100 bytes again, in two blocks, and a third one without bytes.
        sites.allocate(a, 60, false);
        sites.allocate(a, 40, false);
        sites.allocate(a, 0, false);
        sites.deallocate(a, 60, 0, false);
        sites.allocate(a, 59, false);
        // It only rises, and nothing is freed.
        sites.allocate(b, 7, false);
        sites.allocate(b, 8, false);
        let sites = sites.finish();
        assert_eq!(maximum(&sites[0]), (100, 3));
        assert_eq!(maximum(&sites[1]), (15, 2));
    }

    #[test]
    fn a_site_added_after_the_peak_has_nothing_live_at_the_peak() {
        let mut sites = Sites::default();
        let a = sites.of_stack(8);
        sites.allocate(a, 100, false);
        sites.mark_peak();
        sites.deallocate(a, 100, 0, false);
        let b = sites.of_stack(u32::MAX);
        sites.allocate(b, 10, true);
        assert_eq!(sites.of_stack(u32::MAX), b);
        let sites = sites.finish();
        assert_eq!(sites[1].allocations_at_peak, 0);
        assert_eq!(sites[1].reallocations, 1);
    }

    #[test]
    fn blocks_that_live_and_die_together_empty_the_site_once() {
        let mut sites = Sites::default();
        let a = sites.of_stack(8);
        // Three copies of two blocks each, and a last block that stays.
        for _ in 0..3 {
            sites.allocate(a, 10, false);
            sites.allocate(a, 20, false);
            sites.deallocate(a, 10, 0, false);
            sites.deallocate(a, 20, 0, false);
        }
        sites.allocate(a, 10, false);
        let site = sites.finish()[0].with_stack(Stack::default());
        assert_eq!(site.emptied, 3);
    }
}
