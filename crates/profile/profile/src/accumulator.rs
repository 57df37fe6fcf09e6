//! The figures of one image: receives its events in the order of the merge, and sums
//! them up by site, thread, entry point and for the image as a whole.
//!
//! There are two entry points with the same result: [`Accumulator::take`] for one event,
//! and [`Accumulator::take_batch`] for many events of one thread.

mod batch;

use allotrope_trace::model::{EntryPoint, ImageId, StackId};
use rustc_hash::FxHashMap;

use crate::block_key::address_of;
use crate::evidence::{EvidenceBuilder, HeldPages, Valley};
use crate::heap_curve::HeapPoint;
use crate::live::{BlockId, Blocks, INHERITED, LiveBlock, LiveBlocks, NO_BLOCK};
use crate::model::{EntryTotals, Totals};
use crate::observer::{Block, BlockEvent, Observer};
use crate::peak::Peak;
use crate::reachability::LostOfImage;
use crate::series::{LivePoint, Plotter, Series};
use crate::site::{SiteFigures, Sites};
use crate::site_details::free_stacks::Freed;
use crate::site_details::{DetailsBuilder, Made};
use crate::step::Step;
use crate::time_table::tables::Tables;

/// An allocation at a key where a block is live and an unmatched deallocation at the same
/// key count as one deallocation that was put in the wrong order among threads, not as
/// two losses, if they are no further apart than this.
const MISPLACED_WITHIN_NS: u64 = 100_000_000;

/// What a thread did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ThreadFigures {
    pub allocations: u64,
    pub allocated_bytes: u64,
    pub deallocations: u64,
    pub temporary: u64,
    /// The block that it allocated last; [`NO_BLOCK`] if it has been freed. Has no meaning
    /// before its first allocation.
    latest: BlockId,
}

/// What is live at a moment, in nanoseconds since the start of the recording.
#[derive(Debug, Clone, Copy, Default)]
struct Level {
    now: u64,
    bytes: u64,
    /// Allocations made so far.
    allocated: u64,
    /// How many of their blocks are not live any more.
    released: u64,
}

/// The change that an event makes to the [`Level`]. `bytes` is added with wrap-around, so
/// that it can be negative.
#[derive(Default)]
struct Change {
    allocated: u64,
    released: u64,
    bytes: u64,
}

/// See the [module](self).
pub(crate) struct Accumulator<'a> {
    image: ImageId,
    temporary_threshold: u64,
    observer: Option<&'a Observer<'a>>,
    /// Number of allocations, by block id, that the block's thread had made when it
    /// allocated the block, this one included. Needed only with a temporary threshold
    /// above 0, and to show single blocks in order.
    sequences: Option<Vec<u64>>,
    sites: Sites,
    threads: Vec<ThreadFigures>,
    entries: [EntryTotals; EntryPoint::ALL.len()],
    totals: Totals,
    level: Level,
    peak_ns: u64,
    /// Allocations made until the peak.
    peak_allocated: u64,
    /// The peak, if an earlier aggregation found it: events after it are later than it.
    known_peak: Option<Peak>,
    series: Plotter,
    times: Option<Tables>,
    evidence: Option<EvidenceBuilder>,
    valley: Valley,
    details: Option<DetailsBuilder>,
    implied_losses: u64,
    ambiguous: u64,
    unmatched: u64,
    /// Several streams were merged, so that the order may be wrong.
    merged: bool,
    /// Time at which a deallocation was implied, by key, and in `unmatched_at` that of an unmatched
    /// one.
    implied_at: FxHashMap<u64, u64>,
    unmatched_at: FxHashMap<u64, u64>,
}

/// The parts of a result that are gathered only if the [options](crate::Options) ask for them.
pub(crate) struct Requested {
    pub times: Option<Tables>,
    pub evidence: bool,
    pub details: Option<DetailsBuilder>,
    /// The peak of the image, at which its time tables are divided.
    pub peak: Option<Peak>,
}

