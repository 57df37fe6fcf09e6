//! Opens a file for reading only if it is a regular file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file for reading.
///
/// A path that comes from a program or from a trace may name a pipe, on which
/// opening blocks, or a device, which opening alone may change. So the type is
/// checked first; the file is opened without blocking and checked again, because
/// another file may have replaced it.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if it is no regular file; otherwise as
/// [`File::open`].
pub fn open_regular(path: &Path) -> io::Result<File> {
    let refused = || io::Error::new(ErrorKind::InvalidInput, "it is no regular file");
    if !fs::metadata(path)?.is_file() {
        return Err(refused());
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        assert_eq!(
            io::read_to_string(open_regular(&path).unwrap()).unwrap(),
            "text"
        );
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        for path in [&pipe, folder.path(), Path::new("/dev/zero")] {
            assert_eq!(
                open_regular(path).unwrap_err().kind(),
                ErrorKind::InvalidInput
            );
        }
        let missing = open_regular(&folder.path().join("missing"));
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    }
}
