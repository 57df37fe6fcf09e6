//! Resolves the path of an output file. [`Target::of`] follows symbolic links itself,
//! one at a time, instead of the kernel, so that it can check each of them.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Links followed before they count as a loop; Linux's own limit.
const MAX_LINKS: usize = 40;
/// `S_IWGRP` and `S_IWOTH`.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// User id, in a user namespace, of the owner of the files whose owner it does not have: root's,
/// too (`user_namespaces(7)`).
const OVERFLOW_USER: u32 = 65534;
/// Bytes at the start of a file by which it is recognised, at most.
const HEAD: u64 = 64 << 10;

/// Why an existing file is not replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It belongs to another user.
    Strangers,
    /// It is none that Allotrope wrote before.
    Foreign,
}

/// The resolved target of a path.
#[derive(Debug)]
pub enum Target {
    /// There is no file yet: one of this name will be created.
    New(PathBuf),
    /// A regular file, which will be replaced: see [`Target::kept`].
    Regular(PathBuf, Metadata),
    /// A character device, a pipe, or an open file named by its descriptor
    /// (`/dev/stdout`): it is opened and written in place.
    Stream(PathBuf),
}

impl Target {
    /// Follows the links of `path`. Fails if the result is neither a file that can be
    /// created or replaced nor a stream, or if another user put a link, on the way or at
    /// its end, or a pipe or a device into a folder that others can write to.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            check_way(&path, MAX_LINKS)?;
            let metadata = match fs::symlink_metadata(&path) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    if path.file_name().is_none() {
                        return Err(refused("it names no file"));
                    }
                    return Ok(Self::New(path));
                }
                Err(error) => return Err(error),
            };
            let kind = metadata.file_type();
            if kind.is_file() {
                return Ok(Self::Regular(path, metadata));
            }
            if kind.is_dir() {
                return Err(refused("it is a folder; name a file"));
            }
            let folder = folder_of(&path);
            if was_put_by_another_user(&folder, &metadata)? {
                return Err(planted());
            }
            if kind.is_char_device() || kind.is_fifo() {
                return Ok(Self::Stream(path));
            }
            if !kind.is_symlink() {
                return Err(refused("it is neither a regular file nor a stream"));
            }
            // A link in /proc/PID/fd may lead to a file without a name.
            if is_proc(&folder) {
                return match fs::metadata(&path)?.is_dir() {
                    true => Err(refused("it is a folder; name a file")),
                    false => Ok(Self::Stream(path)),
                };
            }
            path = folder.join(fs::read_link(&path)?);
        }
        Err(refused("it has too many links, one to another"))
    }

    /// Why the file that is there is not to be replaced. `is_ours` gets its head. A file of
    /// this user may be replaced if it is empty or Allotrope wrote it.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn kept(&self, is_ours: impl FnOnce(&[u8]) -> bool) -> io::Result<Option<Kept>> {
        let Self::Regular(path, metadata) = self else {
            return Ok(None);
        };
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Ok(Some(Kept::Strangers));
        }
        if metadata.len() == 0 {
            return Ok(None);
        }
        // Another one may have come meanwhile.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(path)?;
        if !file.metadata()?.is_file() {
            return Err(refused("it is no regular file any more"));
        }
        let mut head = Vec::new();
        file.take(HEAD).read_to_end(&mut head)?;
        Ok((!is_ours(&head)).then_some(Kept::Foreign))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        match self {
            Self::New(path) | Self::Regular(path, _) | Self::Stream(path) => path,
        }
    }
}

/// The folder of a file; `.` for a bare name.
pub(crate) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Fails if another user put a link on the way to a file into a folder that others can write
/// to. What comes behind `most` links is left to the kernel, which refuses it.
fn check_way(path: &Path, most: usize) -> io::Result<()> {
    let folder = folder_of(path);
    let mut walked = PathBuf::new();
    for component in folder.components() {
        let parent = match walked.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => walked.clone(),
        };
        walked.push(component);
        // What is missing is noticed when the file is created.
        let Ok(metadata) = fs::symlink_metadata(&walked) else {
            return Ok(());
        };
        if !metadata.is_symlink() {
            continue;
        }
        if was_put_by_another_user(&parent, &metadata)? {
            return Err(planted());
        }
        // The links of /proc lead to what they stand for, whatever their texts are.
        if !is_proc(&parent) && most > 0 {
            // As the way to a file in the folder that the link leads to.
            check_way(&parent.join(fs::read_link(&walked)?).join("file"), most - 1)?;
        }
    }
    Ok(())
}

/// Whether another user put a link, a pipe or a device into a folder that others than this
/// user and root can write to. The kernel has such rules (`protected_symlinks`,
/// `protected_fifos`: Documentation/admin-guide/sysctl/fs.rst), which not every system enables,
/// for folders like `/tmp` only.
pub(crate) fn was_put_by_another_user(folder: &Path, metadata: &Metadata) -> io::Result<bool> {
    const ROOT: u32 = 0;
    let own = rustix::process::geteuid().as_raw();
    if [own, ROOT].contains(&metadata.uid()) {
        return Ok(false);
    }
    // Else nobody but the folder's owner can have put it there. Whoever works in a folder of
    // another user trusts that one; root is in all folders.
    let is_shared = can_others_write(&fs::metadata(folder)?);
    Ok(is_shared || own == ROOT && metadata.uid() != OVERFLOW_USER)
}

/// Whether others than its owner can write to a folder.
pub(crate) fn can_others_write(folder: &Metadata) -> bool {
    folder.mode() & WRITABLE_BY_OTHERS != 0
}

fn is_proc(folder: &Path) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|it| it.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

fn planted() -> io::Error {
    refused(
        "another user put a link, a pipe or a device into a folder that others can write to; name another file",
    )
}

pub(crate) fn refused(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why)
}
