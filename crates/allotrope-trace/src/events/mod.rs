//! The payload of an event chunk: columns, in which each field of the events
//! stands in a sequence of its own, predicted from what came before.
//!
//! Encoder and decoder run the same [`prediction::Blocks`] over the events, so
//! that most of them need one symbol byte and nothing else. What the columns
//! hold is in `docs/trace-format.md`, "Events".

mod decode;
mod encode;
mod key_index;
mod prediction;

pub(crate) use decode::{Decoder, columns_of};
pub(crate) use encode::Encoder;

use crate::model::{EntryPoint, EventKind, StackId};

/// Columns of an event chunk, in the order in which they stand in the payload.
pub(crate) const COLUMNS: usize = 8;
/// One byte an event: shape number times 4 plus two [`allocation`] or
/// [`deallocation`] bits; [`FAR_SHAPE`] as the shape number refers to `FAR`.
pub(crate) const SYMBOLS: usize = 0;
/// Shape numbers from [`FAR_SHAPE`] on, less [`FAR_SHAPE`].
pub(crate) const FAR: usize = 1;
/// A shape at its first use: kind, entry, alignment, stack.
pub(crate) const SHAPES: usize = 2;
/// Deallocations of a block of the chunk: how many allocations ago it was made.
pub(crate) const DISTANCES: usize = 3;
/// Deallocations of other blocks: address.
pub(crate) const FOREIGN: usize = 4;
/// Addresses of allocations that were not predicted.
pub(crate) const ADDRESSES: usize = 5;
/// Sizes of allocations that differ from the last of the same shape.
pub(crate) const SIZES: usize = 6;
/// Ticks, threads and epochs.
pub(crate) const MARKS: usize = 7;

/// The columns' names, for those who measure them.
pub(crate) const COLUMN_NAMES: [&str; COLUMNS] = [
    "symbols",
    "far shapes",
    "shapes",
    "distances",
    "foreign",
    "addresses",
    "sizes",
    "marks",
];

/// Shape number in a symbol that says that the number stands in `FAR`.
pub(crate) const FAR_SHAPE: u32 = 63;

/// Bits of an allocation's symbol.
pub(crate) mod allocation {
    pub(crate) const OTHER_SIZE: u8 = 1;
    pub(crate) const OTHER_ADDRESS: u8 = 2;
}

/// Values of the two bits of a deallocation's symbol.
pub(crate) mod deallocation {
    /// The block in the first slot (see [`super::prediction::Blocks`]).
    pub(crate) const FIRST: u8 = 0;
    /// The block in the second slot.
    pub(crate) const SECOND: u8 = 1;
    /// A block of this chunk, by distance.
    pub(crate) const DISTANCE: u8 = 2;
    /// A block that was not allocated in this chunk, by address.
    pub(crate) const FOREIGN: u8 = 3;
}

/// What events have in common that come from one place of the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub kind: EventKind,
    pub entry: EntryPoint,
    pub alignment_log2: u8,
    pub stack: StackId,
    /// Size of its last allocation.
    pub last_size: u64,
}

/// Whether events of the kind carry a stack and a size.
pub(crate) const fn is_allocation(kind: EventKind) -> bool {
    matches!(kind, EventKind::Allocation | EventKind::ReallocationEnd)
}

/// Position of a mark's kind among the three that have a value.
pub(crate) const fn mark_position(kind: EventKind) -> usize {
    match kind {
        EventKind::Anchor => 0,
        EventKind::Thread => 1,
        _ => 2,
    }
}
