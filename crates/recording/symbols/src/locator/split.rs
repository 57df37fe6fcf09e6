//! Finds split DWARF: the `.dwo` file that a unit names, or the `.dwp` file with
//! all of a module's. The reader checks by the unit's id whether a file is the
//! right one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{Locator, module_folders};
use crate::elf::ElfFile;
use crate::error::hexadecimal;

impl Locator {
    /// Files that may be the `.dwo` file of this name, the likeliest first.
    /// `folder` is the compiler's working folder, `files` are the module and its
    /// debug file.
    pub(crate) fn dwo_files(&self, folder: &[u8], name: &[u8], files: &[PathBuf]) -> Vec<PathBuf> {
        let name = Path::new(OsStr::from_bytes(name));
        // An absolute name replaces the folder it is joined to.
        let built = Path::new(OsStr::from_bytes(folder)).join(name);
        let mut candidates = Vec::new();
        candidates.extend(self.rooted(&built));
        candidates.push(built.clone());
        let own = files.iter().flat_map(|file| module_folders(file));
        // The build machine's folders seldom exist here. Programs are moved
        // together with their .dwo files, with or without their folders.
        for folder in own.chain(self.debug_folders.iter().cloned()) {
            candidates.push(folder.join(name.strip_prefix("/").unwrap_or(name)));
            candidates.extend(name.file_name().map(|name| folder.join(name)));
        }
        let mut seen = rustc_hash::FxHashSet::default();
        candidates.retain(|candidate| seen.insert(candidate.clone()));
        candidates
    }

    /// Files that may be the `.dwp` file of a module: named after it or after
    /// its debug file, or by build id.
    pub(crate) fn package_files(&self, build_id: &[u8], files: &[PathBuf]) -> Vec<PathBuf> {
        let beside = files.iter().map(|file| {
            let mut name = file.as_os_str().to_owned();
            name.push(".dwp");
            PathBuf::from(name)
        });
        // `program.debug` may go with `program.dwp`.
        let renamed = files.iter().map(|file| file.with_extension("dwp"));
        let mut candidates: Vec<PathBuf> = beside.chain(renamed).collect();
        if let Some((first, rest)) = build_id.split_first().filter(|it| !it.1.is_empty()) {
            let name = format!(".build-id/{first:02x}/{}.dwp", hexadecimal(rest));
            candidates.extend(self.debug_folders().map(|folder| folder.join(&name)));
        }
        let names = files.iter().filter_map(|file| file.file_name());
        for name in names {
            let mut name = name.to_owned();
            name.push(".dwp");
            candidates.extend(self.debug_folders.iter().map(|folder| folder.join(&name)));
        }
        candidates
    }

    /// The first of `candidates` that is an ELF file and that `accept` accepts.
    pub(crate) fn first_of<T>(
        candidates: &[PathBuf],
        accept: impl FnMut(ElfFile) -> Option<T>,
    ) -> Option<T> {
        candidates
            .iter()
            .filter_map(|path| ElfFile::open(path).ok())
            .find_map(accept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dwo_file_is_searched_in_its_build_folder_and_then_beside_the_module() {
        let locator = Locator::new().with_sysroot("/root");
        let files = [PathBuf::from("/opt/bin/program")];
        let candidates = locator.dwo_files(b"/build", b"out/a.dwo", &files);
        let expected = [
            "/root/build/out/a.dwo",
            "/build/out/a.dwo",
            "/opt/bin/out/a.dwo",
            "/opt/bin/a.dwo",
        ];
        assert_eq!(candidates[..4], expected.map(PathBuf::from));
    }

    #[test]
    fn a_package_is_named_after_its_module_or_build_id() {
        let locator = Locator::new();
        let files = ["/opt/program", "/opt/program.debug"].map(PathBuf::from);
        let candidates = locator.package_files(&[0xab, 0xcd], &files);
        for expected in [
            "/opt/program.dwp",
            "/opt/program.debug.dwp",
            "/usr/lib/debug/.build-id/ab/cd.dwp",
        ] {
            assert!(candidates.contains(&PathBuf::from(expected)), "{expected}");
        }
    }
}
