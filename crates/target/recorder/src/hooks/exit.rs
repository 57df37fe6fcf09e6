//! Functions that the recorder only observes: the ways to exit without handlers, and
//! `dlclose`.

use core::ffi::{c_int, c_void};
use core::ptr;

use crate::capture::modules;
use crate::lifecycle::exit;
use crate::sys::next;
use crate::sys::system;

/// Unloading makes unwind rules void.
///
/// # Safety
/// As the original.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    let Some(next) = next::dlclose() else {
        return -1;
    };
    // SAFETY: passed on.
    let result = unsafe { next(handle) };
    modules::unloaded();
    result
}

macro_rules! exit {
    ($name:ident, $function:ident) => {
        /// Notes the status, which nobody else knows where the parent is
        /// not the recording's.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(status: c_int) -> ! {
            exit::note_exit(status, ptr::null_mut());
            match next::$function() {
                Some(next) => next(status),
                None => system::exit(status),
            }
        }
    };
}

exit!(_exit, underscore_exit);
exit!(_Exit, exit);
