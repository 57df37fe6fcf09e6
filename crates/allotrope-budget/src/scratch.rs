//! The folder of a session's recordings. Those of failed tests stay, so that a person can
//! look into them: under the target folder of Cargo, or in the user's cache.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use allotrope_text::Shown;
use sha2::{Digest, Sha256};

use crate::paths::cache_folder;
use crate::result::{Outcome, Report};
use crate::session::SessionError;

/// The number of sessions whose recordings stay.
const KEPT: u32 = 5;
/// The beginning of the names of their folders; a number follows.
const NAME: &str = "failed-";
/// The beginning of the name of a folder in use.
const IN_USE: &str = "running-";
/// Folders in use that are older than this are of sessions that were killed.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// The folder of a session's recordings.
pub enum Scratch {
    /// The user named it.
    Given(PathBuf),
    /// It is removed at the end, unless it is of use.
    Temporary(tempfile::TempDir),
}

impl Scratch {
    /// The folder that the user named, or a new one for the project in `folder`.
    ///
    /// # Errors
    /// A folder that cannot be created.
    pub fn new(given: Option<&Path>, folder: &Path) -> Result<Self, SessionError> {
        let cannot = |path: &Path, source| SessionError::Io {
            what: format!("cannot create a folder in {}", path.shown()),
            source,
        };
        if let Some(path) = given {
            std::fs::create_dir_all(path).map_err(|error| cannot(path, error))?;
            let path = path.canonicalize().map_err(|error| cannot(path, error))?;
            return Ok(Self::Given(path));
        }
        let base = base(folder);
        remove_abandoned(&base);
        let created = std::fs::create_dir_all(&base)
            .and_then(|()| tempfile::Builder::new().prefix(IN_USE).tempdir_in(&base))
            // The project and the user's home may be read-only, as in a container.
            .or_else(|_| tempfile::Builder::new().prefix("allotrope-").tempdir());
        let folder = created.map_err(|error| cannot(&std::env::temp_dir(), error))?;
        Ok(Self::Temporary(folder))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }

    /// Removes a temporary folder, unless it has recordings of failed tests. Then it gets
    /// its final name, and the oldest folders are removed.
    pub fn finish(self, report: &mut Report) {
        let folder = match self {
            Self::Given(path) => {
                report.scratch = Some(path);
                return;
            }
            Self::Temporary(folder) => folder,
        };
        let mut any = false;
        for test in &mut report.tests {
            let kept = test.trace.as_ref().filter(|trace| trace.exists());
            if test.outcome() == Outcome::Failed && kept.is_some() {
                any = true;
            } else if let Some(trace) = test.trace.take() {
                // If this fails, the recording is removed with the folder.
                let _ = std::fs::remove_file(trace);
            }
        }
        if !any && report.recorded {
            return;
        }
        let folder = named(&folder.keep());
        for test in &mut report.tests {
            if let Some(trace) = &mut test.trace
                && let Some(name) = trace.file_name()
            {
                *trace = folder.join(name);
            }
        }
        report.scratch = Some(folder);
    }
}

/// Where the recordings of a project's failed tests stay.
fn base(folder: &Path) -> PathBuf {
    let given = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let given = given.filter(|target| target.is_absolute() && target.is_dir());
    if let Some(target) = given.or_else(|| cargo_target(folder)) {
        return target.join("allotrope");
    }
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let hash = Sha256::digest(folder.as_os_str().as_encoded_bytes());
    let hash: String = hash.iter().take(6).map(|b| format!("{b:02x}")).collect();
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    cache_folder().join("test").join(format!("{name}-{hash}"))
}

/// The target folder of the Cargo package or workspace that contains a folder. Cargo marks
/// it by a file.
fn cargo_target(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    for folder in folder.ancestors() {
        let target = folder.join("target");
        if target.join("CACHEDIR.TAG").is_file() && folder.join("Cargo.toml").is_file() {
            return Some(target);
        }
        if folder.join(".git").exists() {
            return None;
        }
    }
    None
}

/// The number of a folder of a finished session.
fn number(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.strip_prefix(NAME)?.parse().ok()
}

fn folders(base: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(base).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}

/// Gives a folder the next number, and removes those whose number is too small by now.
/// Returns its path.
fn named(folder: &Path) -> PathBuf {
    let Some(base) = folder.parent() else {
        return folder.to_owned();
    };
    let in_use = folder.file_name().and_then(|name| name.to_str());
    if !in_use.is_some_and(|name| name.starts_with(IN_USE)) {
        return folder.to_owned();
    }
    let numbers = folders(base);
    let last = numbers.iter().filter_map(|path| number(path)).max();
    let first = last.map_or(1, |last| last.saturating_add(1));
    // Another session may take the same number at the same time.
    for next in first..first.saturating_add(100) {
        let path = base.join(format!("{NAME}{next}"));
        match std::fs::rename(folder, &path) {
            Ok(()) => {
                let outdated = |path: &&PathBuf| number(path).is_some_and(|it| it + KEPT <= next);
                for outdated in numbers.iter().filter(outdated) {
                    // It stays if it cannot be removed; the next session tries again.
                    let _ = std::fs::remove_dir_all(outdated);
                }
                return path;
            }
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(_) => break,
        }
    }
    folder.to_owned()
}

/// Removes folders of sessions that were killed.
fn remove_abandoned(base: &Path) {
    for path in folders(base) {
        let name = path.file_name().and_then(|name| name.to_str());
        let modified = path.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        if name.is_some_and(|name| name.starts_with(IN_USE)) && age > Some(ABANDONED) {
            // It stays if it cannot be removed; the next session tries again.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_five_sessions_stay() {
        let base = tempfile::tempdir().expect("a temporary folder");
        let mut paths = Vec::new();
        for _ in 0..7 {
            let folder = tempfile::Builder::new()
                .prefix(IN_USE)
                .tempdir_in(base.path());
            let folder = folder.expect("the folder is ours").keep();
            std::fs::write(folder.join("x.allotrope"), "").expect("the folder is ours");
            paths.push(named(&folder));
        }
        let kept: Vec<bool> = paths.iter().map(|path| path.exists()).collect();
        assert_eq!(kept, [false, false, true, true, true, true, true]);
        assert!(paths[6].ends_with("failed-7"), "{:?}", paths[6]);
    }

    #[test]
    fn a_cargo_project_has_a_target_folder() {
        let project = tempfile::tempdir().expect("a temporary folder");
        let folder = project.path().canonicalize().expect("it is there");
        let inner = folder.join("crates/one");
        std::fs::create_dir_all(&inner).expect("the folder is ours");
        assert_eq!(cargo_target(&inner), None);
        std::fs::create_dir(folder.join("target")).expect("the folder is ours");
        for file in ["Cargo.toml", "target/CACHEDIR.TAG"] {
            std::fs::write(folder.join(file), "").expect("the folder is ours");
        }
        assert_eq!(cargo_target(&inner), Some(folder.join("target")));
        std::fs::create_dir(inner.join(".git")).expect("the folder is ours");
        assert_eq!(cargo_target(&inner), None);
    }
}
