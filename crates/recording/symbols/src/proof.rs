//! Which file is proven to be the one whose code a process ran ([`Ran`]), and how such a
//! file is opened while the process runs ([`open_mapped`]). A file at the module's path may
//! be another build by now, and its names would be wrong.
//!
//! A build id proves a file. A module without one is proven by what was mapped: inode, size,
//! modification time, program headers and the first page of code
//! ([`allotrope_shm::mapped_file`]).

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub use allotrope_shm::mapped_file::FileIdentity;

use crate::elf::ElfFile;
use crate::error::{SymbolError, hexadecimal};

/// Bytes of `/proc/PID/maps` that are read.
const MAX_MAPS_BYTES: u64 = 16 << 20;
/// Largest number of descriptors of a process that are searched for a module's file.
const MAX_DESCRIPTORS: usize = 1024;
/// Largest number of these descriptors that are opened if only the build id shows which is the
/// right one.
const MAX_OPENED: usize = 64;

/// What is known of the file that a process mapped as a module.
#[derive(Debug, Clone, Copy)]
pub struct Ran<'a> {
    build_id: &'a [u8],
    file: FileIdentity,
    is_unverified: bool,
}

impl<'a> Ran<'a> {
    /// A module with this build id or, if that is empty, of this file.
    pub fn new(build_id: &'a [u8], file: FileIdentity) -> Self {
        Self {
            build_id,
            file,
            is_unverified: false,
        }
    }

    /// Any file is taken for the one that ran, because the user asks for it or names the
    /// file itself.
    pub fn unverified() -> Self {
        Self {
            build_id: &[],
            file: FileIdentity::default(),
            is_unverified: true,
        }
    }

    /// The build id; empty if there is none.
    pub fn build_id(&self) -> &'a [u8] {
        self.build_id
    }

    pub(crate) fn is_unverified(&self) -> bool {
        self.is_unverified
    }

    /// Whether any file can be proven to be this one.
    pub fn is_provable(&self) -> bool {
        !self.build_id.is_empty() || self.file.is_known()
    }

    /// Whether `elf` is proven to be the file that ran.
    pub(crate) fn check(&self, elf: &ElfFile) -> Result<(), SymbolError> {
        if self.is_unverified {
            return Ok(());
        }
        let path = || elf.path().to_owned();
        if !self.build_id.is_empty() {
            return match elf.build_id() == self.build_id {
                true => Ok(()),
                false => Err(SymbolError::BuildIdDiffers {
                    path: path(),
                    found: match elf.build_id() {
                        [] => "none".to_owned(),
                        found => hexadecimal(found),
                    },
                    expected: hexadecimal(self.build_id),
                }),
            };
        }
        if !self.file.is_known() {
            return Err(SymbolError::Unproven { path: path() });
        }
        match elf.identity() {
            Some(found) if self.file.is_same_file(&found) => Ok(()),
            _ => Err(SymbolError::FileDiffers { path: path() }),
        }
    }
}

/// Opens the file that a living process has mapped as a module, if one is proven to be it.
/// `process` is the process's folder in `/proc`, `path` the module's path as the process
/// sees it. The file may be deleted, exist only as a descriptor, or lie in another mount
/// namespace.
///
/// `/proc/PID/map_files` would lead to every mapped file, but only root may follow it.
pub fn open_mapped(process: &Path, path: &Path, start: u64, ran: &Ran<'_>) -> Option<File> {
    if !ran.is_provable() {
        return None;
    }
    let open = |candidate: &Path| prove(candidate, path, ran);
    if fs::read_link(process.join("exe")).is_ok_and(|executable| same_name(&executable, path))
        && let Some(file) = open(&process.join("exe"))
    {
        return Some(file);
    }
    if let Some(file) = seen_by(process, path).and_then(|candidate| open(&candidate)) {
        return Some(file);
    }
    // The executable under another name: it was started from a descriptor, or moved.
    open(&process.join("exe"))
        .or_else(|| seen_by(process, &mapped_path(process, start)?).and_then(|it| open(&it)))
        .or_else(|| open_mapping(process, path, start, ran))
        .or_else(|| open_descriptor(process, path, ran))
}

