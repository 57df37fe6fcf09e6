//! Why a recording could not be made, in sentences.

use std::io;
use std::path::PathBuf;

use allotrope_text::Shown;

use allotrope_trace::WriteError;
use thiserror::Error;

/// Why the collector could not do its work.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CollectorError {
    /// The launcher's first line was no start.
    #[error(
        "the collector was started without instructions ({0}); it is a part of `allotrope record`, run that"
    )]
    NoStart(String),
    /// The shared memory could not be made.
    #[error(
        "cannot make the shared memory for the recording: {0}; it needs memfd_create(2) and 8 MiB of address space"
    )]
    Arena(#[source] io::Error),
    /// Something else that a recording needs could not be had.
    #[error("cannot start the recording: {what}: {source}")]
    Set {
        /// What was attempted.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The trace could not be written.
    #[error("cannot record into {}: {source}; what was written before stays readable, free some space or name another file with -o", path.shown())]
    Write {
        /// The trace file.
        path: PathBuf,
        /// What went wrong, and at which byte.
        source: WriteError,
    },
}
