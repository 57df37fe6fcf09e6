//! Checks out a commit with its submodules. Where the user's own repositories have the commit of a
//! submodule, it is checked out in a worktree of its repository there: that needs no network, and
//! the commit need not be on a server. Git fetches the others, into the worktree of the project.
//!
//! Paths and names of submodules are contents of a revision. A path that leads out of its folder,
//! or through a symbolic link, is refused.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use allotrope_files::Folder;
use allotrope_text::{quoted, word};

use super::{RevisionError, io_error};
use crate::git::{git, git_bytes, git_in};

/// An entry of a tree or an index that names a commit of another repository.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gitlink {
    /// Relative to the repository that has the entry.
    pub(super) path: PathBuf,
    pub(super) commit: String,
}

/// What the user has of a repository whose commit is checked out elsewhere.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// Working tree of the repository.
    checkout: Option<PathBuf>,
    /// Git directories of the repository: those that may have the commit, or those of submodules
    /// under `modules`.
    git_dirs: Vec<PathBuf>,
}

impl Source {
    pub(super) fn of_checkout(checkout: &Path) -> Self {
        let mut source = Self {
            checkout: Some(checkout.to_owned()),
            git_dirs: Vec::new(),
        };
        // They differ in a worktree.
        for which in ["--git-common-dir", "--git-dir"] {
            if let Ok(folder) = git(checkout, ["rev-parse", which]) {
                source.add(checkout.join(folder));
            }
        }
        source
    }

    /// What the user has of a submodule.
    fn submodule(&self, path: &Path, name: Option<&OsStr>) -> Self {
        let checkout = self.checkout.as_ref();
        let checkout = checkout.and_then(|checkout| checkout_at(checkout, path));
        let mut source = checkout.map_or_else(Self::default, |it| Self::of_checkout(&it));
        // Git keeps them there if the checkout is removed or moved.
        for folder in name.iter().flat_map(|name| {
            let modules = self.git_dirs.iter().map(|folder| folder.join("modules"));
            modules.filter_map(|modules| beneath(&modules, Path::new(name)))
        }) {
            source.add(folder);
        }
        source
    }

    fn add(&mut self, git_dir: PathBuf) {
        if let Ok(folder) = git_dir.canonicalize()
            && !self.git_dirs.contains(&folder)
        {
            self.git_dirs.push(folder);
        }
    }

    /// The git directory that has a commit.
    fn with_commit(&self, commit: &str) -> Option<&PathBuf> {
        let words = ["cat-file", "-e", &format!("{commit}^{{commit}}")];
        let mut folders = self.git_dirs.iter();
        folders.find(|folder| git_in(folder, words.map(OsStr::new)).is_ok())
    }
}

/// The folder of a worktree in the cache, and the worktrees of submodules in it.
#[derive(Debug)]
pub(super) struct Checkout {
    folder: PathBuf,
    /// A file with the git directories that have worktrees in the folder, each followed by NUL.
    record: PathBuf,
}

