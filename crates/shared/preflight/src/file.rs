//! [`ProgramFile`] for open files of the standard library, and [`judge`] for paths.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::StatVfsMountFlags;

use crate::judge::{Content, Start, judge};
use crate::not_recordable::NotRecordable;
use crate::privileges::{self, CAPABILITY_ATTRIBUTE, CAPABILITY_BYTES, Credentials};
use crate::program_file::ProgramFile;

/// The privileges are those for a process with the credentials of this one.
impl ProgramFile for File {
    fn read_at(&self, into: &mut [u8], offset: u64) -> usize {
        let mut filled = 0;
        while filled < into.len() {
            match FileExt::read_at(
                self,
                &mut into[filled..],
                offset.wrapping_add(filled as u64),
            ) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return 0,
            }
        }
        filled
    }

    fn privileges(&self) -> Option<NotRecordable> {
        let own = Credentials::parse(&std::fs::read("/proc/self/status").ok()?)?;
        privileges_of(self, &own).ok()?
    }
}

/// Why the loader ignores `LD_PRELOAD` if a process with `credentials` executes
/// the program in `file`.
pub fn privileges_of(file: &File, credentials: &Credentials) -> io::Result<Option<NotRecordable>> {
    let metadata = file.metadata()?;
    let mount = rustix::fs::fstatvfs(file)?;
    let mut value = [0; CAPABILITY_BYTES];
    let length = rustix::fs::fgetxattr(file, CAPABILITY_ATTRIBUTE, &mut value[..]).unwrap_or(0);
    let file = privileges::File {
        mode: metadata.mode(),
        user: metadata.uid(),
        group: metadata.gid(),
        capabilities: &value[..length],
        is_nosuid: mount.f_flag.contains(StatVfsMountFlags::NOSUID),
    };
    Ok(privileges::judge(credentials, &file))
}

/// Why the program at `path` cannot be recorded, judged by its file. `None` if nothing in
/// the file prevents it, and for scripts and other files that are not ELF programs.
///
/// # Errors
/// If there is no regular file, or it cannot be read. Without read permission the
/// result is [`NotRecordable::Unreadable`] instead.
pub fn judge_path(path: &Path) -> io::Result<Option<NotRecordable>> {
    let file = match allotrope_files::open_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(Some(NotRecordable::Unreadable));
        }
        file => file?,
    };
    Ok(match judge(&file, &Start::default()) {
        Content::Program(reason) => reason,
        Content::Script(_) | Content::Text | Content::Damaged => None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// The owner of a setuid program gains no rights by it; another user does.
    #[test]
    fn a_setuid_program_is_privileged_for_other_users_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(judge_path(&path).unwrap(), None);
        let other = b"Uid:\t7 7 7 7\nGid:\t7 7 7 7\nCapInh:\t0\nCapPrm:\t0\nCapBnd:\t0\n";
        let other = Credentials::parse(other).unwrap();
        let file = File::open(&path).unwrap();
        let mount = rustix::fs::fstatvfs(&file).unwrap();
        let expected = match mount.f_flag.contains(StatVfsMountFlags::NOSUID) {
            true => None,
            false => Some(NotRecordable::Privileged),
        };
        assert_eq!(privileges_of(&file, &other).unwrap(), expected);
    }

    #[test]
    fn other_files_than_programs_have_no_reason() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for bytes in [&b""[..], &[b'#'; 100], b"\x7fELF"] {
            std::fs::write(file.path(), bytes).unwrap();
            assert_eq!(judge_path(file.path()).unwrap(), None);
        }
        assert!(judge_path(Path::new("/nonexistent")).is_err());
    }
}
