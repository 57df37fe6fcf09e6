//! What the blocks of a site are: the entry points and alignments through which they are
//! allocated, their sizes, and which threads allocate and free them. The aggregation gathers this
//! only on request ([`Options::site_details`](crate::Options)), because it costs every event a
//! search in one of these lists.

pub(crate) mod free_stacks;
mod size_figures;

use allotrope_trace::model::EntryPoint;

use crate::details::{SiteDetails, SiteEntry, SiteThread, SizeClass, SizeFigures, ThreadPair};
use crate::lifetime::Lifetimes;
use crate::step::Step;
use free_stacks::Freed;
use size_figures::SizesBuilder;

/// Largest number of threads, and of pairs of threads, that a site lists; others are summed up in
/// one without threads.
const MAX_THREADS: usize = 64;

/// An allocation, as the details of its site count it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    /// The entry point.
    pub entry: EntryPoint,
    /// Binary logarithm of the requested alignment; 0: none was requested.
    pub alignment_log2: u8,
    /// Requested size, in bytes.
    pub size: u64,
    /// Dense number of the thread that allocated.
    pub thread: u32,
}

impl Made {
    /// Returns how the allocation of a step of the aggregation was made.
    pub(crate) fn of(step: &Step) -> Self {
        Self {
            entry: step.entry,
            alignment_log2: step.alignment_log2,
            size: step.size,
            thread: step.thread,
        }
    }
}

impl SizeClass {
    /// The class of a size.
    fn up_to(size: u64) -> u64 {
        match size {
            0 => 0,
            _ => size.checked_next_power_of_two().unwrap_or(u64::MAX),
        }
    }
}

impl SiteDetails {
    fn allocate(&mut self, made: Made) {
        let Made {
            entry,
            alignment_log2,
            size,
            thread,
        } = made;
        if self.entries.is_empty() {
            self.smallest_bytes = size;
        }
        self.smallest_bytes = self.smallest_bytes.min(size);
        self.largest_bytes = self.largest_bytes.max(size);
        let alignment = match alignment_log2 {
            0 => 0,
            shift => 1_u64.checked_shl(shift.into()).unwrap_or(0),
        };
        let is_this = |it: &SiteEntry| it.entry == entry && it.alignment == alignment;
        let none = SiteEntry {
            entry,
            alignment,
            allocations: 0,
            allocated_bytes: 0,
        };
        let of_entry = find_or_add(&mut self.entries, is_this, none);
        of_entry.allocations += 1;
        of_entry.allocated_bytes = of_entry.allocated_bytes.wrapping_add(size);
        let up_to_bytes = SizeClass::up_to(size);
        let none = SizeClass {
            up_to_bytes,
            allocations: 0,
            allocated_bytes: 0,
        };
        let class = find_or_add(&mut self.sizes, |it| it.up_to_bytes == up_to_bytes, none);
        class.allocations += 1;
        class.allocated_bytes = class.allocated_bytes.wrapping_add(size);
        let is_listed = |thread| self.threads.iter().any(|it| it.thread == thread);
        let thread =
            Some(thread).filter(|_| self.threads.len() < MAX_THREADS || is_listed(Some(thread)));
        let none = SiteThread {
            thread,
            allocations: 0,
            allocated_bytes: 0,
        };
        let of_thread = find_or_add(&mut self.threads, |it| it.thread == thread, none);
        of_thread.allocations += 1;
        of_thread.allocated_bytes = of_thread.allocated_bytes.wrapping_add(size);
    }

    fn free(&mut self, size: u64, allocated_by: u32, freed_by: Option<u32>, lifetime: u64) {
        let mut key = (Some(allocated_by), freed_by);
        let is = |pair: &ThreadPair, key| (pair.allocated_by, pair.freed_by) == key;
        if self.frees.len() >= MAX_THREADS && !self.frees.iter().any(|pair| is(pair, key)) {
            key = (None, None);
        }
        let none = ThreadPair {
            allocated_by: key.0,
            freed_by: key.1,
            bytes: 0,
            lifetimes: Lifetimes::default(),
        };
        let pair = find_or_add(&mut self.frees, |pair| is(pair, key), none);
        pair.bytes = pair.bytes.wrapping_add(size);
        pair.lifetimes.add(lifetime);
        self.lifetimes.add(lifetime);
    }

