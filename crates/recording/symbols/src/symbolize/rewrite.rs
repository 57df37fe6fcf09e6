//! Copies a trace and replaces the names in it.

use std::io::{self, Write};

use allotrope_trace::model::{Record, Symbols};
use allotrope_trace::{CutReason, Entry, ReadError, TraceReader, TraceWriter, WriteError};

/// Why a trace could not be copied.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum RewriteError {
    /// The trace cannot be read.
    Read(#[from] ReadError),
    /// The sink refuses a chunk.
    Write(#[from] WriteError),
    /// The unreadable end cannot be copied.
    Copy(#[from] io::Error),
}

/// Writes all of `trace` to `sink`, with `symbols` in place of its own names, and
/// returns the sink. `progress` is called with the bytes written and their probable
/// total.
///
/// The copy of a trace that was cut off ends in the same way, with the unreadable
/// bytes at its end.
///
/// # Errors
/// If the trace cannot be read or the sink cannot be written.
pub fn rewrite<W: Write>(
    trace: &TraceReader,
    symbols: Vec<Symbols>,
    sink: W,
    progress: impl Fn(u64, u64),
) -> Result<W, RewriteError> {
    let mut writer = TraceWriter::new(sink)?;
    let mut events = Vec::new();
    let total = trace.readable_bytes();
    for entry in trace.entries() {
        match entry? {
            Entry::Record(Record::Symbols(_)) => {}
            Entry::Record(record) => writer.write(&record)?,
            Entry::Events(chunk) => {
                trace.read_events(&chunk, &mut events)?;
                writer.write_events(chunk.image, chunk.stream, chunk.first_ordinal, &events)?;
                progress(writer.bytes_written().min(total), total);
            }
        }
    }
    for symbols in symbols {
        writer.write(&Record::Symbols(symbols))?;
    }
    let was_closed = match trace.cut_at() {
        None => true,
        Some(cut) => cut.reason == CutReason::TrailingBytes,
    };
    let mut sink = if was_closed {
        writer.finish()?
    } else {
        writer.into_unfinished()?
    };
    trace.copy_unreadable(&mut sink)?;
    Ok(sink)
}
