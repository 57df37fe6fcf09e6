//! Physical frames: a function's frame with what was inlined into it. DHAT and
//! pprof have one address for all of them.

use allotrope_profile::StackSet;

/// The frames of a stack in groups, innermost first: each ends in the frame
/// that is not inlined, or where the stack ends.
pub(super) fn groups<'a>(set: &'a StackSet, stack: &'a [u32]) -> impl Iterator<Item = &'a [u32]> {
    stack.split_inclusive(|frame| !set.frames[*frame as usize].inlined)
}