    fn sort(&mut self) {
        self.entries
            .sort_by_key(|it| (!it.allocations, it.entry, it.alignment));
        self.sizes.sort_by_key(|class| class.up_to_bytes);
        self.threads.sort_by_key(|it| (!it.allocations, it.thread));
        self.frees
            .sort_by_key(|it| (!it.lifetimes.blocks, it.allocated_by, it.freed_by));
        free_stacks::sort(&mut self.free_stacks);
    }

    /// Adds the blocks of another site of the same process.
    pub fn merge(&mut self, other: &Self) {
        if self.entries.is_empty() {
            self.smallest_bytes = other.smallest_bytes;
        }
        if !other.entries.is_empty() {
            self.smallest_bytes = self.smallest_bytes.min(other.smallest_bytes);
        }
        self.largest_bytes = self.largest_bytes.max(other.largest_bytes);
        self.lifetimes.merge(&other.lifetimes);
        for more in &other.entries {
            let is_this = |it: &SiteEntry| (it.entry, it.alignment) == (more.entry, more.alignment);
            match self.entries.iter_mut().find(|it| is_this(it)) {
                Some(it) => {
                    it.allocations += more.allocations;
                    it.allocated_bytes = it.allocated_bytes.wrapping_add(more.allocated_bytes);
                }
                None => self.entries.push(*more),
            }
        }
        for more in &other.sizes {
            let mut sizes = self.sizes.iter_mut();
            match sizes.find(|it| it.up_to_bytes == more.up_to_bytes) {
                Some(it) => {
                    it.allocations += more.allocations;
                    it.allocated_bytes = it.allocated_bytes.wrapping_add(more.allocated_bytes);
                }
                None => self.sizes.push(*more),
            }
        }
        for more in &other.threads {
            let mut threads = self.threads.iter_mut();
            match threads.find(|it| it.thread == more.thread) {
                Some(it) => {
                    it.allocations += more.allocations;
                    it.allocated_bytes = it.allocated_bytes.wrapping_add(more.allocated_bytes);
                }
                None => self.threads.push(*more),
            }
        }
        for more in &other.frees {
            let key = (more.allocated_by, more.freed_by);
            let mut frees = self.frees.iter_mut();
            match frees.find(|it| (it.allocated_by, it.freed_by) == key) {
                Some(it) => {
                    it.bytes = it.bytes.wrapping_add(more.bytes);
                    it.lifetimes.merge(&more.lifetimes);
                }
                None => self.frees.push(*more),
            }
        }
        free_stacks::merge(&mut self.free_stacks, &other.free_stacks);
        self.sort();
    }
}

/// The element for which `is_this` holds, which moves to the front: most calls find it
/// there. Adds `none` if there is no such element.
#[inline]
fn find_or_add<T>(list: &mut Vec<T>, is_this: impl Fn(&T) -> bool, none: T) -> &mut T {
    match list.iter().position(is_this) {
        Some(at) => list.swap(0, at),
        None => {
            list.push(none);
            let last = list.len() - 1;
            list.swap(0, last);
        }
    }
    &mut list[0]
}

/// The details of all sites of an image, by the sites' dense index.
#[derive(Default, Clone)]
pub(crate) struct DetailsBuilder {
    sites: Vec<SiteDetails>,
    sizes: SizesBuilder,
    has_free_stacks: bool,
}

impl DetailsBuilder {
    /// Returns the builder without sites yet; `has_free_stacks`: the recording has stacks of
    /// deallocations.
    pub(crate) fn new(has_free_stacks: bool) -> Self {
        Self {
            sites: Vec::new(),
            sizes: SizesBuilder::default(),
            has_free_stacks,
        }
    }

    /// Counts an allocation of this site.
    pub(crate) fn allocate(&mut self, site: u32, made: Made) {
        let at = site as usize;
        if self.sites.len() <= at {
            self.sites.resize_with(at + 1, SiteDetails::default);
        }
        self.sites[at].allocate(made);
        self.sizes.allocate(made.size);
    }

