//! Reports the blocks of a pool (arena, slab), whose calls the recorder cannot intercept.
//! The recording contains them in addition to the memory from which the pool takes them.
//! Do not report blocks inside of other reported blocks.

use std::alloc::Layout;

use crate::ffi;

/// Reports that the pool has returned a block. Ignores null pointers.
#[inline(always)]
pub fn allocated<T: ?Sized>(block: *const T, layout: Layout) {
    ffi::pool_allocation(block.cast(), layout.size(), layout.align());
}

/// Reports that the pool is about to free a block. Ignores null pointers.
#[inline(always)]
pub fn deallocating<T: ?Sized>(block: *const T) {
    ffi::pool_deallocation(block.cast());
}

/// Resizes a block to `size` bytes by calling the closure, and reports that. The closure
/// returns the resized block, or null if resizing failed and the block is unchanged.
/// Returns the closure's result.
#[inline(always)]
pub fn reallocate<T>(block: *const T, size: usize, resize: impl FnOnce() -> *mut T) -> *mut T {
    let token = ffi::pool_reallocation_start(block.cast());
    let result = resize();
    ffi::pool_reallocation_end(token, result.cast_const().cast(), size);
    result
}
