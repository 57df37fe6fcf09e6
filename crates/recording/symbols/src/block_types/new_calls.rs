//! Which calls in a module's code ask for the blocks of `new`: their targets are the operators
//! themselves, where these are linked into the module, or stubs and table entries that the
//! dynamic linker fills with the operators' addresses.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::constructors::is_constructor;
use crate::elf::{ElfFile, Section, u16_at, u32_at, u64_at};

const SHT_SYMTAB: u32 = 2;
const SHT_RELA: u32 = 4;
const SHT_DYNSYM: u32 = 11;
const STT_FUNC: u8 = 2;
const SYMBOL_SIZE: usize = 24;
const RELOCATION_SIZE: usize = 24;
const R_X86_64_GLOB_DAT: u32 = 6;
const R_X86_64_JUMP_SLOT: u32 = 7;

/// Bytes of code that are read at once.
const WINDOW: usize = 64 << 10;
/// Bytes before the window's wanted address.
const BEFORE: u64 = 64;

/// A function that a call may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// A form of `operator new`.
    New,
    /// A form of `operator new[]`.
    NewArray,
    /// `memset`, which constructs nothing.
    Fill,
    /// A function of this module, at this address.
    Own(u64),
}

impl Function {
    /// The function with this linkage name, if it is one of those of other modules.
    fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"memset" | b"__memset_chk" => Some(Self::Fill),
            // `operator new(unsigned long, …)`.
            _ if name.starts_with(b"_Znwm") => Some(Self::New),
            _ if name.starts_with(b"_Znam") => Some(Self::NewArray),
            _ => None,
        }
    }
}

/// The code of a module that calls `operator new`.
#[derive(Debug)]
pub(super) struct NewCalls {
    /// The module, and its debug file.
    files: Vec<ElfFile>,
    /// Functions of this module, by address.
    own: FxHashMap<u64, Function>,
    /// Functions by the address of the entry that has their address.
    entries: FxHashMap<u64, Function>,
    /// Sections of stubs, with their addresses.
    stubs: Vec<(u64, Vec<u8>)>,
}

impl NewCalls {
    /// `None` unless the module, which is the first of the files, calls `operator new`.
    pub(super) fn of(files: Vec<ElfFile>) -> Option<Self> {
        let module = files.first()?;
        let mut own = FxHashMap::default();
        let mut wanted: FxHashMap<u32, Function> = FxHashMap::default();
        each_symbol(module, SHT_DYNSYM, |index, symbol| {
            let named = Function::named(symbol.name);
            if let Some(function) = named.filter(|_| symbol.is_defined) {
                own.insert(symbol.address, function);
            }
            // A constructor of a library's own may be called through a stub, too.
            let is_own = symbol.is_defined && symbol.is_function && is_constructor(symbol.name);
            let function = named.or_else(|| is_own.then_some(Function::Own(symbol.address)));
            wanted.extend(function.map(|it| (index, it)));
        });
        let is_new = |it: &Function| matches!(it, Function::New | Function::NewArray);
        if !wanted.values().any(is_new) {
            // They may be linked into the module.
            for file in &files {
                each_symbol(file, SHT_SYMTAB, |_, symbol| {
                    if symbol.is_defined
                        && let Some(function) = Function::named(symbol.name)
                    {
                        own.insert(symbol.address, function);
                    }
                });
            }
            if !own.values().any(is_new) {
                return None;
            }
        }
        let mut entries = FxHashMap::default();
        for section in module.sections().iter().filter(|it| it.kind == SHT_RELA) {
            let bytes = module.section_contents(section).unwrap_or_default();
            for relocation in bytes.chunks_exact(RELOCATION_SIZE) {
                let (at, info) = (u64_at(relocation, 0)?, u64_at(relocation, 8)?);
                let (kind, symbol) = (info as u32, (info >> 32) as u32);
                if matches!(kind, R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT)
                    && let Some(function) = wanted.get(&symbol)
                {
                    entries.insert(at, *function);
                }
            }
        }
        let sections = module.sections().iter();
        let stubs = sections.filter(|it| it.name.starts_with(b".plt") && it.is_executable());
        let stubs = stubs.filter_map(|it| Some((it.address, module.section_contents(it)?)));
        Some(Self {
            stubs: stubs.collect(),
            files,
            own,
            entries,
        })
    }

