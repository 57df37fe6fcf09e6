//! The memory of a process as a file: finding it, checking it, mapping it.
//!
//! A watched process keeps one descriptor of its memory open. So everybody whom the kernel lets
//! look at the process's descriptors finds it in `/proc/PID/fd`, with no help from anybody: that
//! is who may read the process by `ptrace` rules, its own user and root.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use rustix::fs::{FileType, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::samples::layout::{BYTES, Memory, NAME};

/// Name (`/proc/PID/comm`) of a holder: a process that keeps the memories of others open.
pub const HOLDER: &str = "allotrope-hold";
/// The option that gives a holder a name of its own.
pub const HOLDER_NAME: &str = "--name";
/// Largest number of memories of one holder that are looked at.
const MAX_KEPT: usize = 4096;

/// Why a process's memory cannot be found or mapped.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The descriptors of the process cannot be listed.
    #[error(
        "the descriptors of process {process} cannot be listed: it belongs to another user, or has forbidden it (prctl PR_SET_DUMPABLE)"
    )]
    Forbidden {
        /// The process.
        process: u32,
    },
    /// It has no memory.
    #[error("process {0} is not watched, or has closed the descriptor of its memory")]
    NotWatched(u32),
    /// It has a memory of another version, or one that is not safe to map.
    #[error("the memory of process {process} cannot be used")]
    Unusable {
        /// The process.
        process: u32,
        /// Why.
        source: MapError,
    },
    /// A system call failed.
    #[error("the memory of process {process} cannot be opened")]
    Failed {
        /// The process.
        process: u32,
        /// What failed.
        source: io::Error,
    },
}

/// Why a file is not the memory of a process.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The file's size is not that of the memory.
    #[error("the file has {found} bytes instead of {BYTES}: another version of Allotrope wrote it")]
    OtherSize {
        /// Size of the file in bytes.
        found: u64,
    },
    /// It can shrink.
    #[error("the file is not sealed against shrinking")]
    NotSealed,
    /// A system call failed.
    #[error("the file cannot be mapped")]
    Failed(#[from] io::Error),
}

/// The memory of a process, mapped.
#[derive(Debug)]
pub struct Mapped {
    base: NonNull<u8>,
}

// SAFETY: the mapping is accessed as atomics only.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the memory behind a descriptor, for reading and writing: settings are written
    /// there.
    ///
    /// # Errors
    /// If the file is none of this layout, could shrink while it is mapped (access would
    /// raise `SIGBUS`), or cannot be mapped.
    pub fn new(file: impl AsFd) -> Result<Self, MapError> {
        let file = file.as_fd();
        // A file that knows no seals is no file in memory.
        let seals = rustix::fs::fcntl_get_seals(file).unwrap_or(SealFlags::empty());
        if !seals.contains(SealFlags::SHRINK) {
            return Err(MapError::NotSealed);
        }
        let found = rustix::fs::fstat(file).map_err(io::Error::from)?.st_size as u64;
        if found != BYTES as u64 {
            return Err(MapError::OtherSize { found });
        }
        // SAFETY: a fresh mapping chosen by the kernel overlaps nothing; the seal keeps the
        // file from shrinking under it.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                file,
                0,
            )
        }
        .map_err(io::Error::from)?;
        let base = NonNull::new(base.cast())
            .ok_or_else(|| io::Error::other("memory was mapped at address 0"))?;
        Ok(Self { base })
    }

    /// The memory.
    pub fn memory(&self) -> &Memory {
        // SAFETY: `BYTES` are mapped and begin with a page; all fields are atomics, for
        // which any bits are a value, whoever writes them and when.
        unsafe { self.base.cast().as_ref() }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: made by `new`; nothing borrows from it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), BYTES) };
    }
}

/// The memory of a running process, through `/proc`.
///
/// Nothing is opened that is not the file looked for, whatever the process does with its
/// descriptors meanwhile: opening a device or a pipe may have effects.
///
/// # Errors
/// If the process does not exist, is not watched, or may not be looked at.
pub fn find(process: u32) -> Result<OwnedFd, FindError> {
    find_with_path(process).map(|(file, _)| file)
}

/// Same as [`find`], with the path of the process's descriptor. As long as that leads to the same
/// inode, the process has this memory.
///
/// # Errors
/// As [`find`].
pub fn find_with_path(process: u32) -> Result<(OwnedFd, PathBuf), FindError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => FindError::NoProcess(process),
        io::ErrorKind::PermissionDenied => FindError::Forbidden { process },
        _ => FindError::Failed { process, source },
    };
    let own_id = innermost_id(process);
    let mut unusable = None;
    for entry in fs::read_dir(descriptors(process)).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let opened = open_memory(&path).map_err(|source| FindError::Failed { process, source })?;
        if let Some(file) = opened {
            match Mapped::new(&file) {
                Ok(mapped) if is_of(&mapped, own_id) => return Ok((file, path)),
                Ok(_) => {}
                Err(source) => unusable = Some(FindError::Unusable { process, source }),
            }
        }
    }
    Err(unusable.unwrap_or(FindError::NotWatched(process)))
}

/// Whether a process has this memory mapped, although it may have closed its descriptor.
pub fn is_mapped(process: u32, file: impl AsFd) -> bool {
    mapping(process, file) == Some(true)
}

