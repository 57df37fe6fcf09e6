//! Looks a symbol up with the loader.

use core::ffi::{CStr, c_void};

/// `dlsym`.
pub fn find(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the name is a C string; the handle is one of the constants or open.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    // `RTLD_NEXT` means the definition behind the caller's: the call must not become a jump, which
    // would make the caller's caller the one, in a constructor the loader.
    core::hint::black_box(found)
}
