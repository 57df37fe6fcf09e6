//! Unpacks the recorder and the replayer. The build embeds the recorder's libraries and the
//! replayer's program into this command (`build.rs`); this file writes each to a file whose
//! name contains its hash, and verifies the file before every use. Somebody who replaced such
//! a file would run code in every recorded program: no other user may be able to write the
//! file or its folder.

mod unpacked;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use allotrope_collector::file_limit::with_file_size;
use allotrope_files::NewFile;
use allotrope_text::Shown;
use anyhow::{Context, Result, bail};
use rustix::fs::{OFlags, StatVfsMountFlags};

pub use unpacked::unpacked;

/// An embedded library, or the embedded program.
#[derive(Debug)]
pub struct Library {
    bytes: &'static [u8],
    /// A hash of `bytes`, in hexadecimal.
    hash: &'static str,
    /// First part of the file's name, the same for all versions.
    prefix: &'static str,
    /// Last part of the file's name.
    suffix: &'static str,
    /// What it is, for messages.
    what: &'static str,
    /// The option that names a file to use in its place; empty if there is none.
    instead: &'static str,
}

/// The recorder.
static RECORDER: Library = Library {
    bytes: include_bytes!(env!("ALLOTROPE_RECORDER")),
    hash: env!("ALLOTROPE_RECORDER_HASH"),
    prefix: "liballotrope_recorder",
    suffix: ".so",
    what: "the recorder, a library that the program loads",
    instead: ", or name the library by --recorder",
};

/// The hooks for C++ operators and for jemalloc's own functions.
static CXX_HOOKS: Library = Library {
    bytes: include_bytes!(env!("ALLOTROPE_CXX_HOOKS")),
    hash: env!("ALLOTROPE_CXX_HOOKS_HASH"),
    prefix: "liballotrope_cxx_hooks",
    suffix: ".so",
    what: "the recorder, a library that the program loads",
    instead: ", or name the library by --recorder",
};

/// The program that replays recordings.
static REPLAYER: Library = Library {
    bytes: include_bytes!(env!("ALLOTROPE_REPLAYER")),
    hash: env!("ALLOTROPE_REPLAYER_HASH"),
    prefix: "allotrope-replayer",
    suffix: "",
    what: "the replayer, a program that calls the allocators",
    instead: "",
};

/// First part of the names of all our libraries.
const PREFIX: &str = "liballotrope";

/// A folder into which the libraries may be unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    folder: PathBuf,
    /// The mode that it is created with.
    mode: u32,
}

/// The path of a recorder that can be preloaded: `given`, or the embedded one.
pub fn provide(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(path) => check_given(path),
        None => unpack_into_first(&RECORDER, &candidates()),
    }
}

/// The path of the library with the hooks for C++ operators.
pub fn provide_cxx_hooks() -> Result<PathBuf> {
    unpack_into_first(&CXX_HOOKS, &candidates())
}

/// The path of the program that replays recordings.
pub fn provide_replayer() -> Result<PathBuf> {
    unpack_into_first(&REPLAYER, &candidates())
}

/// The bytes of the recorder, or of the library with the hooks for C++ operators.
pub fn bytes(is_cxx_hooks: bool) -> &'static [u8] {
    match is_cxx_hooks {
        true => CXX_HOOKS.bytes,
        false => RECORDER.bytes,
    }
}

/// Whether a file that begins so is one of our libraries, of any version: its name is in its dynamic
/// string table.
pub fn is_own_library(head: &[u8]) -> bool {
    const NAME: &[u8] = b"\0liballotrope_";
    head.starts_with(b"\x7fELF") && head.windows(NAME.len()).any(|it| it == NAME)
}

fn check_given(path: &Path) -> Result<PathBuf> {
    let path = fs::canonicalize(path)
        .with_context(|| format!("cannot use the recorder {}", path.shown()))?;
    if !is_preloadable(&path) {
        bail!(
            "the path of the recorder, {}, contains a space, a colon or a dollar sign, which the loader would interpret; move it",
            path.shown()
        );
    }
    let mut start = [0; 4];
    File::open(&path)
        .and_then(|mut file| file.read_exact(&mut start))
        .with_context(|| format!("cannot read the recorder {}", path.shown()))?;
    if &start != b"\x7fELF" {
        bail!("{} is not a shared library", path.shown());
    }
    Ok(path)
}

