//! The modules that this image has met: a table in the state that a fork wipes. The
//! index of an entry is the number of its `Mapping` event.

use core::ffi::{CStr, c_char};
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};

use allotrope_shm::mapped_file::{FileIdentity, HASHED_CODE};
use allotrope_unwind::Memory;

use crate::state::image;
use crate::sys::readable;

/// Largest number of modules that an image can have had.
const MODULES: usize = 16 << 10;

/// Longest path that is written, in bytes.
pub const PATH_BYTES: usize = 2048;

/// A mapped module.
#[derive(Debug, Clone, Copy)]
pub struct Module {
    /// Lowest mapped address.
    pub start: u64,
    /// End of the mapped range.
    pub end: u64,
    /// Run-time address minus address in the file.
    pub bias: u64,
    /// Address of `.eh_frame_hdr`; 0 if there is none.
    pub eh_frame_hdr: u64,
    /// A hash of path, build id and file: another module may have been mapped at the same
    /// addresses before.
    identity: u64,
    /// The file that is mapped, if there is no build id.
    file: FileIdentity,
    /// The loader has just mapped it.
    is_new: bool,
    /// The generation in which the identity was determined last.
    checked: u32,
    name: *const c_char,
}

/// The modules met so far; changed under the process lock. An entry's index is
/// its mapping number.
#[repr(C)]
pub struct Table {
    count: AtomicU32,
    entries: [Entry; MODULES],
}

/// A module of the table. It is written before it is counted; of one that is counted
/// only `checked` and `gone` change.
#[repr(C)]
struct Entry {
    start: AtomicU64,
    end: AtomicU64,
    bias: AtomicU64,
    eh_frame_hdr: AtomicU64,
    identity: AtomicU64,
    checked: AtomicU32,
    /// It is mapped no more.
    gone: AtomicBool,
    name: AtomicPtr<c_char>,
}

/// The module of an address.
pub enum Found {
    /// A module and its mapping number.
    Module(Module, u16),
    /// A module that has no number now: there are too many, or it could not be emitted.
    Unnumbered(Module),
    /// No module: JIT code, or no code at all.
    Nothing,
}

/// What was found to have changed, for the caller to emit.
pub enum Change<'a> {
    /// A module is mapped and gets this number.
    Mapped(&'a Module, u16),
    /// The module with this number is mapped no more.
    Unmapped(u16),
}

impl Entry {
    fn set(&self, module: &Module) {
        self.start.store(module.start, Relaxed);
        self.end.store(module.end, Relaxed);
        self.bias.store(module.bias, Relaxed);
        self.eh_frame_hdr.store(module.eh_frame_hdr, Relaxed);
        self.identity.store(module.identity, Relaxed);
        self.checked.store(module.checked, Relaxed);
        self.name.store(module.name.cast_mut(), Relaxed);
    }

    fn get(&self) -> Module {
        Module {
            start: self.start.load(Relaxed),
            end: self.end.load(Relaxed),
            bias: self.bias.load(Relaxed),
            eh_frame_hdr: self.eh_frame_hdr.load(Relaxed),
            identity: self.identity.load(Relaxed),
            checked: self.checked.load(Relaxed),
            file: FileIdentity::default(),
            is_new: false,
            name: self.name.load(Relaxed),
        }
    }

    /// Whether the module is still mapped, and where `other` is.
    fn is_at(&self, other: &Module) -> bool {
        self.start.load(Relaxed) == other.start
            && self.end.load(Relaxed) == other.end
            && self.bias.load(Relaxed) == other.bias
            && !self.gone.load(Relaxed)
    }
}

impl Table {
    fn entries(&self) -> &[Entry] {
        &self.entries[..(self.count.load(Acquire) as usize).min(MODULES)]
    }

    /// The module `seen`, if it is entered and has been checked in this generation.
    pub fn known(&self, seen: &Module, generation: u32) -> Option<Found> {
        let entries = self.entries();
        let index = entries
            .iter()
            .position(|entry| entry.is_at(seen) && entry.checked.load(Relaxed) == generation)?;
        Some(Found::Module(entries[index].get(), index as u16))
    }

