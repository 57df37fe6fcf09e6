//! A file on its way: it has a random name and is its owner's alone until it is
//! whole.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tempfile::{Builder, NamedTempFile};

use crate::target::{Target, folder_of};

/// How the name of an unfinished file ends.
const SUFFIX: &str = ".partial";

/// A file that has no name of its own yet. Dropped, it is deleted.
#[derive(Debug)]
pub struct NewFile {
    file: NamedTempFile,
    mode: u32,
}

impl NewFile {
    /// Begins a file in a folder; its final mode is what the process's umask
    /// leaves of 0666.
    pub fn in_folder(folder: &Path) -> io::Result<Self> {
        let file = Builder::new()
            .prefix(".allotrope-")
            .suffix(SUFFIX)
            .rand_bytes(12)
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(folder)?;
        Ok(Self {
            file,
            mode: 0o666 & !umask(),
        })
    }

    /// Begins what will be, or replace, the file at `target`. One that the user
    /// owns keeps its mode, without the set-id bits.
    pub fn at(target: &Target) -> io::Result<Self> {
        Ok(Self::in_folder(&folder_of(target.path()))?.for_target(target))
    }

    /// Takes over the mode of what it will replace, if that is the user's own.
    #[must_use]
    pub fn for_target(mut self, target: &Target) -> Self {
        if let Target::Regular(_, metadata) = target
            && metadata.uid() == rustix::process::geteuid().as_raw()
        {
            self.mode = metadata.mode() & 0o777;
        }
        self
    }

    /// Sets the mode that the file will have when it is whole.
    #[must_use]
    pub fn with_mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// The mode that the file will have when it is whole.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Where it is until it has its name.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The open file.
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// What tells it from a file that somebody puts in its place.
    pub fn id(&self) -> io::Result<FileId> {
        FileId::of(self.file())
    }

    /// It is whole: it gets its mode and its name.
    pub fn finish(self, path: &Path) -> io::Result<()> {
        // A file system without modes keeps the one that it has.
        let _ = self
            .file()
            .set_permissions(Permissions::from_mode(self.mode));
        self.name(path).map(drop).map_err(|(error, _)| error)
    }

    /// Gives it its name, although it is not whole: it stays its owner's alone.
    /// A file that cannot be named is given back.
    pub fn name(self, path: &Path) -> Result<File, (io::Error, Self)> {
        let mode = self.mode;
        self.file.persist(path).map_err(|failed| {
            let file = failed.file;
            (failed.error, Self { file, mode })
        })
    }

    /// Leaves the file where it is.
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

    /// Opens this very file for writing, by another process's name for it. Fails
    /// if the name has come to lead elsewhere.
    pub fn open(self, path: &Path) -> io::Result<File> {
        // A pipe put there must not make it wait.
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

/// The process's umask. Where the kernel does not show it (proc(5), Linux 4.7)
/// the file is for its owner alone: asking umask(2) would change it for a moment.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix("Umask:"));
    let value = value.and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
    value.unwrap_or(0o077)
}
