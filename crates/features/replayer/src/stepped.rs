//! The call that a tracer steps through. The library's documentation describes it.

use std::arch::global_asm;
use std::ffi::c_void;

unsafe extern "C" {
    /// Calls `function` with three arguments between two breakpoints; returns its result.
    pub fn allotrope_stepped_call(
        function: *const c_void,
        first: usize,
        second: usize,
        third: usize,
        operation: u64,
    ) -> *mut c_void;
}

global_asm!(
    ".text",
    ".balign 16",
    ".globl allotrope_stepped_call",
    ".type allotrope_stepped_call, @function",
    "allotrope_stepped_call:",
    ".cfi_startproc",
    "push rbx",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbx, -16",
    "mov rbx, r8",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "int3",
    ".globl allotrope_stepped_begin",
    "allotrope_stepped_begin:",
    "call rax",
    ".globl allotrope_stepped_end",
    "allotrope_stepped_end:",
    "int3",
    "pop rbx",
    ".cfi_def_cfa_offset 8",
    ".cfi_restore rbx",
    "ret",
    ".cfi_endproc",
    ".size allotrope_stepped_call, . - allotrope_stepped_call",
);
