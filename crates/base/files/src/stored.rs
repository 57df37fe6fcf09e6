//! Opens and reads files whose names come from elsewhere (a recording, a repository): only regular
//! files, and none by which the kernel shows its own state or that of processes.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{fstatfs, statfs};

use crate::open_regular;

/// The file systems without stored files, by `f_type` of statfs(2). Their files look like regular
/// ones, may contain secrets (`/proc/self/environ`), may never end and may act when they are read.
/// The numbers are those of `include/uapi/linux/magic.h` or, for some, of the driver's source.
const OF_THE_KERNEL: &[(u32, &str)] = &[
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x1cd1, "devpts"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x7363_6673, "securityfs"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4341_5d53, "smackfs"),
    (0x5a3c_69f0, "apparmorfs"),
    (0xcafe_4a11, "bpf"),
    (0x6165_676c, "pstore"),
    (0xde5e_81e4, "efivarfs"),
    (0x6265_6570, "configfs"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x6573_5543, "fusectl"),
    (0x1980_0202, "mqueue"),
    (0x6e73_6673, "nsfs"),
    (0x5049_5045, "pipefs"),
    (0x534f_434b, "sockfs"),
    (0x0904_1934, "anon_inodefs"),
    (0x0765_5821, "resctrl"),
    (0x9fa1, "openpromfs"),
    (0x9fa2, "usbfs"),
    (0xabba_1974, "xenfs"),
    (0x444d_4142, "dmabuf"),
    (0x5345_434d, "secretmem"),
    (0x6759_6969, "rpc_pipefs"),
    (0x6e66_7364, "nfsd"),
    (0x6c6f_6f70, "binder"),
];

/// Opens a regular file for reading, as [`open_regular`] does, that some file system stores.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if it is no regular file or one of the kernel; otherwise as
/// [`File::open`].
pub fn open_stored(path: &Path) -> io::Result<File> {
    // Opening a file of the kernel may act, too. Another file may replace it until it is open.
    refuse_kernel(statfs(path)?.f_type as u32)?;
    let file = open_regular(path)?;
    check_stored(&file)?;
    Ok(file)
}

/// Opens such a file, which may have at most so many bytes.
///
/// # Errors
/// As [`open_stored`]; [`ErrorKind::FileTooLarge`] if it is larger.
pub fn open_stored_at_most(path: &Path, most: u64) -> io::Result<File> {
    let file = open_stored(path)?;
    match file.metadata()?.len() > most {
        true => Err(too_large(most)),
        false => Ok(file),
    }
}

/// Reads such a file.
///
/// # Errors
/// As [`open_stored_at_most`].
pub fn read_stored(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_at_most(open_stored_at_most(path, most)?, most)
}

/// Same as [`read_stored`], for text in UTF-8.
pub fn read_stored_text(path: &Path, most: u64) -> io::Result<String> {
    let bytes = read_stored(path, most)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is no UTF-8"))
}

/// Refuses an open file of the kernel.
pub(crate) fn check_stored(file: impl AsFd) -> io::Result<()> {
    refuse_kernel(fstatfs(file)?.f_type as u32)
}

/// Reads an open file, which may have at most so many bytes.
pub(crate) fn read_at_most(file: File, most: u64) -> io::Result<Vec<u8>> {
    if file.metadata()?.len() > most {
        return Err(too_large(most));
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(too_large(most)),
        false => Ok(bytes),
    }
}

fn too_large(most: u64) -> io::Error {
    let sentence = format!("it has more than {} MiB, the most that is read", most >> 20);
    io::Error::new(ErrorKind::FileTooLarge, sentence)
}

fn refuse_kernel(magic: u32) -> io::Result<()> {
    let mut all = OF_THE_KERNEL.iter();
    match all.find(|(known, _)| *known == magic) {
        Some((_, name)) => {
            let sentence = format!("it is a file of the kernel ({name}) and no stored one");
            Err(io::Error::new(ErrorKind::InvalidInput, sentence))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stored_files_of_bounded_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        assert_eq!(read_stored_text(&path, 4).unwrap(), "text");
        let error = read_stored(&path, 3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        // 1 TB that takes no room.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read_stored(&path, 1 << 20).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/proc/self/environ", &link).unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let files = [
            &link,
            &pipe,
            Path::new("/proc/self/environ"),
            Path::new("/sys/kernel/uevent_seqnum"),
            Path::new("/dev/zero"),
        ];
        for path in files {
            if !path.exists() {
                println!("skipped: this kernel has no {}", path.display());
                continue;
            }
            let error = read_stored(path, 1 << 20).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{path:?}: {error}");
        }
        let error = open_stored(&link).unwrap_err();
        assert_eq!(
            error.to_string(),
            "it is a file of the kernel (proc) and no stored one"
        );
    }
}
