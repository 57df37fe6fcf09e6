//! A global allocator whose blocks the recorder learns of from this wrapper,
//! because it can not see the calls: they do not leave the program.

use core::alloc::{GlobalAlloc, Layout};
use core::any::TypeId;
use core::ffi::c_void;
use core::mem::transmute;
use std::alloc::System;

use super::{Function, address};

/// Alignment that every block of `malloc` has: not worth telling.
const USUAL_ALIGNMENT: usize = 16;

/// Wraps the program's global allocator so that Allotrope sees its blocks.
///
/// Allotrope stands before `malloc` and its relatives. An allocator that is
/// linked into the program, as mimalloc's and jemalloc's crates are, is called
/// past it; this wrapper reports what such an allocator hands out and takes
/// back. Without the recorder a call costs a load and a comparison more.
///
/// ```
/// # use std::alloc::System as MiMalloc;
/// use allotrope_client::Recorded;
///
/// #[global_allocator]
/// static GLOBAL: Recorded<MiMalloc> = Recorded::new(MiMalloc);
/// ```
///
/// Nothing is counted twice. Around [`System`] the wrapper does nothing at all:
/// its blocks come from `malloc`, where they are seen, and the recording is the
/// same with the wrapper as without. Around any other allocator each call is one
/// allocation, reallocation or deallocation; what the allocator calls meanwhile
/// on the same thread, be it `malloc`, `System` or this wrapper, is part of
/// that call and not recorded again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recorded<A>(A);

impl<A> Recorded<A> {
    /// Wraps an allocator.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }

    /// The allocator.
    pub const fn get(&self) -> &A {
        &self.0
    }
}

/// Whether calls of this allocator are reported: it is one that the recorder
/// can not see, and there is a recorder.
#[inline(always)]
fn is_reported<A: 'static>() -> bool {
    TypeId::of::<A>() != TypeId::of::<System>() && address(Function::AllocatorEnter).is_some()
}

/// Calls one of the recorder's functions. No function of its own: a recorded
/// stack begins in the frame that calls, and reports know the functions below,
/// which are never inlined, by their names.
macro_rules! report {
    ($function:ident as $type:ty, ($($argument:expr),*), $absent:expr) => {
        match address(Function::$function) {
            // SAFETY: the recorder's function of this name has this type
            // (docs/client-abi.md). It treats blocks as numbers; a token is what
            // it gave this thread before.
            Some(address) => unsafe {
                transmute::<*mut c_void, $type>(address)($($argument),*)
            },
            None => $absent,
        }
    };
}

/// A call that allocates, between its two reports.
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

/// The calls that are reported. `allotrope` knows by these functions' symbols
/// that a program reports its allocator's blocks.
impl<A: GlobalAlloc + 'static> Recorded<A> {
    #[inline(never)]
    unsafe fn alloc_reported(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is the allocator's.
        report_allocation!(layout, unsafe { self.0.alloc(layout) })
    }

    #[inline(never)]
    unsafe fn alloc_zeroed_reported(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        report_allocation!(layout, unsafe { self.0.alloc_zeroed(layout) })
    }

    #[inline(never)]
    unsafe fn dealloc_reported(&self, block: *mut u8, layout: Layout) {
        let token = report!(
            AllocatorDeallocation as unsafe extern "C" fn(*mut u8) -> u64,
            (block),
            0
        );
        // SAFETY: as above.
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
        // SAFETY: as above.
        let result = unsafe { self.0.realloc(block, layout, size) };
        report!(
            AllocatorReallocationEnd as unsafe extern "C" fn(u64, *mut u8, *mut u8, usize),
            (token, block, result, size),
            ()
        );
        result
    }
}

// Never inlined either: with line tables as the only debug information an inlined
// frame would be called `alloc` and nothing more.
// SAFETY: every call is passed on unchanged, and so is its result.
unsafe impl<A: GlobalAlloc + 'static> GlobalAlloc for Recorded<A> {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is the allocator's.
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
        // SAFETY: as above.
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
        // SAFETY: as above.
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
        // SAFETY: as above.
        unsafe {
            if is_reported::<A>() {
                self.realloc_reported(block, layout, size)
            } else {
                self.0.realloc(block, layout, size)
            }
        }
    }
}
