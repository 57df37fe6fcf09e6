//! Writes an output file: with one call ([`write()`]), or through `Write` ([`Output`]).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::new_file::NewFile;
use crate::target::Target;

/// An output that is being written. If it is dropped before [`Output::finish`], an
/// existing file stays as it was.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one at a time, and it is not moved about"
)]
pub enum Output {
    /// A regular file, which `finish` creates or replaces at this path.
    File(NewFile, PathBuf),
    /// A stream, to which the bytes are written at once.
    Stream(File),
}

impl Output {
    /// Opens an output for `path`, a file or a stream.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::at(Target::of(path)?)
    }

    /// Opens an output for a resolved path.
    pub fn at(target: Target) -> io::Result<Self> {
        match target {
            Target::Stream(path) => {
                let was_link = std::fs::symlink_metadata(&path)?.is_symlink();
                // A terminal must not become the process's controlling terminal.
                let mut flags = OFlags::NOCTTY;
                if !was_link {
                    // Only /proc has links that are streams. Another one is new.
                    flags |= OFlags::NOFOLLOW;
                }
                OpenOptions::new()
                    // The file behind `/dev/stdout` may have contents already.
                    .append(true)
                    .custom_flags(flags.bits().cast_signed())
                    .open(path)
                    .map(Self::Stream)
            }
            target => Ok(Self::File(NewFile::at(&target)?, target.path().to_owned())),
        }
    }

    /// Completes the output: renames a file to its path, flushes a stream.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::File(file, path) => file.finish(&path),
            Self::Stream(mut file) => file.flush(),
        }
    }

    /// Waits until the bytes written to a file are on the disk (fsync(2)); does nothing for
    /// a stream.
    pub fn sync(&self) -> io::Result<()> {
        match self {
            Self::File(file, _) => file.file().sync_all(),
            Self::Stream(_) => Ok(()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file, _) => file.write(bytes),
            Self::Stream(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file, _) => file.flush(),
            Self::Stream(file) => file.flush(),
        }
    }
}

/// Writes these bytes to `path`, a file or a stream.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut output = Output::create(path)?;
    output.write_all(bytes.as_ref())?;
    output.finish()
}

#[cfg(test)]
mod tests;
