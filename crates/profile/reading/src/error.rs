//! Why a file cannot be read.

use std::io;
use std::path::Path;

use allotrope_text::Shown;
use allotrope_trace::ReadError;

/// Why a file cannot be read, as one sentence: what, where, what to do.
#[derive(Debug, thiserror::Error)]
pub enum ReadingError {
    /// The file cannot be used, or what is wanted is not in it.
    #[error("{0}")]
    Unusable(String),
    /// The file cannot be opened or read.
    #[error("cannot read {file}")]
    Io {
        /// Its path, escaped.
        file: String,
        /// What the system says.
        source: io::Error,
    },
    /// A file of another tool is damaged, or costs more than it may.
    #[error(transparent)]
    Stacks(#[from] allotrope_formats::ReadError),
    /// The file may be fine: something else failed.
    #[error("{0}")]
    Failed(String),
}

impl ReadingError {
    /// Whether the file, or what is wanted of it, is the reason.
    pub fn is_of_input(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            file: path.shown().into_owned(),
            source,
        }
    }

    pub(crate) fn unreadable(path: &Path, error: ReadError) -> Self {
        Self::Unusable(format!("{}: {error}", path.shown()))
    }
}
