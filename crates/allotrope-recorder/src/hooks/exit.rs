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
    let next = next!(dlclose, -1);
    // SAFETY: passed on.
    let result = unsafe { next(handle) };
    modules::unloaded();
    result
}

macro_rules! exit {
    ($name:ident, $function:ident) => {
        /// Notes the status, which nobody else can tell where the parent is
        /// not the recording's.
        ///
        /// # Safety
        /// As the original.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(status: c_int) -> ! {
            exit::note_exit(status, ptr::null_mut());
            if let Some(next) = next::$function() {
                next(status)
            }
            system::exit(status)
        }
    };
}

exit!(_exit, underscore_exit);
exit!(_Exit, exit);
