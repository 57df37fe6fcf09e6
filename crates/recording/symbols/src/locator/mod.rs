//! Finds the debug files of a module: lists the paths at which they may be, and
//! chooses the candidate that belongs to the module. One function for each kind of
//! location returns candidates. Other modules read their contents.

mod debuginfod;
mod split;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use allotrope_demangle::Demangler;
use allotrope_text::numbers::{bytes, count};

use self::debuginfod::Debuginfod;
use crate::elf::{AlternateLink, DebugLink, ElfFile};
use crate::error::{SymbolError, hexadecimal};
use crate::index::IndexCache;
use crate::progress::{Progress, Work};

/// Finds separate debug files by build id and by `.gnu_debuglink`, as GDB does
/// (GDB manual, "Debugging Information in Separate Files"), and in the cache of
/// the debuginfod client.
#[derive(Debug, Clone)]
pub struct Locator {
    debug_folders: Vec<PathBuf>,
    sysroot: Option<PathBuf>,
    /// Files given by name, with their build ids.
    given: Vec<(Vec<u8>, PathBuf)>,
    debuginfod: Debuginfod,
    index_cache: Option<IndexCache>,
    progress: Progress,
    /// The most bytes of all demangled names together.
    most_names: u64,
    /// Demangles the names of all modules. Copies share it.
    demangler: Arc<Demangler>,
}

impl Default for Locator {
    fn default() -> Self {
        Self {
            debug_folders: vec![PathBuf::from(SYSTEM_FOLDER)],
            sysroot: None,
            given: Vec::new(),
            debuginfod: Debuginfod::from_environment(),
            index_cache: None,
            progress: Progress::default(),
            most_names: MAX_NAMES,
            demangler: Arc::new(Demangler::new(MAX_NAMES)),
        }
    }
}

/// Where distributions install debug files.
const SYSTEM_FOLDER: &str = "/usr/lib/debug";

/// The most bytes of all demangled names together, unless somebody chooses another number.
const MAX_NAMES: u64 = 128 << 20;

impl Locator {
    /// Searches `/usr/lib/debug` and the cache of the debuginfod client
    /// (`$DEBUGINFOD_CACHE_PATH` or its default). Sends no request to a server.
    pub fn new() -> Self {
        Self::default()
    }

