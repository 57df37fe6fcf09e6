//! The time stamp counter, the clock of a recording's ticks.
//!
//! A thread may forbid itself to read it (`PR_SET_TSC`, prctl(2)), so that the
//! instruction raises `SIGSEGV`; threads and children that it starts inherit
//! that. For our reads the permission is taken and given back. Programs that are
//! exec'ed so end in glibc's loader, which reads the counter before all else.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::sys::kernel;
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

/// A thread is about to forbid or to permit it.
pub fn permission_changes() {
    FORBIDDEN.store(true, Relaxed);
}
