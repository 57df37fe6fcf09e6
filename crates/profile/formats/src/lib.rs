//! Reads and writes the stack formats of other tools as
//! [`StackSet`](allotrope_profile::StackSet)s.
//!
//! [`read()`] recognises a file's format by its contents, never by its name. It
//! reads dtrace's and bpftrace's aggregated stacks, `heaptrack_print` text,
//! heaptrack's data files, DHAT's JSON, massif's output files, folded stacks, pprof profiles, the text heap
//! profiles of gperftools, tcmalloc, jemalloc and Go, and `allotrope-stacks/1`, each plain or compressed with gzip or Zstandard.
//! [`EXPORTERS`] lists the formats that can be written; [`otlp`] makes requests for collectors. The module of each
//! format documents what is read, what is ignored and where the format is
//! specified.
//!
//! Input is not trusted: an invalid file gives a [`ReadError`] with file,
//! location and remedy; it causes neither a panic nor unbounded work or memory use: see
//! [`Limits`].
//! Recordings of Allotrope are recognised but not read here (`allotrope-trace`
//! does that).
#![forbid(unsafe_code)]

mod bounded;
mod budget;
mod error;
mod exporters;
mod foreign;
mod format;
mod function_names;
mod limits;
mod lines;
pub mod otlp;
mod perfetto_message;
mod pprof_message;
mod read;
mod readers;
mod recognise;
mod stack_set_builder;
pub mod stacks_json;

pub use bounded::bounded;
pub use error::{ExportError, Location, Problem, ReadError};
pub use exporters::{
    EXPORTERS, Events, ExportOptions, Exporter, Input, Recorded, Wanted, exporter, write_pprof,
};
pub use foreign::Foreign;
pub use format::Format;
pub use limits::{Exceeded, Excess, Limits};
pub use read::{Read, read, read_bytes, read_bytes_within};
pub use recognise::{Recognised, recognise};
