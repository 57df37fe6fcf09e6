//! [`Recorded`], a wrapper around a global allocator that reports the allocator's blocks
//! to the recorder. The recorder intercepts calls of shared libraries, but of allocators
//! that are linked into the program only those that it knows and finds by their symbols.

use core::alloc::{GlobalAlloc, Layout};
use core::any::TypeId;
use core::ffi::c_void;
use core::mem::transmute;
use std::alloc::System;

use super::{Function, address};

/// The alignment, in bytes, that every block of `malloc` has. Requests of at most this
/// alignment are reported as requests without alignment.
const USUAL_ALIGNMENT: usize = 16;

/// Wraps the program's global allocator so that Allotrope records its blocks.
///
/// Allotrope intercepts `malloc` and related functions, and those of mimalloc, jemalloc and
/// tcmalloc if they are linked into a program that is not stripped. It cannot intercept
/// calls of other allocators that are linked into the program, or in a stripped one. This
/// wrapper reports the blocks of such an allocator. Without the recorder it adds a load and
/// a comparison to each call.
///
/// ```
/// # use std::alloc::System as MiMalloc;
/// use allotrope_client::Recorded;
///
/// #[global_allocator]
/// static GLOBAL: Recorded<MiMalloc> = Recorded::new(MiMalloc);
/// ```
///
/// No block is counted twice. Around [`System`] the wrapper does nothing, because the
/// recorder intercepts the `malloc` that `System` calls. Around any other allocator each
/// call is one allocation, reallocation or deallocation. While the allocator's call runs,
/// calls of `malloc`, `System` or this wrapper on the same thread are part of it and are
/// not recorded again. A failed allocation is not recorded.
///
/// The wrapper adds no requirements of its own on threads: it may be called wherever the
/// wrapped allocator may.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recorded<A>(A);

impl<A> Recorded<A> {
    /// Wraps an allocator.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }

    /// The wrapped allocator.
    pub const fn get(&self) -> &A {
        &self.0
    }
}

/// Whether calls of this allocator are reported: the process has a recorder, which cannot
/// intercept them.
#[inline(always)]
fn is_reported<A: 'static>() -> bool {
    TypeId::of::<A>() != TypeId::of::<System>() && address(Function::AllocatorEnter).is_some()
}

/// Calls a function of the recorder. A macro and no function, because a recorded stack
/// begins in the frame that calls the recorder. Reports recognise the functions below,
/// which are never inlined, by their names.
macro_rules! report {
    ($function:ident as $type:ty, ($($argument:expr),*), $absent:expr) => {
        match address(Function::$function) {
            // SAFETY: `address` is the recorder's function with this name, and its
            // type is that in docs/client-abi.md. It never dereferences the address
            // of a block. A token is the one that the recorder returned to this
            // thread for the same call.
            Some(address) => unsafe {
                transmute::<*mut c_void, $type>(address)($($argument),*)
            },
            None => $absent,
        }
    };
}

/// Evaluates `$call`, a call that allocates a block of `$layout`, and reports it: one call
/// of the recorder before and one after it. Evaluates to the block.
macro_rules! report_allocation {
    ($layout:expr, $call:expr) => {{
        let token = report!(AllocatorEnter as unsafe extern "C" fn() -> u64, (), 0);
        let block = $call;
        let alignment = match $layout.align() {
            alignment if alignment > USUAL_ALIGNMENT => alignment,
            _ => 0,
        };
        report!(
            AllocatorAllocation as unsafe extern "C" fn(u64, *mut u8, usize, usize),
            (token, block, $layout.size(), alignment),
            ()
        );
        block
    }};
}

/// Reported calls of the allocator. `allotrope` finds the symbols of these functions in
/// programs that report the blocks of their allocator.
impl<A: GlobalAlloc + 'static> Recorded<A> {
    #[inline(never)]
    unsafe fn alloc_reported(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller fulfils the contract of `GlobalAlloc::alloc`.
        report_allocation!(layout, unsafe { self.0.alloc(layout) })
    }

    #[inline(never)]
    unsafe fn alloc_zeroed_reported(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller fulfils the contract of `GlobalAlloc::alloc_zeroed`.
        report_allocation!(layout, unsafe { self.0.alloc_zeroed(layout) })
    }

    #[inline(never)]
    unsafe fn dealloc_reported(&self, block: *mut u8, layout: Layout) {
        let token = report!(
            AllocatorDeallocation as unsafe extern "C" fn(*mut u8) -> u64,
            (block),
            0
        );
        // SAFETY: the caller fulfils the contract of `GlobalAlloc::dealloc`.
        unsafe { self.0.dealloc(block, layout) };
        report!(AllocatorLeave as unsafe extern "C" fn(u64), (token), ());
    }

    #[inline(never)]
    unsafe fn realloc_reported(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let token = report!(
            AllocatorReallocationStart as unsafe extern "C" fn(*mut u8) -> u64,
            (block),
            0
        );
        // SAFETY: the caller fulfils the contract of `GlobalAlloc::realloc`.
        let result = unsafe { self.0.realloc(block, layout, size) };
        report!(
            AllocatorReallocationEnd as unsafe extern "C" fn(u64, *mut u8, *mut u8, usize),
            (token, block, result, size),
            ()
        );
        result
    }
}

// Not inlined: if line tables are the only debug information, the name of an inlined
// frame is only `alloc`, without type and module.
// SAFETY: each method passes its arguments to the same method of the wrapped allocator
// and returns its result, so the contract of `GlobalAlloc` holds as it does for that
// allocator. The reports in between do not allocate and do not unwind.
unsafe impl<A: GlobalAlloc + 'static> GlobalAlloc for Recorded<A> {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller fulfils the contract of this method, which is the same.
        unsafe {
            if is_reported::<A>() {
                self.alloc_reported(layout)
            } else {
                self.0.alloc(layout)
            }
        }
    }

    #[inline(never)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller fulfils the contract of this method, which is the same.
        unsafe {
            if is_reported::<A>() {
                self.alloc_zeroed_reported(layout)
            } else {
                self.0.alloc_zeroed(layout)
            }
        }
    }

    #[inline(never)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller fulfils the contract of this method, which is the same.
        unsafe {
            if is_reported::<A>() {
                self.dealloc_reported(block, layout);
            } else {
                self.0.dealloc(block, layout);
            }
        }
    }

    #[inline(never)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller fulfils the contract of this method, which is the same.
        unsafe {
            if is_reported::<A>() {
                self.realloc_reported(block, layout, size)
            } else {
                self.0.realloc(block, layout, size)
            }
        }
    }
}
