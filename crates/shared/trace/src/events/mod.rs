//! The payload of an event chunk: a column store. Each field of the events is in a
//! column of its own, and most fields are predicted from the preceding events.
//!
//! ```text
//! events ──► symbols (1 byte per event): predictions correct?
//!        └─► other columns: what was predicted wrong
//! ```
//!
//! Two models predict: [`shape_predictor`] the shape of an event (what events from
//! one location in the program have in common), and [`allocator_model`] the address
//! or block. Encoder and decoder run the same models over the same events, so most
//! events need only their symbol byte. The models start anew with each chunk, so each
//! chunk can be decoded by itself. `docs/trace-format.md`, section "Event chunks",
//! specifies the columns and the models.

mod allocator_model;
mod block_list;
mod column;
mod decode;
mod encode;
mod free_lists;
mod key_index;
mod shape_predictor;

pub(crate) use decode::{Decoder, columns_of};
pub(crate) use encode::Encoder;

use crate::model::EventKind;

/// Number of columns. The constants below are their positions in the payload.
pub(crate) const COLUMNS: usize = 10;
/// One byte per event: a [`field`] in the upper six bits, and two bits as in
/// [`allocation`] or [`deallocation`].
pub(crate) const SYMBOLS: usize = 0;
/// Shape numbers that do not fit into the symbol: varints, minus
/// [`field::INLINE_NUMBERS`].
pub(crate) const SHAPE_NUMBERS: usize = 1;
/// New shapes: kind, entry point and alignment, one byte each.
pub(crate) const NEW_SHAPES: usize = 2;
/// Stacks of new shapes of allocations: deltas.
pub(crate) const STACKS: usize = 3;
/// Deallocated blocks that are no candidates: varints, the number of allocations
/// between.
pub(crate) const DISTANCES: usize = 4;
/// Addresses of deallocated blocks that were not allocated in the chunk: deltas.
pub(crate) const FOREIGN_ADDRESSES: usize = 5;
/// Wrongly predicted addresses of allocations: one byte, the index in the free list
/// (1 is the top), or 0 if the address is in [`ADDRESSES`]. A variant of
/// move-to-front coding: an address that was freed recently has a small index.
pub(crate) const FREE_LIST_INDEXES: usize = 6;
/// Addresses of allocations that are neither predicted nor have an index: deltas.
pub(crate) const ADDRESSES: usize = 7;
/// Sizes that differ from that of the last allocation of the same shape: varints.
pub(crate) const SIZES: usize = 8;
/// Values of control events (ticks, threads, epochs): deltas from the last value of
/// the same kind.
pub(crate) const CONTROL_VALUES: usize = 9;

/// The names of the columns, for measurements.
pub(crate) const COLUMN_NAMES: [&str; COLUMNS] = [
    "symbols",
    "shape numbers",
    "new shapes",
    "stacks",
    "distances",
    "foreign addresses",
    "free-list indexes",
    "addresses",
    "sizes",
    "control values",
];

/// Largest number of bytes that one event adds to each column.
const MAX_BYTES: [usize; COLUMNS] = [1, 3, 3, 5, 3, 10, 1, 10, 10, 10];

/// The upper six bits of a symbol. A value below [`field::INLINE_NUMBERS`] is the
/// number of the shape.
pub(crate) mod field {
    /// Shape numbers from this one on do not fit into the symbol.
    pub(crate) const INLINE_NUMBERS: u8 = 60;
    /// The number is in the column `SHAPE_NUMBERS`.
    pub(crate) const EXPLICIT: u8 = 60;
    /// A new shape; it is in the columns `NEW_SHAPES` and `STACKS`.
    pub(crate) const NEW: u8 = 61;
    /// The second predicted shape.
    pub(crate) const SECOND: u8 = 62;
    /// The first predicted shape.
    pub(crate) const FIRST: u8 = 63;
}

/// The lower two bits of an allocation's symbol, each set if a prediction was wrong.
pub(crate) mod allocation {
    pub(crate) const OTHER_SIZE: u8 = 1;
    pub(crate) const OTHER_ADDRESS: u8 = 2;
}

/// The lower two bits of a deallocation's symbol.
pub(crate) mod deallocation {
    /// The first candidate (see [`super::allocator_model::AllocatorModel`]).
    pub(crate) const FIRST: u8 = 0;
    /// The second candidate.
    pub(crate) const SECOND: u8 = 1;
    /// Another block that was allocated in the chunk; column `DISTANCES`.
    pub(crate) const DISTANCE: u8 = 2;
    /// A block that was not allocated in the chunk; column `FOREIGN_ADDRESSES`.
    pub(crate) const FOREIGN: u8 = 3;
}

/// Whether events of the kind have a stack and a size.
pub(crate) const fn is_allocation(kind: EventKind) -> bool {
    matches!(kind, EventKind::Allocation | EventKind::ReallocationEnd)
}

/// Index of a control event's kind among the three kinds of control events.
pub(crate) const fn control_index(kind: EventKind) -> usize {
    match kind {
        EventKind::Timestamp => 0,
        EventKind::Thread => 1,
        _ => 2,
    }
}

/// An array in zeroed memory; its pages become resident when they are first written.
fn zeroed<T: Copy + Default, const LENGTH: usize>() -> Box<[T; LENGTH]> {
    let Ok(zeroed) = vec![T::default(); LENGTH].into_boxed_slice().try_into() else {
        unreachable!("the vector has LENGTH elements");
    };
    zeroed
}
