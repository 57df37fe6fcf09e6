//! The cache folder of indexes. It may be deleted at any time, and several
//! processes may use it at once: an index gets its name when it is complete, and
//! one that is deleted while a process reads it stays readable for that process.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use allotrope_files::NewFile;

use super::{Index, VERSION};
use crate::error::hexadecimal;

/// Default limit of the cache in bytes.
const LIMIT: u64 = 2 << 30;
/// Unfinished files older than this many seconds were left by a dead process.
const ABANDONED: u64 = 3600;

/// A folder with the indexes of large modules, for later runs.
#[derive(Debug, Clone)]
pub struct IndexCache {
    folder: PathBuf,
    limit: u64,
    /// Modules with fewer bytes of debug information get no index.
    worthwhile: u64,
}

impl IndexCache {
    /// The cache in the user's cache folder (`$XDG_CACHE_HOME`, or `.cache` in the
    /// home folder); `None` if the environment has neither.
    pub fn of_user() -> Option<Self> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let caches = match set("XDG_CACHE_HOME") {
            Some(folder) => PathBuf::from(folder),
            None => PathBuf::from(set("HOME")?).join(".cache"),
        };
        Some(Self::at(caches.join("allotrope/symbols")))
    }

    /// A cache in this folder, which is created when it is needed.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            limit: LIMIT,
            worthwhile: 16 << 20,
        }
    }

    /// Limits the cache to this many bytes; the least recently used index is
    /// deleted first.
    #[must_use]
    pub fn with_limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// Writes indexes only of modules with at least this many bytes of debug
    /// information [default: 16 MiB].
    #[must_use]
    pub fn with_least_size(mut self, bytes: u64) -> Self {
        self.worthwhile = bytes;
        self
    }

    pub(crate) fn is_worthwhile(&self, bytes: u64) -> bool {
        bytes >= self.worthwhile
    }

    /// The index of a build, if there is a complete one.
    pub(crate) fn open(&self, build_id: &[u8]) -> Option<Index> {
        let path = self.path(build_id);
        let file = File::open(&path).ok()?;
        let index = Index::open(file, build_id);
        match &index {
            // Marks it as recently used.
            Some(_) => {
                let file = OpenOptions::new().append(true).open(&path);
                let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
            }
            // Damaged or of another version: useless.
            None => drop(fs::remove_file(&path)),
        }
        index
    }

    /// Calls `write` with a new file and stores that as the index of a build, unless
    /// `write` returns `false`. Returns the result of `write`.
    pub(crate) fn store(
        &self,
        build_id: &[u8],
        write: impl FnOnce(&File) -> io::Result<bool>,
    ) -> io::Result<bool> {
        fs::create_dir_all(&self.folder)?;
        let path = self.path(build_id);
        let new = NewFile::in_folder(&self.folder)?;
        let stored = match write(new.file()) {
            Ok(true) => new.finish(&path).map(|()| true),
            other => other,
        };
        self.shrink(&path);
        stored
    }

    fn path(&self, build_id: &[u8]) -> PathBuf {
        let name = format!("{}.{VERSION}.index", hexadecimal(build_id));
        self.folder.join(name)
    }

    /// Deletes the least recently used indexes until the rest is within the limit.
    fn shrink(&self, newest: &Path) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        let mut indexes = Vec::new();
        for entry in entries.flatten() {
            let (path, Ok(metadata)) = (entry.path(), entry.metadata()) else {
                continue;
            };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let age = SystemTime::now().duration_since(used).unwrap_or_default();
            match path.extension().and_then(|it| it.to_str()) {
                Some("index") => indexes.push((path == newest, used, metadata.len(), path)),
                Some("partial") if age.as_secs() > ABANDONED => drop(fs::remove_file(&path)),
                _ => {}
            }
        }
        indexes.sort();
        let mut total: u64 = indexes.iter().map(|index| index.2).sum();
        for (_, _, length, path) in indexes {
            if total <= self.limit {
                break;
            }
            let _ = fs::remove_file(&path);
            total -= length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Duration;

    fn store(cache: &IndexCache, build_id: &[u8], bytes: usize) -> bool {
        let write = |mut file: &File| file.write_all(&vec![0; bytes]).map(|()| true);
        cache.store(build_id, write).unwrap()
    }

    fn count(cache: &IndexCache) -> usize {
        fs::read_dir(&cache.folder).unwrap().count()
    }

    #[test]
    fn the_least_recently_used_index_is_deleted_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = IndexCache::at(folder.path().join("new/folder")).with_limit(250);
        for (age, id) in [(30, [1]), (10, [2])] {
            assert!(store(&cache, &id, 100));
            let file = File::options().append(true).open(cache.path(&id)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age))
                .unwrap();
        }
        assert!(store(&cache, &[3], 100));
        assert!(!cache.path(&[1]).exists());
        assert!(cache.path(&[2]).exists() && cache.path(&[3]).exists());
    }

    #[test]
    fn an_index_that_could_not_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = IndexCache::at(folder.path());
        let full = |_: &File| Err(io::ErrorKind::StorageFull.into());
        assert!(cache.store(&[1], full).is_err());
        assert!(!cache.store(&[1], |_| Ok(false)).unwrap());
        assert_eq!(count(&cache), 0);
    }

    #[test]
    fn an_invalid_index_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let cache = IndexCache::at(folder.path());
        assert!(store(&cache, &[1], 1000));
        assert!(cache.open(&[1]).is_none());
        assert_eq!(count(&cache), 0);
    }
}