/// The figures of an image, or of a window, when it has ended.
pub(crate) struct ImageStats {
    pub totals: Totals,
    pub peak_ns: u64,
    /// Allocations made until the peak.
    pub peak_allocated: u64,
    pub end_ns: u64,
    /// The sites, in order of first allocation.
    pub sites: Vec<SiteFigures>,
    pub threads: Vec<ThreadFigures>,
    pub entries: Vec<EntryTotals>,
    pub series: Series,
    pub times: Option<Tables>,
    pub evidence: Option<(EvidenceBuilder, Option<HeldPages>)>,
    pub details: Option<DetailsBuilder>,
    pub lost: LostOfImage,
    pub implied_losses: u64,
    pub ambiguous: u64,
    pub unmatched: u64,
}

impl<'a> Accumulator<'a> {
    /// Returns the accumulator of an image that begins at `start_ns` and inherits the blocks that
    /// are `live`.
    pub(crate) fn new(
        image: ImageId,
        start_ns: u64,
        temporary_threshold: u64,
        live: &LiveBlocks,
        observer: Option<&'a Observer<'a>>,
        merged: bool,
        requested: Requested,
    ) -> Self {
        let inherited = || live.iter().map(|(_, number)| live.block(number).size);
        let in_sequence = temporary_threshold > 0 || observer.is_some();
        Self {
            image,
            temporary_threshold,
            observer,
            sequences: in_sequence.then(Vec::new),
            sites: Sites::default(),
            threads: Vec::new(),
            entries: EntryPoint::ALL.map(EntryTotals::none),
            totals: Totals {
                inherited_allocations: inherited().count() as u64,
                inherited_bytes: inherited().fold(0, u64::wrapping_add),
                ..Totals::default()
            },
            level: Level {
                now: start_ns,
                ..Level::default()
            },
            peak_ns: start_ns,
            peak_allocated: 0,
            known_peak: requested.peak,
            series: Plotter::new(start_ns),
            times: requested.times,
            evidence: requested.evidence.then(EvidenceBuilder::default),
            valley: Valley::default(),
            details: requested.details,
            implied_losses: 0,
            ambiguous: 0,
            unmatched: 0,
            merged,
            implied_at: FxHashMap::default(),
            unmatched_at: FxHashMap::default(),
        }
    }

    /// Accumulates the next event; `blocks` is its effect on the live blocks.
    #[inline(always)]
    pub(crate) fn take(&mut self, step: &Step, blocks: Blocks, live: &mut LiveBlocks) {
        let now = self.level.now.max(step.time);
        if self.series.must_advance(now) {
            self.look_for_valley(self.level, now, live);
            self.series.advance(now, self.level.sample());
        }
        self.level.now = now;
        self.ambiguous += u64::from(step.ambiguous);
        let change = if step.allocates {
            self.allocate(step, blocks, live)
        } else {
            self.deallocate(step, blocks.block, live)
        };
        self.change_level(change);
        self.note_level(self.level);
    }

    /// Counts the pages of the blocks that are live, if few are left of a peak.
    #[cold]
    fn look_for_valley(&mut self, level: Level, next: u64, live: &LiveBlocks) {
        if self.evidence.is_some() {
            let peak = self.totals.peak_allocations;
            self.valley
                .look([level.allocations(), peak], [level.now, next], live);
        }
    }

    /// One function for allocations and deallocations, so that the numbers are always
    /// written in one size: a wider read after narrower writes stalls the processor.
    #[inline]
    fn change_level(&mut self, change: Change) {
        let level = &mut self.level;
        level.allocated += change.allocated;
        level.released += change.released;
        level.bytes = level.bytes.wrapping_add(change.bytes);
    }

    /// Updates the peak and the series with what is live at a moment.
    #[inline]
    fn note_level(&mut self, level: Level) {
        self.series.note(level.bytes);
        // On a tie the latest moment counts, also if the event is about a block of 0 bytes.
        if level.bytes >= self.totals.peak_bytes {
            self.totals.peak_bytes = level.bytes;
            self.totals.peak_allocations = level.allocations();
            self.peak_ns = level.now;
            self.peak_allocated = level.allocated;
            if self
                .known_peak
                .is_some_and(|it| it.is_at(level.allocated, level.allocations()))
            {
                // Events can have the same time, and the table has nothing else to tell what
                // came before the peak from what came after it.
                self.level.now = level.now.saturating_add(1);
            }
            self.sites.mark_peak();
            if let Some(details) = &mut self.details {
                details.mark_peak();
            }
        }
    }

