//! `malloc` and `calloc`.

use core::ffi::c_void;
use core::ptr;

use allotrope_shm::numbers::EntryPoint;

use crate::hooks::record::record_allocation;
use crate::lifecycle::early;
use crate::sys::next;

/// The next `malloc` gave the program `block`.
pub unsafe extern "C" fn malloc_allocated(
    block: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    // SAFETY: the entry stub gives what it found.
    unsafe { record_allocation(EntryPoint::Malloc as u8, block, size, 0, sp, bp) };
    block
}

/// The next `calloc` gave the program `block` of `size` bytes in all.
pub unsafe extern "C" fn calloc_allocated(
    block: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    // SAFETY: the entry stub gives what it found.
    unsafe { record_allocation(EntryPoint::Calloc as u8, block, size, 0, sp, bp) };
    block
}

/// `malloc` as long as the next one is not known.
#[cold]
pub unsafe extern "C" fn malloc(size: usize, sp: *const u64, bp: u64) -> *mut c_void {
    // SAFETY: the stub gives its caller's stack pointer.
    let next = next!(malloc, unsafe {
        early_allocation(EntryPoint::Malloc as u8, size, 16, sp)
    });
    // SAFETY: the caller's contract is the original's.
    unsafe {
        let block = next(size);
        if !block.is_null() {
            record_allocation(EntryPoint::Malloc as u8, block, size, 0, sp, bp);
        }
        block
    }
}

/// `calloc` as long as the next one is not known.
#[cold]
pub unsafe extern "C" fn calloc(count: usize, size: usize, sp: *const u64, bp: u64) -> *mut c_void {
    // SAFETY: the caller's contract is the original's.
    let next = next!(calloc, unsafe { early_calloc(count, size, sp) });
    // SAFETY: the caller's contract is the original's.
    unsafe {
        let block = next(count, size);
        if !block.is_null() {
            record_allocation(
                EntryPoint::Calloc as u8,
                block,
                count.wrapping_mul(size),
                0,
                sp,
                bp,
            );
        }
        block
    }
}

/// An allocation while there is no next allocator yet.
#[cold]
pub unsafe fn early_allocation(
    entry: u8,
    size: usize,
    alignment: usize,
    sp: *const u64,
) -> *mut c_void {
    let block = next::bump_allocate(size, alignment);
    // SAFETY: the stub gives its caller's stack pointer.
    unsafe { early::note(entry, block, size, alignment, ptr::null_mut(), sp) };
    block
}

#[cold]
unsafe fn early_calloc(count: usize, size: usize, sp: *const u64) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: passed on.
        Some(bytes) => unsafe { early_allocation(EntryPoint::Calloc as u8, bytes, 16, sp) },
        None => ptr::null_mut(),
    }
}
