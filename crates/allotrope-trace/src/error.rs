//! What can be wrong with a trace file or with writing one, in sentences.
//! Where damage lies is said in byte offsets from the start of the file.

use std::io;

use thiserror::Error;

/// A trace could not be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The sink refused the bytes. What was written before it stays readable.
    #[error("cannot write the trace at byte {offset}: {source}")]
    Io {
        /// Length of the intact part of the file.
        offset: u64,
        /// What the sink said.
        source: io::Error,
    },
    /// An earlier write failed, perhaps half-way through a chunk: what would be
    /// written behind it could not be read.
    #[error("the trace ends at byte {offset}, where an earlier write failed")]
    Broken {
        /// Length of the intact part of the file.
        offset: u64,
    },
    /// One record is larger than a chunk may be and can not be split.
    #[error(
        "a record of {bytes} bytes is larger than the {limit} bytes that a chunk of a trace may hold"
    )]
    TooLarge {
        /// Coded length of the record.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The record contradicts itself; a reader would refuse it.
    #[error("a record cannot be written to the trace: {0}")]
    Contradiction(&'static str),
    /// The compressor failed.
    #[error("cannot compress the chunk at byte {offset}: {source}")]
    Compress {
        /// Where the chunk would have begun.
        offset: u64,
        /// What the compressor said.
        source: io::Error,
    },
}

/// A trace could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file could not be opened or read.
    #[error("cannot read the trace at byte {offset}: {source}")]
    Io {
        /// Where reading failed.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The file has no bytes.
    #[error(
        "the file is empty: the recording was stopped before it began, or this is not its output"
    )]
    Empty,
    /// The file begins like a trace and ends within the file header.
    #[error(
        "the file ends at byte {length}, within the {header} bytes of a trace's header; nothing was recorded in it"
    )]
    ShortHeader {
        /// Length of the file.
        length: u64,
        /// Length of a whole header.
        header: u64,
    },
    /// The file does not begin as a trace does.
    #[error(
        "this is not an Allotrope trace: it does not begin with the bytes `ALLOTROP`; name a file that `allotrope record` wrote"
    )]
    Foreign,
    /// The file was written in a later format than this reader knows.
    #[error(
        "the trace has format version {found_major}.{found_minor} and this program reads version {known_major}.x; use the version of allotrope that wrote it, or a newer one"
    )]
    NewerVersion {
        /// Major version in the file.
        found_major: u16,
        /// Minor version in the file.
        found_minor: u16,
        /// The major version that can be read.
        known_major: u16,
    },
    /// The file was written in an earlier format, which is read no longer.
    #[error(
        "the trace has format version {found_major}.{found_minor} and this program reads version {known_major}.x; use the version of allotrope that wrote it, or record again"
    )]
    OlderVersion {
        /// Major version in the file.
        found_major: u16,
        /// Minor version in the file.
        found_minor: u16,
        /// The major version that can be read.
        known_major: u16,
    },
    /// Not one chunk of the file can be read.
    #[error("nothing can be read from the trace: {0}")]
    Nothing(Cut),
    /// A chunk is not what was written, or what was written is not a trace.
    #[error(
        "the trace is damaged in the chunk at byte {offset}: {reason}; what precedes it can be read"
    )]
    Damaged {
        /// Where the chunk begins.
        offset: u64,
        /// What is wrong with it.
        reason: CutReason,
    },
}

/// Where the readable part of a trace ends, if that is not where it was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Length of the readable part in bytes.
    pub offset: u64,
    /// Why it ends there.
    pub reason: CutReason,
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the trace is readable up to byte {}: {}",
            self.offset, self.reason
        )
    }
}

/// A [`Cut`], and what is missing for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortfall {
    /// Where the readable part ends and why.
    pub cut: Cut,
    /// Bytes of the file behind it.
    pub bytes: u64,
    /// Events in the chunks behind it that are there, if that is known.
    pub events: Option<u64>,
}

impl std::fmt::Display for Shortfall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.bytes;
        match self.events {
            _ if bytes == 0 => self.cut.fmt(f),
            Some(events) => write!(
                f,
                "{}; the {bytes} bytes from there on, with {events} events, are missing",
                self.cut
            ),
            None => write!(
                f,
                "{}; the {bytes} bytes from there on are missing",
                self.cut
            ),
        }
    }
}

/// What ends the readable part of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CutReason {
    /// The file ends between two chunks and was never closed.
    #[error("it ends there without having been closed")]
    NotClosed,
    /// The file ends within a chunk.
    #[error("the file ends within a chunk")]
    Truncated,
    /// The chunk's header is not what was written.
    #[error("the checksum of the chunk's header does not fit")]
    HeaderChecksum,
    /// The chunk's payload is not what was written.
    #[error("the checksum of the chunk's contents does not fit")]
    PayloadChecksum,
    /// The chunk claims to be larger than chunks may be.
    #[error("the chunk is larger than the format allows")]
    TooLarge,
    /// The chunk is coded in an unknown way.
    #[error("the chunk is coded in a way that this version does not know")]
    UnknownCoding,
    /// The compressed data can not be expanded to the length that the header says.
    #[error("the chunk's compressed contents can not be expanded")]
    Compression,
    /// The contents contradict themselves or the header.
    #[error("the chunk's contents are malformed: {0}")]
    Malformed(&'static str),
    /// The closing chunk counts other totals than there are.
    #[error("the closing totals do not fit the chunks before: some are missing")]
    Totals,
    /// Bytes follow the closing chunk.
    #[error("bytes follow the end of the trace")]
    TrailingBytes,
}
