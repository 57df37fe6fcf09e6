//! `realloc` and `reallocarray`.

use core::ffi::c_void;
use core::ptr;

use allotrope_shm::numbers::EntryPoint;

use crate::hooks::record::{finish_reallocation, record_allocation, start_reallocation};
use crate::lifecycle::early;
use crate::sys::next;

pub unsafe extern "C" fn realloc(
    block: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    // SAFETY: the caller's contract is the original's.
    unsafe { reallocate(EntryPoint::Realloc as u8, block, size, sp, bp) }
}

/// The C library's does no more than this, and would come back to our `realloc`.
pub unsafe extern "C" fn reallocarray(
    block: *mut c_void,
    count: usize,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else {
        // SAFETY: libc's own variable.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        return ptr::null_mut();
    };
    // SAFETY: the caller's contract is the original's.
    unsafe { reallocate(EntryPoint::Reallocarray as u8, block, bytes, sp, bp) }
}

#[inline(always)]
unsafe fn reallocate(
    entry: u8,
    block: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    // SAFETY: before there is a next allocator, blocks are the bump area's.
    let next = next!(realloc, unsafe { early_realloc(entry, block, size, sp) });
    // SAFETY: the caller's contract is the original's.
    unsafe {
        if block.is_null() {
            let result = next(block, size);
            if !result.is_null() {
                record_allocation(entry, result, size, 0, sp, bp);
            }
            return result;
        }
        if next::is_bump(block) {
            return move_from_bump(entry, block, size, sp, bp);
        }
        let recorded = start_reallocation(entry, block, sp);
        let result = next(block, size);
        if recorded {
            finish_reallocation(entry, block, result, size, sp, bp);
        }
        result
    }
}

#[cold]
unsafe fn early_realloc(entry: u8, block: *mut c_void, size: usize, sp: *const u64) -> *mut c_void {
    let result = next::bump_allocate(size, 16);
    // SAFETY: the stub gives its caller's stack pointer.
    unsafe { early::note(entry, result, size, 16, block, sp) };
    if !result.is_null() && !block.is_null() && next::is_bump(block) {
        // SAFETY: both blocks are the bump area's and hold at least this.
        unsafe {
            ptr::copy_nonoverlapping(
                block.cast::<u8>(),
                result.cast::<u8>(),
                next::bump_size(block).min(size),
            );
        }
    }
    result
}

#[cold]
unsafe fn move_from_bump(
    entry: u8,
    block: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    let next = next!(malloc, ptr::null_mut());
    // SAFETY: the block is the bump area's; the new one holds what is copied.
    unsafe {
        let recorded = early::is_recorded(block) && start_reallocation(entry, block, sp);
        let result = next(size);
        if recorded {
            finish_reallocation(entry, block, result, size.max(1), sp, bp);
        } else if !result.is_null() {
            record_allocation(entry, result, size, 0, sp, bp);
        }
        if !result.is_null() {
            let bytes = next::bump_size(block).min(size);
            ptr::copy_nonoverlapping(block.cast::<u8>(), result.cast::<u8>(), bytes);
        }
        result
    }
}
