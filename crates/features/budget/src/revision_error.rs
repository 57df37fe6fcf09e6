//! Why a revision cannot be checked out.

use std::io;
use std::path::PathBuf;

use allotrope_text::Shown;
use thiserror::Error;

/// Why a revision cannot be checked out.
#[derive(Debug, Error)]
pub enum RevisionError {
    /// The folder is not in a git repository.
    #[error("{} is not in a git repository, so there are no revisions to compare", folder.shown())]
    NoRepository {
        /// The folder.
        folder: PathBuf,
    },
    /// Git knows no such revision.
    #[error("there is no revision `{name}` in {}", repository.shown())]
    NoRevision {
        /// The repository.
        repository: PathBuf,
        /// The revision as the user gave it.
        name: String,
    },
    /// A git command failed.
    #[error("`git {command}` failed: {stderr}")]
    Git {
        /// Arguments of git.
        command: String,
        /// Standard error output of git.
        stderr: String,
    },
    /// The commit of a submodule is not on this machine, and git cannot fetch it.
    #[error(
        "the submodule {} needs its commit {commit}, which is not on this machine and cannot be \
         fetched ({why}); get it with `{command}` when its server can be reached, or leave the \
         submodule out with `{leave_out}`", path.shown()
    )]
    Submodule {
        /// Path of the submodule in the project.
        path: PathBuf,
        /// The commit.
        commit: String,
        /// What git says.
        why: String,
        /// A command that fetches it.
        command: String,
        /// A command that excludes the submodule.
        leave_out: String,
    },
    /// A file operation in the cache failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation that failed.
        what: String,
        /// The cause.
        source: io::Error,
    },
}
