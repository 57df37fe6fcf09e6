//! The errors of the collector, as sentences for the user.

use std::io;
use std::path::PathBuf;

use allotrope_text::Shown;

use allotrope_trace::WriteError;
use thiserror::Error;

/// Why the collector failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CollectorError {
    /// The launcher's first message is missing or is not a start.
    #[error(
        "the collector was started without instructions ({0}); it is a part of `allotrope record`, run that"
    )]
    NoStart(String),
    /// The shared memory could not be created.
    #[error(
        "cannot make the shared memory for the recording: {0}; it needs memfd_create(2) and 8 MiB of address space"
    )]
    Arena(#[source] io::Error),
    /// The shared memory would be larger than a file may be.
    #[error(
        "the limit of file sizes (ulimit -f) is {} bytes, and the recording needs shared memory of {} bytes, which counts as a file; raise the limit, such as with `ulimit -f unlimited`",
        limit,
        needed
    )]
    FileLimit {
        /// The limit.
        limit: u64,
        /// The size of the file in memory.
        needed: u64,
    },
    /// Another step of starting the recording failed.
    #[error("cannot start the recording: {what}: {source}")]
    Set {
        /// The step.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The trace could not be written.
    #[error("cannot record into {}: {source}; what was written before stays readable, {} or name another file with -o", path.shown(), remedy(source))]
    Write {
        /// The trace file.
        path: PathBuf,
        /// The error and the offset in the file.
        source: WriteError,
    },
}

/// What makes room for a trace.
fn remedy(error: &WriteError) -> &'static str {
    match error {
        WriteError::Io { source, .. } if source.kind() == io::ErrorKind::FileTooLarge => {
            "raise the limit of file sizes (ulimit -f)"
        }
        _ => "free some space",
    }
}
