//! The errors of an aggregation.

use allotrope_trace::ReadError;
use allotrope_trace::model::ImageId;
use thiserror::Error;

/// Why a trace could not be aggregated.
#[derive(Debug, Error)]
pub enum AggregateError {
    /// The file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The source listed a chunk of events that it does not have.
    #[error("the source has no chunk of events number {0}; it must keep what it listed")]
    NoSuchChunk(usize),
    /// The source listed stack nodes that it does not have.
    #[error("the source has no stack nodes of number {0}; it must keep what it listed")]
    NoSuchStacks(usize),
    /// The trace does not have the requested process.
    #[error("the recording has no process number {0}; ask for one that it lists")]
    NoSuchProcess(ImageId),
    /// The trace does not have the requested window.
    #[error(
        "the trace has no window that opened at epoch {opened} in process {image}; \
         ask for one that the aggregation of this trace lists"
    )]
    NoSuchWindow {
        /// The requested image.
        image: ImageId,
        /// The requested epoch.
        opened: u64,
    },
}
