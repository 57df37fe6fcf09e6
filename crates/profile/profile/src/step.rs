//! One event of a stream as the merge orders it.

use allotrope_trace::model::{EntryPoint, StackId};

use crate::window_table::Rank;

/// An allocation or deallocation: an event of a stream with its thread and time. Times
/// are nanoseconds since the start of the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// The block's key (see [`crate::block_key`]).
    pub key: u64,
    pub size: u64,
    /// Estimate: interpolated by the cursor, then raised by the merge where the order
    /// demands it.
    pub time: u64,
    /// It happened after `lower` and before `upper`.
    pub lower: u64,
    pub upper: u64,
    /// Number of counted events of the stream before it.
    pub ordinal: u64,
    pub stack: StackId,
    /// The thread's dense number in its image.
    pub thread: u32,
    /// The rank of its epoch (see [`crate::window_table`]).
    pub rank: Rank,
    pub entry: EntryPoint,
    /// Logarithm of the requested alignment; 0 if none was requested.
    pub alignment_log2: u8,
    pub allocates: bool,
    /// It is the allocation that a reallocation resulted in, or the deallocation with which
    /// one began.
    pub reallocation: bool,
    /// Another order would be legal, too.
    pub ambiguous: bool,
    /// The merge tried another order for it, so that it is not counted as ambiguous.
    pub ordered: bool,
    /// The step's thread had opted out of windows.
    pub opted_out: bool,
    /// How often the merge tried another order because of it.
    pub tries: u8,
}

impl Step {
    /// A placeholder: all zero.
    pub(crate) const NONE: Self = Self {
        key: 0,
        size: 0,
        time: 0,
        lower: 0,
        upper: 0,
        ordinal: 0,
        stack: 0,
        thread: 0,
        rank: 0,
        entry: EntryPoint::Malloc,
        alignment_log2: 0,
        allocates: false,
        reallocation: false,
        ambiguous: false,
        ordered: false,
        opted_out: false,
        tries: 0,
    };
}
