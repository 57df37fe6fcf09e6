//! The figures of each stack of an image while it is replayed.
//!
//! What is live at the peak is not copied at each new peak, which would cost
//! all sites each time. Each peak has a number, and a site notes before it
//! changes for the first time after a peak what was live in it then.

use allotrope_trace::model::StackId;
use rustc_hash::FxHashMap;

use crate::lifetime::Lifetimes;
use crate::model::Site;
use crate::near::bring_near;
use crate::stack::{Stack, Stacks};
use crate::stacks_ahead::Teller;

/// Sites by dense index, in order of first allocation.
#[derive(Default)]
pub(crate) struct Sites {
    figures: Vec<SiteFigures>,
    /// Index + 1 by stack id, for ids in the range that a recorder uses.
    low: Vec<u32>,
    high: FxHashMap<StackId, u32>,
    /// Number of peaks so far.
    peaks: u64,
    /// They are expected to be few: no table.
    few: bool,
    /// Who is told of each new one.
    teller: Option<Teller>,
}

/// The figures of one site.
///
/// A program with very many sites has few of them in a cache, and every event
/// fetches one. An allocation needs the eight words from `allocations` to
/// `bytes_at_peak`; a deallocation those before, too. A large vector begins 16
/// bytes behind the start of a page, so that in this order each of the two is one
/// cache line. It is as large as a [`Site`], which takes its place in the end.
///
/// What is live is not written with each event, for it follows from the rest.
#[derive(Default, Clone, Copy)]
#[repr(C)]
pub(crate) struct SiteFigures {
    temporary: u64,
    /// Until the end the number of its blocks is of those alone that outlive it.
    lifetimes: Lifetimes,
    pub allocations: u64,
    allocated_bytes: u64,
    pub reallocations: u64,
    deallocations: u64,
    deallocated_bytes: u64,
    /// Number of the peak that the next two are of.
    peak: u64,
    at_peak: u64,
    bytes_at_peak: u64,
    pub stack_id: StackId,
    spare: [u32; 3],
}

/// Stack ids below are looked up in a table, those above in a map: a damaged
/// file may name any id, and must not make the table large.
const LOW_IDS: u32 = 1 << 22;

impl SiteFigures {
    /// Notes what was live at the latest peak, before something changes.
    #[inline]
    fn settle(&mut self, peaks: u64) {
        if self.peak != peaks {
            self.peak = peaks;
            self.at_peak = self.live();
            self.bytes_at_peak = self.live_bytes();
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

    /// The site, which has this stack, without a number.
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
            bytes_at_peak: self.bytes_at_peak,
            allocations_at_peak: self.at_peak,
            lifetimes: self.lifetimes,
        }
    }
}

impl Sites {
    /// For some of an image's stacks only: many such sets are held at once.
    pub(crate) fn few() -> Self {
        Self {
            few: true,
            ..Self::default()
        }
    }

    /// Has somebody told of the sites, from the first one on.
    pub(crate) fn tell(&mut self, teller: Teller) {
        self.teller = Some(teller);
    }

    /// The site of a stack.
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
            if let Some(teller) = &mut self.teller {
                teller.tell(stack);
            }
        }
        index
    }

    /// A block of this site was handed out.
    #[inline]
    pub(crate) fn allocate(&mut self, site: u32, size: u64, reallocation: bool) {
        let figures = &mut self.figures[site as usize];
        figures.settle(self.peaks);
        figures.allocations += 1;
        figures.allocated_bytes = figures.allocated_bytes.wrapping_add(size);
        figures.reallocations += u64::from(reallocation);
    }

    /// A block of this site was given back after so many nanoseconds.
    #[inline]
    pub(crate) fn deallocate(&mut self, site: u32, size: u64, lifetime: u64, temporary: bool) {
        let figures = &mut self.figures[site as usize];
        figures.settle(self.peaks);
        figures.deallocations += 1;
        figures.deallocated_bytes = figures.deallocated_bytes.wrapping_add(size);
        figures.temporary += u64::from(temporary);
        figures.lifetimes.extend(lifetime);
    }

    /// Has what [`Self::outlive`] needs brought near.
    pub(crate) fn bring_near(&self, site: u32) {
        bring_near(&self.figures[site as usize].lifetimes);
    }

    /// A block of this site lived until the end of the image.
    pub(crate) fn outlive(&mut self, site: u32, lifetime: u64) {
        self.figures[site as usize].lifetimes.add(lifetime);
    }

    /// A block of this site, which stays live here, turned out to be temporary.
    pub(crate) fn mark_temporary(&mut self, site: u32, temporary: bool) {
        self.figures[site as usize].temporary += u64::from(temporary);
    }

    /// What is live now is the peak.
    #[inline]
    pub(crate) fn mark_peak(&mut self) {
        self.peaks += 1;
    }

    /// The stack of a site.
    pub(crate) fn stack_of(&self, site: u32) -> StackId {
        self.figures[site as usize].stack_id
    }

    /// The sites' figures, in order of first allocation.
    pub(crate) fn finish(mut self) -> Vec<SiteFigures> {
        for figures in &mut self.figures {
            figures.settle(self.peaks);
            figures.lifetimes.blocks += figures.deallocations;
        }
        if let Some(teller) = self.teller {
            teller.end();
        }
        self.figures
    }
}

