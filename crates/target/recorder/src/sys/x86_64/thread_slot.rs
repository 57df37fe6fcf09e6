//! The recorder's only thread-local storage: three words, initial-exec, so that reading
//! one is one `fs`-relative load and never calls `__tls_get_addr` (which may call
//! `malloc`). What the first points to is a matter of the layer above.

use core::arch::{asm, global_asm};

use allotrope_shm::layout::EntryCounters;

global_asm!(
    ".pushsection .tbss.allotrope_thread,\"awT\",@nobits",
    ".p2align 3",
    ".hidden allotrope_thread",
    ".globl allotrope_thread",
    ".type allotrope_thread, @object",
    ".size allotrope_thread, 8",
    "allotrope_thread:",
    ".zero 8",
    ".hidden allotrope_counters",
    ".globl allotrope_counters",
    ".type allotrope_counters, @object",
    ".size allotrope_counters, 8",
    "allotrope_counters:",
    ".zero 8",
    ".hidden allotrope_countdown",
    ".globl allotrope_countdown",
    ".type allotrope_countdown, @object",
    ".size allotrope_countdown, 8",
    "allotrope_countdown:",
    ".zero 8",
    ".popsection",
);

/// What [`set`] stored for this thread (its `Thread`); null before its first event.
#[inline(always)]
pub fn get() -> *mut () {
    let value: *mut ();
    // SAFETY: loads the thread's own slot through the offset that the loader
    // wrote into the GOT when it relocated this library.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + allotrope_thread@GOTTPOFF]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) value,
            options(nostack, readonly, preserves_flags),
        );
    }
    value
}

/// Sets this thread's state.
#[inline]
pub fn set(value: *mut ()) {
    // SAFETY: as `get`, storing.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + allotrope_thread@GOTTPOFF]",
            "mov qword ptr fs:[{0}], {1}",
            out(reg) _,
            in(reg) value,
            options(nostack, preserves_flags),
        );
    }
}

/// Sets where this thread counts, by entry point; null: nowhere, on its own.
#[inline]
pub fn set_counters(value: *const EntryCounters) {
    // SAFETY: as `set`.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + allotrope_counters@GOTTPOFF]",
            "mov qword ptr fs:[{0}], {1}",
            out(reg) _,
            in(reg) value,
            options(nostack, preserves_flags),
        );
    }
}

/// How many bytes this thread may allocate before it asks its sampler.
#[inline(always)]
pub fn countdown() -> u64 {
    let value: u64;
    // SAFETY: as `get`.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + allotrope_countdown@GOTTPOFF]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) value,
            options(nostack, readonly, preserves_flags),
        );
    }
    value
}

/// Sets it; 0: every allocation asks.
#[inline(always)]
pub fn set_countdown(value: u64) {
    // SAFETY: as `set`.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + allotrope_countdown@GOTTPOFF]",
            "mov qword ptr fs:[{0}], {1}",
            out(reg) _,
            in(reg) value,
            options(nostack, preserves_flags),
        );
    }
}
