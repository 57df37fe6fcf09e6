//! Offers the recorder's events to the library with hooks for C++ operators and
//! jemalloc's own calls (`allotrope-cxx-hooks`).

use allotrope_shm::hook_api::{Caller, HookApi, VERSION};

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

extern "C" fn enter(caller: Caller<'_>, code: usize) {
    modules::note_hooks(code as u64);
    enter::enter_allocator(caller);
}

extern "C" fn leave() {
    enter::leave_allocator();
}