impl Checkout {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            record: folder.with_extension("submodules"),
        }
    }

    /// Checks out a commit of the project and of all its submodules. Git writes only files that
    /// differ; the others keep their modification times, so that builds are incremental.
    pub(super) fn check_out(&self, source: &Source, commit: &str) -> Result<(), RevisionError> {
        self.check_out_in(source, &self.folder, commit)
    }

    /// Removes the folder, and the worktrees in it from the lists of their repositories.
    pub(super) fn remove(&self, repository: &Path) -> Result<(), RevisionError> {
        // The record is removed last, so that a removal that is interrupted can be repeated.
        self.forget(&self.folder);
        forget(repository, &self.folder);
        remove_folder(&self.folder)?;
        match fs::remove_file(&self.record) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(io_error("cannot remove", &self.record)(error))
            }
            _ => Ok(()),
        }
    }

    fn check_out_in(
        &self,
        source: &Source,
        folder: &Path,
        commit: &str,
    ) -> Result<(), RevisionError> {
        self.remove_former(folder, commit)?;
        let words = ["checkout", "--quiet", "--force", "--detach"];
        git(folder, words.into_iter().chain([commit]))?;
        let links = gitlinks(&git_bytes(folder, ["ls-files", "--stage", "-z"])?);
        if links.is_empty() {
            return Ok(());
        }
        let names = names(folder, commit);
        for link in links {
            let name = names.get(&link.path).map(OsString::as_os_str);
            let source = source.submodule(&link.path, name);
            self.check_out_submodule(&source, folder, &link, name)?;
        }
        Ok(())
    }

    fn check_out_submodule(
        &self,
        source: &Source,
        folder: &Path,
        link: &Gitlink,
        name: Option<&OsStr>,
    ) -> Result<(), RevisionError> {
        let inner = folder.join(&link.path);
        let opened = Folder::open(folder).and_then(|folder| folder.refuse_links(&link.path));
        opened.map_err(io_error("cannot check out the submodule", &inner))?;
        let object = format!("{}^{{commit}}", link.commit);
        let has_commit = |folder: &PathBuf| git(folder, ["cat-file", "-e", &object]).is_ok();
        if checkout_at(folder, &link.path).filter(has_commit).is_none() {
            // The remains of an incomplete worktree, or one of another repository.
            self.remove_submodule(&inner)?;
            if let Some(git_dir) = source.with_commit(&link.commit) {
                self.add_worktree(git_dir, &inner, &link.commit)?;
            } else if let Some(name) = name {
                self.fetch(source, folder, link, name)?;
            }
            // Git leaves the folder empty if .gitmodules has no such path, or if the user excludes
            // the submodule (`submodule.NAME.update` is `none`).
            if !inner.join(".git").exists() {
                return Ok(());
            }
        }
        self.check_out_in(source, &inner, &link.commit)
    }

    fn add_worktree(
        &self,
        git_dir: &Path,
        inner: &Path,
        commit: &str,
    ) -> Result<(), RevisionError> {
        self.note(git_dir)?;
        let words = ["worktree", "add", "--force", "--detach", "--quiet"].map(OsStr::new);
        let words = words.into_iter();
        git_in(
            git_dir,
            words.chain([inner.as_os_str(), OsStr::new(commit)]),
        )
        .map(drop)
    }

    fn fetch(
        &self,
        source: &Source,
        folder: &Path,
        link: &Gitlink,
        name: &OsStr,
    ) -> Result<(), RevisionError> {
        // Without `--init`, which writes to the configuration of the user's repository.
        let words = ["-c", "submodule.active=.", "submodule", "update", "--quiet"];
        let words = words.into_iter().chain(["--"]).map(OsStr::new);
        let failed = |error| match error {
            RevisionError::Git { stderr, .. } => {
                let path = folder.join(&link.path);
                let path = path.strip_prefix(&self.folder).unwrap_or(&path);
                let mut lines = stderr.lines().filter_map(|it| it.strip_prefix("fatal: "));
                let command = match &source.checkout {
                    Some(there) => format!(
                        "git -C {} fetch origin {}",
                        quoted(there.as_os_str()),
                        link.commit
                    ),
                    None => format!("git submodule update --init {}", quoted(path.as_os_str())),
                };
                let mut setting = OsString::from("submodule.");
                setting.push(name);
                setting.push(".update");
                RevisionError::Submodule {
                    path: path.to_owned(),
                    commit: link.commit.clone(),
                    why: lines.next().unwrap_or(&stderr).to_owned(),
                    command,
                    leave_out: format!("git config {} none", word(&setting)),
                }
            }
            error => error,
        };
        git(folder, words.chain([link.path.as_os_str()])).map_err(failed)?;
        Ok(())
    }

    /// Removes the submodules that a commit does not have, before it is checked out: its own files
    /// may be at their paths.
    fn remove_former(&self, folder: &Path, commit: &str) -> Result<(), RevisionError> {
        let before = gitlinks(&git_bytes(folder, ["ls-files", "--stage", "-z"])?);
        if before.is_empty() {
            return Ok(());
        }
        let words = ["ls-tree", "-z", "--full-tree", commit, "--"].map(OsStr::new);
        let paths = before.iter().map(|link| link.path.as_os_str());
        let after = gitlinks(&git_bytes(folder, words.into_iter().chain(paths))?);
        let is_former = |link: &&Gitlink| after.iter().all(|it| it.path != link.path);
        for link in before.iter().filter(is_former) {
            if let Some(inner) = beneath(folder, &link.path) {
                self.remove_submodule(&inner)?;
            }
        }
        Ok(())
    }

    fn remove_submodule(&self, inner: &Path) -> Result<(), RevisionError> {
        self.forget(inner);
        remove_folder(inner)
    }

    /// Adds a git directory to the record.
    fn note(&self, git_dir: &Path) -> Result<(), RevisionError> {
        if self.noted().iter().any(|noted| noted == git_dir) {
            return Ok(());
        }
        let mut line = git_dir.as_os_str().as_bytes().to_vec();
        line.push(0);
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.record);
        let written = file.and_then(|mut file| file.write_all(&line));
        written.map_err(io_error("cannot write", &self.record))
    }

    fn noted(&self) -> Vec<PathBuf> {
        let bytes = fs::read(&self.record).unwrap_or_default();
        let lines = bytes.split(|byte| *byte == 0).filter(|it| !it.is_empty());
        lines
            .map(|line| PathBuf::from(OsString::from_vec(line.to_vec())))
            .collect()
    }

    /// Removes the worktrees of submodules that are in a folder, with their entries.
    fn forget(&self, below: &Path) {
        for git_dir in self.noted() {
            forget_in(&git_dir, below);
        }
    }
}