/// Whether a process certainly does not have this memory mapped any more: it has executed another
/// program. One that is ending has no mappings at all, and may have had the memory until then.
pub fn is_unmapped(process: u32, file: impl AsFd) -> bool {
    mapping(process, file) == Some(false)
}

/// Whether a process has this memory mapped; `None`: its mappings cannot be read, or it has none.
fn mapping(process: u32, file: impl AsFd) -> Option<bool> {
    let status = rustix::fs::fstat(file).ok()?;
    let maps = fs::File::open(format!("/proc/{process}/maps")).ok()?;
    let inode = status.st_ino.to_string();
    // The fields are in proc_pid_maps(5); the name is ours, so that the inode is one of files in memory.
    let is_it = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        line.split_whitespace().nth(4) == Some(&inode) && line.contains(NAME)
    };
    let mut has_lines = false;
    for line in BufReader::new(maps).split(b'\n') {
        if is_it(&line.ok()?) {
            return Some(true);
        }
        has_lines = true;
    }
    has_lines.then_some(false)
}

/// The holders of this name that this user has, for root those of all users.
pub fn holders(name: &str) -> Vec<u32> {
    let user = rustix::process::geteuid();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|it| it.parse().ok()) else {
            continue;
        };
        let is_ours = |it: fs::Metadata| user.is_root() || it.uid() == user.as_raw();
        if entry.metadata().is_ok_and(is_ours) && is_holder(&entry.path(), name) {
            found.push(process);
        }
    }
    found
}

fn is_holder(folder: &Path, name: &str) -> bool {
    let is_named =
        fs::read(folder.join("comm")).is_ok_and(|it| it.trim_ascii() == HOLDER.as_bytes());
    // The command line of another process may be long.
    let mut command = Vec::new();
    let mut read = || {
        fs::File::open(folder.join("cmdline"))?
            .take(4096)
            .read_to_end(&mut command)
    };
    if !is_named || read().is_err() {
        return false;
    }
    let mut words = command.split(|byte| *byte == 0);
    words.any(|word| word == HOLDER_NAME.as_bytes()) && words.next() == Some(name.as_bytes())
}

/// The memories that the holders of this name keep: of processes that run, and of processes that
/// have ended.
pub fn kept(name: &str) -> Vec<OwnedFd> {
    let holders = holders(name).into_iter();
    holders.flat_map(kept_by).collect()
}

/// The memories that a holder keeps.
pub fn kept_by(holder: u32) -> Vec<OwnedFd> {
    let entries = fs::read_dir(descriptors(holder)).into_iter().flatten();
    let files = entries.flatten();
    let files = files.filter_map(|it| open_memory(&it.path()).ok().flatten());
    files.take(MAX_KEPT).collect()
}

/// The folder with the descriptors of a process.
fn descriptors(process: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{process}/fd"))
}

/// Opens a descriptor of another process if it is a memory by its name. An error: this process has no
/// descriptor left, so that it is not known what it is.
fn open_memory(path: &Path) -> io::Result<Option<OwnedFd>> {
    let link = PathBuf::from(format!("/memfd:{NAME} (deleted)"));
    match fs::read_link(path).is_ok_and(|it| it == link) {
        true => open(path),
        false => Ok(None),
    }
}

/// Opens what `path` leads to if it is a regular file of the right name.
fn open(path: &Path) -> io::Result<Option<OwnedFd>> {
    let found = |result: rustix::io::Result<OwnedFd>| match result {
        Err(error @ (Errno::MFILE | Errno::NFILE)) => Err(error.into()),
        result => Ok(result.ok()),
    };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let Some(place) = found(rustix::fs::open(path, flags, Mode::empty()))? else {
        return Ok(None);
    };
    let status = rustix::fs::fstat(&place)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&place));
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    found(rustix::fs::open(path, flags, Mode::empty()))
}

/// Whether the memory is that of the process with this id in its namespace. A forked child
/// has its parent's descriptor, too, until it has made a memory of its own.
fn is_of(mapped: &Mapped, process: Option<u64>) -> bool {
    let id = &mapped.memory().header.0.process;
    process.is_none_or(|it| it == id.load(core::sync::atomic::Ordering::Relaxed))
}

/// The id of a process in its own namespace.
fn innermost_id(process: u32) -> Option<u64> {
    namespace_ids(process).last().copied()
}

/// The ids of a process, from that in our PID namespace to that in its own (`proc_pid_status(5)`). One
/// id: the namespaces are the same. None: there is no such process.
pub fn namespace_ids(process: u32) -> Vec<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("NSpid:"));
    let ids = line.unwrap_or_default().split_whitespace();
    ids.filter_map(|it| it.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// To open a pipe that somebody waits for would wake him.
    #[test]
    fn what_is_no_regular_file_is_not_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).expect("a pipe");
        let is_woken = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                fs::File::open(&path).expect("the pipe");
                is_woken.store(true, SeqCst);
            });
            for _ in 0..20 {
                assert!(open(&path).expect("descriptors").is_none());
                thread::sleep(Duration::from_millis(5));
            }
            assert!(!is_woken.load(SeqCst));
            // Lets the thread go.
            fs::OpenOptions::new()
                .write(true)
                .open(&path)
                .expect("the pipe");
        });
        for path in [Path::new("/dev/zero"), &folder.path().join("absent")] {
            assert!(open(path).expect("descriptors").is_none());
        }
    }
}