/// Whether `LD_PRELOAD` can contain the path: the loader splits the list at spaces and
/// colons and expands `$`.
fn is_preloadable(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    path.is_absolute() && !bytes.iter().any(|byte| matches!(byte, b' ' | b':' | b'$'))
}

/// The folders to try, the most private one first.
fn candidates() -> Vec<Candidate> {
    let user = rustix::process::geteuid();
    // A program that root starts may drop its user id and exec another one,
    // which loads the library: any user must be able to read it.
    let mode = if user.is_root() { 0o755 } else { 0o700 };
    let in_environment = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let mut folders = Vec::new();
    if user.is_root() {
        folders.push(PathBuf::from("/run/allotrope"));
    } else {
        folders.extend(in_environment("XDG_RUNTIME_DIR").map(|path| path.join("allotrope")));
        let cache = in_environment("XDG_CACHE_HOME")
            .or_else(|| in_environment("HOME").map(|home| home.join(".cache")));
        folders.extend(cache.map(|path| path.join("allotrope")));
    }
    for shared in ["/tmp", "/var/tmp", "/dev/shm"] {
        folders.push(PathBuf::from(format!(
            "{shared}/allotrope-{}",
            user.as_raw()
        )));
    }
    folders
        .into_iter()
        .map(|folder| Candidate { folder, mode })
        .collect()
}

/// Unpacks the library into the first folder that is suitable; the error has the reason
/// for each folder.
fn unpack_into_first(library: &Library, candidates: &[Candidate]) -> Result<PathBuf> {
    let mut refusals = Vec::new();
    for candidate in candidates {
        match unpack(library, candidate) {
            Ok(path) => return Ok(path),
            Err(error) => refusals.push(format!("{}: {error:#}", candidate.folder.shown())),
        }
    }
    bail!(
        "no folder can hold {} ({}); set XDG_CACHE_HOME to a private folder on a file system that is not mounted noexec{}",
        library.what,
        refusals.join("; "),
        library.instead
    )
}

/// Returns the path of the library in this folder; writes it if it is not there already.
fn unpack(library: &Library, candidate: &Candidate) -> Result<PathBuf> {
    let folder = &candidate.folder;
    if !is_preloadable(folder) {
        bail!("its path contains a space, a colon or a dollar sign");
    }
    DirBuilder::new()
        .recursive(true)
        .mode(candidate.mode)
        .create(folder)
        .context("cannot be created")?;
    check_folder(folder)?;
    let path = folder.join(format!(
        "{}-{}{}",
        library.prefix, library.hash, library.suffix
    ));
    if verify(library, &path).is_ok() {
        return Ok(path);
    }
    write(library, folder, &path).context("cannot be written")?;
    verify(library, &path)?;
    Ok(path)
}

fn check_folder(folder: &Path) -> Result<()> {
    // Links are not followed: another user may have put one into a shared folder.
    let metadata = fs::symlink_metadata(folder).context("cannot be examined")?;
    if !metadata.is_dir() {
        bail!("is not a folder");
    }
    check_owner(&metadata)?;
    let mount = rustix::fs::statvfs(folder).context("its file system cannot be examined")?;
    if mount.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        bail!("its file system is mounted noexec");
    }
    if mount.f_flag.contains(StatVfsMountFlags::RDONLY) {
        bail!("its file system is mounted read-only");
    }
    Ok(())
}

fn check_owner(metadata: &fs::Metadata) -> Result<()> {
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        bail!("belongs to another user (id {})", metadata.uid());
    }
    if metadata.mode() & 0o022 != 0 {
        bail!("can be written by other users");
    }
    Ok(())
}

/// Fails unless the file has the embedded bytes and belongs to this user.
fn verify(library: &Library, path: &Path) -> Result<()> {
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() != library.bytes.len() as u64 {
        bail!("{} is not what it is named after", path.shown());
    }
    check_owner(&metadata)?;
    let mut bytes = Vec::with_capacity(library.bytes.len());
    (&mut file)
        .take(library.bytes.len() as u64)
        .read_to_end(&mut bytes)?;
    // The hash in the name distinguishes versions. Comparing all bytes is
    // cheaper than hashing them.
    if bytes != library.bytes {
        bail!("{} is not what it is named after", path.shown());
    }
    Ok(())
}

