//! What the recorder offers to code in the same process that hands out memory
//! without passing through `malloc`: the library that stands before C++
//! operators and jemalloc's own calls.

use core::ffi::c_void;

/// Name of the symbol that the recorder exports: a function without arguments
/// that gives an [`HookApi`] for ever.
pub const SYMBOL: &core::ffi::CStr = c"allotrope_recorder_interface";

/// Type of that function.
pub type Get = unsafe extern "C" fn() -> *const HookApi;

/// Version of [`HookApi`].
pub const VERSION: u32 = 1;

/// Functions that record an event. `entry` is the entry point's number in the
/// trace, `sp` the stack pointer at the hook's entry (the return address lies
/// there), `bp` rbp at that time.
///
/// A hook calls [`enter`](Self::enter) before the real call and
/// [`leave`](Self::leave) after it: what the allocator itself calls in between
/// is part of the call and not recorded again. An exception may pass by
/// `leave`.
#[repr(C)]
pub struct HookApi {
    /// [`VERSION`].
    pub version: u32,
    /// A call of the allocator begins. `code` is any address in the hook's
    /// library: an inner call that is a jump returns to there.
    pub enter: unsafe extern "C" fn(sp: *const u64, code: usize),
    /// It ends.
    pub leave: unsafe extern "C" fn(),
    /// A block was handed out; after `leave`.
    pub allocation: unsafe extern "C" fn(
        entry: u8,
        block: *mut c_void,
        size: usize,
        alignment: usize,
        sp: *const u64,
        bp: u64,
    ),
    /// A block is about to be given back; before `enter`.
    pub deallocation: unsafe extern "C" fn(entry: u8, block: *mut c_void, sp: *const u64),
    /// A block is about to be reallocated, before `enter`; gives whether that
    /// was recorded.
    pub reallocation_start:
        unsafe extern "C" fn(entry: u8, block: *mut c_void, sp: *const u64) -> bool,
    /// The answer to a recorded start, after `leave`: the new block, or null
    /// for a failure.
    pub reallocation_end: unsafe extern "C" fn(
        entry: u8,
        block: *mut c_void,
        result: *mut c_void,
        size: usize,
        sp: *const u64,
        bp: u64,
    ),
}
