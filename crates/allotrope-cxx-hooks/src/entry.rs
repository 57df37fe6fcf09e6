//! The exported functions. Each hands its arguments (three at most, unused
//! ones included) on to a Rust function that also gets the caller's stack
//! pointer and rbp: the walk begins in the caller.
//!
//! Names as the Itanium C++ ABI mangles them (§5.1).

use core::arch::naked_asm;

use crate::{operators, sized};

macro_rules! entry {
    ($name:ident => $module:ident :: $hook:ident) => {
        /// See the function of this name in the C++ standard or jemalloc's manual.
        ///
        /// # Safety
        /// As the original.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "mov rcx, rsp",
                "mov r8, rbp",
                "jmp {}",
                ".cfi_endproc",
                sym $module::$hook,
            )
        }
    };
}

/// `operator new` may throw, and no Rust frame may be on the stack then: the
/// next definition is called from here, in a frame that unwinders pass by its
/// unwind information. A Rust function gives the address of the next
/// definition, another records what came back.
macro_rules! new {
    ($name:ident) => {
        /// See the function of this name in the C++ standard.
        ///
        /// # Safety
        /// As the original.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
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
                "call {next}",
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
                "call {record}",
                "mov rax, rbx",
                "add rsp, 40",
                "pop rbx",
                "pop rbp",
                ".cfi_def_cfa rsp, 8",
                "ret",
                ".cfi_endproc",
                next = sym operators::$name::next,
                record = sym operators::$name::record,
            )
        }
    };
}

new!(_Znwm);
new!(_Znam);
new!(_ZnwmRKSt9nothrow_t);
new!(_ZnamRKSt9nothrow_t);
new!(_ZnwmSt11align_val_t);
new!(_ZnamSt11align_val_t);
new!(_ZnwmSt11align_val_tRKSt9nothrow_t);
new!(_ZnamSt11align_val_tRKSt9nothrow_t);
entry!(_ZdlPv => operators::_ZdlPv);
entry!(_ZdlPvRKSt9nothrow_t => operators::_ZdlPvRKSt9nothrow_t);
entry!(_ZdlPvm => operators::_ZdlPvm);
entry!(_ZdlPvSt11align_val_t => operators::_ZdlPvSt11align_val_t);
entry!(_ZdlPvSt11align_val_tRKSt9nothrow_t => operators::_ZdlPvSt11align_val_tRKSt9nothrow_t);
entry!(_ZdlPvmSt11align_val_t => operators::_ZdlPvmSt11align_val_t);
entry!(_ZdaPv => operators::_ZdaPv);
entry!(_ZdaPvRKSt9nothrow_t => operators::_ZdaPvRKSt9nothrow_t);
entry!(_ZdaPvm => operators::_ZdaPvm);
entry!(_ZdaPvSt11align_val_t => operators::_ZdaPvSt11align_val_t);
entry!(_ZdaPvSt11align_val_tRKSt9nothrow_t => operators::_ZdaPvSt11align_val_tRKSt9nothrow_t);
entry!(_ZdaPvmSt11align_val_t => operators::_ZdaPvmSt11align_val_t);
entry!(mallocx => sized::mallocx);
entry!(rallocx => sized::rallocx);
entry!(dallocx => sized::dallocx);
entry!(sdallocx => sized::sdallocx);