    /// Searches `folder`, laid out like `/usr/lib/debug`, before the folders that
    /// were added earlier.
    #[must_use]
    pub fn with_debug_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.debug_folders.insert(0, folder.into());
        self
    }

    /// Takes absolute paths of modules and of what they link to as paths below
    /// `folder`, a copy of the file system of the machine that recorded. A
    /// module is then read from there only; debug files also from elsewhere.
    #[must_use]
    pub fn with_sysroot(mut self, folder: impl Into<PathBuf>) -> Self {
        self.sysroot = Some(folder.into());
        self
    }

    /// Uses this file, a module or a debug file, for the module that has its
    /// build id.
    ///
    /// # Errors
    /// Fails if it cannot be read or has no build id.
    pub fn with_file(mut self, path: impl Into<PathBuf>) -> Result<Self, SymbolError> {
        let path = path.into();
        let file = ElfFile::open(&path)?;
        if file.build_id().is_empty() {
            return Err(SymbolError::NoBuildId { path });
        }
        self.given.push((file.build_id().to_vec(), path));
        Ok(self)
    }

    /// Uses `folder` as the cache of the debuginfod client.
    #[must_use]
    pub fn with_debuginfod_cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.debuginfod.set_cache(folder.into());
        self
    }

    /// Fetches debug files that are nowhere else from these debuginfod servers
    /// (`http://host:port`) into the client's cache; see [`can_fetch`](Self::can_fetch). A server
    /// that fails is named by a sentence in [`take_complaints`](Self::take_complaints).
    #[must_use]
    pub fn with_debuginfod_servers<T>(mut self, servers: T) -> Self
    where
        T: IntoIterator<Item: Into<String>>,
    {
        let servers = servers.into_iter().map(Into::into);
        self.debuginfod.add_servers(servers);
        self
    }

    /// Whether files can be fetched from servers: by the program debuginfod-find, or, with the
    /// feature `debuginfod`, without it.
    pub fn can_fetch() -> bool {
        debuginfod::can_fetch()
    }

    /// Stores indexes of modules with much debug information in this cache and
    /// uses those in it: reading a module takes longer the first time, and a
    /// fraction of that later.
    #[must_use]
    pub fn with_index_cache(mut self, cache: impl Into<Option<IndexCache>>) -> Self {
        self.index_cache = cache.into();
        self
    }

    /// Reports progress on a module to `listener`: the kind of work, the amount done,
    /// the whole amount (0: unknown). It is called often and must be fast.
    #[must_use]
    pub fn with_progress(
        mut self,
        listener: impl Fn(Work, u64, u64) + Send + Sync + 'static,
    ) -> Self {
        self.progress = Progress::new(listener);
        self
    }

    /// Demangles at most this many bytes of names, those of all modules together, instead of
    /// 128 MiB. Names beyond stay mangled, with a sentence in
    /// [`take_complaints`](Self::take_complaints).
    #[must_use]
    pub fn with_most_names(mut self, bytes: u64) -> Self {
        self.most_names = bytes;
        self.with_new_names()
    }

    /// Begins to count the names anew: for who has forgotten those so far.
    #[must_use]
    pub fn with_new_names(mut self) -> Self {
        self.demangler = Arc::new(Demangler::new(self.most_names));
        self
    }

    pub(crate) fn demangler(&self) -> &Arc<Demangler> {
        &self.demangler
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    pub(crate) fn index_cache(&self) -> Option<&IndexCache> {
        self.index_cache.as_ref()
    }

    /// Files given by [`Self::with_file`], each with its build id.
    pub fn given_files(&self) -> impl Iterator<Item = (&[u8], &Path)> {
        let given = self.given.iter();
        given.map(|(build_id, path)| (&build_id[..], path.as_path()))
    }

    /// Sentences about failures of debuginfod servers since the last call, and about names
    /// that stay mangled. None is fatal.
    pub fn take_complaints(&self) -> Vec<String> {
        let mut complaints = self.debuginfod.take_complaints();
        let left = self.demangler.left_mangled();
        if left > 0 {
            complaints.push(format!(
                "the demangled names would take more than {} together, so {} stay mangled; `allotrope symbolize` with a larger --input-limit SIZE demangles them",
                bytes(self.most_names),
                count(left)
            ));
        }
        complaints
    }

    /// The path at which a module is read that had the path `path` in the recorded
    /// process.
    pub(crate) fn module_path(&self, path: &Path) -> PathBuf {
        self.rooted(path).unwrap_or_else(|| path.to_owned())
    }

    /// An absolute path moved below the sysroot; `None` without a sysroot, and if the
    /// path is below it already.
    fn rooted(&self, path: &Path) -> Option<PathBuf> {
        let root = self.sysroot.as_ref()?;
        let below = path.strip_prefix("/").ok()?;
        (!path.starts_with(root)).then(|| root.join(below))
    }

    /// The folders laid out like `/usr/lib/debug`, the sysroot's own first.
    fn debug_folders(&self) -> impl Iterator<Item = PathBuf> {
        let own = self.rooted(Path::new(SYSTEM_FOLDER));
        own.into_iter().chain(self.debug_folders.iter().cloned())
    }

    /// The debug file of a module: by build id, then by the module's debug link, then
    /// from debuginfod.
    pub(crate) fn debug_file(&self, build_id: &[u8], module: Option<&ElfFile>) -> Option<ElfFile> {
        self.by_build_id(build_id)
            .or_else(|| self.by_debug_link(module?))
            .or_else(|| self.debuginfod.debug_file(build_id, &self.progress))
    }

    /// A file with this build id: given by the user, or `FOLDER/.build-id/xx/yyyy.debug`.
    pub(crate) fn by_build_id(&self, build_id: &[u8]) -> Option<ElfFile> {
        // One byte names the folder, at least one more the file.
        let (first, rest) = build_id
            .split_first()
            .filter(|(_, rest)| !rest.is_empty())?;
        let name = format!(".build-id/{first:02x}/{}.debug", hexadecimal(rest));
        let given = self.given.iter().filter(|(id, _)| id == build_id);
        let mut found = given
            .map(|(_, path)| path.clone())
            .chain(self.debug_folders().map(|folder| folder.join(&name)))
            .filter_map(|path| ElfFile::open(&path).ok())
            .filter(|file| file.build_id() == build_id);
        // A stripped module that was given does not hide its debug file.
        let first = found.next()?;
        if first.has_dwarf() {
            return Some(first);
        }
        Some(found.find(ElfFile::has_dwarf).unwrap_or(first))
    }

    /// The file of the module's debug link: in the module's folder, in `.debug` in it, or
    /// in `DEBUG-FOLDER/FOLDER`.
    fn by_debug_link(&self, module: &ElfFile) -> Option<ElfFile> {
        let link = module.debug_link()?;
        module_folders(module.path())
            .iter()
            .flat_map(|folder| self.link_candidates(folder, &link))
            .filter_map(|path| ElfFile::open(&path).ok())
            .find(|file| {
                let same_build = file.build_id().is_empty()
                    || module.build_id().is_empty()
                    || file.build_id() == module.build_id();
                same_build && file.crc().is_ok_and(|crc| crc == link.crc)
            })
    }

    fn link_candidates(&self, folder: &Path, link: &DebugLink) -> Vec<PathBuf> {
        let Some(name) = plain_file_name(&link.name) else {
            return Vec::new();
        };
        let mut candidates = vec![folder.join(name), folder.join(".debug").join(name)];
        // The folder in the recorded program's file system.
        let seen = self
            .sysroot
            .as_ref()
            .and_then(|root| folder.strip_prefix(root).ok());
        if let Some(below_root) = seen.or_else(|| folder.strip_prefix("/").ok()) {
            let elsewhere = self.debug_folders();
            candidates.extend(elsewhere.map(|debug| debug.join(below_root).join(name)));
        }
        candidates
    }

    /// The supplementary file of a debug file: at the path the link names,
    /// relative to the debug file, or by its build id.
    pub(crate) fn supplementary_file(&self, debug: &ElfFile) -> Option<ElfFile> {
        let link = debug.alternate_link()?;
        self.alternate_candidates(debug, &link)
            .iter()
            .filter_map(|path| ElfFile::open(path).ok())
            .find(|file| file.build_id() == link.build_id)
            .or_else(|| self.by_build_id(&link.build_id))
            .or_else(|| self.debuginfod.debug_file(&link.build_id, &self.progress))
    }

    fn alternate_candidates(&self, debug: &ElfFile, link: &AlternateLink) -> Vec<PathBuf> {
        let name = Path::new(OsStr::from_bytes(&link.name));
        let folders = module_folders(debug.path());
        // An absolute name replaces the folder it is joined to.
        let linked = folders.iter().map(|folder| folder.join(name));
        self.rooted(name).into_iter().chain(linked).collect()
    }
}

