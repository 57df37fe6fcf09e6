//! Which allocators to replay with: their names, where their libraries are, and whether a
//! library can be used.

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use allotrope_detour::allocators::{ALLOCATORS, Row};
use allotrope_files::open_regular;
use allotrope_replayer::operations::Call;
use allotrope_text::word;
use object::elf::{
    DF_1_PIE, DT_FLAGS_1, ELFCLASS64, EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, SHN_UNDEF,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, Sym};
use object::{Endianness, ReadRef};
use thiserror::Error;

/// The name of the C library's own allocator.
pub const SYSTEM: &str = "glibc";

/// The known allocators to replay with.
fn known() -> impl Iterator<Item = &'static Row> {
    ALLOCATORS.iter().filter(|row| !row.replayed.is_empty())
}

/// Where distributions install libraries.
const FOLDERS: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/lib",
];

/// Largest file that is read as a library.
const MAX_BYTES: u64 = 1 << 30;

/// An allocator to replay with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocator {
    /// Name of the allocator in reports, different from that of every other one.
    pub name: String,
    /// The library to preload; `None`: the C library's allocator.
    pub library: Option<PathBuf>,
}

impl Allocator {
    /// Whether both are the same library, whatever their names are. A library that a recording
    /// names may be gone: then a known name stands for it.
    pub fn is_same(&self, other: &Self) -> bool {
        let (Some(a), Some(b)) = (&self.library, &other.library) else {
            return self.library == other.library;
        };
        let is_gone = !a.exists() || !b.exists();
        a == b
            || is_same_file(a, b)
            || (is_gone && known_name(a).is_some() && known_name(a) == known_name(b))
    }
}

/// Whether both paths lead to one file.
pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |path| fs::metadata(path).map(|it: fs::Metadata| (it.dev(), it.ino()));
    matches!((id(a), id(b)), (Ok(a), Ok(b)) if a == b)
}

/// Why an allocator cannot be used.
#[derive(Debug, Error)]
pub enum AllocatorError {
    /// A name that is neither known nor a path.
    #[error(
        "there is no allocator called {0}; name glibc, jemalloc, tcmalloc or mimalloc, or a library by its path (./{0}, NAME=PATH)"
    )]
    Unknown(String),
    /// A known allocator that is not installed.
    #[error(
        "{0} is not installed in the system's library folders; install it or name its library: {0}=PATH"
    )]
    NotInstalled(&'static str),
    /// The file cannot be read.
    #[error("cannot read it: {0}")]
    Unreadable(#[from] io::Error),
    /// The file is a static library.
    #[error("it is a static library, which cannot be preloaded; build a shared library of it")]
    Static,
    /// The file is no ELF file.
    #[error("it is not a shared library (no ELF file)")]
    NotElf,
    /// The file is a library for another machine.
    #[error("it is not a 64-bit library for x86-64; programs here cannot load it")]
    OtherMachine,
    /// The file is a program.
    #[error(
        "it is a program, and only a shared library can be preloaded; link the allocator's own object files, compiled with -fPIC and without main, as one: cc -shared -o {0} FILES"
    )]
    Program(String),
    /// The file is no shared library.
    #[error("it is an object file, not a shared library; link it as one: cc -shared -o {0} FILES")]
    NotShared(String),
    /// The file is damaged.
    #[error("its symbol table cannot be read: {0}")]
    Damaged(String),
    /// Functions that the replay calls are missing.
    #[error(
        "it does not define {0}, which the program calls: its blocks would come from the C library's allocator"
    )]
    Lacks(String),
    /// Functions are missing that the C library calls in every program.
    #[error(
        "it does not define {names}, which every program needs, because the C library itself calls {them}: its blocks would come from the C library's allocator"
    )]
    LacksBasic {
        /// Names of the functions.
        names: String,
        /// `it` or `them`.
        them: &'static str,
    },
    /// An empty word in a list.
    #[error("an allocator's name is empty; name glibc, jemalloc, tcmalloc, mimalloc or a library")]
    Empty,
    /// A name that means the C library's allocator.
    #[error(
        "the name {SYSTEM} is that of the C library's own allocator; give the library another one (NAME=PATH)"
    )]
    Reserved,
    /// Nothing before the `=`.
    #[error("the name before = is empty; write NAME=PATH, or the path alone")]
    NoName,
    /// The loader splits lists of libraries at these characters.
    #[error(
        "its path contains a space, a colon or a dollar sign, which the loader would interpret; move it"
    )]
    BadPath,
}

/// The functions that every program needs.
pub const BASIC: [Call; 4] = [Call::Malloc, Call::Calloc, Call::Realloc, Call::Free];

