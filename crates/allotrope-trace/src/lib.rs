//! The trace file: what a recording writes and every view reads.
//!
//! [`model`] is what a trace says; [`TraceWriter`] and [`TraceReader`] turn it
//! into bytes and back. The format is written down in `docs/trace-format.md`.
#![forbid(unsafe_code)]

mod chunk;
mod error;
pub mod model;
mod reader;
mod summary;
mod writer;

pub use error::{Cut, CutReason, ReadError, WriteError};
pub use reader::{Entries, Entry, Source, TraceReader};
pub use summary::EventsRef;
pub use writer::{Compression, TraceWriter};
