//! The speculative log: the steps that the merge has placed and can still roll back, and
//! the blocks that are live after the newest of them.
//!
//! Two streams may use the same key at about the same time. Which came first shows only
//! later, when the wrong choice leaves one of them stuck; then the merge rolls back to
//! that choice. Steps that certainly precede all coming events are committed: they go to
//! the sink.
//!
//! ```text
//! committed ◀── placed: one Placed a step ── batches: many events a batch ──▶ newest
//!               (can be rolled back)         (as they came from the fast path)
//! ```
//!
//! Nearly all steps are legal and never rolled back. While the fast path runs they stay
//! in [batches]; when it ends, the batches are
//! [split](SpeculativeLog::split_batches) into single steps.

mod batches;

use std::collections::VecDeque;

use allotrope_trace::model::EventKind;

use crate::block_key::block_key;
use crate::cursor::{EventBatch, TimeInterpolation, is_simple};
use crate::live::{Blocks, LiveBlocks};
use crate::sink::Sink;
use crate::step::Step;
use batches::PlacedBatches;
pub(crate) use batches::{BatchedEvent, PlacedBatch};

/// Slots of [`SpeculativeLog::latest`].
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 14;

/// A step in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    pub step: Step,
    /// Effect of the step on the live blocks.
    pub blocks: Blocks,
    /// The time that its stream's cursor estimated, before the merge raised it.
    pub estimate: u64,
    pub stream: usize,
}

/// See the [module](self).
pub(crate) struct SpeculativeLog {
    /// The oldest first.
    placed: VecDeque<Placed>,
    /// These steps follow those in `placed`.
    batches: PlacedBatches,
    /// Number of steps committed so far. The step at index `i` of `placed` has the number
    /// `committed + i`.
    committed: u64,
    live: LiveBlocks,
    /// Number + 1, by hash of a key, of the newest step in `placed` (or committed)
    /// whose key has that hash; a direct-mapped cache.
    latest: Box<[u64]>,
    /// Time of the newest step, in nanoseconds.
    now: u64,
    /// Time of the last committed step.
    committed_at: u64,
}

impl SpeculativeLog {
    pub(crate) fn new(live: LiveBlocks) -> Self {
        Self {
            placed: VecDeque::new(),
            batches: PlacedBatches::new(),
            committed: 0,
            live,
            latest: vec![0; SLOTS].into_boxed_slice(),
            now: 0,
            committed_at: 0,
        }
    }

    /// Number of speculative steps.
    pub(crate) fn len(&self) -> usize {
        self.placed.len() + self.batches.len()
    }

    /// Whether the step is legal: it frees a live block, or allocates where none is live.
    #[inline]
    pub(crate) fn allows(&self, step: &Step) -> bool {
        self.live.contains(step.key) != step.allocates
    }

    /// (stream, time before which it happened) of each speculative step, the oldest
    /// first; one entry for all steps of a batch.
    pub(crate) fn uppers(&self) -> impl Iterator<Item = (usize, u64)> {
        let placed = self.placed.iter();
        let placed = placed.map(|placed| (placed.stream, placed.step.upper));
        let batches = self.batches.iter();
        placed.chain(batches.map(|batch| (batch.stream, batch.first.upper)))
    }

    /// Commits the step at once, if it is legal. The log must be empty.
    #[inline]
    pub(crate) fn commit_directly<K: Sink>(&mut self, step: &mut Step, sink: &mut K) -> bool {
        if !self.allows(step) {
            return false;
        }
        let blocks = self.live.apply(step);
        self.now = self.now.max(step.time);
        step.time = self.now;
        self.committed_at = self.now;
        sink.step(step, blocks, &mut self.live);
        self.live.release(step.allocates, blocks);
        true
    }

