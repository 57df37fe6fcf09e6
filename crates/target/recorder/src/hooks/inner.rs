//! Inner blocks (`state::named`): what an allocator that the user named takes from another one within a
//! call of its own.

use core::ffi::c_void;

use allotrope_shm::hook_api::Caller;
use allotrope_shm::numbers::{AddressSpace, EntryPoint, LossReason};

use crate::lifecycle::enter;
use crate::state::named::{self, Inner};
use crate::state::process;

/// Value of the token of a call with a detour, which is no address: the function's result is an inner
/// block.
pub const INNER: u64 = 1;

/// Notes an inner block, unless it is null.
pub fn add_inner(from: Inner, block: u64) {
    if block != 0 && !named::add_inner(from, block) {
        process::lost(LossReason::NoMemory);
    }
}

/// An allocation was not recorded: notes its block as an inner one if it is a part of a named
/// allocator's call.
#[cold]
#[inline(never)]
pub fn not_recorded(entry: EntryPoint, block: *mut c_void, caller: Caller<'_>) {
    if entry.address_space() == AddressSpace::Heap
        && named::is_active()
        && enter::is_in_named(caller)
    {
        add_inner(Inner::Heap, block as u64);
    }
}

/// Whether the deallocation or reallocation of a block is not to be recorded, since it was an inner one.
/// It is forgotten.
#[inline(always)]
pub fn was_inner(entry: EntryPoint, block: *mut c_void) -> bool {
    #[cold]
    fn remove(entry: EntryPoint, block: *mut c_void) -> bool {
        entry.address_space() == AddressSpace::Heap
            && named::remove_inner(Inner::Heap, block as u64)
    }
    named::is_active() && remove(entry, block)
}

/// The reallocation of an inner block has ended: notes where it is now.
pub fn moved(block: *mut c_void, result: *mut c_void, size: usize) {
    match (result.is_null(), size) {
        (false, _) => add_inner(Inner::Heap, result as u64),
        // It was freed.
        (true, 0) => {}
        (true, _) => add_inner(Inner::Heap, block as u64),
    }
}
