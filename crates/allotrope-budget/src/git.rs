//! Runs git.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::revisions::RevisionError;

/// A git command for a folder.
pub fn command<S: AsRef<OsStr>>(folder: &Path, words: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(folder)
        .args(words)
        // One message is recognised by its words.
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    // Hooks and `git bisect run` set these for another repository.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    command
}

/// Runs git and returns its standard output.
pub fn git<S: AsRef<OsStr>>(
    folder: &Path,
    words: impl IntoIterator<Item = S>,
) -> Result<String, RevisionError> {
    let mut command = command(folder, words);
    let words: Vec<_> = command
        .get_args()
        .skip(2)
        .map(OsStr::to_string_lossy)
        .collect();
    let words = words.join(" ");
    run(&mut command, words)
}

/// Runs a git command, which messages call by these words, and returns its standard output
/// without the newlines at its end.
pub fn run(command: &mut Command, words: String) -> Result<String, RevisionError> {
    let output: Output = command.output().map_err(|source| RevisionError::Io {
        what: "cannot run git; is it installed?".to_owned(),
        source,
    })?;
    if output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout);
        return Ok(text.trim_end_matches('\n').to_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(RevisionError::Git {
        command: words,
        stderr,
    })
}
