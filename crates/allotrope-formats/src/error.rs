//! Why a file can not be read or a set can not be written: types, and the
//! sentences that people see.

use std::fmt;
use std::io;

use allotrope_profile::Metric;
use thiserror::Error;

use crate::recognise::Format;

/// A file that could not be read.
#[derive(Debug, Error)]
#[error("{name}{place}: {problem}")]
pub struct ReadError {
    /// The file, as the caller named it.
    pub name: String,
    /// Where in it.
    pub place: Place,
    /// What is wrong, and what to do.
    pub problem: Problem,
}

/// Where in a file something is wrong. Of a compressed file, the place in what
/// it unpacks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    Whole,
    /// A line, from 1.
    Line(u64),
    /// A byte, from 0.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Line(line) => write!(out, ", line {line}"),
            Self::Byte(byte) => write!(out, ", byte {byte}"),
        }
    }
}

/// What can be wrong with a file.
#[derive(Debug, Error)]
pub enum Problem {
    /// The system refused, or compressed data is damaged.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// No byte at all.
    #[error("the file is empty; was the tool that writes it still running?")]
    Empty,
    /// A recording of our own, which this crate does not read.
    #[error("is an Allotrope recording, not stacks of another tool")]
    Trace,
    /// Text of no known form.
    #[error(
        "the text is in no known form; give a recording, or stacks from dtrace, bpftrace, heaptrack, DHAT, pprof or folded stacks"
    )]
    UnknownText,
    /// Bytes of no known form.
    #[error(
        "the file is binary data of no known form; give a recording, or stacks from dtrace, bpftrace, heaptrack, DHAT, pprof or folded stacks"
    )]
    UnknownBinary,
    /// Compressed more often than any tool does.
    #[error("is compressed more than {0} times over; unpack it first")]
    Nested(u32),
    /// A line that no tool writes.
    #[error(
        "the line is longer than {0} bytes, which no stack is; is this really a file of stacks?"
    )]
    LineTooLong(usize),
    /// The form is known, the contents break its rules.
    #[error("not valid {format}: {what}")]
    Malformed {
        /// The form.
        format: Format,
        /// The rule that is broken, and what to do.
        what: String,
    },
    /// The right form without a single stack.
    #[error("holds no stack, though it looks like {0}; was the program recorded while it ran?")]
    NoStacks(Format),
    /// Larger than what is held in memory.
    #[error("holds more than {limit} {what}; give a smaller file")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// The bound.
        limit: u64,
    },
    /// Counts that do not fit 64 bits when summed.
    #[error("the counts up to here add up to more than 64 bits hold; the file is damaged")]
    CountsOverflow,
}

/// A problem with its place, before the file's name is known.
#[derive(Debug)]
pub(crate) struct Fault {
    pub place: Place,
    pub problem: Problem,
}

impl Fault {
    pub fn whole(problem: impl Into<Problem>) -> Self {
        Self {
            place: Place::Whole,
            problem: problem.into(),
        }
    }

    pub fn named(self, name: &str) -> ReadError {
        ReadError {
            name: name.to_owned(),
            place: self.place,
            problem: self.problem,
        }
    }
}

/// A set that could not be written.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The source does not give what the format is made of.
    #[error("the source does not give {}; choose a metric that it gives", .0.words())]
    Unknown(Metric),
    /// The system refused.
    #[error("cannot be written: {0}")]
    Io(#[from] io::Error),
}