/// Writes the library under a random name and renames it: another process may do
/// the same at this moment, and nobody must load a half-written library.
fn write(library: &Library, folder: &Path, path: &Path) -> io::Result<()> {
    // The mode does not depend on the umask.
    let mut file = NewFile::in_folder(folder)?.with_mode(0o755);
    // The limit of file sizes (ulimit -f) is meant for the files of the user's programs.
    with_file_size(library.bytes.len() as u64, || file.write_all(library.bytes))
        .unwrap_or_else(|_| file.write_all(library.bytes))?;
    file.finish(path)
}

/// The value of `LD_PRELOAD` for a program to record: the recorder first, since
/// an allocator before it would hide all calls; the hooks for C++ operators if
/// they are needed; then the user's own list, without the recorder of an outer
/// recording.
pub fn preload_list(
    recorder: &Path,
    cxx_hooks: Option<&Path>,
    users: Option<&OsStr>,
) -> std::ffi::OsString {
    let mut list = recorder.as_os_str().to_owned();
    if let Some(cxx_hooks) = cxx_hooks {
        list.push(":");
        list.push(cxx_hooks);
    }
    for entry in users
        .unwrap_or_default()
        .as_bytes()
        .split(|byte| matches!(byte, b' ' | b':'))
    {
        let name = entry.rsplit(|byte| *byte == b'/').next().unwrap_or(entry);
        if !entry.is_empty() && !name.starts_with(PREFIX.as_bytes()) {
            list.push(":");
            list.push(OsStr::from_bytes(entry));
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn candidate(folder: PathBuf) -> Candidate {
        Candidate {
            folder,
            mode: 0o700,
        }
    }

    #[test]
    fn unpacks_once_and_replaces_a_changed_file() {
        let parent = tempfile::tempdir().unwrap();
        let folder = candidate(parent.path().join("private"));
        let path = unpack(&RECORDER, &folder).unwrap();
        assert_eq!(fs::read(&path).unwrap(), RECORDER.bytes);
        let first = fs::metadata(&path).unwrap().ino();
        assert_eq!(unpack(&RECORDER, &folder).unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().ino(), first);

        fs::write(&path, vec![b'x'; RECORDER.bytes.len()]).unwrap();
        assert_eq!(unpack(&RECORDER, &folder).unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), RECORDER.bytes);
        assert_eq!(
            fs::read_dir(parent.path().join("private")).unwrap().count(),
            1
        );
    }

    #[test]
    fn refuses_folders_that_others_can_change() {
        let parent = tempfile::tempdir().unwrap();
        let open = parent.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let error = unpack(&RECORDER, &candidate(open.clone())).unwrap_err();
        assert!(error.to_string().contains("other users"), "{error}");

        let link = parent.path().join("link");
        std::os::unix::fs::symlink("/", &link).unwrap();
        let error = unpack(&RECORDER, &candidate(link)).unwrap_err();
        assert!(error.to_string().contains("not a folder"), "{error}");
    }

    #[test]
    fn skips_a_folder_that_the_loader_cannot_read_from_ld_preload() {
        let parent = tempfile::tempdir().unwrap();
        let folders = [
            candidate(parent.path().join("with space")),
            candidate(parent.path().join("plain")),
        ];
        let path = unpack_into_first(&RECORDER, &folders).unwrap();
        assert_eq!(path.parent(), Some(folders[1].folder.as_path()));
        let error = unpack_into_first(&RECORDER, &folders[..1])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("with space") && error.contains("--recorder"),
            "{error}"
        );
    }

    #[test]
    fn a_given_file_must_be_a_library() {
        let parent = tempfile::tempdir().unwrap();
        let text = parent.path().join("text.so");
        fs::write(&text, "no library").unwrap();
        let error = provide(Some(&text)).unwrap_err().to_string();
        assert!(error.contains("not a shared library"), "{error}");
        assert!(provide(Some(&parent.path().join("missing.so"))).is_err());
    }

    #[test]
    fn the_recorder_comes_first_and_only_once() {
        let users = OsStr::new("liba.so: /x/liballotrope_recorder-0123.so libb.so");
        assert_eq!(
            preload_list(Path::new("/r.so"), None, Some(users)),
            "/r.so:liba.so:libb.so"
        );
        let cxx_hooks = Some(Path::new("/o.so"));
        assert_eq!(
            preload_list(Path::new("/r.so"), cxx_hooks, Some(users)),
            "/r.so:/o.so:liba.so:libb.so"
        );
        assert_eq!(preload_list(Path::new("/r.so"), None, None), "/r.so");
    }
}
