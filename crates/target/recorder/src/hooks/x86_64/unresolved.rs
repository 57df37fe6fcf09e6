//! `prctl` and `syscall` while their next definitions cannot be known: the system call itself.

use crate::sys::arch::syscall::number;

stub!(
    /// Makes the call of `prctl` while its next definition cannot be known. There is no `errno`
    /// then.
    system_prctl,
    "mov r10, rcx",
    "mov eax, {prctl}",
    "syscall",
    "cmp rax, -4095",
    "jb 2f",
    "mov rax, -1",
    "2: ret",
    ".cfi_endproc",
    prctl = const number::PRCTL,
);

stub!(
    /// Makes the call of `syscall` while its next definition cannot be known.
    system_call,
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "mov r9, [rsp + 8]",
    "syscall",
    "cmp rax, -4095",
    "jb 2f",
    "mov rax, -1",
    "2: ret",
    ".cfi_endproc",
);
