//! Functions from the ELF symbol tables: which one contains an address, and where
//! it starts. Lines and inlined frames come from DWARF.

use crate::elf::{ElfFile, Section, u16_at, u32_at, u64_at};
use crate::intervals::Intervals;

const SYMBOL_SIZE: usize = 24;
const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const STT_NOTYPE: u8 = 0;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
const STB_GLOBAL: u8 = 1;
const STB_WEAK: u8 = 2;

/// Longest name in bytes; a symbol with a longer one counts as nameless.
const MAX_NAME: usize = 64 << 10;

/// A function's symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbol<'a> {
    /// Address at which the function starts.
    pub(crate) address: u64,
    /// Name of the symbol as in the table, without a symbol version.
    pub(crate) name: &'a [u8],
}

/// A symbol with a name of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedSymbol {
    pub(crate) address: u64,
    pub(crate) name: std::sync::Arc<[u8]>,
}

/// The functions of a module, one for each start address.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    /// The string tables that contain the names.
    strings: Vec<Vec<u8>>,
    functions: Intervals<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u64,
    end: u64,
    section_end: u64,
    rank: u8,
    sized: bool,
    strings: u32,
    name_start: u32,
}

impl SymbolTable {
    /// Reads the function symbols of `files`: the module and its debug file.
    pub(crate) fn read(files: &[&ElfFile]) -> Self {
        let mut strings = Vec::new();
        let mut entries = Vec::new();
        for file in files {
            // A file has at most one of each kind. Further ones would cost time.
            for kind in [SHT_SYMTAB, SHT_DYNSYM] {
                if let Some(section) = file.sections().iter().find(|s| s.kind == kind) {
                    read_section(file, section, &mut strings, &mut entries);
                }
            }
        }
        Self::new(strings, entries)
    }

    /// Sorts the symbols and chooses the best one of each address (see [`rank`]). A
    /// symbol without a size extends to the next one.
    fn new(strings: Vec<Vec<u8>>, mut entries: Vec<Entry>) -> Self {
        entries.sort_by(|a, b| {
            let by_name = || name_order(name_of(&strings, a), name_of(&strings, b));
            (a.start, a.rank).cmp(&(b.start, b.rank)).then_with(by_name)
        });
        entries.dedup_by_key(|entry| entry.start);
        let mut chosen: Vec<Entry> = Vec::with_capacity(entries.len());
        let mut reach = 0;
        for entry in entries {
            // A label within a function with a size is not a function.
            if !entry.sized && entry.start < reach {
                continue;
            }
            if let Some(last) = chosen.last_mut().filter(|last| !last.sized) {
                last.end = entry.start.min(last.section_end).max(last.start);
            }
            if entry.sized {
                reach = reach.max(entry.end);
            }
            chosen.push(entry);
        }
        let functions = chosen.into_iter();
        let functions = functions.map(|entry| (entry.start..entry.end, entry));
        Self {
            functions: Intervals::new(functions.collect()),
            strings,
        }
    }

    /// Every address at which the result of [`Self::containing`] may change,
    /// sorted.
    pub(crate) fn boundaries(&self) -> Vec<u64> {
        let ranges = self.functions.iter().map(|(range, _)| range);
        let mut cuts: Vec<u64> = ranges.flat_map(|it| [it.start, it.end]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    }

    /// The innermost symbol that contains `address`.
    pub(crate) fn containing(&self, address: u64) -> Option<Symbol<'_>> {
        let entry = self.functions.containing(address).next()?;
        Some(Symbol {
            address: entry.start,
            name: name_of(&self.strings, entry),
        })
    }
}

/// A symbol's name without its version (`memcpy@@GLIBC_2.14`).
fn name_of<'a>(strings: &'a [Vec<u8>], entry: &Entry) -> &'a [u8] {
    let text = strings.get(entry.strings as usize);
    let name = text.and_then(|text| text.get(entry.name_start as usize..));
    let name = name.unwrap_or_default();
    let bound = &name[..name.len().min(MAX_NAME)];
    let end = bound.iter().position(|byte| matches!(byte, 0 | b'@'));
    &bound[..end.unwrap_or(0)]
}

fn read_section(
    file: &ElfFile,
    section: &Section,
    strings: &mut Vec<Vec<u8>>,
    entries: &mut Vec<Entry>,
) {
    let linked = file.sections().get(section.link as usize);
    let Some(text) = linked.and_then(|linked| file.section_contents(linked)) else {
        return;
    };
    let Some(symbols) = file.section_contents(section) else {
        return;
    };
    let index = strings.len() as u32;
    let symbols = symbols.chunks_exact(SYMBOL_SIZE);
    entries.extend(symbols.filter_map(|s| parse_symbol(s, index, &text, file.sections())));
    strings.push(text);
}

