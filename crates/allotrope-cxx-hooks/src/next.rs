//! The next definition of an operator, and whether it is the allocator's own.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A function that this library stands before.
pub struct Next {
    name: &'static CStr,
    /// Its address; the lowest bit (code is aligned) says that calls are to be
    /// recorded. 0: not looked up yet.
    found: AtomicUsize,
}

impl Next {
    /// The function of this name.
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicUsize::new(0),
        }
    }

    /// Its address and whether calls of it are to be recorded here. Ends the
    /// program with a word if there is no definition at all, as the loader
    /// would have.
    #[inline]
    pub fn get(&self) -> (usize, bool) {
        let found = match self.found.load(Relaxed) {
            0 => self.look_up(),
            found => found,
        };
        (found & !1, found & 1 != 0)
    }

    /// Looks it up, where it is in sight, before it is called.
    pub fn prepare(&self) {
        let address = self.in_scope();
        if !address.is_null() {
            self.keep(address);
        }
    }

    #[cold]
    fn look_up(&self) -> usize {
        let mut address = self.in_scope();
        // SAFETY: names are C strings.
        unsafe {
            if address.is_null() {
                address = in_runtime(self.name);
            }
        }
        if address.is_null() {
            missing(self.name);
        }
        self.keep(address)
    }

    fn in_scope(&self) -> *mut c_void {
        // SAFETY: names are C strings.
        unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) }
    }

    fn keep(&self, address: *mut c_void) -> usize {
        // The last look-up is one that succeeds: what an earlier one would have
        // had `dlerror` say is gone with it.
        // SAFETY: the name is a C string; `dladdr` fills its structure.
        let own = unsafe {
            let malloc = libc::dlsym(libc::RTLD_NEXT, c"malloc".as_ptr());
            is_same_object(address, malloc)
        };
        let found = address as usize | usize::from(own);
        self.found.store(found, Relaxed);
        found
    }
}

/// A C++ plugin in a C program brings a runtime that is in no scope of ours.
unsafe fn in_runtime(name: &CStr) -> *mut c_void {
    for library in [c"libstdc++.so.6", c"libc++abi.so.1", c"libc++.so.1"] {
        // SAFETY: asks only for what is loaded already.
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
