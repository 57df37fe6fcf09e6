//! What receives the events of an image in their final order.

use crate::cursor::EventBatch;
use crate::error::AggregateError;
use crate::live::{Blocks, LiveBlocks};
use crate::speculative::{BatchedEvent, PlacedBatch};
use crate::step::Step;

/// Receives an image's events in their final order.
pub(crate) trait Sink {
    /// Takes the next event; `blocks` is its effect on the live blocks.
    fn step(&mut self, step: &Step, blocks: Blocks, live: &mut LiveBlocks);
    /// Takes events of one stream that precede all events of the others, up to the first
    /// that is illegal or needs [`Self::step`]. Returns how many it took.
    fn batch(&mut self, batch: &EventBatch<'_>, live: &mut LiveBlocks) -> usize;
    /// Takes events that the merge has placed, the oldest first, whose effect on the live blocks
    /// has been applied: all of them or, if each needs [`Self::step`], none. Returns whether it did.
    fn placed(
        &mut self,
        batch: &PlacedBatch,
        events: &[BatchedEvent],
        live: &mut LiveBlocks,
    ) -> bool;
    /// The image forked here (index into the forks of [`merge()`]); `live` is what the
    /// child inherits.
    fn fork(&mut self, fork: usize, live: &LiveBlocks) -> Result<(), AggregateError>;
}