/// An allocator, and why it cannot be used.
pub type Candidate = (Allocator, Option<AllocatorError>);

/// The C library's allocator and the known ones that are installed.
pub fn installed_ones() -> Vec<Candidate> {
    let known = known().map(|row| row.name);
    let found = [SYSTEM].into_iter().chain(known).map(allocator);
    found.flatten().map(|it| (it, None)).collect()
}

/// Reads a list of allocators as a user writes it: names, paths and `NAME=PATH`. An allocator
/// that is named twice gets the name `NAME#2`.
pub fn allocators(words: &[String]) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for word in words {
        let (mut allocator, error) = match allocator(word) {
            Ok(allocator) => (allocator, None),
            Err(error) => {
                let name = match word.split('=').next().unwrap_or(word) {
                    _ if word.is_empty() => "an allocator",
                    // The one that is meant by this name may be measured, too.
                    "" | SYSTEM => word,
                    name => name,
                };
                let name = name.to_owned();
                (
                    Allocator {
                        name,
                        library: None,
                    },
                    Some(error),
                )
            }
        };
        let name = allocator.name.clone();
        let mut number = 2;
        while found.iter().any(|(it, _)| it.name == allocator.name) {
            allocator.name = format!("{name}#{number}");
            number += 1;
        }
        found.push((allocator, error));
    }
    found
}

fn allocator(word: &str) -> Result<Allocator, AllocatorError> {
    if word.is_empty() {
        return Err(AllocatorError::Empty);
    }
    if word == SYSTEM {
        let name = SYSTEM.to_owned();
        return Ok(Allocator {
            name,
            library: None,
        });
    }
    if let Some(row) = known().find(|row| row.name == word) {
        let library = installed(row.replayed).ok_or(AllocatorError::NotInstalled(row.name))?;
        return Ok(Allocator {
            name: row.name.to_owned(),
            library: Some(library),
        });
    }
    if word.starts_with('=') {
        return Err(AllocatorError::NoName);
    }
    if let Some((name, path)) = word.split_once('=')
        && !name.contains('/')
    {
        return of_path(name, Path::new(path));
    }
    let path = Path::new(word);
    if !word.contains('/') && !path.exists() {
        return Err(AllocatorError::Unknown(word.to_owned()));
    }
    let name = path.file_name().unwrap_or(path.as_os_str());
    of_path(&name.to_string_lossy(), path)
}

fn of_path(name: &str, path: &Path) -> Result<Allocator, AllocatorError> {
    if name == SYSTEM {
        return Err(AllocatorError::Reserved);
    }
    let library = fs::canonicalize(path)?;
    let bytes = library.as_os_str().as_bytes();
    if bytes.iter().any(|byte| matches!(byte, b' ' | b':' | b'$')) {
        return Err(AllocatorError::BadPath);
    }
    Ok(Allocator {
        name: name.to_owned(),
        library: Some(library),
    })
}

/// The first of these files that a folder has.
fn installed(files: &[&str]) -> Option<PathBuf> {
    let paths = files.iter().flat_map(|file| {
        let folders = FOLDERS.iter();
        folders.map(move |folder| Path::new(folder).join(file))
    });
    let mut paths = paths.filter(|path| path.is_file());
    paths.next()
}

/// The known allocator of which this is a library.
pub fn known_name(library: &Path) -> Option<&'static str> {
    let file = library.file_name()?.to_str()?;
    let of_known = known().find(|row| {
        let rest = file.strip_prefix(row.library);
        rest.is_some_and(|rest| rest.starts_with(['.', '_', '-']))
    });
    of_known.map(|row| row.name)
}

/// Whether the library can be preloaded and defines these functions.
///
/// # Errors
///
/// Why it cannot be used.
pub fn check(library: &Path, calls: &[Call]) -> Result<(), AllocatorError> {
    let mut file = match open_regular(library) {
        // A pipe would never be opened, and a folder cannot be read.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return Err(AllocatorError::NotElf);
        }
        file => file?,
    };
    let mut bytes = Vec::new();
    file.by_ref().take(MAX_BYTES).read_to_end(&mut bytes)?;
    if bytes.starts_with(b"!<arch>") || bytes.starts_with(b"!<thin>") {
        return Err(AllocatorError::Static);
    }
    if !bytes.starts_with(b"\x7fELF") {
        return Err(AllocatorError::NotElf);
    }
    if bytes.get(4) != Some(&ELFCLASS64.0) {
        return Err(AllocatorError::OtherMachine);
    }
    // What the user would call the library.
    let mut name = library.file_stem().unwrap_or_default().to_owned();
    name.push(".so");
    check_symbols(&bytes[..], calls, &word(&name))
}

