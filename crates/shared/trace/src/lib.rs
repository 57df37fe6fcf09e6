//! The trace file: the collector writes it, and every command that shows or
//! compares a recording reads it.
//!
//! [`model`] defines the records of a trace. [`TraceWriter`] encodes records into
//! chunks, and [`TraceReader`] decodes them again. `docs/trace-format.md`
//! specifies the bytes.
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
//! reader.verify()?; // reads the file once; ends the readable part before the first damage
//! assert!(reader.is_complete());
//! let mut events = Vec::new();
//! for entry in reader.entries() {
//!     match entry? {
//!         Entry::Record(record) => assert_eq!(record, clock),
//!         Entry::Events(chunk) => reader.read_events(&chunk, &mut events)?,
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate does not interpret events (`allotrope-profile` does), does not read
//! files that still grow, and never reads back what it wrote to a sink.
#![forbid(unsafe_code)]

mod chunk;
mod error;
mod events;
mod frame;
mod free_stacks;
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

pub use chunk::{MAGIC, is_sampled};
pub use error::{Cut, CutReason, ReadError, Shortfall, WriteError};
pub use reader::{Entries, Entry, Outline, OutlineEntry, TraceReader};
pub use source::Source;
pub use stack_nodes::{StackNodes, StacksRef};
pub use summary::EventsRef;
pub use writer::{Compression, TraceWriter};