/// The kernel adds a word to the path of a file that was deleted.
fn same_name(executable: &Path, path: &Path) -> bool {
    let executable = executable.as_os_str().as_bytes();
    let executable = executable.strip_suffix(b" (deleted)").unwrap_or(executable);
    let path = path.as_os_str().as_bytes();
    executable == path.strip_suffix(b" (deleted)").unwrap_or(path)
}

/// The path under which this process finds what `process` finds at `path`. `/proc/self` is
/// the process itself, and `/dev/fd` a link to its descriptors.
fn seen_by(process: &Path, path: &Path) -> Option<PathBuf> {
    for (own, folder) in [
        ("/proc/self", ""),
        ("/proc/thread-self", ""),
        ("/dev/fd", "fd"),
    ] {
        if let Ok(rest) = path.strip_prefix(own) {
            return Some(process.join(folder).join(rest));
        }
    }
    if let Ok(rest) = path.strip_prefix("/proc") {
        let mut parts = rest.components();
        let pid = parts.next()?.as_os_str();
        // The process may name itself by its number in another namespace.
        if pid.as_bytes().iter().all(u8::is_ascii_digit) {
            return Some(process.join(parts.as_path()));
        }
    }
    let below_root = path.strip_prefix("/").ok()?;
    Some(process.join("root").join(below_root))
}

/// The path that the kernel has for the file that is mapped at `start`: the file may have
/// been renamed, or the module's path be relative.
fn mapped_path(process: &Path, start: u64) -> Option<PathBuf> {
    let maps = File::open(process.join("maps")).ok()?;
    let prefix = format!("{start:x}-");
    let mut lines = BufReader::new(maps.take(MAX_MAPS_BYTES)).split(b'\n');
    let line = lines.find_map(|line| {
        let line = line.ok()?;
        line.starts_with(prefix.as_bytes()).then_some(line)
    })?;
    let at = line.iter().position(|&byte| byte == b'/')?;
    Some(PathBuf::from(OsStr::from_bytes(&line[at..])))
}

/// Opens the file at a path of this process if it is proven to be the one that ran.
pub fn open_at(path: &Path, ran: &Ran<'_>) -> Option<File> {
    let may_be_it = path.is_absolute() && ran.is_provable();
    may_be_it.then(|| prove(path, path, ran)).flatten()
}

/// The mapped file itself, for root.
fn open_mapping(process: &Path, path: &Path, start: u64, ran: &Ran<'_>) -> Option<File> {
    let folder = process.join("map_files");
    let prefix = format!("{start:x}-");
    let mut entries = fs::read_dir(&folder).ok()?.filter_map(Result::ok);
    let found = entries.find(|entry| {
        let name = entry.file_name();
        name.as_bytes().starts_with(prefix.as_bytes())
    })?;
    prove(&found.path(), path, ran)
}

/// A descriptor of the process that leads to the file.
fn open_descriptor(process: &Path, path: &Path, ran: &Ran<'_>) -> Option<File> {
    let entries = fs::read_dir(process.join("fd")).ok()?;
    let mut opened = 0;
    for entry in entries.filter_map(Result::ok).take(MAX_DESCRIPTORS) {
        let candidate = entry.path();
        let Ok(metadata) = fs::metadata(&candidate) else {
            continue;
        };
        let may_be_it = metadata.is_file()
            && (!ran.file.is_known() || metadata.ino() == ran.file.inode)
            && opened < MAX_OPENED;
        if may_be_it {
            opened += 1;
            if let Some(file) = prove(&candidate, path, ran) {
                return Some(file);
            }
        }
    }
    None
}

/// Opens a candidate if it is proven to be the file that ran. `path` is the module's.
fn prove(candidate: &Path, path: &Path, ran: &Ran<'_>) -> Option<File> {
    let file = allotrope_files::open_regular(candidate).ok()?;
    let elf = ElfFile::from_file(file, path).ok()?;
    ran.check(&elf).ok()?;
    elf.into_file()
}
