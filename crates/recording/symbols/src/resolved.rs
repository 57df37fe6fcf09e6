//! The result of resolving an address.

use allotrope_trace::model::NamedFrame;

/// The frames of one address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resolved {
    /// Innermost first; all but the last are inlined into the next. Empty if
    /// nothing names the address.
    pub frames: Vec<NamedFrame>,
}
