//! Diagnostics on what keeps this program's allocations, or some of them, from being
//! seen: another `malloc` before the recorder's, Valgrind, a namespace of the loader's.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use allotrope_target::NotRecordable;

use crate::capture::modules;
use crate::emit::diagnostics;
use crate::state::image;
use crate::sys::definitions::{self, LinkMap};
use crate::sys::namespaces;
use crate::sys::next::{self, Function};
use crate::sys::system;

/// Diagnostics on what keeps this program's allocations from being seen, or some
/// of them; once, when its recording begins.
pub fn diagnose() {
    namespaces::remember();
    let own = modules::at_address(modules::own_address());
    let first = first_definition(c"malloc").and_then(modules::at_address);
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
    let allocator = modules::at_address(next::address(Function::Malloc) as u64);
    // `operator new(unsigned long)`.
    let operators = first_definition(c"_Znwm").and_then(modules::at_address);
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
#[cold]
pub fn diagnose_namespaces() {
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