/// The folder of a path as given, and as it is without symbolic links: a
/// package installs `/usr/lib/debug/usr/lib/x` for a module loaded as `/lib/x`.
fn module_folders(path: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let real = path.canonicalize().ok();
    for path in [Some(path), real.as_deref()].into_iter().flatten() {
        if let Some(folder) = path.parent().map(Path::to_owned)
            && !folders.contains(&folder)
        {
            folders.push(folder);
        }
    }
    folders
}

/// The name in a debug link if it is a plain file name. A path could lead out of the
/// folders that are searched.
fn plain_file_name(name: &[u8]) -> Option<&OsStr> {
    let name = OsStr::from_bytes(name);
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leads_out_of_its_folder_is_ignored() {
        assert_eq!(plain_file_name(b"a.debug"), Some(OsStr::new("a.debug")));
        for name in [
            &b""[..],
            b".",
            b"..",
            b"../a",
            b"/etc/passwd",
            b"a/b",
            b"a/",
        ] {
            assert_eq!(plain_file_name(name), None, "{name:?}");
        }
    }

    #[test]
    fn candidates_are_beside_the_module_and_then_in_the_debug_folders() {
        let locator = Locator::new().with_debug_folder("/extra");
        let link = DebugLink {
            name: b"p.debug".to_vec(),
            crc: 0,
        };
        let expected = [
            "/opt/bin/p.debug",
            "/opt/bin/.debug/p.debug",
            "/extra/opt/bin/p.debug",
            "/usr/lib/debug/opt/bin/p.debug",
        ];
        let candidates = locator.link_candidates(Path::new("/opt/bin"), &link);
        assert_eq!(candidates, expected.map(PathBuf::from));
    }

    #[test]
    fn below_a_sysroot_its_own_debug_folder_comes_first() {
        let locator = Locator::new().with_sysroot("/image");
        let module = locator.module_path(Path::new("/opt/bin/p"));
        assert_eq!(module, Path::new("/image/opt/bin/p"));
        assert_eq!(
            locator.module_path(&module),
            module,
            "it is already below the sysroot"
        );
        let link = DebugLink {
            name: b"p.debug".to_vec(),
            crc: 0,
        };
        let expected = [
            "/image/opt/bin/p.debug",
            "/image/opt/bin/.debug/p.debug",
            "/image/usr/lib/debug/opt/bin/p.debug",
            "/usr/lib/debug/opt/bin/p.debug",
        ];
        let candidates = locator.link_candidates(module.parent().unwrap(), &link);
        assert_eq!(candidates, expected.map(PathBuf::from));
    }
}
