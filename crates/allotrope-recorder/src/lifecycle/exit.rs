//! Writes how the image ends: with which status it exits, or that another program
//! replaces it.

use core::ffi::{c_char, c_int, c_void};

use allotrope_shm::wire;

use crate::emit::events;
use crate::lifecycle::enter;
use crate::lifecycle::ready;
use crate::state::process;

/// Notes the status with which the image exits.
pub extern "C" fn note_exit(status: c_int, _: *mut c_void) {
    #[cfg(feature = "verify")]
    crate::capture::verify::report();
    // A `vfork` child that gives up must not end its parent's image.
    if process::is_recording() && process::is_own_process() {
        // SAFETY: as any hook; the address stands for this frame.
        unsafe { record_exit(status) };
    }
}

/// Notes the status with which the image is about to exit.
unsafe fn record_exit(status: c_int) {
    let here = 0usize;
    // SAFETY: as above; the local's address stands for the stack pointer.
    unsafe {
        let thread = enter::enter(&raw const here as usize);
        if thread.is_null() {
            return;
        }
        if ready::ready_for_note(thread) {
            events::write(thread, wire::exit(status));
        }
        enter::leave(thread);
    }
}

/// Notes that the image is about to be replaced. If the new image is not
/// recorded, this note is all that says what became of this one.
pub unsafe fn note_exec(path: *const c_char) {
    // A child that `vfork` made must not speak for its parent, and one that
    // `fork` made and that did nothing else yet is no image of its own.
    if process::is_recording() && !process::is_forked() && process::is_own_process() {
        // SAFETY: as `record_exit`.
        unsafe { record_exec(path) };
    }
}

#[cold]
unsafe fn record_exec(path: *const c_char) {
    /// As much of a path as is told.
    const PATH_BYTES: usize = 1024;
    let here = 0usize;
    // SAFETY: as above; a path is a C string or null.
    unsafe {
        let length = if path.is_null() {
            0
        } else {
            libc::strnlen(path, PATH_BYTES)
        };
        let path = if length == 0 {
            &[]
        } else {
            core::slice::from_raw_parts(path.cast::<u8>(), length)
        };
        let thread = enter::enter(&raw const here as usize);
        if thread.is_null() {
            return;
        }
        if ready::ready_for_note(thread) {
            events::write_long(thread, &wire::Exec { path });
        }
        enter::leave(thread);
    }
}
