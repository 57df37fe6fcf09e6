//! Writes: events to a ring, additions to counters, diagnostics.

pub mod counts;
pub mod diagnostics;
pub mod events;
pub mod mode;
pub mod thread_names;
