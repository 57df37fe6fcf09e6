//! Starts the recording when the library is loaded, if no allocation did before.

use core::ffi::{c_int, c_void};
use core::ptr;

use crate::lifecycle::enter;
use crate::lifecycle::exit;
use crate::lifecycle::start;
use crate::state::process;
use crate::sys::next::{self, Function};

/// Runs when the library is loaded, often not as the first thing: other
/// libraries' constructors may have allocated before.
extern "C" fn constructor() {
    if next::resolve() && (process::is_recording() || start::start()) {
        // Has the `Image` event written, if it is not yet: a program that allocates
        // nothing and is killed was recorded all the same.
        enter::without_caller(|_| ());
        // The earliest registration runs last. It needs no memory: libc keeps
        // the first 32 in static storage.
        type OnExit = unsafe extern "C" fn(extern "C" fn(c_int, *mut c_void), *mut c_void) -> c_int;
        let on_exit = next::address(Function::OnExit);
        if on_exit != 0 {
            // SAFETY: `dlsym` found the function of this name; ours lives as
            // long as the process.
            unsafe {
                core::mem::transmute::<usize, OnExit>(on_exit)(exit::note_exit, ptr::null_mut())
            };
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;
