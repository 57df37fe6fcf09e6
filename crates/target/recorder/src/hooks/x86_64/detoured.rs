//! The stubs of all functions with a detour. They save every register that the function
//! may leave as it is, not only those that the calling convention names: a compiler that
//! sees the function knows which it changes (gcc's `-fipa-ra`), and relies on that.

use core::ffi::{c_char, c_int};
use core::mem::offset_of;

use crate::hooks::detour_call::Call;
use crate::hooks::detoured;
use crate::lifecycle::detours;
use crate::state::image;

/// Offsets in the stub's frame: the vector registers, the call, and other registers
/// before the function's call and after it.
const CALL: usize = 16 * 16;
const BEFORE: usize = CALL + size_of::<Call>();
const AFTER: usize = BEFORE + 2 * 8;
/// Bytes of the frame below rbp. With the number, the return address and rbp, the stack
/// pointer is a multiple of 16.
const FRAME: usize = AFTER + 8 * 8 + 8;
const _: () = assert!(FRAME % 16 == 8);

/// Does something with each vector register, `\i`. Code of the recorder leaves their upper
/// parts (AVX) as they are: it is built for every x86-64 processor.
macro_rules! each_vector {
    ($instruction:literal) => {
        concat!(
            ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n",
            $instruction,
            "\n.endr"
        )
    };
}

/// Defines a stub. The thunk of a function has pushed its number above the return address.
macro_rules! stub {
    ($(#[doc = $doc:literal])+ $name:ident, $($call:literal),+) => {
        $(#[doc = $doc])+
        ///
        /// # Safety
        /// Only for thunks.
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                // The address of the routine, relative to the entry, in four bytes.
                ".cfi_personality 0x1b, {unwound}",
                ".cfi_def_cfa_offset 16",
                "push rbp",
                ".cfi_def_cfa_offset 24",
                ".cfi_offset rbp, -24",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                "sub rsp, {frame}",
                // gcc does not align the stack where it sees that the function does not need it
                // (`-fipa-stack-alignment`).
                "and rsp, -16",
                each_vector!("movups [rsp + 16 * \\i], xmm\\i"),
                "mov [rsp + {call}], rdi",
                "mov [rsp + {call} + 8], rsi",
                "mov [rsp + {call} + 16], rdx",
                "mov [rsp + {call} + 24], rcx",
                "mov [rsp + {call} + 32], r8",
                "mov [rsp + {call} + 40], r9",
                "mov [rsp + {call} + {result}], rax",
                "mov [rsp + {before}], r10",
                "mov [rsp + {before} + 8], r11",
                "mov rax, [rbp + 8]",
                "mov [rsp + {call} + {number}], rax",
                "lea rdi, [rsp + {call}]",
                "lea rsi, [rbp + 16]",
                "mov rdx, [rbp]",
                "call {begin}",
                // The trampoline in place of the number.
                "mov [rbp + 8], rax",
                "cmp qword ptr [rsp + {call} + {token}], 0",
                each_vector!("movups xmm\\i, [rsp + 16 * \\i]"),
                "mov rdi, [rsp + {call}]",
                "mov rsi, [rsp + {call} + 8]",
                "mov rdx, [rsp + {call} + 16]",
                "mov rcx, [rsp + {call} + 24]",
                "mov r8, [rsp + {call} + 32]",
                "mov r9, [rsp + {call} + 40]",
                "mov rax, [rsp + {call} + {result}]",
                "mov r10, [rsp + {before}]",
                "mov r11, [rsp + {before} + 8]",
                "je 2f",
                $($call,)+
                each_vector!("movups [rsp + 16 * \\i], xmm\\i"),
                "mov [rsp + {call} + {result}], rax",
                "mov [rsp + {after}], rdi",
                "mov [rsp + {after} + 8], rsi",
                "mov [rsp + {after} + 16], rdx",
                "mov [rsp + {after} + 24], rcx",
                "mov [rsp + {after} + 32], r8",
                "mov [rsp + {after} + 40], r9",
                "mov [rsp + {after} + 48], r10",
                "mov [rsp + {after} + 56], r11",
                "lea rdi, [rsp + {call}]",
                "lea rsi, [rbp + 16]",
                "mov rdx, [rbp]",
                "call {end}",
                each_vector!("movups xmm\\i, [rsp + 16 * \\i]"),
                "mov rax, [rsp + {call} + {result}]",
                "mov rdi, [rsp + {after}]",
                "mov rsi, [rsp + {after} + 8]",
                "mov rdx, [rsp + {after} + 16]",
                "mov rcx, [rsp + {after} + 24]",
                "mov r8, [rsp + {after} + 32]",
                "mov r9, [rsp + {after} + 40]",
                "mov r10, [rsp + {after} + 48]",
                "mov r11, [rsp + {after} + 56]",
                ".cfi_remember_state",
                "mov rsp, rbp",
                "pop rbp",
                ".cfi_def_cfa rsp, 16",
                ".cfi_restore rbp",
                "lea rsp, [rsp + 8]",
                ".cfi_def_cfa_offset 8",
                "ret",
                // The call is not recorded: the stub leaves no frame, and returns to the
                // trampoline, which the function's caller seems to have called.
                "2:",
                ".cfi_restore_state",
                "mov rsp, rbp",
                "pop rbp",
                ".cfi_def_cfa rsp, 16",
                ".cfi_restore rbp",
                "ret",
                ".cfi_endproc",
                frame = const FRAME,
                call = const CALL,
                before = const BEFORE,
                after = const AFTER,
                token = const offset_of!(Call, token),
                number = const offset_of!(Call, number),
                result = const offset_of!(Call, result),
                begin = sym detoured::before,
                end = sym detoured::after,
                unwound = sym detoured::unwound,
            )
        }
    };
}

stub!(
    /// Of allocators that are known: their functions have at most six arguments.
    stub,
    "call [rbp + 8]"
);

stub!(
    /// Of functions that the user named. They may have arguments on the stack, of which the first six are
    /// passed on: above the return address there are words of the caller's frame in any case.
    named_stub,
    "push qword ptr [rbp + 64]",
    "push qword ptr [rbp + 56]",
    "push qword ptr [rbp + 48]",
    "push qword ptr [rbp + 40]",
    "push qword ptr [rbp + 32]",
    "push qword ptr [rbp + 24]",
    "call [rbp + 8]",
    "lea rsp, [rsp + 48]"
);

/// Runs before the recorder's other constructor, which starts the recording. The loader
/// passes the arguments of `main`.
extern "C" fn constructor(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
    image::lend_environment(environment);
    let stubs = [stub, named_stub].map(|stub| stub as *const () as usize);
    detours::make(stubs);
}

type Constructor = extern "C" fn(c_int, *const *const c_char, *const *const c_char);

#[used]
#[unsafe(link_section = ".init_array.00100")]
static CONSTRUCTOR: Constructor = constructor;
