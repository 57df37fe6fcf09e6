//! Writes how the image ends: with which status it exits, or that another program
//! replaces it.

use core::ffi::{c_int, c_void};

use allotrope_shm::wire;

use crate::emit::events;
use crate::lifecycle::enter;
use crate::lifecycle::ready;
use crate::state::process;

/// Writes the status with which the image exits.
pub extern "C" fn note_exit(status: c_int, _: *mut c_void) {
    #[cfg(feature = "verify")]
    crate::capture::verify::report();
    // A `vfork` child that gives up must not end its parent's image.
    if process::is_recording() && process::is_own_process() {
        // SAFETY: it takes a state of its own, as any hook does.
        unsafe { record_exit(status) };
    }
}

unsafe fn record_exit(status: c_int) {
    let here = 0usize;
    // SAFETY: `enter` gives this thread's own state, free for this hook; the local's address
    // stands for the stack pointer.
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

/// Writes that another program is about to replace this image. If that one is not
/// recorded, only this event shows what became of this image.
pub fn note_exec(path: &[u8]) {
    // A `vfork` child must not end its parent's image, and a forked child without an
    // event is no image of its own.
    if process::is_recording() && !process::is_forked() && process::is_own_process() {
        // SAFETY: as in `note_exit`.
        unsafe { record_exec(path) };
    }
}

#[cold]
unsafe fn record_exec(path: &[u8]) {
    /// Longest part of a path that is written.
    const PATH_BYTES: usize = 1024;
    let path = &path[..path.len().min(PATH_BYTES)];
    let here = 0usize;
    // SAFETY: `enter` gives this thread's own state, free for this hook.
    unsafe {
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
