//! Whether the thread was preempted since it wrote its last timestamp.
//!
//! glibc (2.35 and later) registers an area with the kernel for each thread, for
//! restartable sequences (rseq(2)). Its field `rseq_cs` may name a descriptor of code
//! that is to be restarted if the thread is interrupted in the middle of it. When the
//! thread comes back from having been preempted, moved, or interrupted by a signal, the
//! kernel sets the field to zero if the thread was not in that code. So the recorder
//! lets it name an empty piece of code: as long as the field still holds that address
//! the thread ran without a break. Without a break little time passes between two
//! events; a break may last for any time, and the next event needs a timestamp.
//!
//! Programs with restartable sequences of their own store their descriptor before each
//! one; the recorder then finds theirs, which only costs one more timestamp.

use core::arch::{asm, global_asm};
use core::ptr;
use core::sync::atomic::AtomicU64;

use crate::sys::next::{self, Function};

// `struct rseq_cs` (`linux/rseq.h`): version, flags, start, length, where to go
// on. The kernel checks, too, that the signature that glibc registered (RSEQ_SIG
// in its `bits/rseq.h`) stands before the last of these; nothing ever goes there.
global_asm!(
    ".pushsection .text.allotrope_unbroken,\"ax\",@progbits",
    ".p2align 3",
    ".long 0x53053053",
    ".hidden allotrope_unbroken_end",
    "allotrope_unbroken_end:",
    "ud2",
    ".popsection",
    ".pushsection .data.rel.ro.allotrope_unbroken,\"aw\",@progbits",
    ".p2align 5",
    ".hidden allotrope_unbroken",
    ".globl allotrope_unbroken",
    ".type allotrope_unbroken, @object",
    ".size allotrope_unbroken, 32",
    "allotrope_unbroken:",
    ".long 0",
    ".long 0",
    ".quad allotrope_unbroken_end",
    ".quad 0",
    ".quad allotrope_unbroken_end",
    ".popsection",
);

unsafe extern "C" {
    static allotrope_unbroken: [u64; 4];
}

/// Value of the word as long as the thread was not preempted.
#[inline(always)]
pub fn unbroken() -> u64 {
    (&raw const allotrope_unbroken) as u64
}

/// The calling thread's word; null if there is none: an older glibc, a kernel
/// without rseq, or a program that asked glibc not to (`glibc.pthread.rseq`).
pub fn word() -> *const AtomicU64 {
    const CPU_ID: u64 = 4;
    const CRITICAL_SECTION: u64 = 8;
    let size = next::address(Function::RseqSize) as *const u32;
    let offset = next::address(Function::RseqOffset) as *const i64;
    if size.is_null() || offset.is_null() {
        return ptr::null();
    }
    let thread_pointer: u64;
    // SAFETY: glibc's variables of these names and types. The thread pointer's
    // first word is its own address (x86-64 psABI, TLS); the area is part of
    // what glibc allocated for the thread.
    unsafe {
        if size.read_volatile() == 0 {
            return ptr::null();
        }
        asm!("mov {0}, qword ptr fs:[0]", out(reg) thread_pointer, options(nostack, readonly, preserves_flags));
        let area = thread_pointer.wrapping_add_signed(offset.read_volatile());
        // Negative: the thread could not be registered.
        if ((area + CPU_ID) as *const i32).read_volatile() < 0 {
            return ptr::null();
        }
        (area + CRITICAL_SECTION) as *const AtomicU64
    }
}
