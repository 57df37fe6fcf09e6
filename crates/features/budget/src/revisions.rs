//! Checks out revisions of a git repository, each in a worktree of its own in the
//! user's cache. The worktrees stay, so that the next build there is
//! incremental. The repository's own working tree and index are not modified.

mod submodules;

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use allotrope_text::Shown;

use rustix::fs::{FlockOperation, OFlags, flock};
use sha2::{Digest, Sha256};

use crate::git::{command, git, run, run_bytes};
use crate::paths::cache_folder;
pub use crate::revision_error::RevisionError;
use submodules::{Checkout, Source, checkout_at, forget, gitlinks};

/// The name of the working tree with its uncommitted changes.
pub const WORKING_TREE: &str = ".";

/// A repository, and the folder of its worktrees.
#[derive(Debug)]
pub struct Repository {
    root: PathBuf,
    cache: PathBuf,
    /// The worktrees that did not exist before.
    created: RefCell<Vec<PathBuf>>,
}

/// A checked-out revision, locked against other processes while this value
/// exists.
#[derive(Debug)]
pub struct Worktree {
    /// Folder of the worktree.
    pub folder: PathBuf,
    /// The full hash of the commit.
    pub commit: String,
    /// The revision as the user gave it.
    pub name: String,
    _lock: File,
}

impl Repository {
    /// The repository that contains a folder.
    ///
    /// # Errors
    /// The folder is in no repository, git refuses to read the repository (of another
    /// user, for example), or git is not installed.
    pub fn containing(folder: &Path) -> Result<Self, RevisionError> {
        let none = || RevisionError::NoRepository {
            folder: folder.to_owned(),
        };
        let output = git(folder, ["rev-parse", "--show-toplevel"]);
        let root = match output {
            Err(RevisionError::Git { stderr, .. }) if stderr.contains("not a git repository") => {
                return Err(none());
            }
            output => PathBuf::from(output?),
        };
        let root = root.canonicalize().map_err(|_| none())?;
        let hash = Sha256::digest(root.as_os_str().as_encoded_bytes());
        let hash: String = hash
            .iter()
            .take(6)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let name = root
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let cache = cache_folder()
            .join("compare")
            .join(format!("{name}-{hash}"));
        Ok(Self {
            root,
            cache,
            created: RefCell::default(),
        })
    }

    /// The folder of the repository.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the worktrees.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// Checks out a revision: in a worktree that has this commit already, else
    /// in the one that was used for this name, else in a new one. Ignored
    /// files, such as build results, stay.
    ///
    /// # Errors
    /// No such revision, a git command that fails, a folder that cannot be
    /// written.
    pub fn worktree(&self, name: &str) -> Result<Worktree, RevisionError> {
        let commit = if name == WORKING_TREE {
            self.commit_working_tree()?
        } else {
            self.resolve(name)?
        };
        fs::create_dir_all(&self.cache).map_err(io_error("cannot create", &self.cache))?;
        for folder in self.folders()? {
            if head(&folder).as_deref() == Some(&commit)
                && let Some(lock) = self.lock(&folder, false)?
            {
                return self.checked_out(folder, commit, name, lock);
            }
        }
        let folder = self.cache.join(file_name(name));
        let lock = self.lock(&folder, true)?;
        let lock = lock.ok_or_else(|| RevisionError::Io {
            what: format!("cannot lock {}", folder.shown()),
            source: ErrorKind::WouldBlock.into(),
        })?;
        if head(&folder).is_none() {
            // The remains of an incomplete worktree.
            Checkout::new(&folder).remove(&self.root)?;
            let path = folder.as_os_str();
            let words = ["worktree", "add", "--force", "--detach", "--quiet"].map(OsStr::new);
            let words = words.into_iter().chain([path, OsStr::new(&commit)]);
            self.created.borrow_mut().push(folder.clone());
            git(&self.root, words)?;
        }
        self.checked_out(folder, commit, name, lock)
    }