    /// The module `seen`, if it is entered and what is mapped there has still the same
    /// identity; else its entry ends. The process lock is held.
    pub fn recheck(&self, seen: &Module, emit: &impl Fn(Change<'_>) -> bool) -> Option<Found> {
        for (index, entry) in self.entries().iter().enumerate() {
            if !entry.is_at(seen) {
                continue;
            }
            if entry.identity.load(Relaxed) == seen.identity {
                entry.checked.store(seen.checked, Relaxed);
                return Some(Found::Module(entry.get(), index as u16));
            }
            entry.gone.store(true, Relaxed);
            emit(Change::Unmapped(index as u16));
        }
        None
    }

    /// Enters a module, unless the table is full or the change cannot be emitted. The
    /// process lock is held.
    pub fn add(&self, seen: Module, emit: &impl Fn(Change<'_>) -> bool) -> Found {
        let count = self.count.load(Relaxed) as usize;
        if count >= MODULES || !emit(Change::Mapped(&seen, count as u16)) {
            return Found::Unnumbered(seen);
        }
        // Nobody reads entries that are not counted.
        self.entries[count].set(&seen);
        self.count.store(count as u32 + 1, Release);
        Found::Module(seen, count as u16)
    }
}

impl Module {
    /// A module as the loader describes it.
    pub fn new(range: Range<u64>, bias: u64, eh_frame_hdr: u64, name: *const c_char) -> Self {
        Self {
            start: range.start,
            end: range.end,
            bias,
            eh_frame_hdr,
            identity: 0,
            file: FileIdentity::default(),
            is_new: false,
            checked: 0,
            name,
        }
    }

    /// Whether both have the same addresses.
    pub fn is_at(&self, other: &Self) -> bool {
        self.start == other.start && self.end == other.end && self.bias == other.bias
    }

    /// Returns the module as the loader has just mapped it: a relative path is relative to the
    /// current folder.
    pub fn just_mapped(self) -> Self {
        Self {
            is_new: true,
            ..self
        }
    }

    /// Returns the module with its file, which `find_file` finds if there is no build id, and its
    /// identity, determined in this generation. The process lock is held.
    pub fn identified(
        self,
        generation: u32,
        find_file: impl FnOnce(&Self) -> FileIdentity,
    ) -> Self {
        let has_build_id = !self.build_id().is_empty();
        let file = match has_build_id {
            true => FileIdentity::default(),
            false => find_file(&self),
        };
        Self {
            checked: generation,
            identity: identity(&self, file),
            file,
            ..self
        }
    }

    /// The file that is mapped, if there is no build id and it is known.
    pub fn file(&self) -> FileIdentity {
        self.file
    }

    /// Whether the loader has just mapped it.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether it is the program itself.
    pub fn is_program(&self) -> bool {
        self.name_bytes().is_empty()
    }

    /// Returns the name as the loader knows it; empty for the program itself.
    pub fn name_bytes(&self) -> &[u8] {
        if self.name.is_null() {
            return &[];
        }
        // SAFETY: the loader's own string, alive while the module is mapped.
        unsafe { CStr::from_ptr(self.name) }.to_bytes()
    }

    /// Returns the path for a reader in another folder: a relative one becomes absolute as long as
    /// the current folder is the one to which it is relative.
    pub fn absolute_path<'a>(&'a self, into: &'a mut [u8; PATH_BYTES]) -> &'a [u8] {
        let path = self.path();
        if !self.is_new || path.starts_with(b"/") || !path.contains(&b'/') {
            return path;
        }
        match image::absolute(path, into) {
            0 => path,
            length => &into[..length],
        }
    }

    /// Returns the module's program headers and the first page of its code, in memory; `None` if
    /// they are not readable or the ELF header is not mapped.
    pub fn headers_and_code(&self) -> Option<(&[u8], &[u8])> {
        let headers = program_headers(self.start)?;
        let code = headers
            .iter()
            .find(|it| it.p_type == libc::PT_LOAD && it.p_flags & libc::PF_X != 0)?;
        let page = self.bias.wrapping_add(code.p_vaddr) & !4095;
        let bytes = HASHED_CODE as u64;
        if page < self.start || page >= self.end {
            return None;
        }
        let mut memory = Memory::unknown(readable::page_is_readable);
        memory.holds(page, bytes).then_some(())?;
        // SAFETY: it was asked for.
        let code = unsafe { core::slice::from_raw_parts(page as *const u8, HASHED_CODE) };
        // SAFETY: the bytes of a slice of plain numbers.
        let headers = unsafe {
            core::slice::from_raw_parts(headers.as_ptr().cast::<u8>(), size_of_val(headers))
        };
        Some((headers, code))
    }

    /// Returns the path as the loader knows it.
    pub fn path(&self) -> &[u8] {
        let name = match self.name_bytes() {
            [] => image::program(),
            name => name,
        };
        &name[..name.len().min(PATH_BYTES)]
    }

    /// The GNU build id, from the note that the module's own program headers
    /// show; empty if there is none.
    pub fn build_id(&self) -> &[u8] {
        build_id(self.start, self.end, self.bias).unwrap_or(&[])
    }
}

/// The program headers of the module that begins at `start`: its first page holds its ELF
/// header where the header is mapped at all, which the magic number shows. Nothing is read
/// before it was asked whether it can be.
pub fn program_headers<'a>(start: u64) -> Option<&'a [libc::Elf64_Phdr]> {
    let mut memory = Memory::unknown(readable::page_is_readable);
    memory
        .holds(start, size_of::<libc::Elf64_Ehdr>() as u64)
        .then_some(())?;
    // SAFETY: it was asked for.
    let header = unsafe { &*(start as *const libc::Elf64_Ehdr) };
    if header.e_ident[..4] != *b"\x7fELF" || header.e_phoff > 4096 || header.e_phnum > 60 {
        return None;
    }
    let headers_at = start + header.e_phoff;
    let header_bytes = size_of::<libc::Elf64_Phdr>() as u64;
    memory
        .holds(headers_at, u64::from(header.e_phnum) * header_bytes)
        .then_some(())?;
    // SAFETY: it was asked for.
    Some(unsafe {
        core::slice::from_raw_parts(
            headers_at as *const libc::Elf64_Phdr,
            usize::from(header.e_phnum),
        )
    })
}

/// Notes are in memory if their segment is within the module.
fn build_id<'a>(start: u64, end: u64, bias: u64) -> Option<&'a [u8]> {
    const NT_GNU_BUILD_ID: u32 = 3;
    let headers = program_headers(start)?;
    let mut memory = Memory::unknown(readable::page_is_readable);
    for note in headers
        .iter()
        .filter(|header| header.p_type == libc::PT_NOTE)
    {
        let from = bias.wrapping_add(note.p_vaddr);
        if from < start || note.p_filesz > 1 << 16 || from + note.p_filesz > end {
            continue;
        }
        memory.holds(from, note.p_filesz).then_some(())?;
        // SAFETY: it was asked for.
        let mut bytes =
            unsafe { core::slice::from_raw_parts(from as *const u8, note.p_filesz as usize) };
        while let Some((sizes, rest)) = bytes.split_first_chunk::<12>() {
            let word = |at: usize| {
                u32::from_le_bytes([sizes[at], sizes[at + 1], sizes[at + 2], sizes[at + 3]])
            };
            let name_bytes = (word(0) as usize).next_multiple_of(4);
            let content_bytes = (word(4) as usize).next_multiple_of(4);
            let name = rest.get(..name_bytes)?;
            let content = rest.get(name_bytes..)?.get(..content_bytes)?;
            if word(8) == NT_GNU_BUILD_ID && name == b"GNU\0" {
                return content.get(..(word(4) as usize).min(64));
            }
            bytes = rest.get(name_bytes + content_bytes..)?;
        }
    }
    None
}

fn identity(module: &Module, file: FileIdentity) -> u64 {
    let file = file.to_words().map(u64::to_ne_bytes);
    // FNV-1a (Fowler, Noll, Vo).
    module
        .path()
        .iter()
        .chain(module.build_id())
        .chain(file.as_flattened())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
}
