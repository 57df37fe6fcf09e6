//! Which module's definition of a symbol the program's calls reach: the search
//! that the loader makes for a call (`ELF_RTYPE_CLASS_PLT` in glibc).
//!
//! `dlsym` makes another one. It also finds entries of a symbol table that are
//! no definitions: an executable at a fixed address that takes the address of
//! `malloc` has such an entry, undefined but with the address of its own PLT
//! slot as its value (System V ABI for x86-64, "Function Addresses").

use core::ffi::{CStr, c_char, c_void};

/// `struct link_map` (`link.h`): the part that is public.
#[repr(C)]
pub struct LinkMap {
    /// Run-time address minus address in the file.
    pub bias: u64,
    /// Path of the module; empty for the program itself.
    pub name: *const c_char,
    dynamic: *const Entry,
    next: *const Self,
    previous: *const Self,
}

/// `Elf64_Dyn`.
#[repr(C)]
struct Entry {
    tag: i64,
    value: u64,
}

const DT_NULL: i64 = 0;
const DT_HASH: i64 = 4;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;
const SHN_UNDEF: u16 = 0;
/// More modules than any program has, in case the list is a ring.
const MOST_MODULES: usize = 1 << 16;

/// `struct r_debug` (`link.h`), as far as it is read.
#[repr(C)]
pub struct Debug {
    version: i32,
    maps: *const LinkMap,
}

/// What comes in the loader's list behind the module with this dynamic section;
/// `None` if that can not be said.
///
/// # Safety
/// `debug` is null or the loader's, and no module is closed meanwhile.
pub unsafe fn behind(debug: *const Debug, dynamic: *const c_void) -> Option<*const LinkMap> {
    // SAFETY: passed on; a member of the list leads to another or to null.
    unsafe {
        let mut map = (&raw const debug.as_ref()?.maps).read_volatile();
        for _ in 0..MOST_MODULES {
            let member = map.as_ref()?;
            if member.dynamic.cast() == dynamic {
                return Some(member.next);
            }
            map = member.next;
        }
    }
    None
}

/// Run-time address of the first definition of `name`, from the module `first` on
/// in the loader's order (from the head of its list: in the global scope); `None`
/// if there is none.
///
/// # Safety
/// `first` is a member of the loader's list of modules (or null), and no module that
/// was loaded at the program's start is ever unmapped.
pub unsafe fn first(first: *const LinkMap, name: &CStr) -> Option<u64> {
    let mut map = first;
    for _ in 0..MOST_MODULES {
        if map.is_null() {
            return None;
        }
        // SAFETY: a member of the loader's list.
        unsafe {
            if let Some(address) = in_module(&*map, name) {
                return Some(address);
            }
            map = (&raw const (*map).next).read_volatile();
        }
    }
    None
}

/// Address of the definition of `name` in a module, if it has one.
unsafe fn in_module(map: &LinkMap, name: &CStr) -> Option<u64> {
    // SAFETY: passed on; `find` gives a symbol of the module's table.
    unsafe {
        let symbol = find(map, name, |symbol| symbol.st_value != 0)?;
        Some(map.bias.wrapping_add((*symbol).st_value))
    }
}

/// The definition of `name` in a module's table that is meant, for there may be
/// several of different versions.
///
/// # Safety
/// `map` is a member of the loader's list, whose module stays mapped.
pub unsafe fn find(
    map: &LinkMap,
    name: &CStr,
    is_meant: impl Fn(&libc::Elf64_Sym) -> bool,
) -> Option<*const libc::Elf64_Sym> {
    let (mut strings, mut symbols, mut hash, mut gnu_hash) = (0, 0, 0, 0);
    let mut entry = map.dynamic;
    if entry.is_null() {
        return None;
    }
    // SAFETY: a dynamic section, which `DT_NULL` ends, and the tables that it
    // names; they are mapped as long as the module is.
    unsafe {
        while (*entry).tag != DT_NULL {
            let value = (*entry).value;
            // The loader has relocated the pointers in place, except in a
            // read-only section (the vDSO's).
            let address = if value < map.bias {
                value.wrapping_add(map.bias)
            } else {
                value
            };
            match (*entry).tag {
                DT_STRTAB => strings = address,
                DT_SYMTAB => symbols = address,
                DT_HASH => hash = address,
                DT_GNU_HASH => gnu_hash = address,
                _ => {}
            }
            entry = entry.add(1);
        }
        if strings == 0 || symbols == 0 {
            return None;
        }
        let definition = |index: u32| {
            let symbol = &*(symbols as *const libc::Elf64_Sym).add(index as usize);
            let is_it = symbol.st_shndx != SHN_UNDEF
                && CStr::from_ptr((strings + u64::from(symbol.st_name)) as *const c_char) == name
                && is_meant(symbol);
            is_it.then_some(&raw const *symbol)
        };
        if gnu_hash != 0 {
            by_gnu_hash(gnu_hash as *const u32, name.to_bytes(), definition)
        } else if hash != 0 {
            by_hash(hash as *const u32, name.to_bytes(), definition)
        } else {
            None
        }
    }
}

/// Asks for the symbols that share the name's bucket in a `DT_GNU_HASH` table:
/// four words, the words of a Bloom filter (8 bytes each), the buckets, and for
/// each symbol from the first hashed one on its hash, bit 0 of which ends a
/// bucket's chain.
unsafe fn by_gnu_hash(
    table: *const u32,
    name: &[u8],
    definition: impl Fn(u32) -> Option<*const libc::Elf64_Sym>,
) -> Option<*const libc::Elf64_Sym> {
    // Bernstein's hash, as the loader has it (`dl_new_hash`).
    let wanted = name.iter().fold(5381u32, |hash, byte| {
        hash.wrapping_mul(33).wrapping_add(u32::from(*byte))
    });
    // SAFETY: a table of the loader's, as large as its head says.
    unsafe {
        let (buckets, first, filter) = (*table, *table.add(1), *table.add(2));
        if buckets == 0 {
            return None;
        }
        let bucket = table.add(4 + 2 * filter as usize);
        let chain = bucket.add(buckets as usize);
        let mut index = *bucket.add((wanted % buckets) as usize);
        if index < first {
            return None;
        }
        loop {
            let hash = *chain.add((index - first) as usize);
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
}

/// The same for a `DT_HASH` table: the number of buckets and of chains, the
/// buckets, the chains, which end with 0.
unsafe fn by_hash(
    table: *const u32,
    name: &[u8],
    definition: impl Fn(u32) -> Option<*const libc::Elf64_Sym>,
) -> Option<*const libc::Elf64_Sym> {
    // System V ABI, figure 5-13 ("Hashing Function").
    let wanted = name.iter().fold(0u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(u32::from(*byte));
        let top = hash & 0xf000_0000;
        (hash ^ top >> 24) & !top
    });
    // SAFETY: as above.
    unsafe {
        let (buckets, chains) = (*table, *table.add(1));
        if buckets == 0 {
            return None;
        }
        let chain = table.add(2 + buckets as usize);
        let mut index = *table.add(2 + (wanted % buckets) as usize);
        for _ in 0..chains {
            if index == 0 || index >= chains {
                return None;
            }
            if let Some(symbol) = definition(index) {
                return Some(symbol);
            }
            index = *chain.add(index as usize);
        }
        None
    }
}
