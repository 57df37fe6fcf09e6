//! `free` and its other names.

use core::ffi::c_void;

use allotrope_shm::hook_api::Caller;
use allotrope_shm::numbers::EntryPoint;
use allotrope_shm::wire::kind;

use crate::hooks::record::record_short;
use crate::lifecycle::early;
use crate::lifecycle::enter;
use crate::sys::next;

/// # Safety
/// As the original: the block is null or was allocated and not freed.
pub unsafe extern "C" fn free(block: *mut c_void, caller: Caller<'_>) {
    let Some(next) = next::free() else {
        return early_free(block);
    };
    // SAFETY: passed on.
    release(EntryPoint::Free, block, caller, || unsafe { next(block) });
}

/// The bump area takes nothing back.
#[cold]
fn early_free(block: *mut c_void) {
    early::is_recorded(block);
}

/// Records the deallocation of a block, unless it is null, and lets the next allocator
/// do it, unless the block is from the bump area.
#[inline(always)]
fn release(entry: EntryPoint, block: *mut c_void, caller: Caller<'_>, next: impl FnOnce()) {
    if block.is_null() {
        return next();
    }
    if next::is_bump(block) {
        if early::is_recorded(block) {
            record_short(kind::DEALLOCATION, entry, block, caller);
        }
        return;
    }
    record_short(kind::DEALLOCATION, entry, block, caller);
    next();
}

/// Old programs only; the C library keeps it as another name of `free`.
///
/// # Safety
/// As [`free`].
pub unsafe extern "C" fn cfree(block: *mut c_void, caller: Caller<'_>) {
    let next = next::cfree();
    // SAFETY: passed on.
    let next = next.map(|next| move || unsafe { next(block) });
    // SAFETY: passed on.
    unsafe { release_by(EntryPoint::Cfree, block, caller, next) };
}

/// # Safety
/// As [`free`].
pub unsafe extern "C" fn free_sized(block: *mut c_void, size: usize, caller: Caller<'_>) {
    let next = next::free_sized();
    // SAFETY: passed on.
    let next = next.map(|next| move || unsafe { next(block, size) });
    // SAFETY: passed on.
    unsafe { release_by(EntryPoint::FreeSized, block, caller, next) };
}

/// # Safety
/// As [`free`].
pub unsafe extern "C" fn free_aligned_sized(
    block: *mut c_void,
    alignment: usize,
    size: usize,
    caller: Caller<'_>,
) {
    let next = next::free_aligned_sized();
    // SAFETY: passed on.
    let next = next.map(|next| move || unsafe { next(block, alignment, size) });
    // SAFETY: passed on.
    unsafe { release_by(EntryPoint::FreeAlignedSized, block, caller, next) };
}

/// By one of the other names of `free`: the allocator may make it a call of `free`, as
/// glibc 2.43 does of C23's, which is no second deallocation. Without such a function
/// it is `free` by definition.
///
/// # Safety
/// As [`free`].
#[inline(always)]
unsafe fn release_by(
    entry: EntryPoint,
    block: *mut c_void,
    caller: Caller<'_>,
    next: Option<impl FnOnce()>,
) {
    let Some(free) = next::free() else {
        return;
    };
    release(entry, block, caller, || match next {
        Some(next) => enter::call_allocator(caller, next),
        // SAFETY: passed on.
        None => unsafe { free(block) },
    });
}