    /// Makes what is live now the peak.
    pub(crate) fn mark_peak(&mut self) {
        self.sizes.mark_peak();
    }

    /// Counts a deallocation of a block of this site, which lived `lifetime` nanoseconds.
    pub(crate) fn free(
        &mut self,
        site: u32,
        size: u64,
        allocated_by: u32,
        freed: Freed,
        lifetime: u64,
    ) {
        self.sizes.free(size);
        if let Some(site) = self.sites.get_mut(site as usize) {
            site.free(size, allocated_by, freed.by, lifetime);
            if self.has_free_stacks {
                free_stacks::add(&mut site.free_stacks, size, lifetime, freed);
            }
        }
    }

    /// Counts a block of this site that is live at the end and has lived `lifetime`
    /// nanoseconds.
    pub(crate) fn survive(&mut self, site: u32, lifetime: u64) {
        if let Some(site) = self.sites.get_mut(site as usize) {
            site.lifetimes.add(lifetime);
        }
    }

    /// Moves the figures by size out.
    pub(crate) fn take_sizes(&mut self) -> Vec<SizeFigures> {
        std::mem::take(&mut self.sizes).finish()
    }

    /// Moves the finished details of a site out.
    pub(crate) fn take(&mut self, site: u32) -> Option<Box<SiteDetails>> {
        let mut details = std::mem::take(self.sites.get_mut(site as usize)?);
        details.sort();
        Some(Box::new(details))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn details(build: impl Fn(&mut DetailsBuilder)) -> SiteDetails {
        let mut builder = DetailsBuilder::default();
        build(&mut builder);
        *builder.take(0).expect("it allocated")
    }

    fn made(size: u64, thread: u32) -> Made {
        Made {
            entry: EntryPoint::Malloc,
            alignment_log2: 0,
            size,
            thread,
        }
    }

    fn freed_by(thread: u32) -> Freed {
        Freed {
            by: Some(thread),
            ..Freed::LOST
        }
    }

    #[test]
    fn sizes_are_classes_up_to_powers_of_two() {
        let sizes = [0, 1, 2, 3, 4, 5, 64, 65, u64::MAX];
        let details = details(|builder| {
            for size in sizes {
                builder.allocate(0, made(size, 0));
            }
        });
        let classes = details.sizes.iter();
        let classes: Vec<_> = classes.map(|it| (it.up_to_bytes, it.allocations)).collect();
        let expected = [(0, 1), (1, 1), (2, 1), (4, 2), (8, 1), (64, 1), (128, 1)];
        assert_eq!(classes[..7], expected);
        assert_eq!(classes[7..], [(u64::MAX, 1)]);
        assert_eq!(
            (details.smallest_bytes, details.largest_bytes),
            (0, u64::MAX)
        );
    }

    #[test]
    fn pairs_of_threads_are_bounded_and_nothing_is_lost() {
        let details = details(|builder| {
            for thread in 0..1_000 {
                builder.allocate(0, made(10, thread));
                builder.free(0, 10, thread, freed_by(thread + 1), 5);
            }
        });
        assert_eq!(details.frees.len(), MAX_THREADS + 1);
        let blocks = details.frees.iter().map(|pair| pair.lifetimes.blocks);
        assert_eq!(blocks.sum::<u64>(), 1_000);
        assert_eq!(details.frees[0].allocated_by, None);
        assert_eq!(details.threads.len(), MAX_THREADS + 1);
        let others = SiteThread {
            thread: None,
            allocations: 1_000 - MAX_THREADS as u64,
            allocated_bytes: 10 * (1_000 - MAX_THREADS as u64),
        };
        assert_eq!(details.threads[0], others);
    }

    #[test]
    fn merged_details_are_those_of_all_blocks() {
        let of = |sizes: &[u64]| {
            details(|builder| {
                for &size in sizes {
                    builder.allocate(0, made(size, size as u32 % 2));
                    builder.free(0, size, 0, freed_by(0), size);
                }
            })
        };
        let mut merged = SiteDetails::default();
        merged.merge(&of(&[7, 100]));
        merged.merge(&of(&[8, 3]));
        assert_eq!(merged, of(&[7, 100, 8, 3]));
    }
}
