//! The identity of an open file.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

use allotrope_shm::mapped_file::FileIdentity;

/// The identity of an open file; its `code` is 0 if it is no ELF file.
pub fn identity_of(file: &File) -> Option<FileIdentity> {
    let metadata = file.metadata().ok()?;
    Some(FileIdentity {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.size(),
        modified_ns: modified_ns(&metadata),
        code: 0,
    })
}

pub(crate) fn modified_ns(metadata: &fs::Metadata) -> u64 {
    let seconds = u64::try_from(metadata.mtime()).unwrap_or(0);
    let rest = u64::try_from(metadata.mtime_nsec()).unwrap_or(0);
    seconds.wrapping_mul(1_000_000_000).wrapping_add(rest)
}
