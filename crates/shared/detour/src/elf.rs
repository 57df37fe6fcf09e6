//! The parts of a 64-bit little-endian ELF file (System V ABI, chapters 4 and 5) that
//! are needed here: function symbols and code. Offsets, counts and sizes in the file are
//! not trusted: what is not within the file is not there.
//!
//! By hand, since it runs in other programs, where nothing may allocate or panic: of `object` neither is
//! promised. The reader of `allotrope-preflight` reads pieces of files that are not mapped; this one
//! needs whole tables in memory.

use core::ops::Range;

use crate::functions;
use crate::named::MAX_NAME;

/// Largest number of sections that are read. (Without `SHN_XINDEX` a file has fewer than 0xff00.)
const MAX_SECTIONS: u64 = 0xff00;
/// Largest number of program headers that are read. The kernel accepts no more than fit into
/// 64 KiB.
const MAX_SEGMENTS: u64 = 65536 / SEGMENT;

/// Bytes of `Elf64_Ehdr`, `Elf64_Shdr`, `Elf64_Phdr` and `Elf64_Sym`.
const HEADER: u64 = 64;
const SECTION: u64 = 64;
const SEGMENT: u64 = 56;
const SYMBOL: u64 = 24;

const EM_X86_64: u64 = 62;
const SHT_SYMTAB: u64 = 2;
const SHT_DYNSYM: u64 = 11;
const SHN_UNDEF: u64 = 0;
const SHN_LORESERVE: u64 = 0xff00;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
const STB_LOCAL: u8 = 0;
const PT_LOAD: u64 = 1;
const PF_X: u64 = 1;
const PF_W: u64 = 2;

/// Bytes of a file.
pub trait Bytes {
    /// The bytes at this offset; `None` if they are not all there.
    fn slice(&self, offset: u64, length: u64) -> Option<&[u8]>;
}

impl Bytes for [u8] {
    fn slice(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        self.get(start..end)
    }
}

/// The symbol table of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// `.dynsym`, the exported symbols. Stripping leaves it.
    Exported,
    /// `.symtab`, all symbols.
    All,
}

/// A symbol of a function that the file defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Name of the symbol.
    pub name: &'a [u8],
    /// Address of the symbol in the file.
    pub address: u64,
    /// Bytes of its code; 0 if the file does not say so.
    pub size: u64,
    /// The symbol is not visible to other files that were linked.
    pub is_local: bool,
    /// The address is that of a function that chooses the real one (`STT_GNU_IFUNC`).
    pub is_resolver: bool,
}

/// An ELF file for x86-64.
pub struct Elf<'a, B: ?Sized> {
    file: &'a B,
    header: &'a [u8],
}

impl<B: Bytes + ?Sized> core::fmt::Debug for Elf<'_, B> {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Elf").finish_non_exhaustive()
    }
}

impl<'a, B: Bytes + ?Sized> Elf<'a, B> {
    /// Reads the file's header; `None` if it is no such file.
    pub fn open(file: &'a B) -> Option<Self> {
        let header = file.slice(0, HEADER)?;
        let is_it = header.starts_with(b"\x7fELF\x02\x01") && number(header, 18..20) == EM_X86_64;
        is_it.then_some(Self { file, header })
    }