    /// A reader of the module's code.
    pub(super) fn code(&self) -> Code<'_> {
        Code {
            module: &self.files[0],
            start: 0,
            bytes: Vec::new(),
        }
    }

    /// Which function the call before a return address calls; `None` if it is another one or not
    /// known.
    pub(super) fn called_before(&self, code: &mut Code<'_>, address: u64) -> Option<Function> {
        let mut bytes = [0; 6];
        let call = address.checked_sub(6)?;
        if code.read(call, &mut bytes) < bytes.len() {
            return None;
        }
        let relative = i64::from(u32_at(&bytes, 2)? as i32);
        let target = address.wrapping_add_signed(relative);
        // `call *entry(%rip)`, `call target`.
        match bytes {
            [0xff, 0x15, ..] => self.entry(target),
            [_, 0xe8, ..] => self.at(target),
            _ => None,
        }
    }

    /// The function at an address, through a stub if there is one.
    pub(super) fn at(&self, address: u64) -> Option<Function> {
        if let Some(function) = self.own.get(&address) {
            return Some(*function);
        }
        let stub = self.stubs.iter().find_map(|(start, bytes)| {
            let offset = usize::try_from(address.checked_sub(*start)?).ok()?;
            bytes.get(offset..).filter(|it| !it.is_empty())
        })?;
        let mut at = 0;
        // `endbr64; bnd jmp *entry(%rip)`.
        for prefix in [&[0xf3, 0x0f, 0x1e, 0xfa][..], &[0xf2]] {
            if stub.get(at..)?.starts_with(prefix) {
                at += prefix.len();
            }
        }
        if !stub.get(at..)?.starts_with(&[0xff, 0x25]) {
            return None;
        }
        let relative = i64::from(u32_at(stub, at + 2)? as i32);
        self.entry(
            address
                .wrapping_add(at as u64 + 6)
                .wrapping_add_signed(relative),
        )
    }

    /// The function whose address the dynamic linker writes to this address.
    pub(super) fn entry(&self, address: u64) -> Option<Function> {
        self.entries.get(&address).copied()
    }

    /// Which of these functions have several names that are not those of one class's
    /// constructors: linkers and compilers give functions with the same code one address.
    pub(super) fn shared(&self, functions: &FxHashSet<u64>) -> FxHashSet<u64> {
        let mut names: FxHashMap<u64, Vec<u8>> = FxHashMap::default();
        let mut shared = FxHashSet::default();
        if functions.is_empty() {
            return shared;
        }
        for file in &self.files {
            for kind in [SHT_SYMTAB, SHT_DYNSYM] {
                each_symbol(file, kind, |_, symbol| {
                    if !functions.contains(&symbol.address)
                        || !symbol.is_defined
                        || !symbol.is_function
                    {
                        return;
                    }
                    let name = of_any_kind(symbol.name);
                    let known = names.entry(symbol.address).or_insert_with(|| name.clone());
                    if *known != name {
                        shared.insert(symbol.address);
                    }
                });
            }
        }
        shared
    }
}

/// A linkage name without the kind of the constructor: of a complete object, of a base.
fn of_any_kind(name: &[u8]) -> Vec<u8> {
    let mut name = name.to_vec();
    for at in 1..name.len() {
        if name[at - 1] == b'C' && matches!(name[at], b'1'..=b'5') {
            name[at] = b'1';
        }
    }
    name
}

/// Reads the code of a module in pieces.
#[derive(Debug)]
pub(super) struct Code<'a> {
    module: &'a ElfFile,
    /// Address of the first byte.
    start: u64,
    bytes: Vec<u8>,
}

impl Code<'_> {
    /// Copies code from an address on; returns the number of bytes.
    pub(super) fn read(&mut self, address: u64, into: &mut [u8]) -> usize {
        let copied = self.copy(address, into);
        if copied == into.len() {
            return copied;
        }
        let is_here = |it: &&Section| {
            it.is_executable()
                && (it.address..).contains(&address)
                && address - it.address < it.size
        };
        let Some(section) = self.module.sections().iter().find(is_here) else {
            return 0;
        };
        let start = address.saturating_sub(BEFORE).max(section.address);
        let bytes = self.module.part(section, start - section.address, WINDOW);
        (self.start, self.bytes) = (start, bytes.unwrap_or_default());
        self.copy(address, into)
    }

    fn copy(&self, address: u64, into: &mut [u8]) -> usize {
        let skipped = address.checked_sub(self.start);
        let skipped = skipped.and_then(|it| usize::try_from(it).ok());
        let rest = skipped
            .and_then(|it| self.bytes.get(it..))
            .unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        count
    }
}

/// A symbol of an ELF file.
struct Symbol<'a> {
    name: &'a [u8],
    address: u64,
    is_defined: bool,
    is_function: bool,
}

/// Calls `then` for each symbol of a table of this kind, with its index.
fn each_symbol(file: &ElfFile, kind: u32, mut then: impl FnMut(u32, Symbol<'_>)) {
    let Some(section) = file.sections().iter().find(|it| it.kind == kind) else {
        return;
    };
    let linked = file.sections().get(section.link as usize);
    let Some(text) = linked.and_then(|linked| file.section_contents(linked)) else {
        return;
    };
    let symbols = file.section_contents(section).unwrap_or_default();
    for (index, symbol) in (0..).zip(symbols.chunks_exact(SYMBOL_SIZE)) {
        let (Some(name), Some(section), Some(address)) =
            (u32_at(symbol, 0), u16_at(symbol, 6), u64_at(symbol, 8))
        else {
            continue;
        };
        let name = text.get(name as usize..).unwrap_or_default();
        let end = name.iter().position(|byte| matches!(byte, 0 | b'@'));
        then(
            index,
            Symbol {
                name: &name[..end.unwrap_or(0)],
                address,
                is_defined: section != 0,
                is_function: symbol[4] & 0xf == STT_FUNC,
            },
        );
    }
}
