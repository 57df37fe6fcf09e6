//! A stepped operation.

/// One call of an entry point, step by step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    /// `malloc`, `free`, …
    pub(crate) entry_point: &'static str,
    /// Bytes that were requested, or of the block that is freed.
    pub(crate) size: u64,
    /// The numbers of the executed addresses, in order; an instruction that repeats itself is
    /// there once.
    pub(crate) steps: Vec<u32>,
    /// It was too long to be stepped to its end.
    pub(crate) cut: bool,
}
