//! Blocks of a pool (an arena, a slab): the recorder can not see them, and
//! these functions report them. They are recorded beside the memory from which
//! they are carved. Report one level of a pool only.

use std::alloc::Layout;

use crate::ffi;

/// The pool has handed out a block. Of a null pointer nothing happens.
#[inline(always)]
pub fn allocated<T: ?Sized>(block: *const T, layout: Layout) {
    ffi::pool_allocation(block.cast(), layout.size(), layout.align());
}

/// The pool is about to take the block back. Of a null pointer nothing happens.
#[inline(always)]
pub fn deallocating<T: ?Sized>(block: *const T) {
    ffi::pool_deallocation(block.cast());
}

/// Resizes a block to `size` bytes with the closure and gives what it gives:
/// the block where it is now, or null if that failed and it is as it was.
#[inline(always)]
pub fn reallocate<T>(block: *const T, size: usize, resize: impl FnOnce() -> *mut T) -> *mut T {
    let token = ffi::pool_reallocation_start(block.cast());
    let result = resize();
    ffi::pool_reallocation_end(token, result.cast_const().cast(), size);
    result
}
