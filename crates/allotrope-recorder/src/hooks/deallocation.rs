//! `free` and its other names.

use core::ffi::c_void;

use allotrope_shm::numbers::EntryPoint;
use allotrope_shm::wire::kind;

use crate::hooks::Release;
use crate::hooks::record::record_short;
use crate::lifecycle::early;
use crate::lifecycle::enter;
use crate::sys::next::{self, Function};

pub unsafe extern "C" fn free(block: *mut c_void, sp: *const u64, _: u64) {
    let next = next!(Free as Release, early_free(block));
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
    let cfree = next::address(Function::Cfree);
    // SAFETY: the caller's contract is the original's; `dlsym` found a function of this type.
    unsafe {
        release_by::<Release>(EntryPoint::Cfree as u8, cfree, block, sp, |cfree| {
            cfree(block)
        })
    }
}

pub unsafe extern "C" fn free_sized(block: *mut c_void, size: usize, sp: *const u64, _: u64) {
    type Next = unsafe extern "C" fn(*mut c_void, usize);
    let sized = next::address(Function::FreeSized);
    // SAFETY: the caller's contract is the original's; `dlsym` found a function of this type.
    unsafe {
        release_by::<Next>(EntryPoint::FreeSized as u8, sized, block, sp, |sized| {
            sized(block, size)
        })
    }
}

pub unsafe extern "C" fn free_aligned_sized(
    block: *mut c_void,
    alignment: usize,
    size: usize,
    sp: *const u64,
    _: u64,
) {
    type Next = unsafe extern "C" fn(*mut c_void, usize, usize);
    let sized = next::address(Function::FreeAlignedSized);
    let call = |sized: Next| {
        // SAFETY: the caller's contract is the original's.
        unsafe { sized(block, alignment, size) }
    };
    // SAFETY: `dlsym` found a function of this type.
    unsafe { release_by::<Next>(EntryPoint::FreeAlignedSized as u8, sized, block, sp, call) }
}

/// By one of the other names of `free`, at `address`: the allocator may make it a
/// call of `free`, as glibc 2.43 does of C23's, which is no second deallocation.
/// Without such a function it is `free` by definition.
#[inline(always)]
unsafe fn release_by<F>(
    entry: u8,
    address: usize,
    block: *mut c_void,
    sp: *const u64,
    call: impl FnOnce(F),
) {
    const { assert!(size_of::<F>() == size_of::<usize>()) };
    let free = next!(Free as Release);
    // SAFETY: the caller vouches for the type of what is at the address.
    unsafe {
        release(entry, block, sp, |block| {
            if address == 0 {
                free(block);
            } else {
                let function = core::mem::transmute_copy::<usize, F>(&address);
                enter::call_allocator(sp, || call(function));
            }
        });
    }
}
