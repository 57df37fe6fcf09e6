//! Where the debug files of a module may lie, and which of those found there
//! is really the module's. Each kind of place is one function that yields
//! candidates; what a candidate holds is not read here.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::elf::{AlternateLink, DebugLink, ElfFile};
use crate::error::hexadecimal;

/// Finds separate debug files by build id and by `.gnu_debuglink`, as GDB does
/// (GDB manual, "Debugging Information in Separate Files").
#[derive(Debug, Clone)]
pub struct Locator {
    debug_folders: Vec<PathBuf>,
}

impl Default for Locator {
    fn default() -> Self {
        Self {
            debug_folders: vec![PathBuf::from("/usr/lib/debug")],
        }
    }
}

impl Locator {
    /// Looks in `/usr/lib/debug`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks in `folder`, laid out like `/usr/lib/debug`, before the folders
    /// it already looks in.
    #[must_use]
    pub fn with_debug_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.debug_folders.insert(0, folder.into());
        self
    }

    /// The debug file of a module: by build id, then by the module's link.
    pub(crate) fn debug_file(&self, build_id: &[u8], module: Option<&ElfFile>) -> Option<ElfFile> {
        self.by_build_id(build_id)
            .or_else(|| self.by_debug_link(module?))
    }

    /// `FOLDER/.build-id/xx/yyyy.debug`.
    pub(crate) fn by_build_id(&self, build_id: &[u8]) -> Option<ElfFile> {
        // One byte names the folder, at least one more the file.
        let (first, rest) = build_id
            .split_first()
            .filter(|(_, rest)| !rest.is_empty())?;
        let name = format!(".build-id/{first:02x}/{}.debug", hexadecimal(rest));
        self.debug_folders
            .iter()
            .filter_map(|folder| ElfFile::open(&folder.join(&name)).ok())
            .find(|file| file.build_id() == build_id)
    }

    /// Beside the module, in `.debug` beside it, in `FOLDER/DIRECTORY`.
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
        if let Ok(below_root) = folder.strip_prefix("/") {
            let elsewhere = self.debug_folders.iter();
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
    }

    fn alternate_candidates(&self, debug: &ElfFile, link: &AlternateLink) -> Vec<PathBuf> {
        let name = Path::new(OsStr::from_bytes(&link.name));
        // An absolute name replaces the folder it is joined to.
        module_folders(debug.path())
            .iter()
            .map(|folder| folder.join(name))
            .collect()
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

/// A debug link names a file, never a path out of the folders searched.
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
    fn a_link_that_leaves_its_folder_is_no_link() {
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
    fn looks_beside_the_module_first_and_then_in_the_debug_folders() {
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
}
