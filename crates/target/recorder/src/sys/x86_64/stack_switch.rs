//! Calls of functions on another stack than the program's: walks and the claim of a
//! ring need more space than the stack of a signal handler may have.

use core::arch::naked_asm;
use core::ffi::c_void;

use crate::sys::system;

/// Calls `function(argument)` on the stack that ends at `top`, and comes back.
///
/// The frame is described by rbp, so that a signal handler's stack can be
/// walked through it.
///
/// # Safety
/// `top` is the 16-byte-aligned end of a stack that nobody uses.
#[unsafe(naked)]
pub unsafe extern "C" fn call_on_stack(
    argument: *mut c_void,
    function: unsafe extern "C" fn(*mut c_void),
    top: *mut u8,
) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Calls `function` on the stack that ends at `top`.
///
/// # Safety
/// As [`call_on_stack`].
#[inline(always)]
pub unsafe fn on_stack<R, F: FnOnce() -> R>(top: *mut u8, function: F) -> R {
    struct Call<F, R> {
        function: Option<F>,
        result: Option<R>,
    }
    unsafe extern "C" fn run<R, F: FnOnce() -> R>(call: *mut c_void) {
        // SAFETY: it is the one below, which waits.
        let call = unsafe { &mut *call.cast::<Call<F, R>>() };
        call.result = call.function.take().map(|function| function());
    }
    let mut call = Call {
        function: Some(function),
        result: None,
    };
    // SAFETY: passed on.
    unsafe { call_on_stack((&raw mut call).cast(), run::<R, F>, top) };
    match call.result {
        Some(result) => result,
        None => system::abort(),
    }
}
