//! The recorder's functions for hooks in other libraries of the process. The library
//! `allotrope-cxx-hooks` calls them: it interposes C++ operators and jemalloc's own
//! functions, which may allocate without calling `malloc`.

use core::ffi::c_void;
use core::marker::PhantomData;

use crate::numbers::EntryPoint;

/// Name of the symbol that the recorder exports, a [`Get`].
pub const SYMBOL: &core::ffi::CStr = c"allotrope_recorder_interface";

/// Type of the exported function. Its result is valid until the process ends; whether
/// it is this [`HookApi`], its `version` shows.
pub type Get = extern "C" fn() -> *const HookApi;

/// Version of [`HookApi`].
pub const VERSION: u32 = 2;

/// The registers with which the caller of a hook called it; where the unwinder
/// begins.
///
/// A hook's entry stub, in assembly, passes them as the hook's last argument. A
/// structure of two integers is passed in the next two argument registers (System V
/// ABI, §3.2.3), or on the stack if fewer than two are left: a hook with a `Caller`
/// has at most four other arguments.
///
/// It can be neither sent to another thread nor stored beyond the hook: a function
/// that takes one may read the stack.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Caller<'hook> {
    /// The stack pointer at the hook's first instruction.
    stack_pointer: *const u64,
    /// The frame pointer register at that time: rbp.
    frame_pointer: u64,
    hook: PhantomData<&'hook u64>,
}

impl<'hook> Caller<'hook> {
    /// Returns the caller of a function that has no entry stub.
    ///
    /// # Safety
    /// `return_address` is on the calling thread's stack, and what is in the frames
    /// further in is not needed any more once the function has returned.
    #[inline(always)]
    pub unsafe fn new(return_address: &'hook u64, frame_pointer: u64) -> Self {
        Self {
            stack_pointer: return_address,
            frame_pointer,
            hook: PhantomData,
        }
    }

    /// The stack pointer at the hook's first instruction. The return address is there.
    #[inline(always)]
    pub fn stack_pointer(self) -> u64 {
        self.stack_pointer as u64
    }

    /// The frame pointer register at the hook's first instruction; still the caller's.
    #[inline(always)]
    pub fn frame_pointer(self) -> u64 {
        self.frame_pointer
    }

    /// Where the hook returns to.
    #[inline(always)]
    pub fn return_address(self) -> u64 {
        // SAFETY: only entry stubs make values of this type, and the hook to which they
        // pass one has not returned during `'hook`: its return address is on the stack.
        unsafe { self.stack_pointer.read_volatile() }
    }
}

/// Functions that record an event, each for a call of `entry`.
///
/// A hook calls [`enter`](Self::enter) before the next definition and
/// [`leave`](Self::leave) after it: what the allocator calls in between is part of
/// this call and not recorded. An exception may unwind past `leave`.
#[derive(Debug)]
#[repr(C)]
pub struct HookApi {
    /// [`VERSION`].
    pub version: u32,
    /// A call of the allocator begins. `code` is any address in the hook's
    /// library: an inner call that is a jump returns to there.
    pub enter: extern "C" fn(caller: Caller<'_>, code: usize),
    /// The call ends.
    pub leave: extern "C" fn(),
    /// The call allocated a block; after `leave`.
    pub allocation: extern "C" fn(
        entry: EntryPoint,
        block: *mut c_void,
        size: usize,
        alignment: usize,
        caller: Caller<'_>,
    ),
    /// The call will free a block; before `enter`.
    pub deallocation: extern "C" fn(entry: EntryPoint, block: *mut c_void, caller: Caller<'_>),
    /// The call will reallocate a block; before `enter`. Returns whether that was
    /// recorded.
    pub reallocation_start:
        extern "C" fn(entry: EntryPoint, block: *mut c_void, caller: Caller<'_>) -> bool,
    /// The end of a reallocation whose start was recorded, after `leave`: `result`
    /// is the new block, or null if the call failed.
    pub reallocation_end: extern "C" fn(
        entry: EntryPoint,
        block: *mut c_void,
        result: *mut c_void,
        size: usize,
        caller: Caller<'_>,
    ),
}
