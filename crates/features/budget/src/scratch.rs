//! The folder of a session's recordings. Those of failed tests stay, so that a person can
//! look into them: under the target folder of Cargo, or in the user's cache. The target folder is
//! in the repository, in which links are not followed. Of older sessions, only recordings are
//! removed.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use allotrope_files::Folder;
use allotrope_text::Shown;
use sha2::{Digest, Sha256};

use crate::location;
use crate::paths::{Project, cache_folder};
use crate::result::{Outcome, Report};
use crate::session_error::SessionError;

/// The number of sessions whose recordings stay.
const KEPT: u32 = 5;
/// The beginning of the names of their folders; a number follows.
const NAME: &str = "failed-";
/// The beginning of the name of a folder in use.
const IN_USE: &str = "running-";
/// The end of the names of recordings, and their first bytes (`docs/trace-format.md`).
const RECORDING: (&str, &[u8]) = (".allotrope", b"ALLOTROP");
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
            location::refuse_links(Project::containing(folder).root(), path)
                .map_err(|error| SessionError::link(path, error))?;
            std::fs::create_dir_all(path).map_err(|error| cannot(path, error))?;
            let path = path.canonicalize().map_err(|error| cannot(path, error))?;
            return Ok(Self::Given(path));
        }
        let created = base(folder)
            .and_then(|base| {
                remove_abandoned(&base);
                let mut in_use = tempfile::Builder::new();
                in_use.prefix(IN_USE).tempdir_in(base.path())
            })
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

/// Where the recordings of a project's failed tests stay. It is created.
fn base(folder: &Path) -> io::Result<Folder> {
    let given = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let given = given.filter(|target| target.is_absolute() && target.is_dir());
    if let Some(target) = given.or_else(|| cargo_target(folder)) {
        match in_target(folder, &target) {
            // A link is in the way.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {}
            created => return created,
        }
    }
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let hash = Sha256::digest(folder.as_os_str().as_encoded_bytes());
    let hash: String = hash.iter().take(6).map(|b| format!("{b:02x}")).collect();
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let base = cache_folder().join("test").join(format!("{name}-{hash}"));
    std::fs::create_dir_all(&base)?;
    Folder::open(&base)
}

/// Creates the folder in a target folder. Without git, the repository is the workspace.
fn in_target(folder: &Path, target: &Path) -> io::Result<Folder> {
    let project = Project::containing(folder);
    let workspace = target
        .parent()
        .filter(|_| cargo_target(folder).as_deref() == Some(target));
    let (root, inside) = match (location::relative(project.root(), target), workspace) {
        (Some(inside), _) => (project.root(), inside),
        (None, Some(workspace)) => (workspace, PathBuf::from("target")),
        (None, None) => (target, PathBuf::new()),
    };
    Folder::open(root)?.create_folder(&inside.join("allotrope"))
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

/// What is in a folder; nothing if it cannot be read.
fn entries(base: &Folder) -> Vec<PathBuf> {
    let names = base.names().unwrap_or_default().into_iter();
    names.map(|name| base.path().join(name)).collect()
}

/// Removes the recordings in a folder, and the folder if nothing else is in it. What cannot be
/// removed stays; the next session tries again.
fn remove_recordings(base: &Folder, folder: &Path) {
    let Some(name) = folder.file_name() else {
        return;
    };
    // A link is no folder.
    let Ok(Some(folder)) = base.folder(Path::new(name)) else {
        return;
    };
    for file in folder.names().unwrap_or_default() {
        if is_recording(&folder, &file) {
            let _ = folder.remove_file(&file);
        }
    }
    let _ = base.remove_folder(name);
}

/// Whether a file is a recording, or nothing yet.
fn is_recording(folder: &Folder, name: &OsStr) -> bool {
    let (end, magic) = RECORDING;
    let text = name.to_string_lossy();
    let is_unfinished = text.starts_with(".allotrope-") && text.ends_with(".partial");
    if !text.ends_with(end) && !is_unfinished {
        return false;
    }
    let Ok(Some(file)) = folder.open_file(name) else {
        return false;
    };
    let mut first = Vec::new();
    let read = file.take(magic.len() as u64).read_to_end(&mut first);
    read.is_ok() && (first.is_empty() || first == magic)
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
    let Ok(open) = Folder::open(base) else {
        return folder.to_owned();
    };
    let numbers = entries(&open);
    let last = numbers.iter().filter_map(|path| number(path)).max();
    let first = last.map_or(1, |last| last.saturating_add(1));
    // Another session may take the same number at the same time.
    for next in first..first.saturating_add(100) {
        let path = base.join(format!("{NAME}{next}"));
        match std::fs::rename(folder, &path) {
            Ok(()) => {
                let outdated = |path: &&PathBuf| number(path).is_some_and(|it| it + KEPT <= next);
                for outdated in numbers.iter().filter(outdated) {
                    remove_recordings(&open, outdated);
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
fn remove_abandoned(base: &Folder) {
    for path in entries(base) {
        let name = path.file_name().and_then(|name| name.to_str());
        let modified = path
            .symlink_metadata()
            .and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        if name.is_some_and(|name| name.starts_with(IN_USE)) && age > Some(ABANDONED) {
            remove_recordings(base, &path);
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
