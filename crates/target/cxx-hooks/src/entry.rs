//! The stubs: the functions that the program calls, in assembly. They take up to three
//! arguments (unused ones included) and add a [`Caller`](allotrope_shm::hook_api::Caller):
//! their own stack pointer and rbp, with which the walk begins in the caller.

/// An exported function that does what the assembly does.
macro_rules! export {
    ($name:ident, $($assembly:tt)*) => {
        /// See the function of this name in the C++ standard or jemalloc's manual.
        ///
        /// # Safety
        /// As the original.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!($($assembly)*)
        }
    };
}

/// Exports a function that jumps to its hook.
macro_rules! jump {
    ($name:ident, $hook:path) => {
        $crate::entry::export!(
            $name,
            ".cfi_startproc",
            "mov rcx, rsp",
            "mov r8, rbp",
            "jmp {}",
            ".cfi_endproc",
            sym $hook,
        );
    };
}

/// Exports a form of `operator new`, which may throw: no Rust frame may be on the stack
/// then. So the stub itself calls the next definition, whose address `$begin` returns,
/// and then `$end`; its frame has unwind information.
macro_rules! wrap {
    ($name:ident, $begin:path, $end:path) => {
        $crate::entry::export!(
            $name,
            ".cfi_startproc",
            "push rbp",
            ".cfi_def_cfa_offset 16",
            ".cfi_offset rbp, -16",
            "mov rbp, rsp",
            ".cfi_def_cfa_register rbp",
            "push rbx",
            ".cfi_offset rbx, -24",
            "sub rsp, 40",
            "mov [rsp], rdi",
            "mov [rsp + 8], rsi",
            "mov [rsp + 16], rdx",
            "lea rdi, [rbp + 8]",
            "mov rsi, [rbp]",
            "call {begin}",
            "mov rdi, [rsp]",
            "mov rsi, [rsp + 8]",
            "mov rdx, [rsp + 16]",
            "call rax",
            "mov rbx, rax",
            "mov rdi, rax",
            "mov rsi, [rsp]",
            "mov rdx, [rsp + 8]",
            "lea rcx, [rbp + 8]",
            "mov r8, [rbp]",
            "call {end}",
            "mov rax, rbx",
            "add rsp, 40",
            "pop rbx",
            "pop rbp",
            ".cfi_def_cfa rsp, 8",
            "ret",
            ".cfi_endproc",
            begin = sym $begin,
            end = sym $end,
        );
    };
}

pub(crate) use {export, jump, wrap};
