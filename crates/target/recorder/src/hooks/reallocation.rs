//! `realloc` and `reallocarray`.

use core::ffi::c_void;
use core::ptr;

use allotrope_shm::hook_api::Caller;
use allotrope_shm::numbers::EntryPoint;

use crate::emit::mode;
use crate::hooks::inner;
use crate::hooks::record::{finish_reallocation, record_allocation, start_reallocation};
use crate::hooks::sampled;
use crate::lifecycle::early;
use crate::sys::next;

/// # Safety
/// As the original: the block is null or was allocated and not freed.
pub unsafe extern "C" fn realloc(
    block: *mut c_void,
    size: usize,
    caller: Caller<'_>,
) -> *mut c_void {
    // SAFETY: passed on; `reallocate` does not call it for blocks of the bump area.
    let next = next::realloc().map(|next| move || unsafe { next(block, size) });
    reallocate(EntryPoint::Realloc, block, size, caller, next)
}

/// The C library's does no more than this, and would come back to our `realloc`.
///
/// # Safety
/// As [`realloc`].
pub unsafe extern "C" fn reallocarray(
    block: *mut c_void,
    count: usize,
    size: usize,
    caller: Caller<'_>,
) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else {
        // SAFETY: libc's own variable.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        return ptr::null_mut();
    };
    // SAFETY: as in `realloc`.
    let next = next::realloc().map(|next| move || unsafe { next(block, bytes) });
    reallocate(EntryPoint::Reallocarray, block, bytes, caller, next)
}

#[inline(always)]
fn reallocate(
    entry: EntryPoint,
    block: *mut c_void,
    size: usize,
    caller: Caller<'_>,
    next: Option<impl FnOnce() -> *mut c_void>,
) -> *mut c_void {
    let Some(next) = next else {
        return early_realloc(entry, block, size, caller);
    };
    if block.is_null() {
        let result = next();
        if !result.is_null() {
            record_allocation(entry, result, size, 0, caller);
        }
        return result;
    }
    if next::is_bump(block) {
        return move_from_bump(entry, block, size, caller);
    }
    if mode::is_watching() {
        return sampled::reallocate(entry, block, size, caller, next);
    }
    if inner::was_inner(entry, block) {
        let result = next();
        inner::moved(block, result, size);
        return result;
    }
    let recorded = start_reallocation(entry, block, caller);
    let result = next();
    if recorded {
        finish_reallocation(entry, block, result, size, caller);
    }
    result
}

/// While there is no next allocator yet: blocks are the bump area's.
#[cold]
fn early_realloc(
    entry: EntryPoint,
    block: *mut c_void,
    size: usize,
    caller: Caller<'_>,
) -> *mut c_void {
    let result = next::bump_allocate(size, 16);
    early::note(entry, result, size, 16, block, caller);
    copy_from_bump(block, result, size);
    result
}

#[cold]
fn move_from_bump(
    entry: EntryPoint,
    block: *mut c_void,
    size: usize,
    caller: Caller<'_>,
) -> *mut c_void {
    let Some(next) = next::malloc() else {
        return ptr::null_mut();
    };
    let recorded = early::is_recorded(block) && start_reallocation(entry, block, caller);
    let result = next(size);
    if recorded {
        finish_reallocation(entry, block, result, size.max(1), caller);
    } else if !result.is_null() {
        record_allocation(entry, result, size, 0, caller);
    }
    copy_from_bump(block, result, size);
    result
}

/// Copies the first min(old, new) bytes, if `block` is in the bump area and `result`, a block of
/// `size` bytes, is not null.
fn copy_from_bump(block: *mut c_void, result: *mut c_void, size: usize) {
    if !result.is_null() && next::is_bump(block) {
        // SAFETY: both hold so many bytes, and the new one is nobody else's.
        unsafe {
            let bytes = next::bump_size(block).min(size);
            ptr::copy_nonoverlapping(block.cast::<u8>(), result.cast::<u8>(), bytes);
        }
    }
}
