//! A file that is being written: it has a random hidden name, and only its owner can
//! read it, until it is complete.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tempfile::{Builder, NamedTempFile};

use crate::target::{Target, folder_of};
use crate::unfinished::{self, Listed};

/// How the name of an unfinished file ends.
const SUFFIX: &str = ".partial";

/// A file under its hidden name. Dropping it deletes it.
#[derive(Debug)]
pub struct NewFile {
    file: NamedTempFile,
    mode: u32,
    listed: Listed,
}

impl NewFile {
    /// Creates a file in a folder. Its final mode will be 0666 without the bits of the
    /// process's umask.
    pub fn in_folder(folder: &Path) -> io::Result<Self> {
        let create = || {
            Builder::new()
                .prefix(".allotrope-")
                .suffix(SUFFIX)
                .rand_bytes(12)
                .permissions(Permissions::from_mode(0o600))
                .tempfile_in(folder)
                .map_err(|error| without_name(&error, folder))
        };
        let (file, listed) = unfinished::create(create, NamedTempFile::path)?;
        Ok(Self {
            file,
            mode: 0o666 & !umask(),
            listed,
        })
    }

    /// Creates the file that will replace, or be, the file at `target`. If the user owns
    /// the old file, the new one gets its mode, without the set-id bits.
    pub fn at(target: &Target) -> io::Result<Self> {
        Ok(Self::in_folder(&folder_of(target.path()))?.for_target(target))
    }

    /// Sets the final mode to that of the file at `target`, if the user owns that file.
    #[must_use]
    pub fn for_target(mut self, target: &Target) -> Self {
        if let Target::Regular(_, metadata) = target
            && metadata.uid() == rustix::process::geteuid().as_raw()
        {
            self.mode = metadata.mode() & 0o777;
        }
        self
    }

    /// Sets the final mode.
    #[must_use]
    pub fn with_mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// The final mode.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// The path with the hidden name.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The open file.
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// The file's identity, by which another process recognises it.
    pub fn id(&self) -> io::Result<FileId> {
        FileId::of(self.file())
    }

    /// Completes the file: sets its final mode and renames it to `path`.
    pub fn finish(self, path: &Path) -> io::Result<()> {
        // Fails on a file system without modes.
        let _ = self
            .file()
            .set_permissions(Permissions::from_mode(self.mode));
        self.name(path).map(drop).map_err(|(error, _)| error)
    }

    /// Renames the file to `path` before it is complete; its mode stays 0600. If that
    /// fails, the error contains the file.
    pub fn name(self, path: &Path) -> Result<File, (io::Error, Self)> {
        let Self { file, mode, listed } = self;
        file.persist(path).map_err(|failed| {
            let file = failed.file;
            (failed.error, Self { file, mode, listed })
        })
    }

    /// Leaves the file under its hidden name; returns its path.
    pub fn keep(self) -> io::Result<PathBuf> {
        let kept = self.file.keep().map_err(|failed| failed.error)?;
        Ok(kept.1)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_file_mut().flush()
    }
}

/// A file's identity: device and inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

impl FileId {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }

    /// Opens the file with this identity for writing, by a path that another process
    /// sent. Fails if the path names another file by now.
    pub fn open(self, path: &Path) -> io::Result<File> {
        // If a pipe was put there, opening it must not block.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(flags.bits().cast_signed())
            .open(path)?;
        if Self::of(&file)? == self {
            Ok(file)
        } else {
            Err(io::Error::other("somebody put another file in its place"))
        }
    }
}

/// The error without the hidden name, which says nothing to the user.
fn without_name(error: &io::Error, folder: &Path) -> io::Error {
    let cause = match error.kind() {
        io::ErrorKind::NotFound if folder.is_dir() => "its folder takes no new files".to_owned(),
        io::ErrorKind::NotFound => "its folder does not exist".to_owned(),
        _ => match error.get_ref().and_then(|it| it.source()) {
            Some(cause) => cause.to_string(),
            None => error.to_string(),
        },
    };
    io::Error::new(error.kind(), cause)
}

/// The process's umask; 077 if the kernel does not show it (proc(5), before Linux 4.7).
/// umask(2) is not used, because it can read the umask only by changing it.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix("Umask:"));
    let value = value.and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
    value.unwrap_or(0o077)
}
