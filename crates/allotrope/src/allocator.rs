//! Which allocator a program brings along, by the libraries that it names and
//! the symbols that it defines. What else its file says is in `executable`.

use std::fs::File;
use std::io;
use std::path::Path;

use object::read::elf::{FileHeader, Sym};
use object::{Endianness, ReadCache, elf};

use crate::executable::Program;

/// An allocator other than the C library's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allocator {
    /// A shared library: recorded like the C library's.
    Library {
        /// What it is called.
        name: &'static str,
        /// The library's file name.
        file: String,
    },
    /// Linked into the program, which defines `malloc`; its name if known.
    Replacing(Option<&'static str>),
    /// Linked into the program under names of its own, as Rust's
    /// `#[global_allocator]` crates do: calls to it can not be seen.
    Private(&'static str),
}

/// What a program's symbols say about allocators linked into it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BuiltInAllocator {
    /// It defines `malloc` itself.
    pub defines_malloc: bool,
    /// It defines C++'s `operator new(size_t)` itself.
    pub defines_operator_new: bool,
    /// Allocator whose characteristic symbols it defines.
    pub name: Option<&'static str>,
    /// It reports the blocks of its global allocator, by `allotrope-client`'s
    /// `Recorded`.
    pub reported: bool,
}

/// What to do about an allocator that is linked into a program as its `malloc`.
pub const OF_REPLACING: &str = "link it as a shared library or leave it out of the recorded build; \
                                in Rust, wrap it in allotrope-client's Recorded";
/// What to do about one that is linked into it under names of its own.
pub const OF_PRIVATE: &str = "in Rust, wrap it in allotrope-client's Recorded; \
                              in C and C++, report its blocks with allotrope.h";

/// How the symbols of methods in `allotrope-client`'s module `recorded` begin,
/// and what is in them, in rustc's two manglings; there are such where it is used.
const METHODS: [&[u8]; 2] = [b"_ZN16allotrope_client", b"_RNvM"];
const IN_METHODS: [&[u8]; 2] = [b"16allotrope_client", b"8recorded"];

const ALLOCATOR_LIBRARIES: [(&str, &str); 8] = [
    ("libjemalloc", "jemalloc"),
    ("libtcmalloc", "tcmalloc"),
    ("libmimalloc", "mimalloc"),
    ("libsnmalloc", "snmalloc"),
    ("librpmalloc", "rpmalloc"),
    ("libhoard", "Hoard"),
    ("libtbbmalloc", "tbbmalloc"),
    ("libscudo", "Scudo"),
];

/// Symbols by which a linked-in allocator is known.
const ALLOCATOR_SYMBOLS: [(&[u8], &str); 10] = [
    (b"mallctl", "jemalloc"),
    (b"je_mallctl", "jemalloc"),
    (b"_rjem_mallctl", "jemalloc"),
    (b"_rjem_malloc", "jemalloc"),
    (b"_rjem_sdallocx", "jemalloc"),
    (b"mi_malloc", "mimalloc"),
    (b"mi_heap_malloc", "mimalloc"),
    (b"_mi_malloc_generic", "mimalloc"),
    (b"tc_malloc", "tcmalloc"),
    (b"sn_malloc", "snmalloc"),
];

impl Allocator {
    /// The program's allocator, if it is another than the C library's: one of
    /// its libraries, or one linked into it.
    pub fn of(program: &Program, built_in: &BuiltInAllocator) -> Option<Self> {
        for needed in &program.needed {
            for (prefix, name) in ALLOCATOR_LIBRARIES {
                if needed.starts_with(prefix) {
                    return Some(Self::Library {
                        name,
                        file: needed.clone(),
                    });
                }
            }
        }
        if built_in.defines_malloc {
            return Some(Self::Replacing(built_in.name));
        }
        built_in.name.map(Self::Private)
    }
}

impl BuiltInAllocator {
    /// Looks through all symbols of an ELF file; what can not be read says
    /// nothing.
    pub fn find(path: &Path) -> io::Result<Self> {
        Self::among(path, &[elf::SHT_SYMTAB, elf::SHT_DYNSYM])
    }

    /// Looks through the exported symbols only, which are few: a `malloc` that
    /// is linked into a program is among them, for the C library has one too.
    pub fn find_exported(path: &Path) -> io::Result<Self> {
        Self::among(path, &[elf::SHT_DYNSYM])
    }

    fn among(path: &Path, tables: &[elf::SectionType]) -> io::Result<Self> {
        let cache = ReadCache::new(allotrope_files::open_regular(path)?);
        let mut found = Self::default();
        let _ = found.read_symbols(&cache, tables);
        Ok(found)
    }

    fn read_symbols(
        &mut self,
        data: &ReadCache<File>,
        tables: &[elf::SectionType],
    ) -> object::Result<()> {
        let header = elf::FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, data)?;
        for table in tables {
            let symbols = sections.symbols(endian, data, *table)?;
            for symbol in symbols.iter() {
                if !symbol.is_definition(endian, symbols.strings()) {
                    continue;
                }
                let Ok(name) = symbols.symbol_name(endian, symbol) else {
                    continue;
                };
                self.defines_malloc |= name == b"malloc";
                self.defines_operator_new |= name == b"_Znwm";
                self.reported |= METHODS.iter().any(|begin| name.starts_with(begin))
                    && IN_METHODS.iter().all(|part| has(name, part));
                let known = ALLOCATOR_SYMBOLS.iter().find(|(known, _)| *known == name);
                self.name = self.name.or(known.map(|(_, allocator)| *allocator));
            }
        }
        Ok(())
    }
}

fn has(name: &[u8], part: &[u8]) -> bool {
    name.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linked_in_allocator_is_told_from_a_library() {
        let mut program = Program::default();
        let private = BuiltInAllocator {
            name: Some("mimalloc"),
            ..BuiltInAllocator::default()
        };
        assert_eq!(
            Allocator::of(&program, &private),
            Some(Allocator::Private("mimalloc"))
        );
        let replacing = BuiltInAllocator {
            defines_malloc: true,
            ..BuiltInAllocator::default()
        };
        assert_eq!(
            Allocator::of(&program, &replacing),
            Some(Allocator::Replacing(None))
        );
        assert_eq!(Allocator::of(&program, &BuiltInAllocator::default()), None);
        program.needed.push("libjemalloc.so.2".into());
        assert!(matches!(
            Allocator::of(&program, &private),
            Some(Allocator::Library {
                name: "jemalloc",
                ..
            })
        ));
    }
}