    /// Removes all worktrees.
    ///
    /// # Errors
    /// A folder that cannot be removed.
    pub fn remove_worktrees(&self) -> Result<(), RevisionError> {
        if !self.cache.exists() {
            return Ok(());
        }
        for folder in self.folders()? {
            Checkout::new(&folder).remove(&self.root)?;
        }
        // Those whose folders an interrupted removal has left no trace of.
        forget(&self.root, &self.cache);
        match fs::remove_dir_all(&self.cache) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(io_error("cannot remove", &self.cache)(error))
            }
            _ => Ok(()),
        }
    }

    /// Removes the worktrees that did not exist when this value was made.
    ///
    /// # Errors
    /// A folder that cannot be removed.
    pub fn remove_created(&self) -> Result<(), RevisionError> {
        for folder in self.created.take() {
            Checkout::new(&folder).remove(&self.root)?;
            // Nothing is lost if it stays: it is empty.
            let _ = fs::remove_file(folder.with_extension("lock"));
        }
        Ok(())
    }

    /// The path beside the repository that a build asks for under a path which is beside
    /// its worktree, if a path of that kind is in its output and exists.
    pub fn sibling_in(&self, output: &str) -> Option<PathBuf> {
        let beside_worktrees = format!("{}/", self.cache.to_str()?);
        let parent = self.root.parent()?;
        output.split(&beside_worktrees).skip(1).find_map(|rest| {
            let end = rest.find(|c: char| c.is_whitespace() || "'\"`/:,;)".contains(c));
            let name = rest.get(..end.unwrap_or(rest.len()))?;
            let is_worktree = self.cache.join(name).join(".git").exists();
            let sibling = parent.join(name);
            (!name.is_empty() && !is_worktree && sibling.exists()).then_some(sibling)
        })
    }

    fn checked_out(
        &self,
        folder: PathBuf,
        commit: String,
        name: &str,
        lock: File,
    ) -> Result<Worktree, RevisionError> {
        let source = Source::of_checkout(&self.root);
        Checkout::new(&folder).check_out(&source, &commit)?;
        Ok(Worktree {
            folder,
            commit,
            name: name.to_owned(),
            _lock: lock,
        })
    }

    fn resolve(&self, name: &str) -> Result<String, RevisionError> {
        let revision = format!("{name}^{{commit}}");
        let words = [
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &revision,
        ];
        git(&self.root, words).map_err(|error| match error {
            RevisionError::Git { .. } => RevisionError::NoRevision {
                repository: self.root.clone(),
                name: name.to_owned(),
            },
            error => error,
        })
    }

    fn commit_working_tree(&self) -> Result<String, RevisionError> {
        Ok(commit_working_tree(&self.root)?.commit)
    }

    fn folders(&self) -> Result<Vec<PathBuf>, RevisionError> {
        let entries = fs::read_dir(&self.cache).map_err(io_error("cannot read", &self.cache))?;
        let mut folders: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.is_dir())
            .collect();
        folders.sort();
        Ok(folders)
    }

    /// Locks a worktree; `None` if another process has the lock and `wait` is
    /// not set.
    fn lock(&self, folder: &Path, wait: bool) -> Result<Option<File>, RevisionError> {
        let path = folder.with_extension("lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path)
            .map_err(io_error("cannot create", &path))?;
        let operation = if wait {
            FlockOperation::LockExclusive
        } else {
            FlockOperation::NonBlockingLockExclusive
        };
        match flock(&file, operation) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(io_error("cannot lock", &path)(error.into())),
        }
    }
}

/// A working tree as a commit.
struct WorkingTree {
    commit: String,
    /// The commit that is checked out there, if nothing is changed.
    unchanged: Option<String>,
}

