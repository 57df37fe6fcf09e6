//! A time in which events of a process are missing: see `gaps`.

/// A time in which events of a process are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Nanoseconds since the start of the recording.
    pub from_ns: u64,
    /// End of the gap, in nanoseconds since the start of the recording; `None`: the trace does not
    /// have the end of the process.
    pub to_ns: Option<u64>,
    /// Number of events that are missing; 0: unknown.
    pub events: u64,
}
