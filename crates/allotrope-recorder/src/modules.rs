//! What code is mapped: which module an address lies in, and when that may
//! have changed.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};

use allotrope_target::NotRecordable;
use allotrope_unwind::Memory;

use crate::diagnostics;
use crate::image;
use crate::process::{self, Lock};
use crate::sys::definitions::{self, LinkMap};
use crate::sys::namespaces;
use crate::sys::next::{self, Function};
use crate::sys::readable;
use crate::sys::system::{self, SignalsBlocked};

/// Most modules that an image can have had.
const MODULES: usize = 16 << 10;
/// Longest path that is told, in bytes.
const PATH_BYTES: usize = 2048;

/// A mapped module.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Module {
    /// Lowest mapped address.
    pub start: u64,
    /// End of the mapped range.
    pub end: u64,
    /// Run-time address minus address in the file.
    pub bias: u64,
    /// Address of `.eh_frame_hdr`; 0 if there is none.
    pub eh_frame_hdr: u64,
    /// A hash of path and build id, to tell a module from the one that was
    /// mapped at the same place before.
    identity: u64,
    /// The generation at which the identity was looked at last.
    checked: u32,
    /// Another module has taken its place.
    gone: u32,
    name: *const c_char,
}

/// The modules met so far; entered under the process lock. An entry's index is
/// its mapping number.
#[repr(C)]
pub struct Table {
    count: AtomicU32,
    modules: UnsafeCell<[Module; MODULES]>,
}

/// Bit 0: the loader is mapping or unmapping. The rest counts changes.
static GENERATION: AtomicU32 = AtomicU32::new(2);

/// The generation of mapped code; odd while the loader is at work.
#[inline(always)]
pub fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// The loader's state as it tells debuggers (`r_state` in `link.h`): 0 while
/// nothing changes.
fn loader_is_at_work() -> bool {
    const STATE_OFFSET: usize = 24;
    let debug = next::address(Function::RDebug);
    // SAFETY: `struct r_debug` of the loader, which lives as long as the process.
    debug != 0 && unsafe { ((debug + STATE_OFFSET) as *const u32).read_volatile() } != 0
}

/// The loader allocated: if that was for a module, rules will be void when it
/// has finished. Libraries that libc opens and closes by itself (name service,
/// character sets) are noticed by this, without hooks.
#[cold]
pub fn loader_allocated() {
    diagnose_namespaces();
    if loader_is_at_work() {
        GENERATION.fetch_or(1, Relaxed);
    }
}

/// A library may have been unloaded.
pub fn unloaded() {
    GENERATION.fetch_add(2, Relaxed);
}