    /// The functions in a symbol table that the file defines, and whose names could be those
    /// of an allocator's ([`functions`]): few of hundreds of thousands.
    pub fn functions(&self, table: Table) -> impl Iterator<Item = Symbol<'a>> {
        self.functions_that(table, functions::may_be_known)
    }

    /// The functions in a symbol table that the file defines, and whose names may be meant.
    /// `may_be` gets a name and what follows it in the file: it excludes most names by their
    /// first bytes.
    pub fn functions_that(
        &self,
        table: Table,
        may_be: impl Fn(&[u8]) -> bool,
    ) -> impl Iterator<Item = Symbol<'a>> {
        let (symbols, strings) = self.table(table).unwrap_or_default();
        symbols
            .chunks_exact(SYMBOL as usize)
            .filter_map(move |symbol| function(symbol, strings, &may_be))
    }

    /// Whether the file has a symbol table. Its symbols are not read.
    pub fn has(&self, table: Table) -> bool {
        self.sections_of(table).is_some()
    }

    /// The symbols of a table, and their names.
    fn table(&self, table: Table) -> Option<(&'a [u8], &'a [u8])> {
        let (symbols, strings) = self.sections_of(table)?;
        Some((self.contents(symbols)?, self.contents(strings)?))
    }

    /// The headers of the sections with the symbols of a table and with their names.
    fn sections_of(&self, table: Table) -> Option<(&'a [u8], &'a [u8])> {
        let wanted = match table {
            Table::Exported => SHT_DYNSYM,
            Table::All => SHT_SYMTAB,
        };
        let has_size = number(self.header, 58..60) == SECTION;
        let sections = number(self.header, 60..62).min(MAX_SECTIONS);
        let offset = number(self.header, 40..48);
        if !has_size || sections == 0 {
            return None;
        }
        let headers = self.file.slice(offset, sections * SECTION)?;
        let mut headers_of = headers.chunks_exact(SECTION as usize);
        let symbols = headers_of.find(|section| number(section, 4..8) == wanted)?;
        let link = usize::try_from(number(symbols, 40..44)).ok()?;
        let strings = headers.chunks_exact(SECTION as usize).nth(link)?;
        Some((symbols, strings))
    }

    fn contents(&self, section: &[u8]) -> Option<&'a [u8]> {
        self.file
            .slice(number(section, 24..32), number(section, 32..40))
    }

    fn segments(&self) -> impl Iterator<Item = &'a [u8]> {
        let has_size = number(self.header, 54..56) == SEGMENT;
        let count = number(self.header, 56..58).min(MAX_SEGMENTS);
        let headers = self
            .file
            .slice(number(self.header, 32..40), count * SEGMENT)
            .filter(|_| has_size);
        headers
            .unwrap_or_default()
            .chunks_exact(SEGMENT as usize)
            .filter(|segment| number(segment, 0..4) == PT_LOAD)
    }

    /// The program headers, as they are in the file, and their address.
    pub fn program_headers(&self) -> Option<(&'a [u8], u64)> {
        let offset = number(self.header, 32..40);
        let bytes = number(self.header, 56..58) * SEGMENT;
        let headers = self.file.slice(offset, bytes)?;
        let address = self.segments().find_map(|segment| {
            let within = offset.checked_sub(number(segment, 8..16))?;
            let is_in = within.checked_add(bytes)? <= number(segment, 32..40);
            is_in.then(|| number(segment, 16..24).wrapping_add(within))
        })?;
        Some((headers, address))
    }

    /// The bytes at an address, if they are code that the program does not change.
    pub fn code(&self, address: u64, size: u64) -> Option<&'a [u8]> {
        let end = address.checked_add(size)?;
        let segment = self.segments().find(|segment| {
            let start = number(segment, 16..24);
            let segment_end = start.saturating_add(number(segment, 32..40));
            start <= address && end <= segment_end
        })?;
        let flags = number(segment, 4..8);
        if flags & PF_X == 0 || flags & PF_W != 0 {
            return None;
        }
        let offset = number(segment, 8..16).checked_add(address - number(segment, 16..24))?;
        self.file.slice(offset, size)
    }

    /// Returns the addresses from the lowest one that is loaded to the end of the highest.
    pub fn extent(&self) -> Option<Range<u64>> {
        let start = self.segments().map(|it| number(it, 16..24)).min()?;
        let ends = self
            .segments()
            .map(|it| number(it, 16..24).saturating_add(number(it, 40..48)));
        Some(start..ends.max()?)
    }
}

#[inline(always)]
fn function<'a>(
    symbol: &[u8],
    strings: &'a [u8],
    may_be: impl Fn(&[u8]) -> bool,
) -> Option<Symbol<'a>> {
    // Most symbols end here: neither their other fields nor the rest of the name is read.
    let (name, rest) = symbol.split_first_chunk::<4>()?;
    let name = strings.get(u32::from_le_bytes(*name) as usize..)?;
    if !may_be(name) {
        return None;
    }
    let (kind, binding) = (rest[0] & 15, rest[0] >> 4);
    let section = number(symbol, 6..8);
    let address = number(symbol, 8..16);
    let is_function = matches!(kind, STT_FUNC | STT_GNU_IFUNC);
    let is_defined = section != SHN_UNDEF && section < SHN_LORESERVE && address != 0;
    if !is_function || !is_defined {
        return None;
    }
    let name = &name[..name.len().min(MAX_NAME)];
    let end = name.iter().position(|byte| *byte == 0)?;
    Some(Symbol {
        name: &name[..end],
        address,
        size: number(symbol, 16..24),
        is_local: binding == STB_LOCAL,
        is_resolver: kind == STT_GNU_IFUNC,
    })
}

/// A little-endian number; 0 if the bytes are not there.
fn number(bytes: &[u8], at: Range<usize>) -> u64 {
    let bytes = bytes.get(at).unwrap_or_default().iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}
