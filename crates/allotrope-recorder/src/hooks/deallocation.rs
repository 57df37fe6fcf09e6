//! `free` and its other names.

use core::ffi::c_void;

use allotrope_shm::numbers::EntryPoint;
use allotrope_shm::wire::kind;

use crate::hooks::record::record_short;
use crate::lifecycle::early;
use crate::lifecycle::enter;
use crate::sys::next;

pub unsafe extern "C" fn free(block: *mut c_void, sp: *const u64, _: u64) {
    let next = next!(free, early_free(block));
    // SAFETY: the caller's contract is the original's.
    unsafe { release(EntryPoint::Free as u8, block, sp, |block| next(block)) }
}

/// The bump area takes nothing back.
#[cold]
fn early_free(block: *mut c_void) {
    early::is_recorded(block);
}

#[inline(always)]
unsafe fn release(entry: u8, block: *mut c_void, sp: *const u64, call: impl FnOnce(*mut c_void)) {
    if block.is_null() {
        return call(block);
    }
    if next::is_bump(block) {
        if early::is_recorded(block) {
            // SAFETY: the stub gives its caller's stack pointer.
            unsafe { record_short(kind::DEALLOCATION, entry, block, sp) };
        }
        return;
    }
    // SAFETY: the stub gives its caller's stack pointer.
    unsafe { record_short(kind::DEALLOCATION, entry, block, sp) };
    call(block);
}

pub unsafe extern "C" fn cfree(block: *mut c_void, sp: *const u64, _: u64) {
    // Old programs only; the C library keeps it as another name of `free`.
    let call = next::cfree().map(|cfree| {
        // SAFETY: the caller's contract is the original's.
        move || unsafe { cfree(block) }
    });
    // SAFETY: the stub gives its caller's stack pointer.
    unsafe { release_by(EntryPoint::Cfree as u8, block, sp, call) }
}

pub unsafe extern "C" fn free_sized(block: *mut c_void, size: usize, sp: *const u64, _: u64) {
    let call = next::free_sized().map(|sized| {
        // SAFETY: the caller's contract is the original's.
        move || unsafe { sized(block, size) }
    });
    // SAFETY: the stub gives its caller's stack pointer.
    unsafe { release_by(EntryPoint::FreeSized as u8, block, sp, call) }
}

pub unsafe extern "C" fn free_aligned_sized(
    block: *mut c_void,
    alignment: usize,
    size: usize,
    sp: *const u64,
    _: u64,
) {
    let call = next::free_aligned_sized().map(|sized| {
        // SAFETY: the caller's contract is the original's.
        move || unsafe { sized(block, alignment, size) }
    });
    // SAFETY: the stub gives its caller's stack pointer.
    unsafe { release_by(EntryPoint::FreeAlignedSized as u8, block, sp, call) }
}

/// By one of the other names of `free`: the allocator may make it a
/// call of `free`, as glibc 2.43 does of C23's, which is no second deallocation.
/// Without such a function it is `free` by definition.
#[inline(always)]
unsafe fn release_by(entry: u8, block: *mut c_void, sp: *const u64, call: Option<impl FnOnce()>) {
    let free = next!(free);
    // SAFETY: the caller's contract is the original's.
    unsafe {
        release(entry, block, sp, |block| match call {
            None => free(block),
            Some(call) => enter::call_allocator(sp, call),
        });
    }
}
