//! `prctl` and `syscall`: all but a few of their calls go on as they are, the arguments on the
//! stack too.

use crate::hooks::system;
use crate::sys::arch::syscall::number;
use crate::sys::next::{Function, NEXT};

/// Calls `$prepare` with the first two arguments and jumps to the function that it returns,
/// with the registers as they were.
macro_rules! prepared {
    () => {
        concat!(
            "push rdi\n",
            "push rsi\n",
            "push rdx\n",
            "push rcx\n",
            "push r8\n",
            "push r9\n",
            "push rax\n",
            ".cfi_def_cfa_offset 64\n",
            "call {prepare}\n",
            "mov r11, rax\n",
            "pop rax\n",
            "pop r9\n",
            "pop r8\n",
            "pop rcx\n",
            "pop rdx\n",
            "pop rsi\n",
            "pop rdi\n",
            ".cfi_def_cfa_offset 8\n",
            "jmp r11",
        )
    };
}

exported!(
    prctl,
    "cmp edi, {name}",
    "je {set_name}",
    "cmp edi, {counter}",
    "je 2f",
    "cmp edi, {filter}",
    "je 2f",
    "mov r11, [rip + {table} + {next}]",
    "test r11, r11",
    "jz 2f",
    "jmp r11",
    "2:",
    prepared!(),
    ".cfi_endproc",
    name = const libc::PR_SET_NAME,
    counter = const libc::PR_SET_TSC,
    filter = const libc::PR_SET_SECCOMP,
    table = sym NEXT,
    next = const Function::Prctl as usize * size_of::<usize>(),
    set_name = sym system::set_name,
    prepare = sym system::prepare_prctl,
);

exported!(
    syscall,
    "cmp rdi, {seccomp}",
    "je 2f",
    "cmp rdi, {prctl}",
    "je 2f",
    "cmp rdi, {exit}",
    "je 2f",
    "cmp rdi, {exit_group}",
    "je 2f",
    "mov r11, [rip + {table} + {next}]",
    "test r11, r11",
    "jz 2f",
    "jmp r11",
    "2:",
    prepared!(),
    ".cfi_endproc",
    seccomp = const libc::SYS_seccomp,
    prctl = const number::PRCTL,
    exit = const libc::SYS_exit,
    exit_group = const libc::SYS_exit_group,
    table = sym NEXT,
    next = const Function::Syscall as usize * size_of::<usize>(),
    prepare = sym system::prepare_syscall,
);
