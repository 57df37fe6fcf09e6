//! Offers the recorder's events to the library with hooks for C++ operators and
//! jemalloc's own calls (`allotrope-cxx-hooks`).

use core::ffi::c_void;

use allotrope_shm::hook_api::{Caller, HookApi, VERSION};
use allotrope_shm::numbers::EntryPoint;

use crate::capture::modules;
use crate::hooks::reported;
use crate::lifecycle::enter;

static HOOK_API: HookApi = HookApi {
    version: VERSION,
    enter,
    leave,
    allocation,
    deallocation,
    reallocation_start,
    reallocation_end,
};

/// See `allotrope_shm::hook_api::SYMBOL`.
#[unsafe(no_mangle)]
pub extern "C" fn allotrope_recorder_interface() -> *const HookApi {
    &raw const HOOK_API
}

extern "C" fn enter(caller: Caller<'_>, code: usize) {
    modules::note_hooks(code as u64);
    // SAFETY: as any hook.
    unsafe { enter::enter_allocator(caller.stack_pointer() as usize) };
}

extern "C" fn leave() {
    // SAFETY: as any hook.
    unsafe { enter::leave_allocator() };
}

extern "C" fn allocation(
    entry: EntryPoint,
    block: *mut c_void,
    size: usize,
    alignment: usize,
    caller: Caller<'_>,
) {
    let (sp, bp) = (caller.stack_pointer() as *const u64, caller.frame_pointer());
    // SAFETY: the caller's registers.
    unsafe { reported::reported_allocation(entry as u8, block, size, alignment, sp, bp) };
}

extern "C" fn deallocation(entry: EntryPoint, block: *mut c_void, caller: Caller<'_>) {
    let sp = caller.stack_pointer() as *const u64;
    // SAFETY: the caller's registers.
    unsafe { reported::reported_deallocation(entry as u8, block, sp) };
}

extern "C" fn reallocation_start(
    entry: EntryPoint,
    block: *mut c_void,
    caller: Caller<'_>,
) -> bool {
    let sp = caller.stack_pointer() as *const u64;
    // SAFETY: the caller's registers.
    unsafe { reported::reported_reallocation_start(entry as u8, block, sp) }
}

extern "C" fn reallocation_end(
    entry: EntryPoint,
    block: *mut c_void,
    result: *mut c_void,
    size: usize,
    caller: Caller<'_>,
) {
    let (sp, bp) = (caller.stack_pointer() as *const u64, caller.frame_pointer());
    // SAFETY: the caller's registers; a start was recorded.
    unsafe { reported::reported_reallocation_end(entry as u8, block, result, size, sp, bp) };
}
