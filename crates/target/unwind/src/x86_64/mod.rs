//! Unwinding on x86-64: the registers of a walk, the format of rules, and how a rule is
//! made from call frame information.
//!
//! All code that names a register or depends on where a call stores the return address is
//! in this folder. The rest of the crate uses the names that are re-exported here.

mod cfi;
mod frame;
mod frame_pointer;
mod general;
mod rule;
mod step;

pub use cfi::rule as rule_from_cfi;
pub use frame::{CachedFrame, Entry, Frame, FrameAddress, FrameFlags, Step, WalkedFrame};
#[cfg(test)]
pub use general::step_by_information;
pub use general::walk as general_walk;
#[cfg(test)]
pub use rule::Kind;
pub use rule::Rule;
pub use step::step;
