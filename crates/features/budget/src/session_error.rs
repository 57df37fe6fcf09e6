//! Why tests could not be run.

use std::path::{Path, PathBuf};

use allotrope_text::Shown;
use thiserror::Error;

use crate::budgets::BudgetError;
use crate::problem::Problem;

/// Why the tests could not be run.
#[derive(Debug, Error)]
pub enum SessionError {
    /// No test has this name.
    #[error("{}: there is no test `{pattern}`{}", file.shown(), proposal(nearest, command))]
    NoSuchTest {
        /// The configuration.
        file: PathBuf,
        /// The pattern as the user gave it.
        pattern: String,
        /// The test with the most similar name.
        nearest: Option<String>,
        /// The command that runs the tests.
        command: String,
    },
    /// A test has no case with this name.
    #[error("the test {test} has no case `{pattern}`{names}")]
    NoSuchCase {
        /// The test.
        test: String,
        /// The pattern as the user gave it.
        pattern: String,
        /// What the user may have meant.
        names: String,
    },
    /// An invalid pattern.
    #[error("`{pattern}` is not a valid pattern for test names: {why}")]
    Pattern {
        /// The pattern as the user gave it.
        pattern: String,
        /// The problem.
        why: String,
    },
    /// The standard input of a test cannot be read.
    #[error("{}: test {test}: {source}", file.shown())]
    Input {
        /// The configuration.
        file: PathBuf,
        /// The test.
        test: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A path leads through a link of the repository.
    #[error("{}: {why}", path.shown())]
    Link {
        /// The path.
        path: PathBuf,
        /// The link.
        why: std::io::Error,
    },
    /// A file operation or process start failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation that failed.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The build failed.
    #[error("the build failed: {problem}\n{output}")]
    Build {
        /// How it ended.
        problem: Problem,
        /// The end of its output.
        output: String,
    },
    /// Budgets cannot be read or written.
    #[error(transparent)]
    Budget(#[from] BudgetError),
}

impl SessionError {
    pub(crate) fn link(path: &Path, why: std::io::Error) -> Self {
        let path = path.to_owned();
        Self::Link { path, why }
    }
}

/// The end of the sentence about a missing test: what the user may have meant.
fn proposal(nearest: &Option<String>, command: &str) -> String {
    nearest.as_ref().map_or_else(
        || format!("; `{command} --list` shows all"),
        |name| format!("; did you mean `{name}`?"),
    )
}
