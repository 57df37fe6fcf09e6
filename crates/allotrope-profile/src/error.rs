//! Why a trace could not be replayed.

use allotrope_trace::ReadError;
use thiserror::Error;

/// A trace could not be replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The source of the events broke its own promise.
    #[error("the source has no run of events number {0}; it must keep what it listed")]
    NoSuchRun(usize),
}
