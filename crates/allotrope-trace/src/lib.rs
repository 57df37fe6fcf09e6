//! The trace file: what a recording writes and every view reads.
//!
//! [`model`] is what a trace says; [`TraceWriter`] and [`TraceReader`] turn it
//! into bytes and back. The format is written down in `docs/trace-format.md`.
//!
//! ```
//! use allotrope_trace::model::{Clock, Record};
//! use allotrope_trace::{Entry, TraceReader, TraceWriter};
//!
//! let mut writer = TraceWriter::new(Vec::new())?;
//! let clock = Record::Clock(Clock { tick: 5, monotonic_ns: 7 });
//! writer.write(&clock)?;
//! let file = writer.finish()?;
//!
//! let mut reader = TraceReader::new(&file[..])?;
//! reader.verify()?; // reads it once; damage becomes a cut instead of an error
//! assert!(reader.is_complete());
//! let mut events = Vec::new();
//! for entry in reader.entries() {
//!     match entry? {
//!         Entry::Record(record) => assert_eq!(record, clock),
//!         Entry::Events(run) => reader.read_events(&run, &mut events)?,
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Not for: what the events amount to (that is the profile's business), files
//! that grow while they are read, or sinks that are read back.
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
mod stack_nodes;
mod summary;
mod totals;
mod varint;
mod writer;

pub use chunk::MAGIC;
pub use error::{Cut, CutReason, ReadError, Shortfall, WriteError};
pub use reader::{Entries, Entry, Outline, OutlineEntry, TraceReader};
pub use source::Source;
pub use stack_nodes::{StackNodes, StacksRef};
pub use summary::EventsRef;
pub use writer::{Compression, TraceWriter};
