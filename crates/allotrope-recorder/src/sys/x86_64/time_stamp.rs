//! The time stamp counter, the clock of a recording's ticks.
//!
//! A thread may forbid itself to read it (`PR_SET_TSC`, prctl(2)), so that the
//! instruction raises `SIGSEGV`; threads and children that it starts inherit
//! that. For our reads the permission is taken and given back. Programs that are
//! exec'ed so end in glibc's loader, which reads the counter before all else.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::sys::kernel;
use crate::sys::next::{self, Function};
use crate::sys::system::SignalsBlocked;

/// Whether a thread of this process may have forbidden it.
static FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Reads the counter.
#[inline]
pub fn tick() -> u64 {
    if FORBIDDEN.load(Relaxed) {
        return tick_with_permission();
    }
    // SAFETY: `rdtsc` has no other preconditions.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cold]
fn tick_with_permission() -> u64 {
    // A handler is to find the counter forbidden.
    let _blocked = SignalsBlocked::new();
    let mut permission = libc::PR_TSC_ENABLE;
    kernel::get_tsc(&mut permission);
    let is_forbidden = permission == libc::PR_TSC_SIGSEGV;
    if is_forbidden {
        kernel::set_tsc(libc::PR_TSC_ENABLE);
    }
    // SAFETY: as in `tick`; it is permitted now.
    let tick = unsafe { core::arch::x86_64::_rdtsc() };
    if is_forbidden {
        kernel::set_tsc(libc::PR_TSC_SIGSEGV);
    }
    tick
}

/// Called by `prctl` before it forbids or permits it.
extern "C" fn note() {
    FORBIDDEN.store(true, Relaxed);
    if next::address(Function::Prctl) == 0 {
        next::resolve();
    }
}

/// See the function of this name in the C library's manual. All but one option
/// go on as they are.
///
/// # Safety
/// As the original.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn prctl() {
    naked_asm!(
        ".cfi_startproc",
        "cmp edi, {set}",
        "je 2f",
        "mov r11, [rip + {table} + {next}]",
        "test r11, r11",
        "jz 2f",
        "jmp r11",
        "2:",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        ".cfi_def_cfa_offset 64",
        "call {note}",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        ".cfi_def_cfa_offset 8",
        "jmp [rip + {table} + {next}]",
        ".cfi_endproc",
        set = const libc::PR_SET_TSC,
        table = sym next::NEXT,
        next = const Function::Prctl as usize * size_of::<usize>(),
        note = sym note,
    )
}
