//! Why a trace could not be replayed.

use allotrope_trace::ReadError;
use allotrope_trace::model::ImageId;
use thiserror::Error;

/// A trace could not be replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The source of the events broke its own promise.
    #[error("the source has no chunk of events number {0}; it must keep what it listed")]
    NoSuchChunk(usize),
    /// The source of the stacks broke its own promise.
    #[error("the source has no stack nodes of number {0}; it must keep what it listed")]
    NoSuchStacks(usize),
    /// A window was asked for that is not there.
    #[error(
        "the trace has no window that opened at epoch {opened} in process {image}; \
         ask for one that the replay of this trace lists"
    )]
    NoSuchWindow {
        /// The image asked for.
        image: ImageId,
        /// The epoch asked for.
        opened: u64,
    },
}