    /// Commits the events of the batch that the sink takes, and returns their number. The
    /// log must be empty.
    #[inline]
    pub(crate) fn commit_batch_directly<K: Sink>(
        &mut self,
        batch: &EventBatch<'_>,
        sink: &mut K,
    ) -> usize {
        let taken = sink.batch(batch, &mut self.live);
        if let Some(last) = taken.checked_sub(1) {
            self.now = self.now.max(batch.time(last));
            self.committed_at = self.now;
        }
        taken
    }

    /// Appends the step, legal or not. Its time becomes its estimate, or `latest` if that
    /// is earlier, but not less than the time of the step before it.
    #[inline]
    pub(crate) fn place(&mut self, stream: usize, mut step: Step, latest: u64) {
        let estimate = step.time;
        self.now = self.now.max(estimate.min(latest));
        step.time = self.now;
        let blocks = self.live.apply(&step);
        self.push(Placed {
            stream,
            step,
            estimate,
            blocks,
        });
    }

    /// Appends the step as a batch of one, if it is legal.
    #[inline]
    pub(crate) fn place_legal(&mut self, stream: usize, step: &Step) -> bool {
        if !self.allows(step) {
            return false;
        }
        let blocks = self.live.apply(step);
        self.batches.free_space()[0] = BatchedEvent::of(step, blocks.block);
        let times = TimeInterpolation::of_one(step.time);
        self.batches.push(PlacedBatch::new(stream, *step, times, 1));
        self.now = self.now.max(step.time);
        true
    }

    /// Appends the first `most` events as one batch, up to the first that is illegal or
    /// not simple, or for which the buffer has no space. Returns how many it appended.
    #[inline]
    pub(crate) fn place_batch(
        &mut self,
        stream: usize,
        batch: &EventBatch<'_>,
        most: usize,
    ) -> usize {
        let mut taken = 0_usize;
        let space = self.batches.free_space();
        for (event, into) in batch.events.iter().take(most).zip(space) {
            if !is_simple(event) {
                break;
            }
            let key = block_key(event);
            let allocates = event.kind == EventKind::Allocation;
            let applied = if allocates {
                self.live.add(key)
            } else {
                self.live.end(key)
            };
            let Some(block) = applied else {
                break;
            };
            *into = BatchedEvent::new(event, key, block);
            taken += 1;
        }
        if let Some(last) = taken.checked_sub(1) {
            self.now = self.now.max(batch.times.time(last));
            let placed = PlacedBatch::new(stream, batch.first, batch.times, taken);
            self.batches.push(placed);
        }
        taken
    }

    /// Moves the steps of all batches to `placed`, where they can be searched and rolled
    /// back.
    pub(crate) fn split_batches(&mut self) {
        let mut now = self
            .placed
            .back()
            .map_or(self.committed_at, |p| p.step.time);
        while let Some((batch, events)) = self.batches.oldest(usize::MAX) {
            let (stream, count) = (batch.stream, events.len());
            for (at, event) in events.iter().enumerate() {
                let step = batch.step(at, event);
                let estimate = step.time;
                now = now.max(estimate);
                self.placed.push_back(Placed {
                    stream,
                    step: Step { time: now, ..step },
                    estimate,
                    blocks: event.blocks(),
                });
                self.latest[slot(step.key)] = self.committed + self.placed.len() as u64;
            }
            self.batches.remove_first(count);
        }
    }

    #[inline(always)]
    fn push(&mut self, placed: Placed) {
        self.placed.push_back(placed);
        self.latest[slot(placed.step.key)] = self.committed + self.placed.len() as u64;
    }

    /// Rolls back the newest step and returns it. There must be no batches.
    pub(crate) fn undo(&mut self) -> Option<Placed> {
        let last = self.placed.pop_back()?;
        self.live.undo(&last.step, last.blocks);
        self.now = self
            .placed
            .back()
            .map_or(self.committed_at, |p| p.step.time);
        Some(last)
    }

