//! Looks a symbol up with the loader.

use core::ffi::{CStr, c_void};

/// `dlsym`.
pub fn find(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the name is a C string; the handle is one of the constants or open.
    unsafe { libc::dlsym(handle, name.as_ptr()) }
}
