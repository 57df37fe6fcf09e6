//! Accumulates a batch: events of one thread whose order is certain, in an image without
//! windows. The result is exactly that of [`Accumulator::take`] for one event after the
//! other.
//!
//! Nearly all events of nearly all programs take this path. So the sums of a batch are
//! local variables until the batch ends, and an allocation that the next event frees is
//! never added to the live blocks.

use allotrope_trace::model::{Event, EventKind};

use super::{Accumulator, Level, thread};
use crate::block_key::block_key;
use crate::cursor::EventBatch;
use crate::evidence::Reallocated;
use crate::live::{BlockId, INHERITED, LiveBlock, LiveBlocks, NO_BLOCK};
use crate::site_details::Made;
use crate::site_details::free_stacks::Freed;
use crate::speculative::{BatchedEvent, PlacedBatch};

impl Accumulator<'_> {
    /// Accumulates the first events of the batch, up to one that is illegal or needs
    /// [`Self::take`]. Returns their number.
    pub(crate) fn take_batch(&mut self, events: &EventBatch<'_>, live: &mut LiveBlocks) -> usize {
        if self.sequences.is_some() {
            return 0;
        }
        let mut sums = BatchSums::new(self, events.thread);
        let mut at = 0;
        while let Some(taken) = take_next(&mut sums, events, at, live) {
            at += taken;
        }
        sums.finish(at);
        at
    }
}

impl Accumulator<'_> {
    /// Accumulates events that the merge has placed, whose effect on the live blocks has been
    /// applied; `false` if each needs [`Self::take`].
    pub(crate) fn take_placed(
        &mut self,
        batch: &PlacedBatch,
        events: &[BatchedEvent],
        live: &mut LiveBlocks,
    ) -> bool {
        // A step that is part of a reallocation is placed alone.
        if self.sequences.is_some() || batch.first.reallocation || batch.first.ambiguous {
            return false;
        }
        let mut sums = BatchSums::new(self, batch.first.thread);
        for (at, placed) in events.iter().enumerate() {
            let (event, time) = (placed.event(), batch.times.time(at));
            if placed.allocates {
                sums.advance(time, live);
                let block = sums.allocate(&event, false);
                live.describe(placed.block, block);
                sums.latest = placed.block;
            } else {
                sums.advance_to_deallocation(time, live);
                let block = live.block(placed.block);
                sums.deallocate(&event, &block, placed.block, live);
                live.release(false, placed.blocks());
            }
        }
        sums.finish(events.len());
        true
    }
}

/// Accumulates the event at this index of the batch, together with the next one if that
/// frees the block at once or is the result of the reallocation. Returns how many it
/// accumulated; `None` at the end and at an event for [`Accumulator::take`].
#[inline(always)]
fn take_next(
    sums: &mut BatchSums<'_, '_>,
    batch: &EventBatch<'_>,
    at: usize,
    live: &mut LiveBlocks,
) -> Option<usize> {
    let event = batch.events.get(at)?;
    let slot = live.find(block_key(event));
    let is_live = slot.block != NO_BLOCK;
    match event.kind {
        EventKind::Allocation if !is_live => {
            sums.advance(batch.time(at), live);
            let next = batch.events.get(at + 1);
            if let Some(next) = next.filter(|next| frees(next, event)) {
                sums.take_pair(event, next, batch.time(at + 1), live);
                return Some(2);
            }
            let block = sums.allocate(event, false);
            sums.latest = live.fill(slot, block);
            Some(1)
        }
        EventKind::Deallocation if is_live => {
            sums.advance_to_deallocation(batch.time(at), live);
            let block = live.remove(slot);
            sums.deallocate(event, &block, slot.block, live);
            Some(1)
        }
        EventKind::ReallocationStart if is_live && batch.moves => {
            let next = batch.events.get(at + 1);
            let end = next.filter(|next| next.kind == EventKind::ReallocationEnd)?;
            let key = block_key(end);
            if key != block_key(event) && live.contains(key) {
                return None;
            }
            sums.advance_to_deallocation(batch.time(at), live);
            let old = live.remove(slot);
            let old = sums.begin_reallocation(event, &old, slot.block);
            sums.advance(batch.time(at + 1), live);
            let block = sums.allocate(end, true);
            sums.latest = live.fill(live.find(key), block);
            if let Some(evidence) = &mut sums.totals.evidence {
                evidence.set_pending(sums.by, None);
                if let Some(old) = old {
                    evidence.reallocated(&old, key, sums.latest, &block);
                }
            }
            Some(2)
        }
        _ => None,
    }
}