    /// Commits the oldest steps: at most `most`, and while `committed` holds for the time
    /// before which a step happened. Returns their number.
    pub(crate) fn commit<K: Sink>(
        &mut self,
        most: usize,
        committed: impl Fn(u64) -> bool,
        sink: &mut K,
    ) -> usize {
        let mut count = 0;
        while count < most
            && let Some(oldest) = self.placed.front()
            && committed(oldest.step.upper)
        {
            self.commit_one(sink);
            count += 1;
        }
        while count < most
            && self.placed.is_empty()
            && let Some(oldest) = self.batches.front()
            && committed(oldest.first.upper)
        {
            count += self.commit_batch(most - count, sink);
        }
        count
    }

    fn commit_one<K: Sink>(&mut self, sink: &mut K) {
        let Some(placed) = self.placed.front() else {
            return;
        };
        sink.step(&placed.step, placed.blocks, &mut self.live);
        self.live.release(placed.step.allocates, placed.blocks);
        self.committed += 1;
        self.committed_at = placed.step.time;
        self.placed.pop_front();
    }

    /// Commits the oldest batch, at most `most` events of it. Returns their number.
    #[inline]
    fn commit_batch<K: Sink>(&mut self, most: usize, sink: &mut K) -> usize {
        let Some((batch, events)) = self.batches.oldest(most) else {
            return 0;
        };
        let count = events.len();
        if sink.placed(batch, events, &mut self.live) {
            let last = batch.times.time(count.saturating_sub(1));
            self.committed_at = self.committed_at.max(last);
        } else {
            for (at, event) in events.iter().enumerate() {
                let mut step = batch.step(at, event);
                self.committed_at = self.committed_at.max(step.time);
                step.time = self.committed_at;
                sink.step(&step, event.blocks(), &mut self.live);
                self.live.release(event.allocates, event.blocks());
            }
        }
        self.committed += count as u64;
        self.batches.remove_first(count);
        count
    }

    /// The blocks that are live after the newest step.
    pub(crate) fn live(&self) -> &LiveBlocks {
        &self.live
    }

    /// The live blocks at the end, when everything has been committed.
    pub(crate) fn into_live(self) -> LiveBlocks {
        self.live
    }

    /// The newest step at this key, if `latest` still has it.
    pub(crate) fn recent(&self, key: u64) -> Option<&Placed> {
        let index = self.latest[slot(key)].checked_sub(self.committed + 1)?;
        let placed = self.placed.get(usize::try_from(index).ok()?)?;
        (placed.step.key == key).then_some(placed)
    }

    /// Whether certainly no step at this key is in `placed`.
    pub(crate) fn is_untouched(&self, key: u64) -> bool {
        self.latest[slot(key)] <= self.committed
    }

    /// Index of the newest step at this key, and how many steps were searched for it: at
    /// most the newest `most`.
    pub(crate) fn last_at(&self, key: u64, most: usize) -> (Option<usize>, usize) {
        if self.is_untouched(key) {
            return (None, 1);
        }
        if self.recent(key).is_some() {
            let number = self.latest[slot(key)] - self.committed;
            return (usize::try_from(number - 1).ok(), 1);
        }
        let mut newest_first = self.placed.iter().rev().take(most);
        let back = newest_first.position(|p| p.step.key == key);
        let index = back.map(|back| self.placed.len() - 1 - back);
        (
            index,
            back.map_or(most.min(self.placed.len()), |back| back + 1),
        )
    }

    /// Whether the condition holds for every step at the key in `placed`.
    pub(crate) fn all_at(&self, key: u64, holds: impl Fn(&Step) -> bool) -> bool {
        // The newest are the likeliest not to meet it.
        let mut newest_first = self.placed.iter().rev();
        newest_first.all(|placed| placed.step.key != key || holds(&placed.step))
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Placed> {
        self.placed.get(index)
    }
}

/// The index of a key in [`SpeculativeLog::latest`]: Fibonacci hashing.
#[inline]
fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOT_BITS)) as usize
}
