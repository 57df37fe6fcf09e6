//! Allocations with an alignment: `posix_memalign` and its relatives.

use core::ffi::{c_int, c_void};
use core::ptr;

use allotrope_shm::numbers::EntryPoint;

use crate::hooks::allocation::early_allocation;
use crate::hooks::record::record_aligned;
use crate::lifecycle::enter;

pub unsafe extern "C" fn posix_memalign(
    result: *mut *mut c_void,
    alignment: usize,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> c_int {
    let next = next!(posix_memalign, libc::ENOMEM);
    // SAFETY: the caller's contract is the original's.
    unsafe {
        let error = enter::call_allocator(sp, || next(result, alignment, size));
        if error == 0 && !(*result).is_null() {
            record_aligned(
                EntryPoint::PosixMemalign as u8,
                *result,
                alignment,
                size,
                sp,
                bp,
            );
        }
        error
    }
}

pub unsafe extern "C" fn aligned_alloc(
    alignment: usize,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    // SAFETY: the stub gives its caller's stack pointer.
    let next = next!(aligned_alloc, unsafe {
        early_allocation(EntryPoint::AlignedAlloc as u8, size, alignment, sp)
    });
    // SAFETY: the caller's contract is the original's.
    unsafe {
        let block = enter::call_allocator(sp, || next(alignment, size));
        if !block.is_null() {
            record_aligned(
                EntryPoint::AlignedAlloc as u8,
                block,
                alignment,
                size,
                sp,
                bp,
            );
        }
        block
    }
}

pub unsafe extern "C" fn memalign(
    alignment: usize,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    // SAFETY: the stub gives its caller's stack pointer.
    let next = next!(memalign, unsafe {
        early_allocation(EntryPoint::Memalign as u8, size, alignment, sp)
    });
    // SAFETY: the caller's contract is the original's.
    unsafe {
        let block = enter::call_allocator(sp, || next(alignment, size));
        if !block.is_null() {
            record_aligned(EntryPoint::Memalign as u8, block, alignment, size, sp, bp);
        }
        block
    }
}

pub unsafe extern "C" fn valloc(size: usize, sp: *const u64, bp: u64) -> *mut c_void {
    let next = next!(valloc, ptr::null_mut());
    // SAFETY: the caller's contract is the original's.
    unsafe {
        let block = enter::call_allocator(sp, || next(size));
        if !block.is_null() {
            record_aligned(
                EntryPoint::Valloc as u8,
                block,
                allotrope_shm::layout::PAGE,
                size,
                sp,
                bp,
            );
        }
        block
    }
}

pub unsafe extern "C" fn pvalloc(size: usize, sp: *const u64, bp: u64) -> *mut c_void {
    let next = next!(pvalloc, ptr::null_mut());
    // SAFETY: the caller's contract is the original's.
    unsafe {
        let block = enter::call_allocator(sp, || next(size));
        if !block.is_null() {
            record_aligned(
                EntryPoint::Pvalloc as u8,
                block,
                allotrope_shm::layout::PAGE,
                size,
                sp,
                bp,
            );
        }
        block
    }
}
