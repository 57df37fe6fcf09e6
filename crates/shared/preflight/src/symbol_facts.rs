//! What the symbols that an ELF file defines show about allocators in it.

use std::fs::File;
use std::io;
use std::path::Path;

use allotrope_detour::allocators::{self, ALLOCATORS, Allocator, Row};
use allotrope_detour::functions;
use object::read::StringTable;
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::{Endianness, ReadCache, SectionIndex, elf};

/// Largest number of bytes of a section that are read. A file may name any number, and have holes.
pub(crate) const MAX_READ: u64 = 1 << 30;

/// What the symbols that an ELF file defines show about allocators in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SymbolFacts {
    /// The file exports a `malloc`. A `malloc` that is linked into a program is
    /// exported, because the C library has one too.
    pub exports_malloc: bool,
    /// The file defines `malloc` itself, exported or not.
    pub defines_malloc: bool,
    /// The file defines C++'s `operator new(size_t)` itself.
    pub defines_operator_new: bool,
    /// The allocator whose characteristic symbols the file defines.
    pub name: Option<&'static str>,
    /// The program reports the blocks of its global allocator, by `allotrope-client`'s
    /// `Recorded`.
    pub reported: bool,
    /// A symbol has the name of an allocator's function that the recorder detours, or of one
    /// that shows which allocator it is. Its definition may be in another file.
    pub(crate) names_entry_point: bool,
    /// The sanitizer whose characteristic symbols the file defines.
    pub(crate) sanitizer: Option<&'static str>,
}

/// Prefixes of the symbols of methods in `allotrope-client`'s module `recorded` in
/// rustc's two manglings, and the parts that such a symbol contains.
const METHODS: [&[u8]; 2] = [b"_ZN16allotrope_client", b"_RNvM"];
const IN_METHODS: [&[u8]; 2] = [b"16allotrope_client", b"8recorded"];

impl SymbolFacts {
    /// Reads all symbols of an ELF file. Symbol tables that cannot be read count
    /// as empty.
    ///
    /// # Errors
    /// If there is no regular file at `path` that can be opened.
    pub fn of(path: &Path) -> io::Result<Self> {
        let file = allotrope_files::open_regular(path)?;
        Ok(Self::among(&file, &[elf::SHT_DYNSYM, elf::SHT_SYMTAB]))
    }

    /// Reads the exported symbols only, which are few.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn exported_by(path: &Path) -> io::Result<Self> {
        let file = allotrope_files::open_regular(path)?;
        Ok(Self::among(&file, &[elf::SHT_DYNSYM]))
    }

    /// Same as [`of`](Self::of), but reads only the exported symbols if the file does not
    /// export `malloc` or they show a sanitizer already.
    pub(crate) fn of_file(file: &File) -> Self {
        let exported = Self::among(file, &[elf::SHT_DYNSYM]);
        match exported.exports_malloc && exported.sanitizer.is_none() {
            true => Self::among(file, &[elf::SHT_DYNSYM, elf::SHT_SYMTAB]),
            false => exported,
        }
    }

    /// The sanitizer whose run-time library, with a `malloc`, is linked in. A static
    /// run-time library exports its `malloc`; gcc's export nothing else.
    pub(crate) fn linked_sanitizer(&self) -> Option<&'static str> {
        self.sanitizer.filter(|_| self.exports_malloc)
    }

    fn among(file: &File, tables: &[elf::SectionType]) -> Self {
        Self::in_tables(&ReadCache::new(file), tables)
    }

    /// Same as [`of`](Self::of), of a file whose parts are kept once they are read.
    pub(crate) fn in_cache(cache: &ReadCache<&File>) -> Self {
        Self::in_tables(cache, &[elf::SHT_DYNSYM, elf::SHT_SYMTAB])
    }

    fn in_tables(cache: &ReadCache<&File>, tables: &[elf::SectionType]) -> Self {
        let mut facts = Self::default();
        for table in tables {
            let _ = facts.read_symbols(cache, *table);
        }
        facts
    }

    fn read_symbols(
        &mut self,
        data: &ReadCache<&File>,
        table: elf::SectionType,
    ) -> object::Result<()> {
        let header = elf::FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, data)?;
        let Some(section) = sections.iter().find(|it| it.sh_type(endian) == table) else {
            return Ok(());
        };
        let strings = sections.section(SectionIndex(section.sh_link(endian) as usize))?;
        if [section, strings]
            .iter()
            .any(|it| it.sh_size(endian) > MAX_READ)
        {
            return Ok(());
        }
        // Each is read as a whole: a program may have hundreds of thousands of symbols.
        let symbols: &[elf::Sym64<Endianness>] = section.data_as_array(endian, data)?;
        let bytes = strings.data(endian, data)?;
        let strings = StringTable::new(bytes, 0, bytes.len() as u64);
        for symbol in symbols {
            // Most symbols end here.
            let start = usize::try_from(symbol.st_name(endian)).unwrap_or(usize::MAX);
            if !may_matter(bytes.get(start..).unwrap_or_default()) {
                continue;
            }
            let Ok(name) = symbol.name(endian, strings) else {
                continue;
            };
            self.names_entry_point |=
                functions::by_name(name).is_some() || Allocator::of_function(name).is_some();
            if !symbol.is_definition(endian, strings) {
                continue;
            }
            if name == b"malloc" {
                self.defines_malloc = true;
                self.exports_malloc |= table == elf::SHT_DYNSYM;
            }
            self.defines_operator_new |= name == b"_Znwm";
            self.reported |= METHODS.iter().any(|begin| name.starts_with(begin))
                && IN_METHODS.iter().all(|part| contains(name, part));
            let is_its = |it: &&Row| it.linked.iter().any(|it| it.as_bytes() == name);
            let known = ALLOCATORS.iter().find(is_its);
            self.name = self.name.or(known.map(|row| row.name));
            self.sanitizer = self
                .sanitizer
                .or_else(|| allocators::sanitizer_of_function(name));
        }
        Ok(())
    }
}

/// Whether a symbol whose name begins so can be one that [`SymbolFacts`] shows. A program may
/// have hundreds of thousands of symbols, and this excludes nearly all of them by their first
/// bytes.
#[inline(always)]
fn may_matter(name: &[u8]) -> bool {
    let Some(first) = name.first_chunk::<3>() else {
        return false;
    };
    match first {
        b"mal" | b"_Zn" | b"je_" | b"_rj" | b"mi_" | b"_mi" | b"tc_" | b"sn_" => true,
        b"_ZN" => name.starts_with(METHODS[0]),
        b"_RN" => name.starts_with(METHODS[1]),
        _ => allocators::may_be_sanitizers(name) || functions::may_be_known(name),
    }
}

fn contains(name: &[u8], part: &[u8]) -> bool {
    name.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_symbols_that_matter_begin_as_expected() {
        let known = ALLOCATORS.iter().flat_map(|row| row.linked);
        let known = known.map(|name| name.as_bytes());
        let known = known.chain(METHODS).chain([&b"malloc"[..], b"_Znwm"]);
        for name in known {
            assert!(may_matter(name), "{}", name.escape_ascii());
        }
        for name in [
            "",
            "__",
            "printf",
            "_ZN3foo3barEv",
            "base_GHCziBase_map_closure",
        ] {
            assert!(!may_matter(name.as_bytes()), "{name}");
        }
    }
}
