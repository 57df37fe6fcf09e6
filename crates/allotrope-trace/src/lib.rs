//! The trace file: what a recording writes and every view reads.
//!
//! [`model`] is what a trace says; [`TraceWriter`] and [`TraceReader`] turn it
//! into bytes and back. The format is written down in `docs/trace-format.md`.
#![forbid(unsafe_code)]

pub mod model;