/// Whether the event frees the block that the one before it allocated.
#[inline]
fn frees(event: &Event, allocation: &Event) -> bool {
    event.kind == EventKind::Deallocation && block_key(event) == block_key(allocation)
}

/// The sums of the batch so far, not yet added to the accumulator.
// Every function that gets a reference to this is inlined, so the compiler can keep the
// fields in registers.
struct BatchSums<'l, 'a> {
    totals: &'l mut Accumulator<'a>,
    /// The thread whose events these are.
    by: u32,
    /// The block that the thread allocated last; [`NO_BLOCK`] if it was freed at once.
    latest: BlockId,
    level: Level,
    /// See [`Accumulator::note_threshold`].
    note_threshold: u64,
    /// Time from which on [`Accumulator::open_bucket`] must be called.
    until: u64,
    /// Sums of the thread. Its other figures follow from the level.
    allocated_bytes: u64,
    temporary: u64,
}

impl<'l, 'a> BatchSums<'l, 'a> {
    /// Returns the sums for events of this thread.
    #[inline(always)]
    fn new(totals: &'l mut Accumulator<'a>, by: u32) -> Self {
        Self {
            by,
            latest: thread(&mut totals.threads, by).latest,
            level: totals.level,
            note_threshold: totals.note_threshold(),
            until: totals.series.until(),
            allocated_bytes: 0,
            temporary: 0,
            totals,
        }
    }

    /// Adds the sums to the accumulator; `events` is how many were accumulated.
    #[inline(always)]
    fn finish(self, events: usize) {
        let thread = thread(&mut self.totals.threads, self.by);
        let allocations = self.level.allocated - self.totals.level.allocated;
        thread.allocations += allocations;
        thread.allocated_bytes = thread.allocated_bytes.wrapping_add(self.allocated_bytes);
        thread.deallocations += events as u64 - allocations;
        thread.temporary += self.temporary;
        thread.latest = self.latest;
        self.totals.level = self.level;
        if self.level.bytes >= self.note_threshold {
            self.totals.note_level(self.level);
        }
    }

    /// Advances to the time of the next event, an allocation. The peak is not updated:
    /// the level only rises until the next deallocation, so that only the last level
    /// before that can be a peak.
    #[inline(always)]
    fn advance(&mut self, time: u64, live: &LiveBlocks) {
        let now = self.level.now.max(time);
        if now >= self.until {
            self.totals.open_bucket(self.level, now, live);
            self.until = self.totals.series.until();
            self.note_threshold = self.totals.note_threshold();
        }
        self.level.now = now;
    }

    /// Advances to the time of the next event, a deallocation.
    #[inline(always)]
    fn advance_to_deallocation(&mut self, time: u64, live: &LiveBlocks) {
        if self.level.bytes >= self.note_threshold {
            self.totals.note_level(self.level);
            self.note_threshold = self.totals.note_threshold();
            // What follows the known peak is later than it.
            self.level.now = self.level.now.max(self.totals.level.now);
        }
        self.advance(time, live);
    }

    /// Counts an allocation, and returns the record of its block.
    #[inline(always)]
    fn allocate(&mut self, event: &Event, reallocation: bool) -> LiveBlock {
        let site = self.count_allocation(event, reallocation);
        LiveBlock {
            size: event.size,
            allocated_ns: self.level.now,
            site,
            thread: self.by,
        }
    }

    /// Counts the deallocation of the block that had this id.
    #[inline(always)]
    fn deallocate(&mut self, event: &Event, block: &LiveBlock, id: BlockId, live: &LiveBlocks) {
        let Some(temporary) = self.end(event, block, id) else {
            return;
        };
        if let Some(evidence) = &mut self.totals.evidence {
            evidence.deallocated((id, block), self.by, self.latest, live);
            if temporary {
                evidence.temporary(block.site, self.level.now - block.allocated_ns);
            }
        }
        self.release(event, block, temporary);
    }