    /// The smallest number of live bytes for which [`Self::note_level`] changes anything.
    #[inline]
    fn note_threshold(&self) -> u64 {
        let most = self.series.max_bytes().saturating_add(1);
        most.min(self.totals.peak_bytes)
    }

    /// Opens the series' bucket of the time `now`; `level` was live until then.
    #[cold]
    #[inline(never)]
    fn open_bucket(&mut self, level: Level, now: u64, live: &LiveBlocks) {
        self.note_level(level);
        self.look_for_valley(level, now, live);
        self.series.advance(now, level.sample());
    }

    #[inline]
    fn allocate(&mut self, step: &Step, blocks: Blocks, live: &mut LiveBlocks) -> Change {
        if blocks.replaced != NO_BLOCK {
            self.count_implied(step.key, blocks.replaced, live.block(blocks.replaced));
        }
        let site = self.sites.of_stack(step.stack);
        let thread = thread(&mut self.threads, step.thread);
        thread.allocations += 1;
        thread.allocated_bytes = thread.allocated_bytes.wrapping_add(step.size);
        thread.latest = blocks.block;
        let made = thread.allocations;
        let block = LiveBlock {
            size: step.size,
            allocated_ns: self.level.now,
            site,
            thread: step.thread,
        };
        live.describe(blocks.block, block);
        if let Some(observer) = self.observer {
            let event = BlockEvent::Allocated;
            self.show(observer, event, (step.key, block), None, Freed::LOST);
        }
        if step.reallocation
            && let Some(evidence) = &mut self.evidence
            && let Some(old) = evidence.take_pending(step.thread)
        {
            evidence.reallocated(&old, step.key, blocks.block, &block);
        }
        if let Some(sequences) = &mut self.sequences {
            if sequences.len() <= blocks.block {
                sequences.resize(blocks.block + 1, 0);
            }
            sequences[blocks.block] = made;
        }
        self.sites.allocate(site, step.size, step.reallocation);
        if let Some(details) = &mut self.details {
            details.allocate(site, Made::of(step));
        }
        let entry = &mut self.entries[step.entry as usize];
        entry.allocations += 1;
        entry.allocated_bytes = entry.allocated_bytes.wrapping_add(step.size);
        Change {
            allocated: 1,
            released: 0,
            bytes: step.size,
        }
    }

    #[inline]
    fn deallocate(&mut self, step: &Step, number: BlockId, live: &LiveBlocks) -> Change {
        self.entries[step.entry as usize].deallocations += 1;
        thread(&mut self.threads, step.thread).deallocations += 1;
        if step.reallocation
            && let Some(evidence) = &mut self.evidence
        {
            evidence.set_pending(step.thread, None);
        }
        if number == NO_BLOCK {
            self.count_unmatched(step.key);
            return Change::default();
        }
        let block = live.block(number);
        if block.site == INHERITED {
            self.totals.inherited_deallocations += 1;
            if let Some(evidence) = &mut self.evidence {
                evidence.inherited(step.key, block.size);
            }
            return Change::default();
        }
        let temporary = block.thread == step.thread && self.is_temporary(step.thread, number);
        self.clear_latest(number, block.thread);
        let thread = &mut self.threads[step.thread as usize];
        thread.temporary += u64::from(temporary);
        if let Some(evidence) = &mut self.evidence {
            if step.reallocation {
                let old = evidence.reallocation(step.key, number, &block, temporary);
                evidence.set_pending(step.thread, Some(old));
            } else {
                evidence.deallocated((number, &block), step.thread, thread.latest, live);
                if temporary {
                    evidence.temporary(block.site, self.level.now - block.allocated_ns);
                }
            }
        }
        let freed = Freed {
            by: Some(step.thread),
            stack: step.stack,
            reallocation: step.reallocation,
        };
        self.release(step.key, block, freed, temporary)
    }

    /// Whether the thread, which allocated the block, has made few enough allocations
    /// since.
    #[inline]
    fn is_temporary(&self, thread: u32, number: BlockId) -> bool {
        let thread = &self.threads[thread as usize];
        match &self.sequences {
            None => thread.latest == number,
            Some(made) => thread.allocations - made[number] <= self.temporary_threshold,
        }
    }

    /// Notes that the block of this id, which the thread allocated, is freed.
    #[inline]
    fn clear_latest(&mut self, number: BlockId, thread: u32) {
        let latest = &mut self.threads[thread as usize].latest;
        if *latest == number {
            *latest = NO_BLOCK;
        }
    }

