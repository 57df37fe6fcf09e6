//! Runs git. What the user has configured applies (`.git/config` is the user's own: nobody gets
//! one with a clone). But a hook runs no part of the repository's contents: a hook's folder may be
//! one of the working tree, and so may the program that watches the files.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::revision_error::RevisionError;

/// Settings of each command, which take precedence over all others.
const SETTINGS: [&str; 5] = [
    // Hooks are code of the revision that is checked out, where tools put them into a folder of
    // the repository.
    "core.hooksPath=/dev/null",
    // So is a program that lists changed files.
    "core.fsmonitor=false",
    // A folder of the contents that looks like a repository has a configuration, too.
    "safe.bareRepository=explicit",
    // The URL of a submodule is part of the contents, and `ext::` runs a command.
    "protocol.ext.allow=never",
    // `revisions` checks out submodules itself.
    "submodule.recurse=false",
];

/// A git command for a folder.
pub fn command<S: AsRef<OsStr>>(folder: &Path, words: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(folder)
        .args(SETTINGS.iter().flat_map(|setting| ["-c", setting]))
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

/// Runs git and returns its standard output as text, without the newlines at its end.
pub fn git<S: AsRef<OsStr>>(
    folder: &Path,
    words: impl IntoIterator<Item = S>,
) -> Result<String, RevisionError> {
    git_bytes(folder, words).map(text)
}

/// Runs git and returns its standard output.
pub fn git_bytes<S: AsRef<OsStr>>(
    folder: &Path,
    words: impl IntoIterator<Item = S>,
) -> Result<Vec<u8>, RevisionError> {
    let words: Vec<S> = words.into_iter().collect();
    let shown = shown(&words);
    run_bytes(&mut command(folder, words), shown)
}

/// Runs git in a git directory, which need not have a working tree, and returns its standard
/// output.
pub fn git_in<'w>(
    git_dir: &Path,
    words: impl IntoIterator<Item = &'w OsStr>,
) -> Result<Vec<u8>, RevisionError> {
    let words: Vec<&OsStr> = words.into_iter().collect();
    let shown = shown(&words);
    // Git fails if the configured working tree does not exist.
    let options = ["--git-dir", "--work-tree"].map(OsStr::new);
    let options = options.into_iter().flat_map(|it| [it, git_dir.as_os_str()]);
    let words = options.chain(words);
    run_bytes(&mut command(git_dir, words), shown)
}

/// Runs a git command, which messages call by these words, and returns its standard output
/// as text, without the newlines at its end.
pub fn run(command: &mut Command, words: String) -> Result<String, RevisionError> {
    run_bytes(command, words).map(text)
}

/// Same as [`run`], but returns the standard output as it is.
pub fn run_bytes(command: &mut Command, words: String) -> Result<Vec<u8>, RevisionError> {
    let output: Output = command.output().map_err(|source| RevisionError::Io {
        what: "cannot run git; is it installed?".to_owned(),
        source,
    })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(RevisionError::Git {
        command: words,
        stderr,
    })
}

fn shown<S: AsRef<OsStr>>(words: &[S]) -> String {
    let words = words.iter().map(|word| word.as_ref().to_string_lossy());
    words.collect::<Vec<_>>().join(" ")
}

fn text(output: Vec<u8>) -> String {
    let text = String::from_utf8_lossy(&output);
    text.trim_end_matches('\n').to_owned()
}
