//! Debug files from debuginfod (elfutils, debuginfod(8)): from its client's cache, and
//! from servers. Fetched files are stored in the cache, where other tools find them, too.
//!
//! Nearly all servers are https://. debuginfod-find, elfutils' client, is wherever GDB uses
//! them, so that a TLS library of our own is a feature (`debuginfod`).

#[cfg(not(feature = "debuginfod"))]
mod find;
#[cfg(feature = "debuginfod")]
mod http;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(not(feature = "debuginfod"))]
use self::find as client;
#[cfg(feature = "debuginfod")]
use self::http as client;
use crate::elf::ElfFile;
use crate::error::hexadecimal;
use crate::progress::Progress;

/// Longest build id in bytes: it becomes a file name.
const MAX_BUILD_ID: usize = 64;

/// The client's cache, and the servers that fill it.
#[derive(Debug, Clone, Default)]
pub(super) struct Debuginfod {
    cache: Option<PathBuf>,
    servers: Vec<String>,
    log: Arc<Mutex<Log>>,
}

/// The failures so far.
#[derive(Debug, Default)]
struct Log {
    /// Servers that could not be reached; they get no further request.
    failed: BTreeSet<String>,
    complaints: Vec<String>,
    /// Build ids that no server has.
    absent: BTreeSet<Vec<u8>>,
}

impl Debuginfod {
    /// The client's default cache, according to the environment, and no server.
    pub(super) fn from_environment() -> Self {
        Self {
            cache: cache_folder(
                |name| std::env::var_os(name).map(PathBuf::from),
                Path::is_dir,
            ),
            ..Self::default()
        }
    }

    pub(super) fn set_cache(&mut self, folder: PathBuf) {
        self.cache = Some(folder);
    }

    pub(super) fn add_servers(&mut self, servers: impl IntoIterator<Item = String>) {
        self.servers.extend(servers);
    }

    /// Sentences about failures of servers since the last call.
    pub(super) fn take_complaints(&self) -> Vec<String> {
        std::mem::take(&mut self.log().complaints)
    }

    /// The debug file with this build id, fetched from a server if it is not cached.
    pub(super) fn debug_file(&self, build_id: &[u8], progress: &Progress) -> Option<ElfFile> {
        if build_id.len() < 2 || build_id.len() > MAX_BUILD_ID {
            return None;
        }
        let folder = self.cache.as_ref()?.join(hexadecimal(build_id));
        let path = folder.join("debuginfo");
        let open = || {
            ElfFile::open(&path)
                .ok()
                .filter(|it| it.build_id() == build_id)
        };
        if let Some(file) = open() {
            return Some(file);
        }
        if self.servers.is_empty() || self.log().absent.contains(build_id) {
            return None;
        }
        if !self.fetch(build_id, &path, progress) {
            self.log().absent.insert(build_id.to_vec());
            return None;
        }
        open()
    }

    /// Fetches a file to `path` from one of the servers; returns whether one has it.
    fn fetch(&self, build_id: &[u8], path: &Path, progress: &Progress) -> bool {
        let mut asked = client::groups(&self.servers).into_iter();
        asked.any(|servers| {
            if self.log().failed.contains(&servers) {
                return false;
            }
            let found = client::fetch(&servers, &hexadecimal(build_id), path, progress);
            found.unwrap_or_else(|problem| {
                let mut log = self.log();
                log.complaints.push(format!(
                    "cannot fetch debug files from {servers}: {problem}; it is not asked again"
                ));
                log.failed.insert(servers);
                false
            })
        })
    }

    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        // After a panic with the lock held the lists are still valid.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The folder of the client's cache, by its own rules: debuginfod_find_debuginfo(3),
/// "CACHE".
fn cache_folder(
    variable: impl Fn(&str) -> Option<PathBuf>,
    is_folder: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.as_os_str().is_empty());
    if let Some(folder) = set("DEBUGINFOD_CACHE_PATH") {
        return Some(folder);
    }
    let home = set("HOME");
    let old = home
        .as_ref()
        .map(|home| home.join(".debuginfod_client_cache"));
    if let Some(old) = old.filter(|old| is_folder(old)) {
        return Some(old);
    }
    let caches = set("XDG_CACHE_HOME").or_else(|| Some(home?.join(".cache")))?;
    Some(caches.join("debuginfod_client"))
}

/// Whether this build can fetch files on this machine.
pub(super) fn can_fetch() -> bool {
    client::is_there()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(variables: &[(&str, &str)], old_exists: bool) -> Option<PathBuf> {
        let value = |name: &str| {
            let variable = variables.iter().find(|(known, _)| *known == name);
            variable.map(|(_, value)| PathBuf::from(value))
        };
        cache_folder(value, |_| old_exists)
    }

    #[test]
    fn the_cache_is_that_of_the_client() {
        let all = [
            ("DEBUGINFOD_CACHE_PATH", "/given"),
            ("XDG_CACHE_HOME", "/xdg"),
            ("HOME", "/home/u"),
        ];
        assert_eq!(folder(&all, true), Some("/given".into()));
        assert_eq!(
            folder(&all[1..], true),
            Some("/home/u/.debuginfod_client_cache".into())
        );
        assert_eq!(
            folder(&all[1..], false),
            Some("/xdg/debuginfod_client".into())
        );
        assert_eq!(
            folder(&all[2..], false),
            Some("/home/u/.cache/debuginfod_client".into())
        );
        assert_eq!(folder(&[("HOME", "")], false), None);
    }
}
