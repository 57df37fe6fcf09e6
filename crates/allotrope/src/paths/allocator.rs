//! The allocators that a command line names: by name, if they are installed, or by path.

use std::fs;
use std::path::{Path, PathBuf};

use allotrope_text::Shown;
use anyhow::{Context, Result, anyhow, bail};
use object::{Object, ObjectSymbol};

/// The C library's.
const OF_THE_C_LIBRARY: [&str; 2] = ["glibc", "libc"];
/// The files of allocators that have names, the preferred one first.
const INSTALLED: [(&str, &[&str]); 3] = [
    ("jemalloc", &["libjemalloc.so.2", "libjemalloc.so"]),
    (
        "tcmalloc",
        &[
            "libtcmalloc_minimal.so.4",
            "libtcmalloc.so.4",
            "libtcmalloc.so",
        ],
    ),
    (
        "mimalloc",
        &[
            "libmimalloc.so.3",
            "libmimalloc.so.2",
            "libmimalloc.so.2.0",
            "libmimalloc.so",
        ],
    ),
];
/// Where distributions and `make install` put libraries.
const FOLDERS: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/lib64",
];
/// What an allocator must have: of a function that it lacks, the C library's would be called,
/// with a block that is not its own.
const NEEDED: [&str; 4] = ["malloc", "calloc", "realloc", "free"];

/// An allocator of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its name in reports.
    pub name: String,
    /// Its library; `None` for the C library's.
    pub library: Option<PathBuf>,
}

/// Parses a word of `--alloc`: a name, a path, or `NAME=PATH`, and checks the library.
pub fn wanted(word: &str) -> Result<Wanted> {
    if let Some((name, path)) = word.split_once('=') {
        return of_library(name, Path::new(path));
    }
    if OF_THE_C_LIBRARY.contains(&word) {
        return Ok(Wanted {
            name: word.to_owned(),
            library: None,
        });
    }
    if let Some((name, files)) = INSTALLED.iter().find(|(name, _)| *name == word) {
        let candidates = FOLDERS
            .iter()
            .flat_map(|folder| files.iter().map(move |file| Path::new(folder).join(file)));
        let found = candidates.into_iter().find(|it| it.exists());
        let found = found.with_context(|| {
            format!("{name} is not installed here; install its package, or give its path: {name}=/path/to/{}", files[0])
        })?;
        return of_library(name, &found);
    }
    if !word.contains('/') && !Path::new(word).exists() {
        bail!(
            "{}: no such allocator; glibc, jemalloc, tcmalloc and mimalloc are known by name, others by the path of their library",
            word.shown()
        );
    }
    of_library(word, Path::new(word))
}

fn of_library(name: &str, path: &Path) -> Result<Wanted> {
    let library =
        fs::canonicalize(path).with_context(|| format!("cannot read {}", path.shown()))?;
    check(&library).with_context(|| format!("{} cannot be used", path.shown()))?;
    Ok(Wanted {
        name: name.to_owned(),
        library: Some(library),
    })
}

fn check(path: &Path) -> Result<()> {
    let text = path.to_string_lossy();
    if text.contains([' ', ':', ';', '$']) {
        bail!(
            "its path contains a space, a colon or a dollar sign, which the loader would interpret; move it"
        );
    }
    let bytes = fs::metadata(path)
        .and_then(|it| match it.is_file() {
            true => fs::read(path),
            false => Err(std::io::ErrorKind::InvalidInput.into()),
        })
        .context("it cannot be read")?;
    if bytes.starts_with(b"!<arch>") {
        bail!("it is a static library; build a shared one (-shared -fPIC)");
    }
    let file = object::File::parse(&*bytes).map_err(|_| anyhow!("it is no shared library"))?;
    if !file.is_64() || file.architecture() != object::Architecture::X86_64 {
        bail!("it is not for 64-bit x86; build it for this machine");
    }
    if file.kind() != object::ObjectKind::Dynamic {
        bail!("it is no shared library; build it with -shared -fPIC");
    }
    let symbols = file.dynamic_symbols().filter(|it| it.is_definition());
    let exported: Vec<&str> = symbols.filter_map(|it| it.name().ok()).collect();
    let missing: Vec<&str> = NEEDED
        .into_iter()
        .filter(|it| !exported.contains(it))
        .collect();
    if !missing.is_empty() {
        bail!(
            "it lacks {}; an allocator must export malloc, calloc, realloc and free",
            missing.join(", ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(word: &str) -> String {
        format!("{:#}", wanted(word).unwrap_err())
    }

    #[test]
    fn the_c_librarys_needs_no_file() {
        assert_eq!(wanted("glibc").unwrap().library, None);
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        assert!(error("nosuch").contains("no such allocator"));
        assert!(error("./nosuch.so").contains("cannot read"));
        assert!(error("x=/etc/passwd").contains("no shared library"));
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("a.a");
        fs::write(&archive, b"!<arch>\n").unwrap();
        assert!(error(archive.to_str().unwrap()).contains("static library"));
        // The C library has no malloc that this file lacks; the maths library has none.
        let maths = "/usr/lib/x86_64-linux-gnu/libm.so.6";
        if Path::new(maths).exists() {
            assert!(error(maths).contains("lacks malloc, calloc, realloc, free"));
        }
    }
}
