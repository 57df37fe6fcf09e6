//! Opens a file to append to, such as a log.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::target::{Target, can_others_write, folder_of, refused};

/// Whose file may be appended to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// This user's.
    Own,
    /// Anybody's, for a file that whoever started this process has named in its environment: a
    /// container's root writes to a file of the user who started the container.
    Anybodys,
}

/// Opens a regular file to append to it, or creates it. No link is followed at the path's end,
/// and nothing is waited for. In a folder that others can write to, a file with further names
/// is refused: another user may have given it this name.
///
/// # Errors
/// If it is another user's, no regular file, or cannot be opened.
pub fn append(path: &Path, whose: Whose) -> io::Result<File> {
    // Planted links on the way are refused as they are for every output.
    if let Target::Stream(_) = Target::of(path)? {
        return Err(refused("it is no regular file"));
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new()
        .append(true)
        .create(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let file = match opened {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(refused("it is a link; name the file that it leads to"));
        }
        opened => opened?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(refused("it is no regular file"));
    }
    if whose == Whose::Own && metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused("it belongs to another user; name another file"));
    }
    let folder = std::fs::metadata(folder_of(path))?;
    if metadata.nlink() > 1 && can_others_write(&folder) {
        return Err(refused(
            "it has further names, and others can write to its folder; name another file",
        ));
    }
    Ok(file)
}

#[cfg(test)]
mod tests;
