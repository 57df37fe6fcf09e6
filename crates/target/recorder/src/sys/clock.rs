//! The kernel's coarse clocks, in nanoseconds: the time of the last timer interrupt, which is at most
//! 10 ms old, 4 ms with most kernels. To read them takes 5 ns; the fine ones also read the time stamp
//! counter, which takes 22 ns, and which a thread may have forbidden itself.
//!
//! A preloaded library may give the program another time, so libc is not asked, but the function of
//! the kernel's that libc calls: a system call takes far longer.

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::sys::definitions;
use crate::sys::kernel;
use crate::sys::next;

/// Address of the function in the library that the kernel maps (`vdso(7)`); 0: there is none,
/// as under Valgrind.
static FUNCTION: AtomicUsize = AtomicUsize::new(0);

/// Type of the function.
type GetTime = extern "C" fn(clock: c_int, into: &mut [u64; 2]) -> c_int;

/// Looks the function up. Called once, when the process can be looked at.
pub fn begin() {
    let first = next::loader_debug().and_then(|debug| debug.first_module());
    let found = first.and_then(|first| {
        let mut modules = first.and_following();
        modules
            .find(|map| is_vdso(map.path()))
            .and_then(|map| definitions::first(core::iter::once(map), c"__vdso_clock_gettime"))
    });
    FUNCTION.store(found.unwrap_or(0) as usize, Relaxed);
}

fn is_vdso(path: &[u8]) -> bool {
    path == b"linux-vdso.so.1"
}

/// `CLOCK_MONOTONIC_COARSE`.
pub fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

/// `CLOCK_REALTIME_COARSE`: since 1970.
pub fn real() -> u64 {
    read(libc::CLOCK_REALTIME_COARSE)
}

fn read(clock: c_int) -> u64 {
    let mut time = [0; 2];
    let function = FUNCTION.load(Relaxed) as *const ();
    // SAFETY: null, which is `None`, or the kernel's function of this type, which stays mapped.
    let function = unsafe { core::mem::transmute::<*const (), Option<GetTime>>(function) };
    let is_read = function.is_some_and(|function| function(clock, &mut time) == 0);
    if !is_read {
        kernel::clock_gettime(clock, &mut time);
    }
    time[0].wrapping_mul(1_000_000_000).wrapping_add(time[1])
}
