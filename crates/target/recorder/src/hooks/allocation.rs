//! `malloc` and `calloc`.

use core::ffi::c_void;
use core::ptr;

use allotrope_shm::hook_api::Caller;
use allotrope_shm::numbers::EntryPoint;

use crate::emit::mode;
use crate::hooks::record::record_untracked_allocation;
use crate::hooks::sampled;
use crate::lifecycle::early;
use crate::sys::next;

/// The next `malloc` returned `block` to the program.
pub extern "C" fn malloc_allocated(
    block: *mut c_void,
    size: usize,
    caller: Caller<'_>,
) -> *mut c_void {
    record_untracked_allocation(EntryPoint::Malloc, block, size, caller);
    block
}

/// The next `calloc` returned `block` of `size` bytes in all to the program.
pub extern "C" fn calloc_allocated(
    block: *mut c_void,
    size: usize,
    caller: Caller<'_>,
) -> *mut c_void {
    record_untracked_allocation(EntryPoint::Calloc, block, size, caller);
    block
}

/// `malloc` as long as the next one is not known, and where the call may be sampled.
#[cold]
pub extern "C" fn malloc(size: usize, caller: Caller<'_>) -> *mut c_void {
    let Some(next) = next::malloc() else {
        return early_allocation(EntryPoint::Malloc, size, 16, caller);
    };
    let block = next(size);
    if block.is_null() {
        return block;
    }
    if mode::is_watching() {
        sampled::malloc_allocated(block, size, caller);
        return block;
    }
    malloc_allocated(block, size, caller)
}

/// `calloc` as long as the next one is not known, and where the call may be sampled.
#[cold]
pub extern "C" fn calloc(count: usize, size: usize, caller: Caller<'_>) -> *mut c_void {
    let Some(next) = next::calloc() else {
        return match count.checked_mul(size) {
            Some(bytes) => early_allocation(EntryPoint::Calloc, bytes, 16, caller),
            None => ptr::null_mut(),
        };
    };
    let block = next(count, size);
    if block.is_null() {
        return block;
    }
    if mode::is_watching() {
        sampled::calloc_allocated(block, count, count.wrapping_mul(size), caller);
        return block;
    }
    calloc_allocated(block, count.wrapping_mul(size), caller)
}

/// An allocation while there is no next allocator yet.
#[cold]
pub fn early_allocation(
    entry: EntryPoint,
    size: usize,
    alignment: usize,
    caller: Caller<'_>,
) -> *mut c_void {
    let block = next::bump_allocate(size, alignment);
    early::note(entry, block, size, alignment, ptr::null_mut(), caller);
    block
}