    /// Counts the deallocation of the block that had this id, with which a reallocation
    /// begins. Returns what [`EvidenceBuilder::reallocated`] needs, if it is wanted.
    ///
    /// [`EvidenceBuilder::reallocated`]: crate::evidence::EvidenceBuilder::reallocated
    #[inline(always)]
    fn begin_reallocation(
        &mut self,
        event: &Event,
        block: &LiveBlock,
        id: BlockId,
    ) -> Option<Reallocated> {
        let temporary = self.end(event, block, id)?;
        let evidence = self.totals.evidence.as_mut();
        let old = evidence.map(|it| it.reallocation(block_key(event), id, block, temporary));
        self.release(event, block, temporary);
        old
    }

    /// Ends the block that had this id. Returns whether it was temporary; `None` if it was
    /// inherited.
    #[inline(always)]
    fn end(&mut self, event: &Event, block: &LiveBlock, id: BlockId) -> Option<bool> {
        self.totals.entries[event.entry as usize].deallocations += 1;
        if block.site == INHERITED {
            self.totals.totals.inherited_deallocations += 1;
            if let Some(evidence) = &mut self.totals.evidence {
                evidence.inherited(block_key(event), block.size);
            }
            return None;
        }
        if block.thread != self.by {
            self.totals.clear_latest(id, block.thread);
            return Some(false);
        }
        let temporary = self.latest == id;
        if temporary {
            self.latest = NO_BLOCK;
        }
        Some(temporary)
    }

    /// Counts an allocation, to which [`Self::advance`] has been called, and the
    /// deallocation of its block that follows at once, at `time`.
    #[inline(always)]
    fn take_pair(
        &mut self,
        allocation: &Event,
        deallocation: &Event,
        time: u64,
        live: &LiveBlocks,
    ) {
        let site = self.count_allocation(allocation, false);
        let allocated_ns = self.level.now;
        self.advance_to_deallocation(time, live);
        self.totals.entries[deallocation.entry as usize].deallocations += 1;
        self.latest = NO_BLOCK;
        let block = LiveBlock {
            size: allocation.size,
            allocated_ns,
            site,
            thread: self.by,
        };
        if let Some(evidence) = &mut self.totals.evidence {
            evidence.pair(&block, self.level.now - allocated_ns);
        }
        self.release(deallocation, &block, true);
    }

    /// Adds an allocation to all sums, and returns its site.
    #[inline(always)]
    fn count_allocation(&mut self, event: &Event, reallocation: bool) -> u32 {
        let size = event.size;
        let site = self.totals.sites.of_stack(event.stack);
        self.totals.sites.allocate(site, size, reallocation);
        if let Some(details) = &mut self.totals.details {
            let made = Made {
                entry: event.entry,
                alignment_log2: event.alignment_log2,
                size,
                thread: self.by,
            };
            details.allocate(site, made);
        }
        let entry = &mut self.totals.entries[event.entry as usize];
        entry.allocations += 1;
        entry.allocated_bytes = entry.allocated_bytes.wrapping_add(size);
        self.allocated_bytes = self.allocated_bytes.wrapping_add(size);
        self.level.allocated += 1;
        self.level.bytes = self.level.bytes.wrapping_add(size);
        site
    }

    /// Counts that the event freed a block.
    #[inline(always)]
    fn release(&mut self, event: &Event, block: &LiveBlock, temporary: bool) {
        let &LiveBlock {
            size,
            allocated_ns,
            site,
            thread,
        } = block;
        let lifetime = self.level.now - allocated_ns;
        self.temporary += u64::from(temporary);
        self.level.released += 1;
        self.level.bytes = self.level.bytes.wrapping_sub(size);
        let sites = &mut self.totals.sites;
        sites.deallocate(site, size, lifetime, temporary);
        if let Some(times) = &mut self.totals.times {
            times.free(block, self.level.now);
        }
        if let Some(details) = &mut self.totals.details {
            let freed = Freed {
                by: Some(self.by),
                stack: event.stack,
                reallocation: event.kind == EventKind::ReallocationStart,
            };
            details.free(site, size, thread, freed, lifetime);
        }
    }
}