    /// Counts an implied deallocation: a block was allocated at a key where another one
    /// was live. The event that freed the old one is lost or, if the block was inherited,
    /// was put on the wrong side of the fork.
    #[cold]
    fn count_implied(&mut self, key: u64, number: BlockId, old: LiveBlock) {
        if old.site == INHERITED {
            self.ambiguous += 1;
            return;
        }
        if self.is_misplaced(key, true) {
            // The deallocation came before, and was counted as unmatched.
            self.unmatched -= 1;
            self.ambiguous += 1;
        } else {
            self.implied_losses += 1;
        }
        self.clear_latest(number, old.thread);
        if let Some(evidence) = &mut self.evidence {
            evidence.lost(number);
        }
        let change = self.release(key, old, Freed::LOST, false);
        self.change_level(change);
    }

    /// Counts an unmatched deallocation: no block was live at the key.
    #[cold]
    fn count_unmatched(&mut self, key: u64) {
        if self.is_misplaced(key, false) {
            // It was implied by an allocation before, and counted then.
            self.implied_losses -= 1;
            self.ambiguous += 1;
        } else {
            self.unmatched += 1;
        }
    }

    /// A misplaced deallocation shows twice at the same key: as an implied one and as an
    /// unmatched one. Returns whether the other of the two came shortly before; if not,
    /// stores this one.
    fn is_misplaced(&mut self, key: u64, implied: bool) -> bool {
        if !self.merged {
            return false;
        }
        let (same, other) = if implied {
            (&mut self.implied_at, &mut self.unmatched_at)
        } else {
            (&mut self.unmatched_at, &mut self.implied_at)
        };
        let seen = other.remove(&key);
        if seen.is_some_and(|then| self.level.now - then <= MISPLACED_WITHIN_NS) {
            return true;
        }
        same.insert(key, self.level.now);
        false
    }

    /// Counts that a block was freed.
    #[inline]
    fn release(&mut self, key: u64, block: LiveBlock, freed: Freed, temporary: bool) -> Change {
        let lifetime = self.level.now - block.allocated_ns;
        if let Some(details) = &mut self.details {
            details.free(block.site, block.size, block.thread, freed, lifetime);
        }
        self.sites
            .deallocate(block.site, block.size, lifetime, temporary);
        if let Some(times) = &mut self.times {
            times.free(&block, self.level.now);
        }
        if let Some(observer) = self.observer {
            let event = BlockEvent::Freed;
            self.show(observer, event, (key, block), Some(lifetime), freed);
        }
        Change {
            allocated: 0,
            released: 1,
            bytes: block.size.wrapping_neg(),
        }
    }

    /// Shows the observer the blocks that are live at the end, in order of allocation.
    /// The order of the map would depend on hashing.
    fn show_live(&self, observer: &Observer<'_>, live: &LiveBlocks) {
        let own = |number: &BlockId| live.block(*number).site != INHERITED;
        let numbers = live.iter().filter(|(_, number)| own(number));
        let mut left: Vec<(u64, BlockId)> = numbers.collect();
        let made = self.sequences.as_deref().unwrap_or_default();
        left.sort_unstable_by_key(|&(key, number)| {
            (live.block(number).allocated_ns, made.get(number), key)
        });
        for (key, number) in left {
            let block = (key, live.block(number));
            self.show(observer, BlockEvent::LiveAtEnd, block, None, Freed::LOST);
        }
    }

    /// Calls the observer's callback if it wants blocks of this stack.
    #[cold]
    fn show(
        &self,
        observer: &Observer<'_>,
        event: BlockEvent,
        (key, block): (u64, LiveBlock),
        lived: Option<u64>,
        freed: Freed,
    ) {
        let stack: StackId = self.sites.stack_of(block.site);
        if !observer.wanted.contains(&(self.image, stack)) {
            return;
        }
        let block = Block {
            image: self.image,
            stack,
            address: address_of(key),
            size: block.size,
            thread: block.thread,
            allocated_ns: block.allocated_ns,
            lifetime_ns: lived,
            freed_by: freed.by,
            freed_at: freed.stack,
        };
        (observer.callback.borrow_mut())(event, &block);
    }

