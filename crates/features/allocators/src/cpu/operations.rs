//! How many calls of the allocator a run has made.

/// The calls of the allocator in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operations {
    /// Number of the calls.
    pub number: u64,
    /// How the number is known.
    pub source: &'static str,
    /// Number of the calls of another run, if they were counted twice.
    pub again: Option<u64>,
}

impl Operations {
    /// The user states them.
    pub const GIVEN: &'static str = "given";
    /// A recording has them.
    pub const RECORDING: &'static str = "recording";
    /// They were counted in further runs of the program.
    pub const SECOND_RUN: &'static str = "second run";
}
