//! Why a list of patterns cannot be read.

use thiserror::Error;

/// An invalid line of a list.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ListError {
    /// An invalid glue pattern.
    #[error(
        "line {line} of the glue list, `{pattern}`, is not valid: a `*` must be at the end, and `file:` needs a part of a path without one"
    )]
    GluePattern {
        /// Its line, from 1.
        line: usize,
        /// The line.
        pattern: String,
    },
    /// An invalid line of a list of suppressions.
    #[error(
        "{list}:{line}: `{text}` suppresses no leak: write `leak:` and a part of the name of a function, source file or module"
    )]
    Suppression {
        /// The list's name.
        list: String,
        /// Its line, from 1.
        line: usize,
        /// The line.
        text: String,
    },
}
