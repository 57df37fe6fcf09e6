//! What the header of an event chunk says about the events in it, so that a
//! reader can pick chunks without decoding them.

use crate::model::{ImageId, StreamId};

/// A run of a stream's events that has not been decoded yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventsRef {
    /// The image whose stream it is.
    pub image: ImageId,
    /// The stream.
    pub stream: StreamId,
    /// Number of counted events in the stream before this run.
    pub first_ordinal: u64,
    /// Number of events.
    pub events: u32,
    /// Number of events that have an ordinal (see [`crate::model::Event::is_counted`]).
    pub counted: u32,
    /// Tick of the first anchor in the run.
    pub first_tick: Option<u64>,
    /// Tick of the last anchor in the run.
    pub last_tick: Option<u64>,
    /// Thread named by the last thread mark in the run.
    pub last_thread: Option<u64>,
    /// Epoch of the last epoch mark in the run.
    pub last_epoch: Option<u64>,
    /// Allocations, reallocations among them.
    pub allocations: u32,
    /// Deallocations and starts of reallocations.
    pub deallocations: u32,
    /// Reallocations that failed: as many of `deallocations` were none.
    pub reallocations_failed: u32,
    /// Bytes of the allocations; stays at `u64::MAX` if they are more.
    pub allocated_bytes: u64,
    /// Where the chunk begins.
    pub(crate) offset: u64,
}
