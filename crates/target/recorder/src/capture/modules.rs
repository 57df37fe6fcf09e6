//! Which module an address lies in, and when that may have changed. The loader is
//! asked; what it answered is in the image's table of modules.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::state::detours;
use crate::state::module_files;
use crate::state::module_table::{Change, Found, Module, program_headers};
use crate::state::process::{self, Lock};
use crate::sys::loader::{self, Debug, FindObject, LinkMap, Object};
use crate::sys::next::{self, Function};
use crate::sys::system::SignalsBlocked;

/// Bit 0: the loader is mapping or unmapping. The rest counts changes.
static GENERATION: AtomicU32 = AtomicU32::new(2);

/// The generation of mapped code; odd while the loader is at work.
#[inline(always)]
pub fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// Whether the loader is mapping or unmapping a module.
fn loader_is_at_work() -> bool {
    next::loader_debug().is_some_and(Debug::is_changing)
}

/// The loader allocated: if that was for a module, rules will be void when it
/// has finished. Libraries that libc opens and closes by itself (name service,
/// character sets) are noticed by this, without hooks.
/// Returns whether it is at work.
#[cold]
pub fn loader_allocated() -> bool {
    let is_at_work = loader_is_at_work();
    if is_at_work {
        GENERATION.fetch_or(1, Relaxed);
    }
    is_at_work
}

/// A library may have been unloaded.
pub fn unloaded() {
    GENERATION.fetch_add(2, Relaxed);
    LAST_REPORTED.store(ptr::null_mut(), Relaxed);
    if process::is_recording() && !module_files::is_empty() {
        forget_unmapped_files();
    }
}

#[cold]
fn forget_unmapped_files() {
    let _blocked = SignalsBlocked::new();
    let _locked = Lock::take();
    module_files::retain(|start| at_address(start).is_some_and(|it| it.start == start));
}

/// The last entry of the loader's list that [`report_loaded`] has seen.
static LAST_REPORTED: AtomicPtr<LinkMap> = AtomicPtr::new(ptr::null_mut());

