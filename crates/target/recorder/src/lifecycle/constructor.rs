//! Starts the recording when the library is loaded, if no allocation did before.

use core::ptr;

use crate::emit::mode;
use crate::lifecycle::enter;
use crate::lifecycle::exit;
use crate::lifecycle::naming;
use crate::lifecycle::start;
use crate::state::image;
use crate::state::process;
use crate::state::thread::Thread;
use crate::state::thread_key;
use crate::sys::next;

/// Runs when the library is loaded, before other libraries' constructors (the library is
/// linked with `-z initfirst`), unless another library asks for the same: then they may
/// have allocated before.
extern "C" fn constructor() {
    if next::resolve() && (process::is_recording() || start::start()) {
        // Has the `Image` event written, if it is not yet: a program that allocates
        // nothing and is killed was recorded all the same.
        enter::without_caller(|_| ());
        // The earliest registration runs last. It needs no memory: libc keeps
        // the first 32 in static storage.
        if let Some(on_exit) = next::on_exit() {
            on_exit(exit::note_exit, ptr::null_mut());
        }
        if let Some(at_quick_exit) = next::at_quick_exit() {
            at_quick_exit(exit::note_quick_exit, ptr::null_mut());
        }
        if !mode::is_watching() {
            thread_key::create(naming::thread_ends);
            if let Some(thread) = Thread::current() {
                thread_key::set(thread);
            }
        }
    }
    image::lend_environment(ptr::null());
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;
