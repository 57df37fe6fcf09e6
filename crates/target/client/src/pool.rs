//! Reports the blocks of a pool (arena, slab), whose calls the recorder cannot intercept.
//! The recording contains them in addition to the memory from which the pool takes them:
//! the block of `malloc` and the pool's blocks inside of it. Do not report blocks inside
//! of other reported blocks, because their addresses would collide.
//!
//! The recorder never accesses the memory of a block. Any thread may report any block, but
//! in the right order: an allocation after the pool has returned the block, a
//! deallocation before the pool frees it. Otherwise another thread may get the same
//! address and report it first. Without the recorder the functions report nothing.

use std::alloc::Layout;

use crate::ffi;

/// Reports that the pool has returned a block with this layout: the requested size and
/// alignment. Ignores null pointers.
#[inline(always)]
pub fn allocated<T: ?Sized>(block: *const T, layout: Layout) {
    ffi::pool_allocation(block.cast(), layout.size(), layout.align());
}

/// Reports that the pool is about to free a block. Ignores null pointers.
#[inline(always)]
pub fn deallocating<T: ?Sized>(block: *const T) {
    ffi::pool_deallocation(block.cast());
}

/// Calls the closure, which resizes a block to `size` bytes, and reports the resizing.
/// The closure returns the resized block, or null if resizing failed and the old block is
/// unchanged. If `block` is null, an allocation is reported. Calls may nest.
///
/// Returns the closure's result. Without the recorder it only calls the closure.
#[inline(always)]
pub fn reallocate<T>(block: *const T, size: usize, resize: impl FnOnce() -> *mut T) -> *mut T {
    let token = ffi::pool_reallocation_start(block.cast());
    let result = resize();
    ffi::pool_reallocation_end(token, result.cast_const().cast(), size);
    result
}
