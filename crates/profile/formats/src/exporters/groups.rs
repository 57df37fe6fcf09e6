//! Groups frames by physical frame: a function and the functions inlined into
//! it, which have one address in DHAT and pprof.

use allotrope_profile::StackSet;

/// The groups of a stack, innermost first. Each ends with a frame that is not
/// inlined, or at the end of the stack.
pub(crate) fn groups<'a>(set: &'a StackSet, stack: &'a [u32]) -> impl Iterator<Item = &'a [u32]> {
    stack.split_inclusive(|frame| !set.frames[*frame as usize].inlined)
}
