//! Folders below which no symbolic link is followed: a repository from elsewhere may contain links
//! to anywhere, and what is written or removed below it must stay below it.
//!
//! The kernel resolves a path below a folder with openat2(2) and RESOLVE_BENEATH,
//! RESOLVE_NO_SYMLINKS (Linux 5.6). Where it is missing or a sandbox forbids it, each component is
//! opened on its own with O_NOFOLLOW. All operations are relative to the open folder, so a folder
//! that is replaced by a link in the meantime changes nothing.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, mkdirat, openat, openat2,
    statat, unlinkat,
};
use rustix::io::Errno;

use crate::new_file::NewFile;
use crate::stored::{check_stored, read_at_most};

/// An open folder. Its files and subfolders are reached without following a link.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder. Links on the way to it are followed: the path is the user's.
    ///
    /// # Errors
    /// It is no folder, or it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let fd = openat(CWD, &path, FOLDER, Mode::empty())?;
        Ok(Self { fd, path })
    }

    /// Returns the folder's path without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder at a relative path; `None` if there is none.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if a link is on the way, if it is no folder, or if the path has
    /// other components than names.
    pub fn folder(&self, relative: &Path) -> io::Result<Option<Self>> {
        let path = self.path.join(relative);
        match open_beneath(self.fd.as_fd(), relative, FOLDER) {
            Ok(fd) => Ok(Some(Self { fd, path })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(self.in_the_way(relative)),
            Err(error) => Err(error.into()),
        }
    }

    /// Same as [`Folder::folder`], but creates what is missing.
    ///
    /// # Errors
    /// As [`Folder::folder`].
    pub fn create_folder(&self, relative: &Path) -> io::Result<Self> {
        let mut at = Self {
            fd: self.fd.try_clone()?,
            path: self.path.clone(),
        };
        for name in names(relative)? {
            let name = Path::new(name);
            at = match at.folder(name)? {
                Some(there) => there,
                None => {
                    match mkdirat(&at.fd, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    at.folder(name)?.ok_or(ErrorKind::NotFound)?
                }
            };
        }
        Ok(at)
    }

    /// Refuses a relative path that is a link or leads through one. What is missing is no link.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`].
    pub fn refuse_links(&self, relative: &Path) -> io::Result<()> {
        let parts = names(relative)?;
        match open_beneath(self.fd.as_fd(), relative, OFlags::PATH) {
            Err(Errno::LOOP) => Err(self.in_the_way(relative)),
            // One by one, a link is opened as such.
            Ok(fd) if !parts.is_empty() => match FileType::from_raw_mode(fstat(&fd)?.st_mode) {
                FileType::Symlink => Err(self.in_the_way(relative)),
                _ => Ok(()),
            },
            // A link on the way is no folder.
            Err(Errno::NOTDIR) if self.link(relative).is_some() => Err(self.in_the_way(relative)),
            _ => Ok(()),
        }
    }

    /// The names of what is in it, sorted.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let readable = openat(&self.fd, ".", flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in Dir::new(readable)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Whether something has this name, a link that leads to nothing included.
    ///
    /// # Errors
    /// It cannot be found out.
    pub fn has(&self, name: &OsStr) -> io::Result<bool> {
        Ok(self.stat(name)?.is_some())
    }

    /// Whether a regular file has this name; `false` if nothing has it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if something else has it.
    pub fn has_file(&self, name: &OsStr) -> io::Result<bool> {
        Ok(self.regular(name)?.is_some())
    }

    /// Opens a regular file for reading; `None` if there is none.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if it is a link or no regular file.
    pub fn open_file(&self, name: &OsStr) -> io::Result<Option<File>> {
        if self.regular(name)?.is_none() {
            return Ok(None);
        }
        // A pipe may replace it until it is open.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match open_beneath(self.fd.as_fd(), Path::new(name), flags) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(self.in_the_way(Path::new(name))),
            Err(error) => return Err(error.into()),
        };
        if !file.metadata()?.is_file() {
            return Err(refused("it is no regular file"));
        }
        check_stored(&file)?;
        Ok(Some(file))
    }

    /// Reads a regular file of at most so many bytes; `None` if there is none.
    ///
    /// # Errors
    /// As [`Folder::open_file`]; [`ErrorKind::FileTooLarge`] if it is larger.
    pub fn read(&self, name: &OsStr, most: u64) -> io::Result<Option<Vec<u8>>> {
        let file = self.open_file(name)?;
        file.map(|file| read_at_most(file, most)).transpose()
    }

    /// Writes a file, or replaces a regular one, as [`crate::write`] does.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if something else than a regular file has the name.
    pub fn replace(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        let before = self.regular(name)?;
        // The open folder, whatever its path leads to by now.
        let folder = PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()));
        let mut file = NewFile::in_folder(&folder)?;
        let own = rustix::process::geteuid().as_raw();
        if let Some(before) = before.filter(|before| before.st_uid == own) {
            file = file.with_mode(before.st_mode & 0o777);
        }
        file.write_all(bytes)?;
        // rename(2) replaces a link and does not follow it.
        file.finish(&folder.join(name))
    }

    /// Removes a regular file. Whether its contents may be removed is the caller's decision.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if it is none; [`ErrorKind::NotFound`].
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        if self.regular(name)?.is_none() {
            return Err(ErrorKind::NotFound.into());
        }
        Ok(unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes a subfolder, which must be empty.
    ///
    /// # Errors
    /// It is no empty folder.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        names(Path::new(name))?;
        Ok(unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// The state of what has this name, which is not followed; `None` if nothing has it.
    fn stat(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        if names(Path::new(name))? != [name] {
            return Err(refused("it is in another folder"));
        }
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Same as `stat`, but refuses anything except a regular file.
    fn regular(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        let stat = self.stat(name)?;
        match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            None | Some(FileType::RegularFile) => Ok(stat),
            Some(FileType::Symlink) => Err(self.in_the_way(Path::new(name))),
            Some(_) => Err(refused("it is no regular file")),
        }
    }

    /// The error of a path that is not opened: what is in the way is named.
    fn in_the_way(&self, relative: &Path) -> io::Error {
        match self.link(relative) {
            Some(link) if link == self.path.join(relative) => refused(LINK),
            Some(link) => {
                let link = link.display();
                refused(&format!("{link} is in the way: {LINK}"))
            }
            None => refused("it is no folder"),
        }
    }

    /// The first link of a relative path.
    fn link(&self, relative: &Path) -> Option<PathBuf> {
        let mut path = self.path.clone();
        let mut parts = relative.components().map(|part| {
            path.push(part);
            path.clone()
        });
        parts.find(|path| path.is_symlink())
    }
}

const LINK: &str = "it is a symbolic link, and links in a repository are not followed";
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The components of a relative path without `.`; others than names are refused.
fn names(relative: &Path) -> io::Result<Vec<&OsStr>> {
    let parts = relative.components().filter(|it| *it != Component::CurDir);
    let names: Option<Vec<&OsStr>> = parts
        .map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    match names {
        Some(names) if !relative.as_os_str().as_bytes().contains(&0) => Ok(names),
        _ => Err(refused("it leads out of its folder")),
    }
}

/// Opens a path below a folder. ELOOP or ENOTDIR: a link or a file is on the way.
fn open_beneath(folder: BorrowedFd<'_>, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let parts = names(relative).map_err(|_| Errno::INVAL)?;
    if parts.is_empty() {
        return openat(folder, ".", flags, Mode::empty());
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::CLOEXEC;
    match openat2(folder, relative, flags, Mode::empty(), resolve) {
        // Older kernels; sandboxes that do not know it.
        Err(Errno::NOSYS | Errno::PERM) => open_one_by_one(folder, &parts, flags),
        opened => opened,
    }
}

/// Same as [`open_beneath`], without openat2(2).
fn open_one_by_one(
    folder: BorrowedFd<'_>,
    parts: &[&OsStr],
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let (last, above) = parts.split_last().ok_or(Errno::INVAL)?;
    let mut at: Option<OwnedFd> = None;
    for name in above {
        let from = at.as_ref().map_or(folder, |it| it.as_fd());
        at = Some(openat(
            from,
            *name,
            FOLDER | OFlags::NOFOLLOW,
            Mode::empty(),
        )?);
    }
    let from = at.as_ref().map_or(folder, |it| it.as_fd());
    openat(from, *last, flags | OFlags::NOFOLLOW, Mode::empty())
}

fn refused(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A folder `inside` with a file, and `outside` with a file of the same name.
    fn folders() -> (tempfile::TempDir, Folder) {
        let all = tempfile::tempdir().unwrap();
        for name in ["inside", "outside"] {
            fs::create_dir(all.path().join(name)).unwrap();
            fs::write(all.path().join(name).join("file"), name).unwrap();
        }
        let inside = Folder::open(&all.path().join("inside")).unwrap();
        (all, inside)
    }

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    #[track_caller]
    fn assert_refused<T: std::fmt::Debug>(result: io::Result<T>, what: &str) {
        let error = result.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{what}: {error}");
    }

    #[test]
    fn no_link_is_followed() {
        let (all, inside) = folders();
        let root = all.path().join("inside");
        fs::create_dir(root.join("a")).unwrap();
        for (link, to) in [
            ("out", "../outside"),
            ("a/out", "../../outside"),
            ("in", "a"),
            ("absolute", all.path().join("outside").to_str().unwrap()),
            ("none", "../outside/new"),
            ("to-file", "../outside/file"),
            ("to-own-file", "file"),
        ] {
            symlink(to, root.join(link)).unwrap();
        }
        for link in ["out", "a/out", "in", "absolute", "none", "out/x", "to-file"] {
            assert_refused(inside.folder(Path::new(link)), link);
            assert_refused(inside.create_folder(Path::new(link)), link);
        }
        for link in ["out", "none", "to-file", "to-own-file"] {
            assert_refused(inside.read(name(link), 100), link);
            assert_refused(inside.replace(name(link), b"new"), link);
            assert_refused(inside.remove_file(name(link)), link);
            assert!(inside.has(name(link)).unwrap());
        }
        for path in ["..", "../outside", "a/../../outside", "/", "/etc"] {
            assert_refused(inside.folder(Path::new(path)).map(|it| it.is_some()), path);
            assert_refused(inside.create_folder(Path::new(path)), path);
        }
        for path in ["..", "../outside/file", "a/file", "out/", "/etc/passwd", ""] {
            assert_refused(inside.read(name(path), 100), path);
            assert_refused(inside.replace(name(path), b"new"), path);
            assert_refused(inside.remove_file(name(path)), path);
        }
        for (path, is_fine) in [
            ("file", true),
            ("a", true),
            ("missing/file", true),
            ("", true),
            ("to-file", false),
            ("in", false),
            ("none", false),
            ("a/out/file", false),
            ("out/missing", false),
            ("..", false),
        ] {
            let refused = inside.refuse_links(Path::new(path));
            assert_eq!(refused.is_ok(), is_fine, "{path}: {refused:?}");
        }
        let outside = fs::read_dir(all.path().join("outside")).unwrap();
        assert_eq!(outside.count(), 1);
        assert_eq!(
            fs::read_to_string(all.path().join("outside/file")).unwrap(),
            "outside"
        );
        let error = inside.folder(Path::new("a/out/x")).unwrap_err().to_string();
        assert!(
            error.contains("/inside/a/out is in the way: it is a symbolic link"),
            "{error}"
        );
    }

    #[test]
    fn files_are_read_written_and_removed() {
        let (all, inside) = folders();
        let folder = inside.create_folder(Path::new("a/b")).unwrap();
        assert_eq!(folder.path(), inside.path().join("a/b"));
        folder.replace(name("new"), b"1").unwrap();
        assert_eq!(folder.names().unwrap(), ["new"]);
        let path = all.path().join("inside/a/b/new");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        folder.replace(name("new"), b"22").unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert_eq!(folder.read(name("new"), 2).unwrap().unwrap(), b"22");
        let error = folder.read(name("new"), 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(folder.read(name("other"), 1).unwrap().is_none());
        folder.remove_file(name("new")).unwrap();
        let error = folder.remove_file(name("new")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let above = inside.folder(Path::new("a")).unwrap().unwrap();
        above.remove_folder(name("b")).unwrap();
        assert!(inside.folder(Path::new("a/b")).unwrap().is_none());
        assert!(inside.remove_folder(name("..")).is_err());
    }

    #[test]
    fn pipes_and_folders_are_no_files() {
        let (all, inside) = folders();
        let path = all.path().join("inside/pipe");
        rustix::fs::mkfifoat(CWD, &path, Mode::RWXU).unwrap();
        fs::create_dir(all.path().join("inside/folder")).unwrap();
        for what in ["pipe", "folder"] {
            assert_refused(inside.read(name(what), 100), what);
            assert_refused(inside.replace(name(what), b"new"), what);
            assert_refused(inside.remove_file(name(what)), what);
        }
        assert_refused(inside.folder(Path::new("file")), "a file");
    }

    /// What older kernels and sandboxes get.
    #[test]
    fn without_openat2_no_link_is_followed_either() {
        let (all, inside) = folders();
        let root = all.path().join("inside");
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("../../outside", root.join("a/out")).unwrap();
        symlink("../outside/file", root.join("link")).unwrap();
        let open = |path: &str, flags: OFlags| {
            let parts = names(Path::new(path)).unwrap();
            open_one_by_one(inside.fd.as_fd(), &parts, flags | OFlags::CLOEXEC)
        };
        open("a/b", FOLDER).unwrap();
        open("file", OFlags::RDONLY).unwrap();
        for (path, flags) in [
            ("a/out", FOLDER),
            ("a/out/file", OFlags::RDONLY),
            ("link", OFlags::RDONLY),
        ] {
            let error = open(path, flags).unwrap_err();
            assert!(
                matches!(error, Errno::LOOP | Errno::NOTDIR),
                "{path}: {error}"
            );
        }
    }
}
