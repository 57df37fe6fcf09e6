//! Reads and writes the stack formats that other tools use, to and from
//! [`StackSet`](allotrope_profile::StackSet).
//!
//! [`read()`] tells a file's form from its contents, never from its name, and
//! reads dtrace's and bpftrace's aggregated stacks, `heaptrack_print` text,
//! heaptrack's data files, DHAT's JSON, folded stacks, pprof profiles and our
//! own `allotrope-stacks/1`, gzipped, compressed with Zstandard or plain.
//! [`EXPORTERS`] lists what can be written. Each format's file says what is
//! read, what is ignored, and where the format is described.
//!
//! Everything read may be hostile: it ends in a [`ReadError`] that names file,
//! place and remedy, never in a panic or in memory out of bounds. Not here:
//! our own recordings (`allotrope-trace`), which [`recognise()`] only tells
//! apart; looking symbols up; comparing.
#![forbid(unsafe_code)]

mod budget;
mod error;
mod exporters;
mod gathering;
mod lines;
mod pprof_message;
mod read;
mod readers;
mod recognise;
mod spelling;
pub mod stacks_json;

pub use error::{ExportError, Place, Problem, ReadError};
pub use exporters::{EXPORTERS, ExportOptions, Exporter, exporter};
pub use read::{Read, read, read_bytes};
pub use recognise::{Format, Recognised, recognise};
