//! Writing a trace.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::error::WriteError;
use crate::model::Record;

/// How hard chunks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Column-coded, then zstd at a fast level.
    #[default]
    Fast,
    /// Column-coded only: for when the collector is under pressure.
    None,
}

/// Writes the records of a trace to a sink.
pub struct TraceWriter<W: Write> {
    sink: W,
}

impl TraceWriter<File> {
    /// Creates the file (replacing one of that name) and writes the header.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        let file = File::create(path).map_err(|source| WriteError::Io { offset: 0, source })?;
        Self::new(file)
    }
}

impl<W: Write> TraceWriter<W> {
    /// Writes the file header. The sink should not buffer: each chunk is given
    /// to it in one call.
    pub fn new(sink: W) -> Result<Self, WriteError> {
        Ok(Self { sink })
    }
    /// Writes a record. Events reach the sink at once, with everything that
    /// was written before them; other records may wait for [`Self::flush`].
    pub fn write(&mut self, record: &Record) -> Result<(), WriteError> {
        let _ = record;
        unimplemented!()
    }
    /// Chooses the compression of the chunks that follow.
    pub fn set_compression(&mut self, compression: Compression) {
        let _ = compression;
    }
    /// Gives everything written so far to the sink, and flushes the sink.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        unimplemented!()
    }
    /// Bytes given to the sink so far.
    pub fn bytes_written(&self) -> u64 {
        unimplemented!()
    }
    /// Writes the closing chunk, which says that the trace is complete.
    pub fn finish(self) -> Result<W, WriteError> {
        let _ = &self.sink;
        unimplemented!()
    }
}
