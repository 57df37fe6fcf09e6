//! The result of resolving an address. The fields are those of the trace's frame
//! record; they are repeated here because this crate does not depend on the trace's.

use std::sync::Arc;

/// One named frame. Strings are shared between the frames that repeat them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Frame {
    /// Qualified name without parameters, return type and compiler suffix.
    pub function: Arc<str>,
    /// The full demangled form; for C the plain name.
    pub signature: Arc<str>,
    /// Source file; empty if unknown.
    pub file: Arc<str>,
    /// Line from 1; 0 if unknown.
    pub line: u32,
    /// Column from 1; 0 if unknown.
    pub column: u32,
    /// Bytes from the start of the enclosing function that is not inlined to the
    /// given address. A return address counts itself, not the call before it.
    pub offset: u64,
    /// The frame was inlined into the next one.
    pub inlined: bool,
    /// The compiler wrote the function. Names and lines alone do not show it: always
    /// `false` where this crate makes a frame.
    pub generated: bool,
}

/// The frames of one address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resolved {
    /// Innermost first; all but the last are inlined into the next. Empty if
    /// nothing names the address.
    pub frames: Vec<Frame>,
}
