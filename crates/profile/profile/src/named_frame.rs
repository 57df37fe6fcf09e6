//! The two ways in which frames know their modules: by index in a profile, by name in a set of
//! stacks.

use std::sync::Arc;

use allotrope_trace::model::NamedFrame;

/// A frame of a profile. Its function is `module+0x1f` if the address has no name, `0x7f…` if it
/// is in no module, `[truncated]` in place of the frames beyond the depth limit of the walk. Its
/// module is an index into [`Profile::modules`](crate::Profile::modules), or
/// [`UNKNOWN_MODULE`](crate::UNKNOWN_MODULE).
pub type Frame = NamedFrame<u32>;

/// A frame of a [`StackSet`](crate::StackSet), with everything that its source has. Its function
/// may be the source's own text where no qualified name can be made of it. Its module is a file
/// name without folders, empty if unknown.
pub type StackFrame = NamedFrame<Arc<str>>;
