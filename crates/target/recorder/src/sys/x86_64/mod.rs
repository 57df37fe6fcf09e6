//! What the recorder needs of x86-64: system calls, the thread's own storage, the clock,
//! other stacks. Another architecture is a folder with the same files, here and in
//! `hooks`, where the stubs are that the program calls.

use core::sync::atomic::AtomicU64;

pub mod exec_registers;
pub mod preemption;
pub mod probe;
pub mod stack_switch;
pub mod syscall;
pub mod thread_slot;
pub mod time_stamp;

pub use time_stamp::tick;

/// Where the thread's own data lie, by which glibc knows the thread: their first
/// word is their own address (x86-64 psABI, TLS).
#[inline]
pub fn thread_pointer() -> u64 {
    let pointer;
    // SAFETY: loads what every thread of a glibc program has there.
    unsafe {
        core::arch::asm!(
            "mov {0}, qword ptr fs:[0]",
            out(reg) pointer,
            options(nostack, readonly, preserves_flags)
        );
    }
    pointer
}

/// Adds to a counter that this thread alone writes.
#[inline(always)]
pub fn add(counter: &AtomicU64, number: u64) {
    // SAFETY: the counter is live memory that no other thread writes; one
    // instruction, so that a signal handler of this thread cannot come
    // between loading and storing.
    unsafe {
        core::arch::asm!(
            "add qword ptr [{}], {}",
            in(reg) counter.as_ptr(),
            in(reg) number,
            options(nostack),
        );
    }
}
