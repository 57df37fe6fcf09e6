//! Drains the rings of recorded programs and writes their trace.
//!
//! [`run`] is the collector process; [`protocol`] is what it and the front
//! process say to each other.
#![forbid(unsafe_code)]

mod error;
pub mod protocol;

use std::io::{Read, Write};

pub use error::CollectorError;

/// Records what the front's first line on `input` asks for, until the last
/// recorded process has ended, and tells the front on `output`.
///
/// The caller is a process of its own, which this makes the leader of a new
/// session (unless it leads one already), so that signals meant for the
/// recorded programs do not reach it. It must not be one that is itself recorded.
pub fn run(input: impl Read + Send + 'static, output: impl Write) -> Result<(), CollectorError> {
    let _ = (input, output);
    Err(CollectorError::NoStart("the loop is not written yet".into()))
}
