//! The functions that the loop calls: the allocator's, as the dynamic linker bound them, or
//! functions that do nothing, for the null loop. Both are called in the same way, through a
//! table of pointers.

use std::ffi::{c_int, c_void};
use std::ptr;

/// A table of functions with C's signatures.
#[allow(missing_docs)] // each has the name of its function
pub struct Calls {
    pub malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    pub calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    pub realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    pub reallocarray: unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void,
    pub posix_memalign: unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int,
    pub aligned_alloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    pub memalign: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    pub valloc: unsafe extern "C" fn(usize) -> *mut c_void,
    pub pvalloc: unsafe extern "C" fn(usize) -> *mut c_void,
    pub free: unsafe extern "C" fn(*mut c_void),
}

unsafe extern "C" {
    // The libc crate does not have these.
    fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void;
    fn memalign(alignment: usize, size: usize) -> *mut c_void;
    fn valloc(size: usize) -> *mut c_void;
    fn pvalloc(size: usize) -> *mut c_void;
}

/// The allocator.
pub static ALLOCATOR: Calls = Calls {
    malloc: libc::malloc,
    calloc: libc::calloc,
    realloc: libc::realloc,
    reallocarray,
    posix_memalign: libc::posix_memalign,
    aligned_alloc: libc::aligned_alloc,
    memalign,
    valloc,
    pvalloc,
    free: libc::free,
};

/// Functions that do nothing. Those that allocate return the address of [`NOTHING`].
pub static NULL: Calls = Calls {
    malloc: null_1,
    calloc: null_2,
    realloc: null_realloc,
    reallocarray: null_reallocarray,
    posix_memalign: null_posix_memalign,
    aligned_alloc: null_2,
    memalign: null_2,
    valloc: null_1,
    pvalloc: null_1,
    free: null_free,
};

/// What the null loop touches in place of blocks: as much as the first byte of a block.
static mut NOTHING: u64 = 0;

fn nothing() -> *mut c_void {
    (&raw mut NOTHING).cast()
}

unsafe extern "C" fn null_1(_size: usize) -> *mut c_void {
    nothing()
}

unsafe extern "C" fn null_2(_first: usize, _second: usize) -> *mut c_void {
    nothing()
}

unsafe extern "C" fn null_realloc(_block: *mut c_void, _size: usize) -> *mut c_void {
    nothing()
}

unsafe extern "C" fn null_reallocarray(
    _block: *mut c_void,
    _count: usize,
    _size: usize,
) -> *mut c_void {
    nothing()
}

unsafe extern "C" fn null_posix_memalign(
    to: *mut *mut c_void,
    _alignment: usize,
    _size: usize,
) -> c_int {
    // SAFETY: the caller passes a place for the result, as for posix_memalign(3).
    unsafe { to.write(nothing()) };
    0
}

unsafe extern "C" fn null_free(_block: *mut c_void) {}

impl Calls {
    /// Calls posix_memalign(3); null if it fails.
    ///
    /// # Safety
    ///
    /// As for the function in the table.
    #[inline(always)]
    pub unsafe fn aligned(&self, alignment: usize, size: usize) -> *mut c_void {
        let mut block = ptr::null_mut();
        // SAFETY: `block` is a place for the result; the rest is the caller's promise.
        let error = unsafe { (self.posix_memalign)(&raw mut block, alignment, size) };
        if error == 0 { block } else { ptr::null_mut() }
    }
}
