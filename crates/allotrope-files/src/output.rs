//! One call, or one `Write`, for a file that a command writes and closes.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::new_file::NewFile;
use crate::target::Target;

/// A file being written; dropped unfinished, it leaves what was there before.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one at a time, and it is not moved about"
)]
pub enum Output {
    /// It will be, or replace, a regular file.
    File(NewFile, PathBuf),
    /// What is written goes out at once.
    Stream(File),
}

impl Output {
    /// Begins to write to `path`, whatever that is.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::at(Target::of(path)?)
    }

    /// Begins to write to a target.
    pub fn at(target: Target) -> io::Result<Self> {
        match target {
            Target::Stream(path) => OpenOptions::new()
                // What `/dev/stdout` leads to may hold something already.
                .append(true)
                // A terminal does not become the process's own.
                .custom_flags(OFlags::NOCTTY.bits().cast_signed())
                .open(path)
                .map(Self::Stream),
            target => Ok(Self::File(NewFile::at(&target)?, target.path().to_owned())),
        }
    }

    /// All has been written: a file gets its name.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::File(file, path) => file.finish(&path),
            Self::Stream(mut file) => file.flush(),
        }
    }

    /// Waits until what was written would survive a power failure.
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

/// Writes these bytes to `path`, whatever that is.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut output = Output::create(path)?;
    output.write_all(bytes.as_ref())?;
    output.finish()
}

#[cfg(test)]
mod tests;
