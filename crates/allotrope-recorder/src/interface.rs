//! Offers the recorder's events to the library that stands before C++
//! operators and jemalloc's own calls (`allotrope-cxx-hooks`).

use allotrope_shm::interface::{Interface, VERSION};

use crate::{hooks, modules, thread};

static INTERFACE: Interface = Interface {
    version: VERSION,
    enter,
    leave,
    allocation: hooks::interface_allocation,
    deallocation: hooks::interface_deallocation,
    reallocation_start: hooks::interface_reallocation_start,
    reallocation_end: hooks::interface_reallocation_end,
};

/// See `allotrope_shm::interface::SYMBOL`.
#[unsafe(no_mangle)]
pub extern "C" fn allotrope_recorder_interface() -> *const Interface {
    &raw const INTERFACE
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
