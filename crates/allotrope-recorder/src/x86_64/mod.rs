//! What the recorder needs of x86-64: system calls, the thread slot, the
//! hooks' entry stubs. Another architecture is a folder with the same files.

pub mod counting;
pub mod entry;
pub mod switches;
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