/// Commits all files that are not ignored, those of submodules, too, through temporary indexes and
/// on no branch, so that the repositories stay as they are.
fn commit_working_tree(root: &Path) -> Result<WorkingTree, RevisionError> {
    let folder = tempfile::tempdir().map_err(io_error("cannot create", Path::new("/tmp")))?;
    let index = folder.path().join("index");
    let own = git(root, ["rev-parse", "--git-path", "index"])?;
    // A copy of the index has the file times, so git reads only changed
    // files.
    let own = root.join(own);
    let _ = fs::copy(&own, &index).and_then(|_| {
        // Git reads a file that is as old as the index, because a change in the same
        // second leaves its time as it is. A younger copy would hide such a change.
        let written = fs::metadata(&own)?.modified()?;
        fs::File::options()
            .write(true)
            .open(&index)?
            .set_modified(written)
    });
    let with_index = |words: &[&OsStr]| {
        let mut command = command(root, words);
        command.env("GIT_INDEX_FILE", &index);
        run_bytes(&mut command, words[0].to_string_lossy().into_owned())
    };
    with_index(&["add", "--all"].map(OsStr::new))?;
    let entries = with_index(&["ls-files", "--stage", "-z"].map(OsStr::new))?;
    for link in gitlinks(&entries) {
        let Some(checkout) = checkout_at(root, &link.path) else {
            continue;
        };
        let there = commit_working_tree(&checkout)?;
        let commit = there.unchanged.unwrap_or(there.commit);
        if commit != link.commit {
            let mut entry = OsString::from(format!("160000,{commit},"));
            entry.push(&link.path);
            let words = ["update-index", "--cacheinfo"].map(OsStr::new);
            with_index(&[words[0], words[1], &entry])?;
        }
    }
    let tree = with_index(&[OsStr::new("write-tree")])?;
    let tree = String::from_utf8_lossy(&tree).trim().to_owned();
    let mut words = vec!["commit-tree", &tree, "-m", "uncommitted changes"];
    let resolve = |name: &str| git(root, ["rev-parse", "--verify", "--quiet", name]).ok();
    let head = resolve("HEAD^{commit}");
    if let Some(head) = &head {
        words.extend(["-p", head]);
    }
    let mut command = command(root, &words);
    for (name, value) in [
        ("NAME", "allotrope"),
        ("EMAIL", "allotrope@localhost"),
        // A fixed date, so that the same files give the same commit.
        ("DATE", "2000-01-01T00:00:00Z"),
    ] {
        command.env(format!("GIT_AUTHOR_{name}"), value);
        command.env(format!("GIT_COMMITTER_{name}"), value);
    }
    Ok(WorkingTree {
        commit: run(&mut command, "commit-tree".to_owned())?,
        unchanged: head.filter(|_| resolve("HEAD^{tree}").as_deref() == Some(&tree)),
    })
}

fn io_error(what: &str, path: &Path) -> impl FnOnce(io::Error) -> RevisionError + use<> {
    let what = format!("{what} {}", path.shown());
    move |source| RevisionError::Io { what, source }
}

/// The commit that a worktree in the cache has checked out; `None` if the folder is no
/// worktree.
fn head(folder: &Path) -> Option<String> {
    if !folder.join(".git").exists() {
        return None;
    }
    git(folder, ["rev-parse", "HEAD"]).ok()
}

