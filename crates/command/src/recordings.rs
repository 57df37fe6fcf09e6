//! The recordings of a folder, for commands that were given none.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use allotrope_trace::MAGIC;

/// The ending of the names of recordings.
pub const EXTENSION: &str = "allotrope";

/// A recording of a folder.
pub struct RecordingFile {
    /// Its name in the folder.
    pub path: PathBuf,
    /// When it was written last.
    pub modified: SystemTime,
    /// Its size.
    pub bytes: u64,
    /// The user whose file it is.
    owner: u32,
}

impl RecordingFile {
    /// Whether it is a file of the user who runs this command. Others may have put theirs into a
    /// folder that everybody can write to.
    pub fn is_own(&self) -> bool {
        self.owner == rustix::process::geteuid().as_raw()
    }
}

/// The recordings of a folder by their names, the newest first.
pub fn recordings(folder: &Path) -> Vec<RecordingFile> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let recording = |entry: std::fs::DirEntry| {
        let name = PathBuf::from(entry.file_name());
        // Hidden ones are not finished.
        let is_hidden = name.as_os_str().as_encoded_bytes().starts_with(b".");
        let is_recording = has_extension(&name) && !is_hidden;
        let metadata = std::fs::metadata(entry.path()).ok();
        let metadata = metadata
            .filter(Metadata::is_file)
            .filter(|_| is_recording)?;
        Some(RecordingFile {
            path: name,
            modified: metadata.modified().ok()?,
            bytes: metadata.len(),
            owner: metadata.uid(),
        })
    };
    let mut all: Vec<RecordingFile> = entries.filter_map(recording).collect();
    all.sort_by(|a, b| (b.modified, &a.path).cmp(&(a.modified, &b.path)));
    all
}

/// Whether the name is that of a recording.
pub fn has_extension(path: &Path) -> bool {
    path.extension() == Some(OsStr::new(EXTENSION))
}

/// Whether a file is a recording, by its first bytes.
pub fn is_recording(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    let is_file = path.metadata().is_ok_and(|it| it.is_file());
    let read = |mut file: File| file.read_exact(&mut magic);
    is_file && File::open(path).and_then(read).is_ok() && magic == MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn recordings_are_listed_with_the_newest_first() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, age) in [
            ("old.allotrope", 60),
            ("new.allotrope", 5),
            (".part.allotrope", 1),
            ("x.txt", 2),
        ] {
            let path = folder.path().join(name);
            let file = File::create(&path).expect("writable");
            let then = SystemTime::now() - Duration::from_secs(age);
            file.set_modified(then).expect("its time can be set");
        }
        std::fs::create_dir(folder.path().join("folder.allotrope")).expect("writable");
        let found = recordings(folder.path());
        let names: Vec<_> = found
            .iter()
            .map(|it| it.path.to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["new.allotrope", "old.allotrope"]);
        assert!(found.iter().all(RecordingFile::is_own));
    }
}
