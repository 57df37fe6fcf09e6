//! The payload of an event chunk: columns, in which each field of the events
//! stands in a sequence of its own, predicted from what came before.
//!
//! Encoder and decoder run the same [`prediction::Blocks`] and
//! [`successors::Successors`] over the events, so that most of them need one
//! symbol byte and nothing else. What the columns hold is in
//! `docs/trace-format.md`, "Events".

mod block_list;
mod column;
mod decode;
mod encode;
mod freed;
mod key_index;
mod prediction;
mod successors;

pub(crate) use decode::{Decoder, columns_of};
pub(crate) use encode::Encoder;

use crate::model::EventKind;

/// Columns of an event chunk, in the order in which they stand in the payload.
pub(crate) const COLUMNS: usize = 10;
/// One byte an event: [`field`] times 4 plus two [`allocation`] or
/// [`deallocation`] bits.
pub(crate) const SYMBOLS: usize = 0;
/// Shape numbers from [`field::NEAR`] on, less that.
pub(crate) const FAR: usize = 1;
/// A shape at its first use: kind, entry, alignment.
pub(crate) const SHAPES: usize = 2;
/// Its stack, if its events carry one.
pub(crate) const STACKS: usize = 3;
/// Deallocations of a block of the chunk: how many allocations ago it was made.
pub(crate) const DISTANCES: usize = 4;
/// Deallocations of other blocks: address.
pub(crate) const FOREIGN: usize = 5;
/// Of addresses that were guessed wrong: at which place of the guessing stack
/// they are.
pub(crate) const PLACES: usize = 6;
/// Addresses that are at no place of it.
pub(crate) const ADDRESSES: usize = 7;
/// Sizes of allocations that differ from the last of the same shape.
pub(crate) const SIZES: usize = 8;
/// Ticks, threads and epochs.
pub(crate) const MARKS: usize = 9;

/// The columns' names, for those who measure them.
pub(crate) const COLUMN_NAMES: [&str; COLUMNS] = [
    "symbols",
    "far shapes",
    "shapes",
    "stacks",
    "distances",
    "foreign",
    "places",
    "addresses",
    "sizes",
    "marks",
];

/// Most bytes that an event adds to each column.
const MOST_BYTES: [usize; COLUMNS] = [1, 3, 3, 5, 3, 10, 1, 10, 10, 10];

/// Values of the upper six bits of a symbol; below [`field::NEAR`] it is the
/// shape's number.
pub(crate) mod field {
    /// Numbers from this one on do not fit the symbol.
    pub(crate) const NEAR: u8 = 60;
    /// The number stands in the column `FAR`.
    pub(crate) const FAR: u8 = 60;
    /// The shape is told in the columns `SHAPES` and `STACKS`.
    pub(crate) const NEW: u8 = 61;
    /// The second of the foreseen shapes.
    pub(crate) const SECOND: u8 = 62;
    /// The first of the foreseen shapes.
    pub(crate) const FIRST: u8 = 63;
}

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

/// Whether events of the kind carry a stack and a size.
pub(crate) const fn is_allocation(kind: EventKind) -> bool {
    matches!(kind, EventKind::Allocation | EventKind::ReallocationEnd)
}

/// Position of a mark's kind among the three that have a value.
pub(crate) const fn mark_position(kind: EventKind) -> usize {
    match kind {
        EventKind::Timestamp => 0,
        EventKind::Thread => 1,
        _ => 2,
    }
}

/// An array that becomes resident where it is written to.
fn zeroed<T: Copy + Default, const LENGTH: usize>() -> Box<[T; LENGTH]> {
    let Ok(zeroed) = vec![T::default(); LENGTH].into_boxed_slice().try_into() else {
        unreachable!("as many as were made");
    };
    zeroed
}
