//! Normalises the paths of source files and modules, so that a program has the
//! same ones on every machine: relative to the project, without the hashes of
//! build tools.

use std::path::{Path, PathBuf};

use allotrope_profile::StackFrame;

/// A project's folder on this machine.
#[derive(Debug, Clone)]
pub struct Project {
    root: PathBuf,
    /// The folder with a slash at its end; empty if it is not UTF-8.
    prefix: String,
}

impl Project {
    /// The project that contains a folder: the innermost git repository around
    /// it, or the folder itself if there is none.
    pub fn containing(folder: &Path) -> Self {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let root = folder
            .ancestors()
            .find(|above| above.join(".git").exists())
            .unwrap_or(&folder)
            .to_owned();
        let prefix = root.to_str().map_or_else(String::new, |text| {
            format!("{}/", text.trim_end_matches('/'))
        });
        Self { root, prefix }
    }

    /// The folder of the project.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The normalised path of a source file.
    pub fn file(&self, path: &str) -> String {
        if let Some(inside) = path.strip_prefix(&self.prefix)
            && !self.prefix.is_empty()
        {
            return normalised(inside);
        }
        // Sources of other crates, in Cargo's home directory.
        if let Some((_, inside)) = path.split_once("/registry/src/")
            && let Some((_, inside)) = inside.split_once('/')
        {
            return format!("cargo:{inside}");
        }
        // The standard library: /rustc/COMMIT/library/…
        if let Some(inside) = path.strip_prefix("/rustc/")
            && let Some((_, inside)) = inside.split_once('/')
        {
            return format!("rustc:{inside}");
        }
        normalised(path)
    }

    /// A frame without offset, column and machine-specific paths.
    pub fn frame(&self, frame: &StackFrame) -> StackFrame {
        StackFrame {
            function: frame.function.clone(),
            module: module(&frame.module).into(),
            file: self.file(&frame.file).into(),
            line: frame.line,
            inlined: frame.inlined,
            generated: frame.generated,
            ..StackFrame::default()
        }
    }

    /// Whether a module was built with the project, as opposed to installed on
    /// the machine.
    pub fn builds(&self, module: &Path) -> bool {
        let installed = [
            "/usr", "/lib", "/lib32", "/lib64", "/opt", "/nix", "/gnu", "/snap",
        ];
        if module.starts_with(&self.root) {
            return true;
        }
        module.is_absolute() && !installed.iter().any(|folder| module.starts_with(folder))
    }
}

/// Removes `./` and `a/../` from a path.
fn normalised(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." if parts
                .last()
                .is_some_and(|last| !last.is_empty() && *last != "..") =>
            {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Removes the hash that Cargo appends to test programs, as in
/// `decode-0123456789abcdef`.
fn module(name: &str) -> String {
    match name.rsplit_once('-') {
        Some((stem, hash))
            if !stem.is_empty()
                && hash.len() == 16
                && hash.bytes().all(|b| b.is_ascii_hexdigit()) =>
        {
            stem.to_owned()
        }
        _ => name.to_owned(),
    }
}

/// The cache folder of allotrope (XDG Base Directory Specification).
pub(crate) fn cache_folder() -> PathBuf {
    let set = |name: &str| {
        let value = std::env::var_os(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("allotrope")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project() -> Project {
        Project {
            root: "/home/me/project".into(),
            prefix: "/home/me/project/".into(),
        }
    }

    #[test]
    fn files_have_the_same_names_on_every_machine() {
        let project = project();
        for (path, expected) in [
            ("/home/me/project/src/encode.cc", "src/encode.cc"),
            ("/home/me/project/build/../src/./encode.cc", "src/encode.cc"),
            (
                "/home/me/project2/src/encode.cc",
                "/home/me/project2/src/encode.cc",
            ),
            ("../../src/x.c", "../../src/x.c"),
            (
                "/usr/include/c++/12/bits/new_allocator.h",
                "/usr/include/c++/12/bits/new_allocator.h",
            ),
            (
                "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde-1.0.1/src/lib.rs",
                "cargo:serde-1.0.1/src/lib.rs",
            ),
            (
                "/rustc/0123abcd/library/alloc/src/vec/mod.rs",
                "rustc:library/alloc/src/vec/mod.rs",
            ),
            ("", ""),
        ] {
            assert_eq!(project.file(path), expected);
        }
    }

    #[test]
    fn hashes_of_builds_are_removed_from_modules() {
        assert_eq!(module("decode-0123456789abcdef"), "decode");
        assert_eq!(module("libfoo-1.2.so"), "libfoo-1.2.so");
        assert_eq!(module("-0123456789abcdef"), "-0123456789abcdef");
    }

    #[test]
    fn installed_modules_are_not_part_of_the_project() {
        let project = project();
        assert!(project.builds(Path::new("/home/me/project/bench")));
        assert!(project.builds(Path::new("/tmp/target/debug/bench")));
        assert!(!project.builds(Path::new("/usr/lib/x86_64-linux-gnu/libc.so.6")));
        assert!(!project.builds(Path::new("linux-vdso.so.1")));
    }
}
