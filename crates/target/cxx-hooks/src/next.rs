//! The next definition of a function that this library defines too, and whether it is
//! the allocator's own.

use core::ffi::{CStr, c_void};
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use allotrope_shm::hook_api::{Caller, HookApi};
use allotrope_shm::numbers::EntryPoint;

use crate::dlsym::find;
use crate::recorder;

/// The type of every function with a hook here. A form with fewer arguments ignores
/// the last ones: all are in registers.
type Function = unsafe extern "C" fn(usize, usize, usize) -> *mut c_void;

/// A function that this library defines too.
pub struct Next {
    name: &'static CStr,
    /// See [`Found`]; 0: not looked up yet.
    found: AtomicUsize,
}

/// The address of a next definition; the lowest bit (code is aligned) is set if calls
/// are to be recorded.
#[derive(Clone, Copy)]
pub struct Found(usize);

impl Found {
    /// Returns the address of the definition.
    #[inline]
    pub fn address(self) -> usize {
        self.0 & !1
    }

    /// The recorder, if it is there and calls are to be recorded.
    #[inline]
    pub fn recorder(self) -> Option<&'static HookApi> {
        if self.0 & 1 == 0 {
            return None;
        }
        recorder::hook_api()
    }

    /// Calls it.
    ///
    /// # Safety
    /// As the function's manual says.
    #[inline]
    pub unsafe fn call(self, first: usize, second: usize, third: usize) -> *mut c_void {
        // SAFETY: `Next` found a function there, whose arguments the caller vouches for.
        unsafe { core::mem::transmute::<usize, Function>(self.address())(first, second, third) }
    }
}

impl Next {
    /// The function of this name, which ends with a zero byte.
    pub const fn new(name: &'static str) -> Self {
        let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else {
            panic!("a name without a zero byte at its end");
        };
        Self {
            name,
            found: AtomicUsize::new(0),
        }
    }

    /// Returns the next definition of the function. Ends the program with a message if there is
    /// none at all, as the loader would have.
    #[inline]
    pub fn get(&self) -> Found {
        match self.found.load(Relaxed) {
            0 => self.look_up(),
            found => Found(found),
        }
    }

    /// Looks it up in this library's scope, before it is called.
    pub fn prepare(&self) {
        let address = find(libc::RTLD_NEXT, self.name);
        if !address.is_null() {
            self.store(address);
        }
    }

    #[cold]
    fn look_up(&self) -> Found {
        let mut address = find(libc::RTLD_NEXT, self.name);
        if address.is_null() {
            address = find_in_runtime(self.name);
        }
        if address.is_null() {
            end_without(self.name);
        }
        self.store(address)
    }

    fn store(&self, address: *mut c_void) -> Found {
        // The last look-up is one that succeeds: it clears the error of an earlier one,
        // which `dlerror` would return to the program.
        let malloc = find(libc::RTLD_NEXT, c"malloc");
        let is_recorded =
            !has_gained_rights() && !malloc.is_null() && module_of(address) == module_of(malloc);
        let found = address as usize | usize::from(is_recorded);
        self.found.store(found, Relaxed);
        Found(found)
    }
}

/// A call that frees `block`.
///
/// # Safety
/// The arguments are those of a call of the function.
#[inline]
pub unsafe fn release(
    next: &Next,
    entry: EntryPoint,
    block: *mut c_void,
    second: usize,
    third: usize,
    caller: Caller<'_>,
) {
    let next = next.get();
    // SAFETY: passed on.
    let call = || unsafe { next.call(block as usize, second, third) };
    let Some(recorder) = next.recorder().filter(|_| !block.is_null()) else {
        call();
        return;
    };
    (recorder.deallocation)(entry, block, caller);
    (recorder.enter)(caller, recorder::code());
    call();
    (recorder.leave)();
}

/// A C++ plugin in a C program is loaded with a runtime that is in no scope of this
/// library.
fn find_in_runtime(name: &CStr) -> *mut c_void {
    let libraries = [c"libstdc++.so.6", c"libc++abi.so.1", c"libc++.so.1"];
    for library in libraries {
        // SAFETY: with `RTLD_NOLOAD` it loads nothing, so that no constructor runs.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            continue;
        }
        let address = find(handle, name);
        // SAFETY: opened above; whoever loaded the library keeps it loaded.
        unsafe { libc::dlclose(handle) };
        if !address.is_null() {
            return address;
        }
    }
    ptr::null_mut()
}

/// Whether the process has rights that its caller does not have (`AT_SECURE`): nothing of it
/// is recorded.
pub fn has_gained_rights() -> bool {
    // SAFETY: it reads what the kernel wrote before the program began.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Where the module of an address begins; null if there is none.
fn module_of(address: *mut c_void) -> *mut c_void {
    let mut information = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: `dladdr` reads the loader's tables only, and fills the structure.
    unsafe { libc::dladdr(address, &raw mut information) };
    information.dli_fbase
}

fn end_without(name: &CStr) -> ! {
    let parts: [&[u8]; 3] = [b"allotrope: no definition of ", name.to_bytes(), b"\n"];
    for part in parts {
        // SAFETY: the bytes are there.
        unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}