/// Does the same as [`forget_in`] for the repository of a checkout.
pub(super) fn forget(checkout: &Path, below: &Path) {
    if let Some(git_dir) = Source::of_checkout(checkout).git_dirs.first() {
        forget_in(git_dir, below);
    }
}

/// Removes the worktrees of a repository that are in a folder, and their entries. Other worktrees
/// stay in its list, also those that are not there at the moment.
fn forget_in(git_dir: &Path, below: &Path) {
    // Git lists them without links.
    let parent = below.parent().and_then(|it| it.canonicalize().ok());
    let below = match (parent, below.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => below.to_owned(),
    };
    let words = ["worktree", "list", "--porcelain"].map(OsStr::new);
    // Without its repository there is no list.
    let Ok(list) = git_in(git_dir, words) else {
        return;
    };
    let lines = list.split(|byte| *byte == b'\n');
    let paths = lines.filter_map(|line| line.strip_prefix(b"worktree "));
    for path in paths.map(|path| Path::new(OsStr::from_bytes(path))) {
        if path.starts_with(&below) {
            // Git removes no folder that is incomplete. What stays is removed later, or named.
            let _ = fs::remove_dir_all(path);
            // Twice: an interrupted `worktree add` leaves a locked entry.
            let words = ["worktree", "remove", "--force", "--force", "--"].map(OsStr::new);
            let words = words.into_iter().chain([path.as_os_str()]);
            let _ = git_in(git_dir, words);
        }
    }
}

fn remove_folder(folder: &Path) -> Result<(), RevisionError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(io_error("cannot remove", folder)(error))
        }
        _ => Ok(()),
    }
}

/// The checkout of a repository at a relative path, on which no link is.
pub(super) fn checkout_at(folder: &Path, path: &Path) -> Option<PathBuf> {
    let checkout = beneath(folder, path).filter(|it| it.join(".git").exists())?;
    // Without a valid `.git` the repository is the one around it.
    let above = git(&checkout, ["rev-parse", "--show-cdup"]).ok()?;
    above.is_empty().then_some(checkout)
}

/// A folder at a relative path, on which no link is.
fn beneath(folder: &Path, path: &Path) -> Option<PathBuf> {
    let there = Folder::open(folder).ok()?.folder(path).ok()??;
    Some(there.path().to_owned())
}

/// The gitlinks of what `git ls-files --stage -z` or `git ls-tree -z` prints.
pub(super) fn gitlinks(entries: &[u8]) -> Vec<Gitlink> {
    let entries = entries.split(|byte| *byte == 0);
    let links = entries.filter_map(|entry| {
        let entry = entry.strip_prefix(b"160000 ")?;
        let tab = entry.iter().position(|byte| *byte == b'\t')?;
        let (words, path) = entry.split_at(tab);
        let words = str::from_utf8(words).ok()?.trim_start_matches("commit ");
        Some(Gitlink {
            path: Path::new(OsStr::from_bytes(path.get(1..)?)).to_owned(),
            commit: words.split(' ').next()?.to_owned(),
        })
    });
    links.collect()
}

/// The names of a commit's submodules, by path.
fn names(folder: &Path, commit: &str) -> BTreeMap<PathBuf, OsString> {
    let blob = format!("{commit}:.gitmodules");
    let pattern = r"^submodule\..*\.path$";
    let words = ["config", "--blob", &blob, "-z", "--get-regexp", pattern];
    // Without the file there are none.
    let listed = git_bytes(folder, words).unwrap_or_default();
    let entries = listed.split(|byte| *byte == 0).filter_map(|entry| {
        let newline = entry.iter().rposition(|byte| *byte == b'\n')?;
        let (key, path) = entry.split_at(newline);
        let name = key.strip_prefix(b"submodule.")?.strip_suffix(b".path")?;
        let path = Path::new(OsStr::from_bytes(path.get(1..)?));
        // Without a slash at its end.
        Some((
            path.components().collect(),
            OsStr::from_bytes(name).to_owned(),
        ))
    });
    entries.collect()
}

#[cfg(test)]
mod tests;
