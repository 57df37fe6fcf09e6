//! Writes how the image ends: with which status it exits, or that another program
//! replaces it.

use core::ffi::{c_int, c_void};

use allotrope_shm::wire;

use crate::emit::events;
use crate::emit::mode;
use crate::lifecycle::enter;
use crate::lifecycle::naming;
use crate::lifecycle::reachability;
use crate::lifecycle::ready;
use crate::state::process;
use crate::state::watched;

/// [`note_exit`] for `quick_exit`: glibc passes the argument first and the status second to
/// the functions that it calls for `quick_exit`, as to those of `__cxa_atexit` (`struct
/// exit_function`).
pub extern "C" fn note_quick_exit(argument: *mut c_void, status: c_int) {
    note_exit(status, argument);
}

/// Writes the status with which the image exits, and the names that its threads have now.
pub extern "C" fn note_exit(status: c_int, _: *mut c_void) {
    #[cfg(feature = "verify")]
    crate::capture::verify::report();
    // A `vfork` child that gives up must not end its parent's image.
    if process::is_recording() && process::is_own_process() {
        if mode::is_watching() {
            return watched::note_exit(status);
        }
        enter::without_caller(|thread| {
            if ready::ready_for_note(thread).is_none() {
                return;
            }
            naming::process_ends(thread);
            reachability::examine(thread);
            if let Some(space) = ready::ready_for_note(thread) {
                space.write(wire::exit(status));
                events::wait_for_modules(thread);
            }
        });
    }
}

/// Writes that another program is about to replace this image; an empty path: it is not
/// known which. If that program is not recorded, only this event shows what became of
/// this image.
pub fn note_exec(path: &[u8]) {
    /// Longest part of a path that is written.
    const PATH_BYTES: usize = 1024;
    // A `vfork` child must not end its parent's image, and a forked child without an
    // event is no image of its own.
    if process::is_recording()
        && !mode::is_watching()
        && !process::is_forked()
        && process::is_own_process()
    {
        let path = &path[..path.len().min(PATH_BYTES)];
        enter::without_caller(|thread| {
            if ready::ready_for_note(thread).is_some() {
                events::write_long(thread, &wire::Exec { path });
            }
        });
    }
}