    /// The heap after the last event.
    pub(crate) fn heap(&self) -> HeapPoint {
        let sum = |of: fn(&EntryTotals) -> u64| self.entries.iter().map(of).sum::<u64>();
        let allocated_bytes = self
            .entries
            .iter()
            .fold(0_u64, |sum, entry| sum.wrapping_add(entry.allocated_bytes));
        HeapPoint {
            time_ns: self.level.now,
            allocated_bytes,
            live_bytes: self.level.bytes,
            allocations: self.level.allocated,
            deallocations: sum(|entry| entry.deallocations),
            ..HeapPoint::default()
        }
    }

    /// The bytes that are live after the last event.
    #[inline]
    pub(crate) fn live_bytes(&self) -> u64 {
        self.level.bytes
    }

    /// The figures at the end of the image.
    pub(crate) fn close(mut self, end_ns: u64, live: &LiveBlocks) -> ImageStats {
        let end_ns = end_ns.max(self.level.now);
        self.add_survivors(end_ns, live);
        if let Some(observer) = self.observer {
            self.show_live(observer, live);
        }
        let (left, most) = (self.level.allocations(), self.totals.peak_allocations);
        let evidence = self.evidence;
        let valley = self.valley;
        let evidence = evidence.map(|it| {
            let held = valley.into_held();
            (
                it,
                held.or_else(|| HeldPages::new(live, left, most, end_ns)),
            )
        });
        let sites = self.sites.finish();
        let mut totals = self.totals;
        totals.allocations = self.level.allocated;
        totals.leaked_allocations = self.level.allocations();
        totals.leaked_bytes = self.level.bytes;
        // These are counted by entry point only.
        for entry in &self.entries {
            totals.deallocations += entry.deallocations;
            totals.allocated_bytes = totals.allocated_bytes.wrapping_add(entry.allocated_bytes);
        }
        totals.temporary_allocations = self.threads.iter().map(|t| t.temporary).sum();
        totals.reallocations = sites.iter().map(|site| site.reallocations).sum();
        let used = |entry: &EntryTotals| entry.allocations + entry.deallocations > 0;
        ImageStats {
            totals,
            peak_ns: self.peak_ns,
            peak_allocated: self.peak_allocated,
            end_ns,
            sites,
            threads: self.threads,
            entries: self.entries.into_iter().filter(used).collect(),
            series: self.series.finish(self.level.sample()),
            times: self.times,
            evidence,
            details: self.details,
            lost: LostOfImage::default(),
            implied_losses: self.implied_losses,
            ambiguous: self.ambiguous,
            unmatched: self.unmatched,
        }
    }

    /// Adds the lifetimes of the blocks that are live at the end.
    fn add_survivors(&mut self, end_ns: u64, live: &LiveBlocks) {
        let blocks = live.iter().map(|(_, number)| (number, live.block(number)));
        let own = blocks.filter(|(_, block)| block.site != INHERITED);
        // Stops once all of them have been found; the rest are inherited.
        let left = usize::try_from(self.level.allocations()).unwrap_or(usize::MAX);
        for (number, block) in own.take(left) {
            let lifetime = end_ns - block.allocated_ns;
            self.sites.add_survivor(block.site, lifetime);
            if let Some(details) = &mut self.details {
                details.survive(block.site, lifetime);
            }
            if let Some(times) = &mut self.times {
                times.survive(&block);
            }
            if let Some(evidence) = &mut self.evidence {
                evidence.survived(number, &block);
            }
        }
    }
}

impl Level {
    /// Live allocations.
    fn allocations(&self) -> u64 {
        self.allocated - self.released
    }

    fn sample(&self) -> LivePoint {
        LivePoint {
            max_bytes: 0,
            bytes: self.bytes,
            allocations: self.allocations(),
            allocated: self.allocated,
        }
    }
}

/// The figures of the thread with this dense number.
#[inline]
pub(crate) fn thread(threads: &mut Vec<ThreadFigures>, number: u32) -> &mut ThreadFigures {
    let index = number as usize;
    if threads.len() <= index {
        add_threads(threads, index + 1);
    }
    &mut threads[index]
}

#[cold]
#[inline(never)]
fn add_threads(threads: &mut Vec<ThreadFigures>, count: usize) {
    threads.resize(count, ThreadFigures::default());
}
