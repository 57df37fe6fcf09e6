//! Storage for the newest speculative steps, in batches: events of one stream between
//! the same two timestamps, placed one after another. What the steps of a batch have in
//! common is stored once; each step then takes 32 bytes more. Tens of thousands of
//! steps may wait to be committed.

use std::collections::VecDeque;

use allotrope_trace::model::{EntryPoint, Event, EventKind, StackId};

use crate::block_key::event_address;
use crate::cursor::TimeInterpolation;
use crate::live::{BlockId, Blocks, NO_BLOCK};
use crate::step::Step;

/// The common part of a batch: consecutive steps of one stream between the same two
/// timestamps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlacedBatch {
    pub stream: usize,
    /// First step of the batch, without the fields that each [`BatchedEvent`] has.
    pub first: Step,
    pub times: TimeInterpolation,
    length: usize,
}

impl PlacedBatch {
    pub(super) fn new(stream: usize, first: Step, times: TimeInterpolation, length: usize) -> Self {
        Self {
            stream,
            first,
            times,
            length,
        }
    }

    /// The step at this index, at its interpolated time.
    #[inline]
    pub(crate) fn step(&self, index: usize, event: &BatchedEvent) -> Step {
        Step {
            key: event.key,
            size: event.size,
            time: self.times.time(index),
            ordinal: self.first.ordinal.wrapping_add(index as u64),
            stack: event.stack,
            entry: event.entry,
            alignment_log2: event.alignment_log2,
            allocates: event.allocates,
            ..self.first
        }
    }

    /// Removes its first steps.
    fn cut(&mut self, steps: usize) {
        self.first.ordinal = self.first.ordinal.wrapping_add(steps as u64);
        self.times = self.times.after(steps);
        self.length -= steps;
    }
}

/// What differs between the steps of a batch. 32 bytes and aligned to 32, so that two fit
/// a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(crate) struct BatchedEvent {
    /// See [`crate::block_key`].
    pub key: u64,
    pub size: u64,
    /// The block that it allocated or freed.
    pub block: BlockId,
    pub stack: StackId,
    pub entry: EntryPoint,
    pub alignment_log2: u8,
    pub allocates: bool,
}

impl BatchedEvent {
    const NONE: Self = Self {
        key: 0,
        size: 0,
        block: NO_BLOCK,
        stack: 0,
        entry: EntryPoint::Malloc,
        alignment_log2: 0,
        allocates: false,
    };

    /// Makes one from a simple event.
    #[inline]
    pub(super) fn new(event: &Event, key: u64, block: BlockId) -> Self {
        Self {
            key,
            size: event.size,
            block,
            stack: event.stack,
            entry: event.entry,
            alignment_log2: event.alignment_log2,
            allocates: event.kind == EventKind::Allocation,
        }
    }

    /// Makes one from a step.
    pub(super) fn of(step: &Step, block: BlockId) -> Self {
        Self {
            key: step.key,
            size: step.size,
            block,
            stack: step.stack,
            entry: step.entry,
            alignment_log2: step.alignment_log2,
            allocates: step.allocates,
        }
    }

    /// The simple event that it was.
    #[inline]
    pub(crate) fn event(&self) -> Event {
        Event {
            kind: match self.allocates {
                true => EventKind::Allocation,
                false => EventKind::Deallocation,
            },
            entry: self.entry,
            alignment_log2: self.alignment_log2,
            stack: self.stack,
            address: event_address(self.key, self.entry),
            size: self.size,
        }
    }

    /// The effect of the step, which is legal, on the live blocks.
    #[inline]
    pub(crate) fn blocks(&self) -> Blocks {
        Blocks {
            block: self.block,
            replaced: NO_BLOCK,
        }
    }
}

/// A queue of batches, the oldest first.
pub(super) struct PlacedBatches {
    order: VecDeque<PlacedBatch>,
    /// The events of all batches: a ring buffer whose size is a power of two. No batch
    /// wraps around its end.
    events: Vec<BatchedEvent>,
    /// Index of the oldest event.
    first: usize,
    /// Number of events in use.
    length: usize,
}

impl PlacedBatches {
    pub(super) fn new() -> Self {
        Self {
            order: VecDeque::new(),
            events: Vec::new(),
            first: 0,
            length: 0,
        }
    }

    /// Number of steps.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// The free part of the buffer, for the next batch's events: at least one event.
    #[inline]
    pub(super) fn free_space(&mut self) -> &mut [BatchedEvent] {
        if self.length == self.events.len() {
            self.grow();
        }
        let end = self.first + self.length;
        match end.checked_sub(self.events.len()) {
            Some(again) => &mut self.events[again..self.first],
            None => &mut self.events[end..],
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.events.rotate_left(self.first);
        self.first = 0;
        let length = (self.events.len() * 2).max(1 << 6);
        self.events.resize(length, BatchedEvent::NONE);
    }

    /// Adds a batch whose events were written to [`Self::free_space`].
    #[inline]
    pub(super) fn push(&mut self, batch: PlacedBatch) {
        self.length += batch.length;
        self.order.push_back(batch);
    }

    /// The oldest batch.
    #[inline]
    pub(super) fn front(&self) -> Option<&PlacedBatch> {
        self.order.front()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PlacedBatch> {
        self.order.iter()
    }

    /// The oldest batch and at most the first `most` of its events.
    #[inline]
    pub(super) fn oldest(&self, most: usize) -> Option<(&PlacedBatch, &[BatchedEvent])> {
        let batch = self.order.front()?;
        let end = self.first + batch.length.min(most);
        Some((batch, &self.events[self.first..end]))
    }

    /// Removes the first steps of the oldest batch.
    #[inline]
    pub(super) fn remove_first(&mut self, steps: usize) {
        let Some(batch) = self.order.front_mut() else {
            return;
        };
        if steps < batch.length {
            batch.cut(steps);
        } else {
            self.order.pop_front();
        }
        self.length -= steps;
        self.first = (self.first + steps) & (self.events.len() - 1);
        if self.length == 0 {
            // The beginning was used last and is still in the processor's cache.
            self.first = 0;
        }
    }
}
