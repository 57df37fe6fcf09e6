//! The recorder's functions for hooks in other libraries of the process. The library
//! `allotrope-cxx-hooks` calls them: it interposes C++ operators and jemalloc's own
//! functions, which may allocate without calling `malloc`.

use core::ffi::c_void;

/// Name of the symbol that the recorder exports: a function without arguments that
/// returns a [`HookApi`], which stays valid until the process ends.
pub const SYMBOL: &core::ffi::CStr = c"allotrope_recorder_interface";

/// Type of that function.
pub type Get = unsafe extern "C" fn() -> *const HookApi;

/// Version of [`HookApi`].
pub const VERSION: u32 = 1;

/// Functions that record events. `entry` is the entry point's number in the trace, `sp`
/// the stack pointer at the hook's entry (it points to the return address), `bp` the
/// value of rbp at that time.
///
/// A hook calls [`enter`](Self::enter) before the real call and [`leave`](Self::leave)
/// after it. Calls that the allocator itself makes in between are part of this call and
/// not recorded again. If the real call throws an exception, `leave` is not called.
#[repr(C)]
pub struct HookApi {
    /// [`VERSION`].
    pub version: u32,
    /// A call of the allocator begins. `code` is any address in the hook's library: if
    /// the real function makes an inner call by a jump (a tail call), that call returns
    /// to this library.
    pub enter: unsafe extern "C" fn(sp: *const u64, code: usize),
    /// The call ends.
    pub leave: unsafe extern "C" fn(),
    /// A block was allocated; called after `leave`.
    pub allocation: unsafe extern "C" fn(
        entry: u8,
        block: *mut c_void,
        size: usize,
        alignment: usize,
        sp: *const u64,
        bp: u64,
    ),
    /// A block is about to be deallocated; called before `enter`.
    pub deallocation: unsafe extern "C" fn(entry: u8, block: *mut c_void, sp: *const u64),
    /// A block is about to be reallocated; called before `enter`. Returns whether the
    /// start was recorded.
    pub reallocation_start:
        unsafe extern "C" fn(entry: u8, block: *mut c_void, sp: *const u64) -> bool,
    /// The end of a reallocation whose start was recorded; called after `leave`.
    /// `result`: the new block, or null for a failure.
    pub reallocation_end: unsafe extern "C" fn(
        entry: u8,
        block: *mut c_void,
        result: *mut c_void,
        size: usize,
        sp: *const u64,
        bp: u64,
    ),
}
