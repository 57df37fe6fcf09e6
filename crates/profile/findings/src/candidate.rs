//! What a rule found in a process, before it is compared with what others found.

use crate::finding::Finding;

/// Identifies a candidate while the findings are made.
pub(crate) type TriedId = u32;

/// What a rule found, and what decides about its rank.
pub(crate) struct Candidate {
    pub finding: Finding,
    /// The function it is about, by its number; `None` for the process as a whole.
    pub function: Option<u32>,
    /// Other functions whose blocks it also explains.
    pub also: Vec<u32>,
    /// It says less than another rule about the same blocks: growth is named rather than a leak if
    /// nothing says that the blocks are ever to be freed.
    pub weak: bool,
    /// The part of the peak, or of all allocations, that it is about: 0 to 1.
    pub stake: f64,
    /// Identifies it among those that are explained.
    pub tried: Option<TriedId>,
}

impl Candidate {
    /// The same, explained under this id.
    pub(crate) fn tried_as(self, id: Option<TriedId>) -> Self {
        Self { tried: id, ..self }
    }
}
