//! Errors of reading files and writing sets, with their messages.

use std::fmt;
use std::io;

use allotrope_profile::{AggregateError, Metric};
use thiserror::Error;

use crate::foreign::Foreign;
use crate::format::Format;
use crate::limits::Exceeded;

/// A file that could not be read.
#[derive(Debug, Error)]
#[error("{name}{location}: {problem}")]
pub struct ReadError {
    /// The file, as the caller named it.
    pub name: String,
    /// The location of the problem.
    pub location: Location,
    /// The problem and its remedy.
    pub problem: Problem,
}

/// A location in a file; for a compressed file, in the decompressed data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// The file as a whole.
    Whole,
    /// A line, from 1.
    Line(u64),
    /// A byte, from 0.
    Byte(u64),
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Line(line) => write!(out, ", line {line}"),
            Self::Byte(byte) => write!(out, ", byte {byte}"),
        }
    }
}

/// The reason why a file could not be read.
#[derive(Debug, Error)]
pub enum Problem {
    /// An I/O error, or damaged compressed data.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The file has no bytes.
    #[error("the file is empty; was the tool that writes it still running?")]
    Empty,
    /// A recording of Allotrope, which this crate does not read.
    #[error("is an Allotrope recording, not stacks of another tool")]
    Trace,
    /// Output of a tool that cannot be read.
    #[error("{0}")]
    Foreign(Foreign),
    /// Text in no known format.
    #[error(
        "the text is in no known form; give a recording, or stacks from dtrace, bpftrace, heaptrack, DHAT, massif, pprof, gperftools or folded stacks"
    )]
    UnknownText,
    /// Binary data in no known format.
    #[error(
        "the file is binary data of no known form; give a recording, or stacks from dtrace, bpftrace, heaptrack, DHAT, massif, pprof, gperftools or folded stacks"
    )]
    UnknownBinary,
    /// More layers of compression than any tool uses.
    #[error("is compressed more than {0} times over; unpack it first")]
    Nested(u32),
    /// A line that is too long.
    #[error(
        "the line is longer than {0} bytes, which no stack is; is this really a file of stacks?"
    )]
    LineTooLong(usize),
    /// The contents violate the format.
    #[error("not valid {format}: {what}")]
    Malformed {
        /// The format.
        format: Format,
        /// The violation, and its remedy.
        what: String,
    },
    /// A valid file without stacks.
    #[error("holds no stack, though it looks like {0}; was the program recorded while it ran?")]
    NoStacks(Format),
    /// More than the limits of a file allow.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
    /// More of something than any tool writes.
    #[error("holds more than {limit} {what}; give a smaller file")]
    TooMuch {
        /// The kind of data.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// Sums of counts that exceed 64 bits.
    #[error("the counts up to here add up to more than 64 bits hold; the file is damaged")]
    CountsOverflow,
}

/// A problem and its location, before the name of the file is known.
#[derive(Debug)]
pub(crate) struct Fault {
    pub location: Location,
    pub problem: Problem,
}

impl Fault {
    pub fn whole(problem: impl Into<Problem>) -> Self {
        Self {
            location: Location::Whole,
            problem: problem.into(),
        }
    }

    pub fn named(self, name: &str) -> ReadError {
        ReadError {
            name: name.to_owned(),
            location: self.location,
            problem: self.problem,
        }
    }
}

/// The reason why a set could not be written.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The source lacks the metric of the format.
    #[error("the source does not give {}; choose a metric that it gives", .0.words())]
    Unknown(Metric),
    /// The format consists of times or single blocks, and the source has none.
    #[error(
        "the source has only sums and no times, of which this format consists; give a recording of `allotrope record`, or choose a format of sums such as speedscope, pprof or dhat"
    )]
    NoTimes,
    /// The recording has no process.
    #[error("the recording has no process, and this format has exactly one")]
    NoProcess,
    /// The recording could not be read again.
    #[error("cannot be read again: {0}")]
    Aggregate(#[from] AggregateError),
    /// An I/O error.
    #[error("cannot be written: {0}")]
    Io(#[from] io::Error),
}
