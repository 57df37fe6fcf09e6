//! Unwinding on x86-64: which registers a walk carries, how a rule is packed
//! into a word, and how one is made from call frame information.
//!
//! Whatever names a register or relies on where a call leaves the return
//! address is in this folder. The rest of the crate uses what is re-exported here.

mod cfi;
mod frame;
mod frame_pointer;
mod general;
mod rule;

pub use cfi::rule as rule_from_cfi;
pub use frame::{CachedFrame, Entry, Frame, FrameAddress, FrameFlags, WalkedFrame};
#[cfg(test)]
pub use general::step_by_information;
pub use general::walk as general_walk;
#[cfg(test)]
pub use rule::Kind;
pub use rule::{Rule, Step, step};
