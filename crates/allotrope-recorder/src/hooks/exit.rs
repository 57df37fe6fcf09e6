//! Functions that the recorder only observes: the ways to exit without handlers, and
//! `dlclose`.

use core::ffi::{c_int, c_void};
use core::ptr;

use crate::capture::modules;
use crate::lifecycle::exit;
use crate::sys::next::{self, Function};
use crate::sys::system;

/// Unloading makes unwind rules void.
///
/// # Safety
/// As the original.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    type Next = unsafe extern "C" fn(*mut c_void) -> c_int;
    let next = next!(Dlclose as Next, -1);
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
            let address = next::address(Function::$function);
            if address != 0 || next::resolve() {
                let address = next::address(Function::$function);
                if address != 0 {
                    // SAFETY: `dlsym` found the function of this name.
                    unsafe {
                        core::mem::transmute::<usize, unsafe extern "C" fn(c_int) -> !>(address)(
                            status,
                        )
                    }
                }
            }
            system::exit(status)
        }
    };
}

exit!(_exit, UnderscoreExit);
exit!(_Exit, Exit);
