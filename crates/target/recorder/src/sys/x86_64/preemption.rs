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

use core::arch::global_asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::sys::arch;
use crate::sys::next;

// `struct rseq_cs` (`linux/rseq.h`): version, flags, start, length, where to go
// on. The kernel checks, too, that the signature that glibc registered (RSEQ_SIG
// in its `bits/rseq.h`) precedes the last of these; nothing ever jumps there.
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

/// The calling thread's word; `None` if there is none: an older glibc, a kernel
/// without rseq, or a program that asked glibc not to (`glibc.pthread.rseq`).
pub fn word() -> Option<&'static AtomicU64> {
    let (size, offset) = (next::rseq_size()?, next::rseq_offset()?);
    if size.load(Relaxed) == 0 {
        return None;
    }
    let area = arch::thread_pointer().wrapping_add_signed(offset.load(Relaxed));
    // SAFETY: glibc's area of this thread, a part of the thread's own data, which outlive
    // every hook of the thread; the kernel writes to it only while the thread is in it.
    let area = unsafe { &*(area as *const Area) };
    // Negative: the thread could not be registered.
    (area.cpu_id.load(Relaxed) as i32 >= 0).then_some(&area.critical_section)
}

/// `struct rseq` (`linux/rseq.h`), as far as it is used.
#[repr(C)]
struct Area {
    cpu_id_start: AtomicU32,
    cpu_id: AtomicU32,
    /// The address of a descriptor.
    critical_section: AtomicU64,
}
