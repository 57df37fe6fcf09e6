//! What a program under test may call on purpose: the client interface, found
//! by name (`dlsym`, weak symbols). A program that runs without the recorder
//! finds none of it.
//!
//! All of these may be called on any thread, in a signal handler too, at any
//! time; they change no `errno` and never call the program's allocator. `windows`
//! describes what a window is, and which events belong to it.

use core::ffi::c_char;
use core::sync::atomic::Ordering::Relaxed;

use crate::client::quiet;
use crate::client::windows;
use crate::emit::events;
use crate::emit::mode;
use crate::lifecycle::start;
use crate::state::process;
use crate::state::thread::Thread;

/// Version of the client interface.
const ABI: u32 = 1;

/// Exports functions by their names, which begin with `allotrope_`: no other library
/// defines them.
macro_rules! exported {
    ($($(#[$documentation:meta])* fn $name:ident ( $($argument:ident: $type:ty),* )
        $(-> $result:ty)? $body:block)*) => {$(
        $(#[$documentation])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) $(-> $result)? $body
    )*};
}

exported! {
    /// The version of these functions: 1.
    fn allotrope_abi() -> u32 {
        ABI
    }

    /// Whether the calling thread's events are recorded, and count in windows: 0
    /// no (nobody collects them, or the thread has opted out), 1 with their stacks, 2
    /// they are only counted, in windows too.
    fn allotrope_recording() -> u32 {
        if !process::is_recording() && !start::start() {
            return 0;
        }
        let control = process::control();
        let unwanted = process::is_forked() && control.no_follow.load(Relaxed) != 0;
        if unwanted || control.stopped.load(Relaxed) != 0 || events::collector_is_gone() {
            return 0;
        }
        if Thread::current().is_some_and(Thread::is_opted_out) {
            return 0;
        }
        mode::current().recording
    }

    /// Closes the window of this number; does nothing for 0 and for one that is
    /// closed. Flag 2: wait for the other threads to be quiet before.
    fn allotrope_window_close(window: u64, flags: u32) {
        windows::close(window, flags);
    }

    /// Waits until no other thread of the process has made an event for
    /// `quiet_milliseconds`: 1. After `timeout_milliseconds` it gives up: 0.
    fn allotrope_quiet(quiet_milliseconds: u32, timeout_milliseconds: u32) -> u32 {
        u32::from(quiet::wait(quiet_milliseconds, timeout_milliseconds))
    }

    /// This thread's events belong to no window from here on (`on` not 0), or do
    /// again (0). Nests. They stay in the recording.
    fn allotrope_opt_out(on: u32) {
        windows::opt_out(on != 0);
    }
}

/// Opens a window: `name` is `name_length` bytes of UTF-8, of which at most 255 are
/// used, `iterations` how often what it measures is done in it, or 0. Flags: 1
/// only this thread's events, 2 wait for the other threads to be quiet before,
/// 4 compare open file descriptors at its ends. Returns the window's number, or
/// 0 if it is not recorded.
///
/// # Safety
/// `name` points to that many bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn allotrope_window_open(
    name: *const c_char,
    name_length: usize,
    iterations: u64,
    flags: u32,
) -> u64 {
    let name = if name.is_null() || name_length == 0 {
        &[]
    } else {
        // SAFETY: passed on; no more than fits in memory.
        unsafe { core::slice::from_raw_parts(name.cast::<u8>(), name_length) }
    };
    windows::open(name, iterations, flags)
}
