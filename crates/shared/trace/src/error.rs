//! Errors of reading and writing traces, with messages for the user. All offsets
//! are bytes from the start of the file.

use std::io;

use thiserror::Error;

/// A trace could not be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The sink returned an error. Everything before `offset` stays readable.
    #[error("cannot write the trace at byte {offset}: {source}")]
    Io {
        /// Length of the intact part of the file.
        offset: u64,
        /// The sink's error.
        source: io::Error,
    },
    /// An earlier write failed, maybe in the middle of a chunk. A reader could not
    /// get past it, so nothing more is written.
    #[error("the trace ends at byte {offset}, where an earlier write failed")]
    Broken {
        /// Length of the intact part of the file.
        offset: u64,
    },
    /// One record is larger than a chunk may be, and it cannot be split.
    #[error(
        "a record of {bytes} bytes is larger than the {limit} bytes that a chunk of a trace may hold"
    )]
    TooLarge {
        /// Encoded length of the record.
        bytes: u64,
        /// Largest length of an encoded record.
        limit: u64,
    },
    /// The record is inconsistent; a reader would reject it.
    #[error("a record cannot be written to the trace: {0}")]
    Inconsistent(&'static str),
    /// The compressor failed.
    #[error("cannot compress the chunk at byte {offset}: {source}")]
    Compress {
        /// Where the chunk would have begun.
        offset: u64,
        /// The compressor's error.
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
        /// The system's error.
        source: io::Error,
    },
    /// The file is empty.
    #[error(
        "the file is empty: the recording was stopped before it began, or this is not its output"
    )]
    Empty,
    /// The file begins like a trace but ends within the file header.
    #[error(
        "the file ends at byte {length}, within the {header} bytes of a trace's header; nothing was recorded in it"
    )]
    ShortHeader {
        /// Length of the file.
        length: u64,
        /// Length of a whole header.
        header: u64,
    },
    /// The file does not begin with [`MAGIC`](crate::MAGIC).
    #[error(
        "this is not an Allotrope trace: it does not begin with the bytes `ALLOTROP`; name a file that `allotrope record` wrote"
    )]
    Foreign,
    /// The file is a sampled profile, and a recording is needed.
    #[error(
        "this is a sampled profile, which has estimates and no single allocations; `allotrope report`, `show`, `diff` and `export` read it, and everything else needs a file that `allotrope record` wrote"
    )]
    Sampled,
    /// The file is a recording, and a sampled profile is needed.
    #[error("this is a recording and no sampled profile")]
    NotSampled,
    /// The file has a newer major format version than this reader supports.
    #[error(
        "the trace has format version {found_major}.{found_minor} and this program reads version {known_major}.x; use the version of allotrope that wrote it, or a newer one"
    )]
    NewerVersion {
        /// Major version in the file.
        found_major: u16,
        /// Minor version in the file.
        found_minor: u16,
        /// The major version that this reader supports.
        known_major: u16,
    },
    /// The file has an older major format version, which is no longer supported.
    #[error(
        "the trace has format version {found_major}.{found_minor} and this program reads version {known_major}.x; use the version of allotrope that wrote it, or record again"
    )]
    OlderVersion {
        /// Major version in the file.
        found_major: u16,
        /// Minor version in the file.
        found_minor: u16,
        /// The major version that this reader supports.
        known_major: u16,
    },
    /// The file has no readable chunk.
    #[error("nothing can be read from the trace: {0}")]
    Nothing(Cut),
    /// A chunk is damaged, or its writer did not follow the format.
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

/// The end of the readable part of a trace that is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Length of the readable part, in bytes.
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

/// A [`Cut`] and the amount of data after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortfall {
    /// Where the readable part ends and why.
    pub cut: Cut,
    /// Bytes of the file after the cut.
    pub bytes: u64,
    /// Counted events in the whole chunks after the cut, if known.
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

/// Why the readable part of a trace ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CutReason {
    /// The file ends between two chunks, without a closing chunk.
    #[error("it ends there without having been closed")]
    NotClosed,
    /// The file ends within a chunk.
    #[error("the file ends within a chunk")]
    Truncated,
    /// The header or summary of a chunk is damaged.
    #[error("the checksum of the chunk's header does not match")]
    HeaderChecksum,
    /// The payload of a chunk is damaged.
    #[error("the checksum of the chunk's contents does not match")]
    PayloadChecksum,
    /// A length in the chunk's header exceeds the limits of the format.
    #[error("the chunk is larger than the format allows")]
    TooLarge,
    /// The coding in the chunk's header is unknown.
    #[error("this version does not know the coding of the chunk")]
    UnknownCoding,
    /// The payload cannot be decompressed to the length in the header.
    #[error("the chunk's contents cannot be decompressed")]
    Compression,
    /// The payload is inconsistent, or does not match the header.
    #[error("the chunk's contents are malformed: {0}")]
    Malformed(&'static str),
    /// The totals in the closing chunk differ from those of the chunks before it.
    #[error("the closing totals do not match the chunks before: some are missing")]
    Totals,
    /// The file has bytes after the closing chunk.
    #[error("bytes follow the end of the trace")]
    TrailingBytes,
}
