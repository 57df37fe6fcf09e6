//! Which module's definition of a symbol the program's calls reach: the search
//! that the loader makes for a call (`ELF_RTYPE_CLASS_PLT` in glibc).
//!
//! `dlsym` makes another one. It also finds entries of a symbol table that are
//! no definitions: an executable at a fixed address that takes the address of
//! `malloc` has such an entry, undefined but with the address of its own PLT
//! slot as its value (System V ABI for x86-64, "Function Addresses").

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::sys::loader::LinkMap;

const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;
/// Bit of a symbol's version: only programs that were linked with this version find the symbol
/// (Linux Standard Base, "Symbol Versioning").
const HIDDEN: u16 = 1 << 15;
const SHN_UNDEF: u16 = 0;

/// `Elf64_Sym`.
#[repr(C)]
pub struct Symbol {
    name: u32,
    information: u8,
    other: u8,
    section: u16,
    /// Address of what it stands for, relative to the module's bias.
    pub value: AtomicU64,
    size: u64,
}

/// Run-time address of the first definition of `name` in these modules (from the head
/// of the loader's list on: in the global scope); `None` if there is none. Versions for old
/// programs alone do not count, as for `dlsym`: glibc's `cfree` is one.
pub fn first(mut modules: impl Iterator<Item = &'static LinkMap>, name: &CStr) -> Option<u64> {
    modules.find_map(|map| {
        let symbol = search(map, name, |tables, index, symbol| {
            symbol.value.load(Relaxed) != 0 && !tables.is_hidden(index)
        })?;
        Some(map.bias.wrapping_add(symbol.value.load(Relaxed)))
    })
}

/// The definition of `name` in a module whose value is meant, for there may be several,
/// of different versions.
pub fn find<'m>(
    map: &'m LinkMap,
    name: &CStr,
    is_meant: impl Fn(u64) -> bool,
) -> Option<&'m Symbol> {
    search(map, name, |_, _, symbol| {
        is_meant(symbol.value.load(Relaxed))
    })
}

fn search<'m>(
    map: &'m LinkMap,
    name: &CStr,
    is_meant: impl Fn(&Tables<'m>, u32, &Symbol) -> bool,
) -> Option<&'m Symbol> {
    let tables = Tables::of(map);
    let definition = |index: u32| {
        let symbol = tables.symbol(index);
        let is_it = symbol.section != SHN_UNDEF
            && tables.name(symbol) == name
            && is_meant(&tables, index, symbol);
        is_it.then_some(symbol)
    };
    if tables.strings == 0 || tables.symbols == 0 {
        None
    } else if tables.gnu_hash != 0 {
        by_gnu_hash(&tables, name.to_bytes(), definition)
    } else if tables.hash != 0 {
        by_hash(&tables, name.to_bytes(), definition)
    } else {
        None
    }
}

/// Addresses of tables that a module's dynamic section names; 0 if there is none. They
/// are mapped as long as the module is, and consistent: the loader binds calls by them.
struct Tables<'m> {
    strings: u64,
    symbols: u64,
    hash: u64,
    gnu_hash: u64,
    versions: u64,
    map: core::marker::PhantomData<&'m LinkMap>,
}

impl<'m> Tables<'m> {
    fn of(map: &'m LinkMap) -> Self {
        let mut tables = Self {
            strings: 0,
            symbols: 0,
            hash: 0,
            gnu_hash: 0,
            versions: 0,
            map: core::marker::PhantomData,
        };
        for (tag, value) in map.dynamic_section() {
            // The loader has relocated the pointers in place, except in a
            // read-only section (the vDSO's).
            let address = if value < map.bias {
                value.wrapping_add(map.bias)
            } else {
                value
            };
            match tag {
                DT_STRTAB => tables.strings = address,
                DT_SYMTAB => tables.symbols = address,
                DT_HASH => tables.hash = address,
                DT_GNU_HASH => tables.gnu_hash = address,
                DT_VERSYM => tables.versions = address,
                _ => {}
            }
        }
        tables
    }

    /// A symbol whose index a hash table holds.
    fn symbol(&self, index: u32) -> &'m Symbol {
        let symbols = self.symbols as *const Symbol;
        // SAFETY: a hash table holds indices of symbols.
        unsafe { &*symbols.add(index as usize) }
    }

    /// Whether a symbol has a version that hides it.
    fn is_hidden(&self, index: u32) -> bool {
        let versions = self.versions as *const u16;
        // SAFETY: the table, if there is one, has a version for each symbol.
        let version = || unsafe { versions.add(index as usize).read() };
        !versions.is_null() && version() & HIDDEN != 0
    }

    fn name(&self, symbol: &Symbol) -> &'m CStr {
        // SAFETY: a symbol's name is the offset of a C string in the string table.
        unsafe { CStr::from_ptr((self.strings + u64::from(symbol.name)) as *const _) }
    }

    /// A word of the hash table at an address.
    fn word(&self, table: u64, index: usize) -> u32 {
        // SAFETY: the searches below read no word behind a table's end, which its head
        // and its chains show.
        unsafe { (table as *const u32).add(index).read() }
    }
}

/// Passes the symbols that share the name's bucket in a `DT_GNU_HASH` table to
/// `definition`: four words, the words of a Bloom filter (8 bytes each), the buckets, and
/// for each symbol from the first hashed one on its hash, bit 0 of which ends a
/// bucket's chain.
fn by_gnu_hash<'m>(
    tables: &Tables<'m>,
    name: &[u8],
    definition: impl Fn(u32) -> Option<&'m Symbol>,
) -> Option<&'m Symbol> {
    // Bernstein's hash, as the loader has it (`dl_new_hash`).
    let wanted = name.iter().fold(5381u32, |hash, byte| {
        hash.wrapping_mul(33).wrapping_add(u32::from(*byte))
    });
    let word = |index| tables.word(tables.gnu_hash, index);
    let (buckets, first, filter) = (word(0), word(1), word(2));
    if buckets == 0 {
        return None;
    }
    let bucket = 4 + 2 * filter as usize;
    let chain = bucket + buckets as usize;
    let mut index = word(bucket + (wanted % buckets) as usize);
    if index < first {
        return None;
    }
    loop {
        let hash = word(chain + (index - first) as usize);
        if hash | 1 == wanted | 1
            && let Some(symbol) = definition(index)
        {
            return Some(symbol);
        }
        if hash & 1 != 0 {
            return None;
        }
        index += 1;
    }
}

/// Does the same as [`by_gnu_hash`] for a `DT_HASH` table: the number of buckets and of chains, the
/// buckets, the chains, which end with 0.
fn by_hash<'m>(
    tables: &Tables<'m>,
    name: &[u8],
    definition: impl Fn(u32) -> Option<&'m Symbol>,
) -> Option<&'m Symbol> {
    // System V ABI, figure 5-13 ("Hashing Function").
    let wanted = name.iter().fold(0u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(u32::from(*byte));
        let top = hash & 0xf000_0000;
        (hash ^ top >> 24) & !top
    });
    let word = |index| tables.word(tables.hash, index);
    let (buckets, chains) = (word(0), word(1));
    if buckets == 0 {
        return None;
    }
    let chain = 2 + buckets as usize;
    let mut index = word(2 + (wanted % buckets) as usize);
    for _ in 0..chains {
        if index == 0 || index >= chains {
            return None;
        }
        if let Some(symbol) = definition(index) {
            return Some(symbol);
        }
        index = word(chain + index as usize);
    }
    None
}
