//! Offers the recorder's events to the library that stands before C++
//! operators and jemalloc's own calls (`allotrope-cxx-hooks`).

use allotrope_shm::hook_api::{HookApi, VERSION};

use crate::hooks;
use crate::modules;
use crate::thread;

static HOOK_API: HookApi = HookApi {
    version: VERSION,
    enter,
    leave,
    allocation: hooks::reported_allocation,
    deallocation: hooks::reported_deallocation,
    reallocation_start: hooks::reported_reallocation_start,
    reallocation_end: hooks::reported_reallocation_end,
};

/// See `allotrope_shm::hook_api::SYMBOL`.
#[unsafe(no_mangle)]
pub extern "C" fn allotrope_recorder_interface() -> *const HookApi {
    &raw const HOOK_API
}

unsafe extern "C" fn enter(sp: *const u64, code: usize) {
    modules::note_hooks(code as u64);
    // SAFETY: as any hook.
    unsafe { thread::enter_allocator(sp as usize) };
}

unsafe extern "C" fn leave() {
    // SAFETY: as any hook.
    unsafe { thread::leave_allocator() };
}