/// Enters the modules that were added to the loader's list since the last call, whether or
/// not a stack leads to them: their files can be opened now and may be gone later. Returns
/// whether there was one.
///
/// The list does not change meanwhile: the caller is called by the loader, which adds one
/// module after the other, or the program has only one thread and no constructor has run.
/// The process lock is held.
pub fn report_loaded(emit: &impl Fn(Change<'_>) -> bool) -> bool {
    let Some(first) = next::loader_debug().and_then(Debug::first_module) else {
        return false;
    };
    let known = LAST_REPORTED.load(Relaxed);
    let is_known = |map: &&LinkMap| ptr::eq(*map, known);
    let from = match first.and_following().find(is_known) {
        Some(known) => known.next(),
        None => Some(first),
    };
    let table = &process::fork_state().modules;
    let mut found = false;
    for map in from.into_iter().flat_map(LinkMap::and_following) {
        LAST_REPORTED.store(ptr::from_ref(map).cast_mut(), Relaxed);
        let Some(module) = of_link_map(map) else {
            continue;
        };
        let module = module
            .just_mapped()
            .identified(generation() & !1, module_files::identity);
        if table.recheck(&module, emit).is_none() {
            table.add(module, emit);
        }
        found = true;
    }
    found
}

/// Notes the files of the modules that the loader has mapped so far, without entering them.
/// The program has only one thread.
pub fn note_files() {
    let first = next::loader_debug().and_then(Debug::first_module);
    let _locked = Lock::take();
    for map in first.into_iter().flat_map(LinkMap::and_following) {
        if let Some(module) = of_link_map(map) {
            module.just_mapped().identified(0, module_files::identity);
        }
    }
}

/// The module of an entry of the loader's list; `None` for one that is in no file, and
/// where its headers are not known. The loader's tables do not have a module yet that it is
/// about to load.
fn of_link_map(map: &LinkMap) -> Option<Module> {
    let headers = match map.path() {
        [] => loader::program_headers(),
        path if path.contains(&b'/') => program_headers(map.bias)?,
        _ => return None,
    };
    let (start, end, unwind) = extent(headers, map.bias);
    (start < end).then(|| Module::new(start..end, map.bias, unwind, map.name))
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

/// The module of `address`. `emit` is called under the process lock, and returns
/// whether the change was emitted: a module that was not gets no number.
pub fn find(address: u64, emit: impl Fn(Change<'_>) -> bool) -> Found {
    let Some(seen) = at_address(address) else {
        return Found::Nothing;
    };
    let table = &process::fork_state().modules;
    let generation = generation() & !1;
    if let Some(found) = table.known(&seen, generation) {
        return found;
    }
    let _blocked = SignalsBlocked::new();
    let _locked = Lock::take();
    let seen = seen.identified(generation, module_files::identity);
    if let Some(found) = table.recheck(&seen, &emit) {
        return found;
    }
    table.add(seen, &emit)
}

/// Where the dynamic loader lies.
pub fn loader_start() -> u64 {
    static START: AtomicU64 = AtomicU64::new(0);
    let known = START.load(Relaxed);
    if known != 0 {
        return known;
    }
    // It is the loader that defines this variable.
    let variable = next::loader_debug().map(|variable| &raw const *variable as u64);
    let start = variable
        .and_then(at_address)
        .map_or(1, |module| module.start);
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
    RECORDER.set_once(own_address());
    if RECORDER.contains(return_address) || HOOKS.contains(return_address) {
        return true;
    }
    ALLOCATOR.iter().zip(&ALLOCATORS).any(|(function, range)| {
        range.set_once(next::address(*function) as u64);
        range.contains(return_address)
    })
}

/// Whether a call that returns to this address was made by the program itself, or as the
/// last act of a function of it that the recorder called.
pub fn is_program(return_address: u64) -> bool {
    RECORDER.set_once(own_address());
    RECORDER.contains(return_address) || detours::program().contains(&return_address)
}

/// Whether `path` is that of the recorder itself.
pub fn is_own_path(path: &[u8]) -> bool {
    at_address(own_address()).is_some_and(|module| module.path() == path)
}

/// What the loader knows of the module at an address.
pub fn link_map_at(address: u64) -> Option<&'static LinkMap> {
    Object::find(next::dl_find_object()?, address).map(|(_, map)| map)
}

/// Where the module lies that lies at `address` now.
pub fn range_at(address: u64) -> Option<core::ops::Range<u64>> {
    at_address(address).map(|module| module.start..module.end)
}

/// An address in the recorder itself.
pub fn own_address() -> u64 {
    (&raw const GENERATION) as u64
}

/// The module that lies at `address` now.
pub fn at_address(address: u64) -> Option<Module> {
    match next::dl_find_object() {
        Some(find) => find_object(find, address),
        None => iterate(address),
    }
}

fn find_object(find: FindObject, address: u64) -> Option<Module> {
    let (object, map) = Object::find(find, address)?;
    let range = object.start..object.end;
    let mut module = Module::new(range, map.bias, object.eh_frame_hdr, map.name);
    // Of a program whose segments leave gaps between them (Node is one) the
    // loader returns the segment of the address alone. Libraries have none:
    // the loader maps them in one piece.
    if !(module.start..module.end).contains(&module.eh_frame_hdr)
        && let Some((start, end)) = program_extent(module.bias, address)
    {
        (module.start, module.end) = (start, end);
    }
    Some(module)
}

/// Returns the lowest and the highest address of the program itself, if `address`
/// lies in it.
fn program_extent(bias: u64, address: u64) -> Option<(u64, u64)> {
    let (start, end, _) = extent(loader::program_headers(), bias);
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

/// Finds the module under glibc 2.34, which has no `_dl_find_object`.
fn iterate(address: u64) -> Option<Module> {
    loader::find_module(|bias, headers, name| {
        let (start, end, unwind) = extent(headers, bias);
        let is_it = (start..end).contains(&address);
        is_it.then(|| Module::new(start..end, bias, unwind, name))
    })
}
