//! Allocations with an alignment: `posix_memalign` and its relatives.

use core::ffi::{c_int, c_void};
use core::ptr;

use allotrope_shm::hook_api::Caller;
use allotrope_shm::layout::PAGE;
use allotrope_shm::numbers::EntryPoint;

use crate::hooks::allocation::early_allocation;
use crate::hooks::record::record_aligned;
use crate::lifecycle::enter;
use crate::sys::next;

/// # Safety
/// As the original: a pointer can be written to `result`.
pub unsafe extern "C" fn posix_memalign(
    result: *mut *mut c_void,
    alignment: usize,
    size: usize,
    caller: Caller<'_>,
) -> c_int {
    let Some(next) = next::posix_memalign() else {
        return libc::ENOMEM;
    };
    // SAFETY: passed on; after a success the result was written.
    let (error, block) = unsafe {
        let error = enter::call_allocator(caller, || next(result, alignment, size));
        (error, if error == 0 { *result } else { ptr::null_mut() })
    };
    record_aligned(EntryPoint::PosixMemalign, block, alignment, size, caller);
    error
}

pub extern "C" fn aligned_alloc(alignment: usize, size: usize, caller: Caller<'_>) -> *mut c_void {
    let entry = EntryPoint::AlignedAlloc;
    match next::aligned_alloc() {
        Some(next) => allocate(entry, alignment, size, caller, || next(alignment, size)),
        None => early_allocation(entry, size, alignment, caller),
    }
}

pub extern "C" fn memalign(alignment: usize, size: usize, caller: Caller<'_>) -> *mut c_void {
    let entry = EntryPoint::Memalign;
    match next::memalign() {
        Some(next) => allocate(entry, alignment, size, caller, || next(alignment, size)),
        None => early_allocation(entry, size, alignment, caller),
    }
}

pub extern "C" fn valloc(size: usize, caller: Caller<'_>) -> *mut c_void {
    match next::valloc() {
        Some(next) => allocate(EntryPoint::Valloc, PAGE, size, caller, || next(size)),
        None => ptr::null_mut(),
    }
}

pub extern "C" fn pvalloc(size: usize, caller: Caller<'_>) -> *mut c_void {
    match next::pvalloc() {
        Some(next) => allocate(EntryPoint::Pvalloc, PAGE, size, caller, || next(size)),
        None => ptr::null_mut(),
    }
}

#[inline(always)]
fn allocate(
    entry: EntryPoint,
    alignment: usize,
    size: usize,
    caller: Caller<'_>,
    next: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    let block = enter::call_allocator(caller, next);
    record_aligned(entry, block, alignment, size, caller);
    block
}
