//! Reading a trace.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::error::{Cut, ReadError};
use crate::model::{Event, Record};
use crate::summary::EventsRef;

/// Bytes that can be read at any position by several threads at once.
pub trait Source: Sync {
    /// Number of bytes there are.
    fn length(&self) -> io::Result<u64>;
    /// Fills `into` with the bytes from `offset` on; `UnexpectedEof` if there are fewer.
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Source for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, into, offset)
    }
}

/// A trace file open for reading; `S` is a [`File`] or, for tests, `&[u8]`.
pub struct TraceReader<S = File> {
    source: S,
}

/// What follows next in a trace.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A record that is no [`Record::Events`].
    Record(Record),
    /// A run of events, to be had from [`TraceReader::read_events`].
    Events(EventsRef),
}

impl TraceReader<File> {
    /// Opens the file and scans its chunk headers; decodes no chunk.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(|source| ReadError::Io { offset: 0, source })?;
        Self::new(file)
    }
}

impl<S: Source> TraceReader<S> {
    /// As [`TraceReader::open`], from a file that is open already.
    pub fn new(source: S) -> Result<Self, ReadError> {
        Ok(Self { source })
    }
    /// Checks the contents of every chunk against its checksum; damage moves
    /// the cut there, as if the file ended before it.
    pub fn verify(&mut self) -> Result<(), ReadError> {
        let _ = &self.source;
        unimplemented!()
    }
    /// The trace was closed and nothing of it is known to be damaged.
    pub fn is_complete(&self) -> bool {
        self.cut_at().is_none()
    }
    /// Length of the part that can be read.
    pub fn readable_bytes(&self) -> u64 {
        unimplemented!()
    }
    /// Where the readable part ends, unless the trace is complete.
    pub fn cut_at(&self) -> Option<Cut> {
        unimplemented!()
    }
    /// Everything in the readable part, in file order.
    pub fn entries(&self) -> Entries<'_, S> {
        Entries { _reader: self }
    }
    /// Replaces what is in `into` by the events of the run.
    pub fn read_events(&self, at: &EventsRef, into: &mut Vec<Event>) -> Result<(), ReadError> {
        let _ = (at, into);
        unimplemented!()
    }
}

/// See [`TraceReader::entries`].
pub struct Entries<'a, S> {
    _reader: &'a TraceReader<S>,
}

impl<S: Source> Iterator for Entries<'_, S> {
    type Item = Result<Entry, ReadError>;
    fn next(&mut self) -> Option<Self::Item> {
        unimplemented!()
    }
}