fn check_symbols<'a>(
    bytes: impl ReadRef<'a>,
    calls: &[Call],
    name: &str,
) -> Result<(), AllocatorError> {
    let damaged = |error: object::Error| AllocatorError::Damaged(error.to_string());
    let header = FileHeader64::<Endianness>::parse(bytes).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    if endian != Endianness::Little || header.e_machine(endian) != EM_X86_64 {
        return Err(AllocatorError::OtherMachine);
    }
    match header.e_type(endian) {
        ET_EXEC => return Err(AllocatorError::Program(name.to_owned())),
        ET_DYN => {}
        _ => return Err(AllocatorError::NotShared(name.to_owned())),
    }
    if is_position_independent_program(header, endian, bytes).map_err(damaged)? {
        return Err(AllocatorError::Program(name.to_owned()));
    }
    let sections = header.sections(endian, bytes).map_err(damaged)?;
    let symbols = sections
        .symbols(endian, bytes, object::elf::SHT_DYNSYM)
        .map_err(damaged)?;
    let defines = |name: &str| {
        symbols.iter().any(|symbol| {
            symbol.st_shndx(endian) != SHN_UNDEF
                && symbol
                    .name(endian, symbols.strings())
                    .is_ok_and(|it| it == name.as_bytes())
        })
    };
    let missing = calls.iter().filter(|call| !defines(call.name()));
    let (basic, called): (Vec<&Call>, Vec<&Call>) = missing.partition(|it| BASIC.contains(it));
    let names = |calls: &[&Call]| -> String {
        let names: Vec<&str> = calls.iter().map(|it| it.name()).collect();
        names.join(", ")
    };
    match (&basic[..], &called[..]) {
        ([], []) => Ok(()),
        ([], called) => Err(AllocatorError::Lacks(names(called))),
        (basic, _) => Err(AllocatorError::LacksBasic {
            names: names(basic),
            them: if basic.len() == 1 { "it" } else { "them" },
        }),
    }
}

/// Whether the file is a program in the form of a shared library, which the loader refuses to
/// preload (`DF_1_PIE`).
fn is_position_independent_program<'a>(
    header: &FileHeader64<Endianness>,
    endian: Endianness,
    bytes: impl ReadRef<'a>,
) -> object::Result<bool> {
    for segment in header.program_headers(endian, bytes)? {
        let entries = segment.dynamic(endian, bytes)?.unwrap_or_default();
        let mut flags = entries.iter().filter(|it| it.tag(endian) == DT_FLAGS_1);
        if flags.any(|it| it.val(endian) & DF_1_PIE.0 != 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: &str) -> Candidate {
        let mut found = allocators(&[word.to_owned()]);
        found.remove(0)
    }

    #[test]
    fn the_name_of_the_system_is_no_other_librarys() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("glibc");
        fs::write(&library, "").unwrap();
        let path = library.display();
        for word in [format!("glibc={path}"), path.to_string()] {
            let (allocator, error) = of(&word);
            assert!(matches!(error, Some(AllocatorError::Reserved)), "{error:?}");
            assert_ne!(allocator.name, SYSTEM);
        }
        let (allocator, error) = of(&format!("jemalloc={path}"));
        assert!(error.is_none(), "{error:?}");
        assert_eq!(allocator.name, "jemalloc");
        assert!(matches!(of("=./x.so").1, Some(AllocatorError::NoName)));
    }

    #[test]
    fn the_same_library_may_have_two_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a.so", "b.so", "libjemalloc.so.2"] {
            fs::write(path(name), "").unwrap();
        }
        std::os::unix::fs::symlink("a.so", path("link.so")).unwrap();
        let allocator = |name: &str, library: Option<&str>| Allocator {
            name: name.to_owned(),
            library: library.map(path),
        };
        let a = allocator("a", Some("a.so"));
        assert!(a.is_same(&allocator("mine", Some("a.so"))));
        assert!(a.is_same(&allocator("mine", Some("link.so"))));
        assert!(!a.is_same(&allocator("a", Some("b.so"))));
        assert!(!a.is_same(&allocator("a", None)));
        assert!(allocator(SYSTEM, None).is_same(&allocator("other", None)));
        // Of a library that is not on this machine, its known name is all that there is.
        let known = allocator("jemalloc", Some("libjemalloc.so.2"));
        assert!(known.is_same(&allocator("jemalloc", Some("gone/libjemalloc.so.1"))));
        assert!(!known.is_same(&allocator("jemalloc", Some("a.so"))));
        assert!(!a.is_same(&allocator("a", Some("gone/a.so"))));
    }
}
