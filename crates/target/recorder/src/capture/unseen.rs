//! Diagnostics on what keeps this program's allocations, or some of them, from being
//! recorded: another `malloc` before the recorder's, Valgrind, a namespace of the loader's.

use core::ffi::CStr;
use core::iter;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use allotrope_preflight::NotRecordable;

use crate::capture::modules;
use crate::emit::diagnostics;
use crate::state::detours;
use crate::state::image;
use crate::state::module_table::Module;
use crate::sys::definitions;
use crate::sys::loader::LinkMap;
use crate::sys::namespaces;
use crate::sys::next::{self, Function};
use crate::sys::system;

/// Diagnostics on what keeps this program's allocations from being seen, or some
/// of them; once, when its recording begins.
pub fn diagnose() {
    namespaces::remember();
    if let Some((_, module)) = other_malloc() {
        diagnostics::post(
            system::process_id(),
            NotRecordable::OwnMalloc,
            module.path(),
        );
    }
    let (functions, length) = detours::without();
    if length > 0 {
        let functions = &functions[..length];
        diagnostics::post(system::process_id(), NotRecordable::NotDetoured, functions);
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

/// The `malloc` that the program's calls reach in place of the recorder's: its address and its
/// module. `None`: there is none, or the recorder has patched it.
pub fn other_malloc() -> Option<(u64, Module)> {
    let own = modules::at_address(modules::own_address())?;
    let address = first_definition(c"malloc")?;
    let module = modules::at_address(address)?;
    (!module.is_at(&own) && !detours::is_detoured(address)).then_some((address, module))
}

/// Address of the function that the program's calls of `name` reach.
fn first_definition(name: &CStr) -> Option<u64> {
    let program = next::loader_debug()?.first_module()?;
    definitions::first(program.and_following(), name)
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

/// Diagnostics on namespaces that `dlmopen` has made: they have a C library of
/// their own, whose calls of `malloc` no preloaded library receives.
#[cold]
pub fn diagnose_namespaces() {
    static DIAGNOSED: AtomicU32 = AtomicU32::new(0);
    let Some(first) = next::loader_debug() else {
        return;
    };
    let namespaces = iter::successors(first.next_namespace(), |it| it.next_namespace());
    for (number, namespace) in (1..).zip(namespaces) {
        let path = namespace.first_module().map_or(&[][..], LinkMap::path);
        if path.is_empty() {
            // It is being made: the loader will allocate again.
            return;
        }
        if number > DIAGNOSED.load(Relaxed) {
            DIAGNOSED.store(number, Relaxed);
            diagnostics::post(system::process_id(), NotRecordable::LinkMapNamespace, path);
        }
    }
}