/// Makes sites of the figures, in the order of these numbers, without a second
/// piece of memory of that size: there may be hundreds of thousands.
pub(crate) fn in_order(mut figures: Vec<SiteFigures>, stacks: Stacks, order: &[u32]) -> Vec<Site> {
    arrange(&mut figures, order.to_vec());
    let mut stacks = stacks.give(order);
    // A vector collected from one of elements of the same size keeps its memory.
    let sites = figures.into_iter();
    sites
        .map(|figures| figures.with_stack(stacks.next().unwrap_or_default()))
        .collect()
}

/// Puts each element where the order has its number.
fn arrange(figures: &mut [SiteFigures], mut order: Vec<u32>) {
    // Along each circle of elements that take each other's places.
    for first in 0..order.len() {
        if order[first] as usize == first {
            continue;
        }
        let kept = figures[first];
        let mut at = first;
        loop {
            let from = std::mem::replace(&mut order[at], at as u32) as usize;
            if from == first {
                break;
            }
            // The order is at hand long before the figures are.
            let next = &figures[order[from] as usize];
            bring_near(&next.temporary);
            bring_near(&next.allocations);
            bring_near(&next.stack_id);
            figures[at] = figures[from];
            at = from;
        }
        figures[at] = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_site_remembers_the_latest_peak_only() {
        let mut sites = Sites::default();
        let (a, b) = (sites.of_stack(8), sites.of_stack(9));
        sites.allocate(a, 100, false);
        sites.mark_peak();
        sites.allocate(b, 50, false);
        sites.mark_peak();
        sites.deallocate(a, 100, 0, false);
        sites.allocate(b, 7, false);
        let sites = sites.finish();
        assert_eq!((sites[0].bytes_at_peak, sites[0].at_peak), (100, 1));
        assert_eq!((sites[1].bytes_at_peak, sites[1].at_peak), (50, 1));
        assert_eq!(sites[1].live_bytes(), 57);
    }

    #[test]
    fn a_site_born_after_the_peak_has_nothing_at_it() {
        let mut sites = Sites::default();
        let a = sites.of_stack(8);
        sites.allocate(a, 100, false);
        sites.mark_peak();
        sites.deallocate(a, 100, 0, false);
        let b = sites.of_stack(u32::MAX);
        sites.allocate(b, 10, true);
        assert_eq!(sites.of_stack(u32::MAX), b);
        let sites = sites.finish();
        assert_eq!(sites[1].at_peak, 0);
        assert_eq!(sites[1].reallocations, 1);
    }

    #[test]
    fn what_an_event_needs_of_a_site_is_in_as_few_cache_lines_as_possible() {
        const VECTOR_BEGINS: usize = 16;
        assert_eq!(size_of::<SiteFigures>(), 128);
        assert_eq!(size_of::<Site>(), size_of::<SiteFigures>());
        assert_eq!(align_of::<Site>(), align_of::<SiteFigures>());
        let first = VECTOR_BEGINS + std::mem::offset_of!(SiteFigures, allocations);
        let last = VECTOR_BEGINS + std::mem::offset_of!(SiteFigures, bytes_at_peak);
        assert_eq!((first % 64, last / 64), (0, first / 64));
    }

    #[test]
    fn sites_take_the_places_of_their_figures() {
        // A circle of four, one of two, and one that stays.
        let order = [3, 5, 2, 4, 6, 1, 0];
        let mut stacks = Stacks::default();
        let figures = (0..order.len() as u32).map(|number| {
            stacks.add(&[number, 77]);
            SiteFigures {
                allocations: number.into(),
                ..SiteFigures::default()
            }
        });
        let figures: Vec<SiteFigures> = figures.collect();
        let memory = figures.as_ptr().addr();
        let sites = in_order(figures, stacks, &order);
        assert_eq!(sites.as_ptr().addr(), memory);
        for (site, number) in sites.iter().zip(order) {
            assert_eq!(site.allocations, u64::from(number));
            assert_eq!(*site.stack, [77, number]);
        }
    }
}
