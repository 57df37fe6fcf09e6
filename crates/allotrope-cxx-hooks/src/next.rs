//! The next definition of an interposed function, and whether it is the allocator's own
//! (defined in the library that also defines `malloc`).

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The next definition of a function that this library interposes.
pub struct Next {
    name: &'static CStr,
    /// The address; its lowest bit, free since code is aligned, is set if calls are to
    /// be recorded. 0 if not looked up yet.
    found: AtomicUsize,
}

impl Next {
    /// The next definition of the function of this name.
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicUsize::new(0),
        }
    }

    /// The address and whether calls are to be recorded here. If there is no definition
    /// at all, writes a message and ends the program, as the loader would.
    #[inline]
    pub fn get(&self) -> (usize, bool) {
        let found = match self.found.load(Relaxed) {
            0 => self.look_up(),
            found => found,
        };
        (found & !1, found & 1 != 0)
    }

    /// Looks the definition up before the first call, if it is in scope.
    pub fn prepare(&self) {
        let address = self.in_scope();
        if !address.is_null() {
            self.store(address);
        }
    }

    #[cold]
    fn look_up(&self) -> usize {
        let mut address = self.in_scope();
        // SAFETY: the name is a C string.
        unsafe {
            if address.is_null() {
                address = in_runtime(self.name);
            }
        }
        if address.is_null() {
            missing(self.name);
        }
        self.store(address)
    }

    fn in_scope(&self) -> *mut c_void {
        // SAFETY: the name is a C string.
        unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) }
    }

    fn store(&self, address: *mut c_void) -> usize {
        // This look-up succeeds, which clears the error that an earlier one may have
        // left for `dlerror`.
        // SAFETY: the name is a C string; `dladdr` only fills its structure.
        let own = unsafe {
            let malloc = libc::dlsym(libc::RTLD_NEXT, c"malloc".as_ptr());
            is_same_object(address, malloc)
        };
        let found = address as usize | usize::from(own);
        self.found.store(found, Relaxed);
        found
    }
}

/// Searches C++ runtimes that are loaded but not in this library's scope, as that of a
/// C++ plugin in a C program.
unsafe fn in_runtime(name: &CStr) -> *mut c_void {
    for library in [c"libstdc++.so.6", c"libc++abi.so.1", c"libc++.so.1"] {
        // SAFETY: names are C strings; `RTLD_NOLOAD` runs no initialisers.
        unsafe {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if !handle.is_null() {
                let address = libc::dlsym(handle, name.as_ptr());
                libc::dlclose(handle);
                if !address.is_null() {
                    return address;
                }
            }
        }
    }
    core::ptr::null_mut()
}

/// Whether both addresses are in the same loaded file.
unsafe fn is_same_object(one: *mut c_void, other: *mut c_void) -> bool {
    let base = |address: *mut c_void| {
        // SAFETY: `dladdr` only reads the loader's tables.
        unsafe {
            let mut info: libc::Dl_info = core::mem::zeroed();
            if libc::dladdr(address, &raw mut info) == 0 {
                core::ptr::null_mut()
            } else {
                info.dli_fbase
            }
        }
    };
    !other.is_null() && base(one) == base(other)
}

fn missing(name: &CStr) -> ! {
    let name = name.to_bytes();
    // SAFETY: writes the message to standard error and ends the process.
    unsafe {
        let text = b"allotrope: no definition of ";
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::write(2, name.as_ptr().cast(), name.len());
        libc::write(2, b"\n".as_ptr().cast(), 1);
        libc::abort()
    }
}
