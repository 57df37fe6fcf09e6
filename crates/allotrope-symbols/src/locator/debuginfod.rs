//! Debug files by way of debuginfod (elfutils, debuginfod(8)): what its client
//! has fetched before, and, where servers are given, what they have. Both lie
//! in the client's own cache folder, so that other tools find it too.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allotrope_files::NewFile;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

use crate::elf::ElfFile;
use crate::error::hexadecimal;
use crate::progress::{Progress, Work};

/// The largest debug file that is fetched.
const MAX_BYTES: u64 = 16 << 30;
/// Seconds for one file, unless `DEBUGINFOD_MAXTIME` says otherwise.
const MAX_SECONDS: u64 = 300;
/// Longer build ids are none: they become file names.
const MAX_BUILD_ID: usize = 64;

/// The client's cache, and servers that fill it.
#[derive(Debug, Clone, Default)]
pub(super) struct Debuginfod {
    cache: Option<PathBuf>,
    servers: Vec<String>,
    log: Arc<Mutex<Log>>,
}

/// What happened with the servers so far.
#[derive(Debug, Default)]
struct Log {
    /// Servers that could not be asked; they are not asked again.
    failed: BTreeSet<String>,
    complaints: Vec<String>,
    /// What no server has.
    absent: BTreeSet<Vec<u8>>,
}

impl Debuginfod {
    /// The cache where the environment says it is, and no server.
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

    /// What went wrong with servers since this was last asked.
    pub(super) fn take_complaints(&self) -> Vec<String> {
        std::mem::take(&mut self.log().complaints)
    }

    /// The debug file of this build id, fetched if need be.
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
        let fetched = self
            .servers
            .iter()
            .any(|server| self.fetch_from(server, build_id, &path, progress));
        if !fetched {
            self.log().absent.insert(build_id.to_vec());
            return None;
        }
        open()
    }

    fn fetch_from(&self, server: &str, build_id: &[u8], path: &Path, progress: &Progress) -> bool {
        if self.log().failed.contains(server) {
            return false;
        }
        let url = format!(
            "{}/buildid/{}/debuginfo",
            server.trim_end_matches('/'),
            hexadecimal(build_id)
        );
        match fetch(&url, path, progress) {
            Ok(found) => found,
            Err(problem) => {
                let mut log = self.log();
                log.failed.insert(server.to_owned());
                log.complaints.push(format!(
                    "cannot fetch {url}: {problem}; this server is not asked again"
                ));
                false
            }
        }
    }

    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        // Whoever panicked with the lock held left lists that still hold.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client's rule: debuginfod_find_debuginfo(3), "CACHE".
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

/// Fetches to `path`, under another name until it is whole. `false`: the
/// server does not have it.
fn fetch(url: &str, path: &Path, progress: &Progress) -> Result<bool, String> {
    let seconds = std::env::var("DEBUGINFOD_MAXTIME")
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|seconds| *seconds > 0)
        .unwrap_or(MAX_SECONDS);
    let trusted = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier);
    let agent: Agent = Agent::config_builder()
        .user_agent(concat!("allotrope/", env!("CARGO_PKG_VERSION")))
        .timeout_global(Some(Duration::from_secs(seconds)))
        .max_redirects(8)
        .max_response_header_size(64 << 10)
        .http_status_as_error(false)
        .tls_config(trusted.build())
        .build()
        .into();
    let response = agent.get(url).call().map_err(|error| error.to_string())?;
    match response.status().as_u16() {
        200 => {}
        404 => return Ok(false),
        status => return Err(format!("the server answered with status {status}")),
    }
    let length = response.headers().get("content-length");
    let expected = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let response = response.into_body().into_reader();
    save(response, expected, path, progress).map_err(|error| error.to_string())?;
    Ok(true)
}

fn save(
    from: impl Read,
    expected: Option<u64>,
    path: &Path,
    progress: &Progress,
) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let mut new = NewFile::in_folder(folder)?;
    copy(from, expected, &mut new, progress)?;
    new.finish(path)
}

fn copy(
    mut from: impl Read,
    expected: Option<u64>,
    file: &mut NewFile,
    progress: &Progress,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut length = 0;
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        length += count as u64;
        if length > MAX_BYTES {
            return Err(io::Error::other("the file has more than 16 GiB"));
        }
        file.write_all(&buffer[..count])?;
        progress.tell(Work::Fetching, length, expected.unwrap_or(0));
    }
    match expected {
        Some(expected) if expected != length => Err(io::Error::other(format!(
            "the connection ended after {length} of {expected} bytes"
        ))),
        _ => Ok(()),
    }
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
    fn the_cache_is_where_the_client_has_it() {
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

    #[test]
    fn what_was_cut_off_on_the_way_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id/debuginfo");
        let error = save(&b"half"[..], Some(8), &path, &Progress::default()).unwrap_err();
        assert!(error.to_string().contains("after 4 of 8 bytes"), "{error}");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
        save(&b"the whole"[..], Some(9), &path, &Progress::default()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"the whole");
    }
}