/// The generation, moved on if the loader has finished.
pub fn settle() -> u32 {
    let now = generation();
    if now & 1 == 0 || loader_is_at_work() {
        return now;
    }
    let next = (now & !1).wrapping_add(2);
    match GENERATION.compare_exchange(now, next, Relaxed, Relaxed) {
        Ok(_) => next,
        Err(other) => other,
    }
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

/// The module of `address`. `emit` is called under the process lock, and returns
/// whether the change was emitted: a module that was not gets no number.
pub fn find(address: u64, emit: impl Fn(Change<'_>) -> bool) -> Found {
    let Some(seen) = at_address(address) else {
        return Found::Nothing;
    };
    let table = &process::guard().modules;
    // SAFETY: entries below the count are complete; the lock keeps writers apart.
    unsafe {
        if let Some(found) = known(table, &seen) {
            return found;
        }
        let _blocked = SignalsBlocked::new();
        let _locked = Lock::take();
        if let Some(found) = recheck(table, &seen, &emit) {
            return found;
        }
        let count = table.count.load(Relaxed) as usize;
        if count == MODULES || !emit(Change::Mapped(&seen, count as u16)) {
            return Found::Unnumbered(seen);
        }
        (*table.modules.get())[count] = seen;
        table.count.store(count as u32 + 1, Release);
        Found::Module(seen, count as u16)
    }
}

impl Module {
    fn is_at(&self, other: &Self) -> bool {
        self.start == other.start
            && self.end == other.end
            && self.bias == other.bias
            && self.gone == 0
    }
}

unsafe fn known(table: &Table, seen: &Module) -> Option<Found> {
    let count = table.count.load(core::sync::atomic::Ordering::Acquire) as usize;
    // SAFETY: passed on.
    let modules = unsafe { &(&*table.modules.get())[..count] };
    let index = modules
        .iter()
        .position(|module| module.is_at(seen) && module.checked == seen.checked)?;
    Some(Found::Module(modules[index], index as u16))
}

/// Under the lock: is what is mapped at a known place still the same?
unsafe fn recheck(
    table: &Table,
    seen: &Module,
    emit: &impl Fn(Change<'_>) -> bool,
) -> Option<Found> {
    let count = table.count.load(Relaxed) as usize;
    // SAFETY: under the lock.
    let modules = unsafe { &mut (&mut *table.modules.get())[..count] };
    for (index, module) in modules.iter_mut().enumerate() {
        if !module.is_at(seen) {
            continue;
        }
        if module.identity == seen.identity {
            module.checked = seen.checked;
            return Some(Found::Module(*module, index as u16));
        }
        module.gone = 1;
        emit(Change::Unmapped(index as u16));
    }
    None
}

/// Where the dynamic loader lies.
pub fn loader_start() -> u64 {
    static START: AtomicU64 = AtomicU64::new(0);
    let known = START.load(Relaxed);
    if known != 0 {
        return known;
    }
    let debug = next::address(Function::RDebug) as u64;
    let start = if debug == 0 {
        1
    } else {
        at_address(debug).map_or(1, |module| module.start)
    };
    START.store(start, Relaxed);
    start
}

/// A range of addresses that is looked up once.
struct Range([AtomicU64; 2]);

impl Range {
    const fn unknown() -> Self {
        Self([const { AtomicU64::new(0) }; 2])
    }

    /// Makes it the module that `code` lies in, if it is not known yet.
    #[inline]
    fn set_once(&self, code: u64) {
        if self.0[1].load(Relaxed) == 0 {
            let (start, end) = at_address(code).map_or((0, 1), |module| (module.start, module.end));
            self.0[0].store(start, Relaxed);
            self.0[1].store(end, Relaxed);
        }
    }

    fn contains(&self, code: u64) -> bool {
        (self.0[0].load(Relaxed)..self.0[1].load(Relaxed)).contains(&code)
    }
}

static HOOKS: Range = Range::unknown();
static RECORDER: Range = Range::unknown();

/// The functions of an allocator that it may make calls of others, and the one whose
/// module is the allocator's if any is. They may be defined in several modules.
const ALLOCATOR: [Function; 9] = [
    Function::Malloc,
    Function::PosixMemalign,
    Function::AlignedAlloc,
    Function::Memalign,
    Function::Valloc,
    Function::Pvalloc,
    Function::Cfree,
    Function::FreeSized,
    Function::FreeAlignedSized,
];
static ALLOCATORS: [Range; ALLOCATOR.len()] = [const { Range::unknown() }; ALLOCATOR.len()];

/// `code` lies in the library with the hooks of operators.
pub fn note_hooks(code: u64) {
    HOOKS.set_once(code);
}

/// Whether a call that returns to this address is the allocator's own: made by
/// it, or as its last act for a hook of operators or of the recorder's own.
pub fn is_allocator(return_address: u64) -> bool {
    RECORDER.set_once((&raw const GENERATION) as u64);
    if RECORDER.contains(return_address) || HOOKS.contains(return_address) {
        return true;
    }
    ALLOCATOR.iter().zip(&ALLOCATORS).any(|(function, range)| {
        range.set_once(next::address(*function) as u64);
        range.contains(return_address)
    })
}

/// Diagnostics on what keeps this program's allocations from being seen, or some
/// of them; once, when its recording begins.
pub fn diagnose_unseen() {
    namespaces::remember();
    let own = at_address((&raw const GENERATION) as u64);
    let first = first_definition(c"malloc").and_then(at_address);
    if let (Some(own), Some(first)) = (own, first)
        && !first.is_at(&own)
    {
        diagnostics::post(system::process_id(), NotRecordable::OwnMalloc, first.path());
    }
    if runs_under_valgrind() {
        diagnostics::post(
            system::process_id(),
            NotRecordable::Valgrind,
            image::executable(),
        );
    }
    let allocator = at_address(next::address(Function::Malloc) as u64);
    // `operator new(unsigned long)`.
    let operators = first_definition(c"_Znwm").and_then(at_address);
    if let (Some(allocator), Some(operators)) = (allocator, operators)
        && allocator.is_at(&operators)
    {
        diagnostics::post(
            system::process_id(),
            NotRecordable::AllocatorOperators,
            operators.path(),
        );
    }
}

/// Address of the function that the program's calls of `name` reach.
fn first_definition(name: &CStr) -> Option<u64> {
    let debug = next::address(Function::RDebug) as *const Namespace;
    if debug.is_null() {
        return None;
    }
    // SAFETY: the loader's own list, from the program on.
    unsafe { definitions::first((&raw const (*debug).maps).read_volatile(), name) }
}

/// Valgrind preloads a library for its core, and one more for a tool that puts
/// another `malloc` in the place of every one there is, without a trace in the
/// symbols.
fn runs_under_valgrind() -> bool {
    const CORE: &[u8] = b"vgpreload_core";
    let list = image::environment_value(b"LD_PRELOAD").unwrap_or(b"");
    list.split(|byte| matches!(byte, b' ' | b':'))
        .filter_map(|library| library.rsplit(|byte| *byte == b'/').next())
        .any(|name| name.starts_with(b"vgpreload_") && !name.starts_with(CORE))
}

/// Whether `path` is that of the recorder itself.
pub fn is_own_path(path: &[u8]) -> bool {
    at_address((&raw const GENERATION) as u64).is_some_and(|module| module.path() == path)
}

/// The loader's `struct r_debug_extended` (`link.h`): one for each namespace.
#[repr(C)]
struct Namespace {
    version: u32,
    maps: *const LinkMap,
    breakpoint: u64,
    state: u32,
    loader: u64,
    /// From version 2 on (glibc 2.35).
    next: *const Self,
}

/// Diagnostics on namespaces that `dlmopen` has made: they have a C library of
/// their own, whose `malloc` no preloaded library stands before.
fn diagnose_namespaces() {
    static DIAGNOSED: AtomicU32 = AtomicU32::new(0);
    let first = next::address(Function::RDebug) as *const Namespace;
    if first.is_null() {
        return;
    }
    // SAFETY: the loader's own list, whose members live as long as the process.
    unsafe {
        if (*first).version < 2 {
            return;
        }
        let mut namespace = (&raw const (*first).next).read_volatile();
        let mut number = 0;
        while !namespace.is_null() {
            let maps = (&raw const (*namespace).maps).read_volatile();
            if maps.is_null() || (*maps).name.is_null() || *(*maps).name == 0 {
                // It is being made: the loader will allocate again.
                return;
            }
            number += 1;
            if number > DIAGNOSED.load(Relaxed) {
                DIAGNOSED.store(number, Relaxed);
                let path = CStr::from_ptr((*maps).name).to_bytes();
                diagnostics::post(system::process_id(), NotRecordable::LinkMapNamespace, path);
            }
            namespace = (&raw const (*namespace).next).read_volatile();
        }
    }
}

/// What the loader knows of the module at an address.
pub fn link_map_at(address: u64) -> Option<*const LinkMap> {
    let find = next::address(Function::DlFindObject);
    if find == 0 {
        return None;
    }
    let result = ask_loader(find, address)?;
    Some(result.link_map)
}

/// `struct dl_find_object` (`dlfcn.h`).
#[repr(C)]
struct FindObject {
    flags: u64,
    map_start: u64,
    map_end: u64,
    link_map: *const LinkMap,
    eh_frame: u64,
    reserved: [u64; 7],
}

/// Where the module lies that lies at `address` now.
pub fn range_at(address: u64) -> Option<core::ops::Range<u64>> {
    at_address(address).map(|module| module.start..module.end)
}

/// The module that lies at `address` now.
fn at_address(address: u64) -> Option<Module> {
    let find = next::address(Function::DlFindObject);
    let mut module = if find == 0 {
        iterate(address)?
    } else {
        find_object(find, address)?
    };
    module.checked = generation() & !1;
    module.identity = identity(&module);
    Some(module)
}

/// `_dl_find_object`, which lies at `find`.
fn ask_loader(find: usize, address: u64) -> Option<FindObject> {
    let mut result = FindObject {
        flags: 0,
        map_start: 0,
        map_end: 0,
        link_map: core::ptr::null(),
        eh_frame: 0,
        reserved: [0; 7],
    };
    // SAFETY: `_dl_find_object` takes no lock and may be called anywhere
    // (glibc manual, "Dynamic Linker Introspection").
    unsafe {
        let find: unsafe extern "C" fn(u64, *mut FindObject) -> c_int = core::mem::transmute(find);
        let is_found = find(address, &raw mut result) == 0 && !result.link_map.is_null();
        is_found.then_some(result)
    }
}

fn find_object(find: usize, address: u64) -> Option<Module> {
    let result = ask_loader(find, address)?;
    // SAFETY: the loader's own, alive while the module is mapped.
    unsafe {
        let mut module = Module {
            start: result.map_start,
            end: result.map_end,
            bias: (*result.link_map).bias,
            eh_frame_hdr: result.eh_frame,
            identity: 0,
            checked: 0,
            gone: 0,
            name: (*result.link_map).name,
        };
        // Of a program whose segments leave gaps between them (Node is one) the
        // loader gives the segment of the address alone. Libraries have none:
        // the loader maps them in one piece.
        if !(module.start..module.end).contains(&module.eh_frame_hdr)
            && let Some((start, end)) = program_extent(module.bias, address)
        {
            (module.start, module.end) = (start, end);
        }
        Some(module)
    }
}

/// From the lowest to the highest address of the program itself, if `address`
/// lies in it.
fn program_extent(bias: u64, address: u64) -> Option<(u64, u64)> {
    // SAFETY: it reads what the kernel left for the process, takes no lock; the
    // program's own headers stay mapped as long as it runs.
    let headers = unsafe {
        let first = libc::getauxval(libc::AT_PHDR) as *const libc::Elf64_Phdr;
        if first.is_null() {
            return None;
        }
        core::slice::from_raw_parts(first, libc::getauxval(libc::AT_PHNUM) as usize)
    };
    let (start, end, _) = extent(headers, bias);
    (start..end).contains(&address).then_some((start, end))
}

/// The lowest address of loaded segments, the end of the highest, and where
/// `.eh_frame_hdr` is (or 0).
fn extent(headers: &[libc::Elf64_Phdr], bias: u64) -> (u64, u64, u64) {
    let (mut start, mut end, mut unwind) = (u64::MAX, 0, 0);
    for header in headers {
        let from = bias.wrapping_add(header.p_vaddr);
        match header.p_type {
            libc::PT_LOAD => {
                start = start.min(from & !4095);
                end = end.max(from.wrapping_add(header.p_memsz));
            }
            libc::PT_GNU_EH_FRAME => unwind = from,
            _ => {}
        }
    }
    (start, end, unwind)
}

/// For glibc 2.34, which has no `_dl_find_object`.
fn iterate(address: u64) -> Option<Module> {
    struct Search {
        address: u64,
        found: Option<Module>,
    }
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _: usize,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: `dl_iterate_phdr` hands out its own structure and our search.
        unsafe {
            let (info, search) = (&*info, &mut *search.cast::<Search>());
            let headers = core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize);
            let (start, end, unwind) = extent(headers, info.dlpi_addr);
            if !(start..end).contains(&search.address) {
                return 0;
            }
            search.found = Some(Module {
                start,
                end,
                bias: info.dlpi_addr,
                eh_frame_hdr: unwind,
                identity: 0,
                checked: 0,
                gone: 0,
                name: info.dlpi_name,
            });
        }
        1
    }
    let mut search = Search {
        address,
        found: None,
    };
    // SAFETY: the callback does not outlive the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

impl Module {
    /// Its path, as the loader knows it.
    pub fn path(&self) -> &[u8] {
        let mut name: &[u8] = &[];
        if !self.name.is_null() {
            // SAFETY: the loader's own string, alive while the module is mapped.
            name = unsafe { CStr::from_ptr(self.name) }.to_bytes();
        }
        let name = if name.is_empty() {
            image::executable()
        } else {
            name
        };
        &name[..name.len().min(PATH_BYTES)]
    }

    /// The GNU build id, from the note that the module's own program headers
    /// show; empty if there is none.
    pub fn build_id(&self) -> &[u8] {
        build_id(self.start, self.end, self.bias).unwrap_or(&[])
    }
}

/// A module's first page holds its ELF header where the header is mapped at all,
/// which the magic number shows; notes are in memory if their segment is within the
/// module. Nothing is read before it was asked whether it can be.
fn build_id<'a>(start: u64, end: u64, bias: u64) -> Option<&'a [u8]> {
    const NT_GNU_BUILD_ID: u32 = 3;
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
    let headers = unsafe {
        core::slice::from_raw_parts(
            headers_at as *const libc::Elf64_Phdr,
            usize::from(header.e_phnum),
        )
    };
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

fn identity(module: &Module) -> u64 {
    // FNV-1a (Fowler, Noll, Vo).
    module
        .path()
        .iter()
        .chain(module.build_id())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
}