fn parse_symbol(symbol: &[u8], strings: u32, text: &[u8], sections: &[Section]) -> Option<Entry> {
    let name_start = u32_at(symbol, 0)?;
    let info = *symbol.get(4)?;
    let section = sections.get(usize::from(u16_at(symbol, 6)?))?;
    let start = u64_at(symbol, 8)?;
    let size = u64_at(symbol, 16)?;
    let section_end = section.address.checked_add(section.size)?;
    // Section 0 (undefined symbols) is never executable.
    if !section.is_executable() || start < section.address || start >= section_end {
        return None;
    }
    let name = text.get(name_start as usize..)?;
    if matches!(name.first()?, 0 | b'@') || name.starts_with(b".L") {
        return None;
    }
    Some(Entry {
        start,
        end: match size {
            0 => section_end,
            size => start.saturating_add(size).min(section_end),
        },
        section_end,
        rank: rank(info & 0xf, info >> 4, size)?,
        sized: size != 0,
        strings,
        name_start,
    })
}

/// Order of preference among symbols of one address, the best lowest: a
/// function before a mere label, with a size before without, global before
/// weak before local.
fn rank(kind: u8, binding: u8, size: u64) -> Option<u8> {
    let kind = match kind {
        STT_FUNC | STT_GNU_IFUNC => 0,
        STT_NOTYPE => 1,
        _ => return None,
    };
    let binding = match binding {
        STB_GLOBAL => 0,
        STB_WEAK => 1,
        _ => 2,
    };
    Some(kind * 6 + u8::from(size == 0) * 3 + binding)
}

/// Of symbols of equal rank, the name that people write comes first: `malloc` rather
/// than `__libc_malloc`.
fn name_order(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    let underscores = |name: &[u8]| name.iter().take_while(|byte| **byte == b'_').count();
    (underscores(a), a.len(), a).cmp(&(underscores(b), b.len(), b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (start, size, kind, binding, name), all in a section of 0x1000..0x2000.
    fn table(symbols: &[(u64, u64, u8, u8, &str)]) -> SymbolTable {
        let mut entries = Vec::new();
        let mut strings = Vec::new();
        for (start, size, kind, binding, name) in symbols {
            let name_start = strings.len() as u32;
            strings.extend(name.as_bytes());
            strings.push(0);
            entries.push(Entry {
                start: *start,
                end: if *size == 0 { 0x2000 } else { start + size },
                section_end: 0x2000,
                rank: rank(*kind, *binding, *size).unwrap(),
                sized: *size != 0,
                strings: 0,
                name_start,
            });
        }
        SymbolTable::new(vec![strings], entries)
    }

    fn named(table: &SymbolTable, address: u64) -> Option<(u64, &str)> {
        let symbol = table.containing(address)?;
        Some((symbol.address, std::str::from_utf8(symbol.name).unwrap()))
    }

    #[test]
    fn prefers_the_global_function_among_aliases() {
        let aliases = [
            (0x1000, 16, STT_FUNC, 0, "a_local"),
            (0x1000, 16, STT_FUNC, STB_WEAK, "b_weak"),
            (0x1000, 16, STT_FUNC, STB_GLOBAL, "__libc_z"),
            (0x1000, 16, STT_FUNC, STB_GLOBAL, "z_global"),
            (0x1000, 0, STT_NOTYPE, STB_GLOBAL, "a_label"),
        ];
        assert_eq!(named(&table(&aliases), 0x1008), Some((0x1000, "z_global")));
        let reversed: Vec<_> = aliases.into_iter().rev().collect();
        assert_eq!(named(&table(&reversed), 0x1008), Some((0x1000, "z_global")));
    }

    #[test]
    fn a_symbol_without_size_extends_to_the_next_or_the_section_end() {
        let table = table(&[
            (0x1000, 0, STT_FUNC, 1, "first"),
            (0x1100, 0, STT_FUNC, 1, "second"),
        ]);
        assert_eq!(named(&table, 0xfff), None);
        assert_eq!(named(&table, 0x10ff), Some((0x1000, "first")));
        assert_eq!(named(&table, 0x1100), Some((0x1100, "second")));
        assert_eq!(named(&table, 0x1fff), Some((0x1100, "second")));
        assert_eq!(named(&table, 0x2000), None);
    }

    #[test]
    fn a_label_within_a_function_is_ignored() {
        let table = table(&[
            (0x1000, 0x100, STT_FUNC, 1, "function"),
            (0x1010, 0, STT_NOTYPE, 1, "label"),
        ]);
        assert_eq!(named(&table, 0x1020), Some((0x1000, "function")));
    }

    #[test]
    fn after_a_nested_function_the_outer_one_continues() {
        let table = table(&[
            (0x1000, 0x100, STT_FUNC, 1, "outer"),
            (0x1010, 0x10, STT_FUNC, 1, "inner"),
        ]);
        assert_eq!(named(&table, 0x1018), Some((0x1010, "inner")));
        assert_eq!(named(&table, 0x1080), Some((0x1000, "outer")));
        assert_eq!(named(&table, 0x1100), None);
    }
}
