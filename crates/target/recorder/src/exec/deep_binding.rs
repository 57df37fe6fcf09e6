//! Libraries that are opened with `RTLD_DEEPBIND` (PHP opens its extensions so): the
//! loader looks their symbols up in them and in what they need before it looks in the
//! program, and so finds the C library's `malloc` and not the recorder's.
//!
//! Before the first one is opened, the C library's symbols of the functions that the
//! recorder defines too are made to lead to the recorder, which then calls the same
//! functions. So the library's constructors, calls that are bound late and what
//! it looks up itself come to the recorder, and no other symbol is bound in another
//! way. (To take the flag away, as others do, would bind all of them anew.)

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use allotrope_preflight::NotRecordable;
use allotrope_shm::layout;

use crate::capture::modules;
use crate::emit::diagnostics;
use crate::state::process::Lock;
use crate::sys::definitions::{self, Symbol};
use crate::sys::loader::LinkMap;
use crate::sys::next::{self, Function};
use crate::sys::system::{self, Protection, SignalsBlocked};

/// What an allocator consists of: all of these lead to the recorder, or none.
const ALLOCATOR: [Function; 12] = [
    Function::Malloc,
    Function::Calloc,
    Function::Realloc,
    Function::PosixMemalign,
    Function::AlignedAlloc,
    Function::Memalign,
    Function::Valloc,
    Function::Pvalloc,
    Function::Free,
    Function::Cfree,
    Function::FreeSized,
    Function::FreeAlignedSized,
];

/// Others that the recorder defines too.
const OTHERS: [Function; 18] = [
    Function::Exit,
    Function::UnderscoreExit,
    Function::Dlopen,
    Function::Dlmopen,
    Function::Dlclose,
    Function::Execve,
    Function::Execv,
    Function::Execvp,
    Function::Execvpe,
    Function::Execl,
    Function::Execlp,
    Function::Execle,
    Function::Fexecve,
    Function::PosixSpawn,
    Function::PosixSpawnp,
    Function::Prctl,
    Function::Syscall,
    Function::PthreadSetname,
];

/// Prepares a call of `function`, which opens a library with these flags; returns the
/// address of the next definition.
pub extern "C" fn prepare(function: Function, flags: c_int) -> usize {
    let next = next::resolved(function);
    if flags & libc::RTLD_DEEPBIND != 0 && !system::has_gained_rights() {
        lead_to_recorder();
    }
    next
}

/// Makes the C library's functions lead to the recorder, once.
#[cold]
fn lead_to_recorder() {
    static DONE: AtomicU8 = AtomicU8::new(0);
    if DONE.load(Relaxed) != 0 {
        return;
    }
    let _blocked = SignalsBlocked::new();
    let _locked = Lock::take();
    if DONE.swap(1, Relaxed) != 0 {
        return;
    }
    let recorder = modules::link_map_at(&raw const DONE as u64);
    let library = modules::link_map_at(next::address(Function::GlibcVersion) as u64);
    let (Some(recorder), Some(library)) = (recorder, library) else {
        return;
    };
    // Another allocator than the C library's is the program's, not the library's.
    let is_next = |function: &Function| {
        let next = next::address(*function) as u64;
        next == 0 || find(library, next::name(*function), Some(next)).is_some()
    };
    let is_led = ALLOCATOR.iter().all(is_next)
        && ALLOCATOR
            .iter()
            .chain(&OTHERS)
            .all(|function| lead(library, recorder, *function));
    if !is_led {
        diagnostics::post(system::process_id(), NotRecordable::DeepBinding, b"");
    }
}

/// `false`: the symbol cannot be written.
fn lead(library: &LinkMap, recorder: &LinkMap, function: Function) -> bool {
    let (name, next) = (next::name(function), next::address(function) as u64);
    let Some(own) = find(recorder, name, None) else {
        return true;
    };
    let Some(symbol) = find(library, name, Some(next)).filter(|_| next != 0) else {
        return true;
    };
    let own = recorder.bias.wrapping_add(own.value.load(Relaxed));
    write(symbol, own.wrapping_sub(library.bias))
}

/// The symbol of this name that a module defines, at this address if one is given.
fn find<'m>(map: &'m LinkMap, name: &CStr, address: Option<u64>) -> Option<&'m Symbol> {
    let is_there = |value| address.is_none_or(|it| it == map.bias.wrapping_add(value));
    definitions::find(map, name, is_there)
}

/// Makes a symbol lead to another address, relative to its module's bias.
fn write(symbol: &Symbol, value: u64) -> bool {
    let page = symbol.value.as_ptr().cast::<u8>();
    let page = page.map_addr(|address| address & !(layout::PAGE - 1));
    // SAFETY: the loader maps the symbols for reading, which stays possible; what is
    // written to the page is the process's own.
    let protect = |protection| unsafe { system::protect(page, layout::PAGE, protection) };
    if !protect(Protection::ReadWrite) {
        return false;
    }
    symbol.value.store(value, Relaxed);
    protect(Protection::Read)
}
