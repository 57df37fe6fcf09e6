//! The trace file: what a recording writes and every view reads.
//!
//! [`model`] is what a trace says; [`TraceWriter`] and [`TraceReader`] turn it
//! into bytes and back. The format is written down in `docs/trace-format.md`.
#![forbid(unsafe_code)]

mod chunk;
mod error;
mod events;
pub mod model;
mod payload;
mod reader;
mod records;
mod scan;
mod source;
mod summary;
mod totals;
mod varint;
mod writer;

pub use error::{Cut, CutReason, ReadError, WriteError};
pub use reader::{Entries, Entry, TraceReader};
pub use source::Source;
pub use summary::EventsRef;
pub use writer::{Compression, TraceWriter};
