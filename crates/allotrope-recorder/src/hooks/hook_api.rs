//! Offers the recorder's events to the library that stands before C++
//! operators and jemalloc's own calls (`allotrope-cxx-hooks`).

use allotrope_shm::hook_api::{HookApi, VERSION};

use crate::capture::modules;
use crate::hooks::reported;
use crate::lifecycle::enter;

static HOOK_API: HookApi = HookApi {
    version: VERSION,
    enter,
    leave,
    allocation: reported::reported_allocation,
    deallocation: reported::reported_deallocation,
    reallocation_start: reported::reported_reallocation_start,
    reallocation_end: reported::reported_reallocation_end,
};

/// See `allotrope_shm::hook_api::SYMBOL`.
#[unsafe(no_mangle)]
pub extern "C" fn allotrope_recorder_interface() -> *const HookApi {
    &raw const HOOK_API
}

unsafe extern "C" fn enter(sp: *const u64, code: usize) {
    modules::note_hooks(code as u64);
    // SAFETY: as any hook.
    unsafe { enter::enter_allocator(sp as usize) };
}

unsafe extern "C" fn leave() {
    // SAFETY: as any hook.
    unsafe { enter::leave_allocator() };
}