/// The name of the folder for a revision.
fn file_name(name: &str) -> String {
    if name == WORKING_TREE {
        return "working-tree".to_owned();
    }
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_".contains(c) {
            c
        } else {
            '_'
        }
    };
    let text: String = name.chars().map(plain).take(80).collect();
    if text == name {
        return format!("at-{text}");
    }
    // The hash distinguishes names that differ in replaced characters only.
    let hash = Sha256::digest(name.as_bytes());
    format!("at-{text}-{:02x}{:02x}", hash[0], hash[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with one commit and a separate cache.
    fn repository(folder: &Path) -> Repository {
        let project = folder.join("project");
        fs::create_dir(&project).expect("the folder is ours");
        let run = |words: &[&str]| git(&project, words).expect("git works");
        run(&["init", "--quiet"]);
        run(&["config", "user.name", "somebody"]);
        run(&["config", "user.email", "somebody@localhost"]);
        fs::write(project.join("file"), "one\n").expect("the folder is ours");
        fs::write(project.join(".gitignore"), "ignored\n").expect("the folder is ours");
        run(&["add", "."]);
        run(&["commit", "--quiet", "-m", "first"]);
        let mut repository = Repository::containing(&project).expect("it was made");
        repository.cache = folder.join("cache");
        repository
    }

    fn read(folder: &Path, file: &str) -> String {
        fs::read_to_string(folder.join(file)).unwrap_or_default()
    }

    #[test]
    fn the_working_tree_has_uncommitted_files_and_the_repository_is_unchanged() {
        let folder = tempfile::tempdir().expect("a folder");
        let repository = repository(folder.path());
        let root = repository.root();
        for (file, text) in [("file", "two\n"), ("new", "new\n"), ("ignored", "x\n")] {
            fs::write(root.join(file), text).expect("the folder is ours");
        }
        let status = || git(root, ["status", "--porcelain"]).expect("git works");
        let (before, head) = (
            status(),
            git(root, ["rev-parse", "HEAD"]).expect("git works"),
        );
        let working = repository.worktree(WORKING_TREE).expect("it can be made");
        let committed = repository.worktree("HEAD").expect("it can be made");
        assert_eq!(read(&working.folder, "file"), "two\n");
        assert_eq!(read(&working.folder, "new"), "new\n");
        assert!(!working.folder.join("ignored").exists());
        assert_eq!(read(&committed.folder, "file"), "one\n");
        assert_eq!(status(), before);
        assert_eq!(git(root, ["rev-parse", "HEAD"]).expect("git works"), head);
        assert_eq!(read(root, "file"), "two\n");
    }

    #[test]
    fn a_worktree_stays_with_its_build_results() {
        let folder = tempfile::tempdir().expect("a folder");
        let repository = repository(folder.path());
        let first = repository.worktree("HEAD").expect("it can be made");
        fs::write(first.folder.join("ignored"), "built").expect("the folder is ours");
        let path = first.folder.clone();
        drop(first);
        // Another name of the same commit has the same folder.
        let commit = repository.resolve("HEAD").expect("there is one");
        let second = repository.worktree(&commit).expect("it can be made");
        assert_eq!(second.folder, path);
        drop(second);
        // The folder of a name is updated when the name moves to another
        // commit.
        fs::write(repository.root().join("file"), "two\n").expect("the folder is ours");
        git(repository.root(), ["commit", "--quiet", "-am", "second"]).expect("git works");
        let third = repository.worktree("HEAD").expect("it can be made");
        assert_eq!(third.folder, path);
        assert_eq!(read(&third.folder, "file"), "two\n");
        assert_eq!(read(&third.folder, "ignored"), "built");
        // While a worktree is in use, its previous commit gets another one.
        let before = repository.worktree("HEAD~1").expect("it can be made");
        assert_ne!(before.folder, path);
        drop((third, before));
        repository.remove_worktrees().expect("they are ours");
        assert!(!path.exists());
        let list = git(repository.root(), ["worktree", "list"]).expect("git works");
        assert_eq!(list.lines().count(), 1, "{list}");
    }

    #[test]
    fn errors_name_the_missing_revision_or_repository() {
        let folder = tempfile::tempdir().expect("a folder");
        let repository = repository(folder.path());
        let error = repository.worktree("nonsense").expect_err("there is none");
        assert!(
            error
                .to_string()
                .starts_with("there is no revision `nonsense`")
        );
        let error = Repository::containing(folder.path()).expect_err("there is none");
        assert!(
            error.to_string().contains("is not in a git repository"),
            "{error}"
        );
    }

    #[test]
    fn names_of_folders_are_plain_and_differ() {
        assert_eq!(file_name("main"), "at-main");
        assert_eq!(file_name("."), "working-tree");
        assert_ne!(file_name("a/b"), file_name("a.b"));
        assert!(!file_name("../../x").contains(['/', '.']));
    }
}
