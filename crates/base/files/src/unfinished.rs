//! The files that this process is writing under their hidden names, so that a command that a signal
//! ends leaves none behind. Handling the signal is the command's.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The entry of a file in the list, until it is dropped.
#[derive(Debug)]
pub(crate) struct Listed(PathBuf);

/// Creates a file and puts its path on the list. A thread that removes what is on the list waits
/// until that is done.
pub(crate) fn create<F, E>(
    create: impl FnOnce() -> Result<F, E>,
    path: impl FnOnce(&F) -> &Path,
) -> Result<(F, Listed), E> {
    let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    let file = create()?;
    let path = path(&file).to_owned();
    unfinished.push(path.clone());
    Ok((file, Listed(path)))
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.retain(|path| *path != self.0);
    }
}

/// Removes all unfinished files of this process, which must end at once: their writers would fail
/// to complete them.
pub fn remove_unfinished() {
    let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    for path in unfinished.drain(..) {
        // Fails if the file has its final name already.
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use crate::NewFile;

    #[test]
    fn files_without_their_final_name_are_removed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let complete = folder.path().join("complete");
        let file = NewFile::in_folder(folder.path()).expect("the folder is ours");
        file.finish(&complete).expect("the folder is ours");
        let _unfinished = NewFile::in_folder(folder.path()).expect("the folder is ours");
        super::remove_unfinished();
        let left = std::fs::read_dir(folder.path()).expect("the folder is ours");
        let left: Vec<_> = left.flatten().map(|entry| entry.path()).collect();
        assert_eq!(left, [complete]);
    }
}
