//! Resolves the path of an output file. [`Target::of`] follows symbolic links itself,
//! one at a time, instead of the kernel, so that it can check each of them.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Links followed before they count as a loop; Linux's own limit.
const MOST_LINKS: usize = 40;
/// `S_ISVTX`; with `WRITABLE_BY_ALL` it marks a shared folder such as `/tmp`.
const STICKY: u32 = 0o1000;
/// `S_IWOTH`.
const WRITABLE_BY_ALL: u32 = 0o002;

/// The resolved target of a path.
#[derive(Debug)]
pub enum Target {
    /// There is no file yet: one of this name will be created.
    New(PathBuf),
    /// A regular file, which will be replaced.
    Regular(PathBuf, Metadata),
    /// A character device, a pipe, or an open file named by its descriptor
    /// (`/dev/stdout`): it is opened and written in place.
    Stream(PathBuf),
}

impl Target {
    /// Follows the links of `path`. Fails if the result is neither a file that can be
    /// created or replaced nor a stream, or if another user put a link into a shared
    /// folder.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
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
                return Err(refused(
                    "another user put a link or a pipe of that name into a folder that all can write to; name another file",
                ));
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

/// Whether another user put a link or pipe into a folder that all users can write to.
/// This is the rule of the kernel's `protected_symlinks` and `protected_fifos`
/// (Documentation/admin-guide/sysctl/fs.rst), which not every system enables.
fn was_put_by_another_user(folder: &Path, metadata: &Metadata) -> io::Result<bool> {
    let folder = fs::metadata(folder)?;
    let is_shared = folder.mode() & (STICKY | WRITABLE_BY_ALL) == STICKY | WRITABLE_BY_ALL;
    let own = rustix::process::geteuid().as_raw();
    Ok(is_shared && metadata.uid() != own && metadata.uid() != folder.uid())
}

fn is_proc(folder: &Path) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|it| it.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why)
}
