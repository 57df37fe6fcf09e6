//! A global allocator whose blocks the recorder learns of from this wrapper,
//! because it can not see the calls: they do not leave the program.

use core::alloc::{GlobalAlloc, Layout};
use core::any::TypeId;
use core::ffi::c_void;
use core::mem::transmute;
use core::sync::atomic::Ordering::Acquire;
use std::alloc::System;

use super::{Function, STATE, UNKNOWN, address, find};

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
    TypeId::of::<A>() != TypeId::of::<System>() && is_there()
}

/// Whether there is a recorder that takes such reports.
#[inline(always)]
fn is_there() -> bool {
    if STATE.load(Acquire) == UNKNOWN {
        find_for_allocator();
    }
    address(Function::AllocatorEnter).is_some()
}

/// By this function's symbol `allotrope` knows that a program reports its
/// allocator's blocks.
#[cold]
#[inline(never)]
fn find_for_allocator() {
    find();
}

/// Calls one of the recorder's functions.
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

#[inline(always)]
fn enter() -> u64 {
    report!(AllocatorEnter as unsafe extern "C" fn() -> u64, (), 0)
}

#[inline(always)]
fn leave(token: u64) {
    report!(AllocatorLeave as unsafe extern "C" fn(u64), (token), ());
}

#[inline(always)]
fn allocated(token: u64, block: *mut u8, layout: Layout) {
    let alignment = match layout.align() {
        alignment if alignment > USUAL_ALIGNMENT => alignment,
        _ => 0,
    };
    report!(
        AllocatorAllocation as unsafe extern "C" fn(u64, *mut u8, usize, usize),
        (token, block, layout.size(), alignment),
        ()
    );
}

#[inline(always)]
fn deallocate(block: *mut u8) -> u64 {
    report!(
        AllocatorDeallocation as unsafe extern "C" fn(*mut u8) -> u64,
        (block),
        0
    )
}

#[inline(always)]
fn start_reallocation(block: *mut u8) -> u64 {
    report!(
        AllocatorReallocationStart as unsafe extern "C" fn(*mut u8) -> u64,
        (block),
        0
    )
}

#[inline(always)]
fn reallocated(token: u64, block: *mut u8, result: *mut u8, size: usize) {
    report!(
        AllocatorReallocationEnd as unsafe extern "C" fn(u64, *mut u8, *mut u8, usize),
        (token, block, result, size),
        ()
    );
}

// SAFETY: every call is passed on unchanged, and so is its result.
unsafe impl<A: GlobalAlloc + 'static> GlobalAlloc for Recorded<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !is_reported::<A>() {
            // SAFETY: the caller's contract is the allocator's.
            return unsafe { self.0.alloc(layout) };
        }
        let token = enter();
        // SAFETY: as above.
        let block = unsafe { self.0.alloc(layout) };
        allocated(token, block, layout);
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !is_reported::<A>() {
            // SAFETY: the caller's contract is the allocator's.
            return unsafe { self.0.alloc_zeroed(layout) };
        }
        let token = enter();
        // SAFETY: as above.
        let block = unsafe { self.0.alloc_zeroed(layout) };
        allocated(token, block, layout);
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !is_reported::<A>() {
            // SAFETY: the caller's contract is the allocator's.
            return unsafe { self.0.dealloc(block, layout) };
        }
        let token = deallocate(block);
        // SAFETY: as above.
        unsafe { self.0.dealloc(block, layout) };
        leave(token);
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if !is_reported::<A>() {
            // SAFETY: the caller's contract is the allocator's.
            return unsafe { self.0.realloc(block, layout, new_size) };
        }
        let token = start_reallocation(block);
        // SAFETY: as above.
        let result = unsafe { self.0.realloc(block, layout, new_size) };
        reallocated(token, block, result, new_size);
        result
    }
}
