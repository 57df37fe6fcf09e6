//! Tables of the loader's that are larger because this library is loaded.
//!
//! For each new thread glibc allocates a dynamic thread vector: an element of 16
//! bytes for each module with thread-local storage, and 16 to spare (`allocate_dtv`
//! in `elf/dl-tls.c`). One of the modules is this library. The block stays what it
//! is; the size that is recorded is the one that the program has without us.
//!
//! The loader allocates nothing else by a `calloc` of elements of that size: its
//! other calls (`dl-object.c`, `dl-version.c`, `dl-reloc.c`) have elements of 1,
//! 24 and 32 bytes.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::capture::modules;
use crate::sys::next;

/// `sizeof (dtv_t)` (glibc, `sysdeps/generic/dl-dtv.h`).
pub const SLOT_BYTES: usize = 16;

/// Where the loader's code begins, and how long it is; 0: not known.
pub static LOADER: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Finds out where the loader is.
pub fn begin() {
    // It is the loader that defines this variable.
    let variable = next::loader_debug().map(|variable| &raw const *variable as u64);
    if let Some(range) = variable.and_then(modules::range_at) {
        LOADER[0].store(range.start as usize, Relaxed);
        LOADER[1].store((range.end - range.start) as usize, Relaxed);
    }
}

/// How many bytes less a `calloc` of elements of this size would have requested without
/// us, from the caller that it returns to.
pub fn own_bytes(element: usize, return_address: u64) -> usize {
    let [start, bytes] = [0, 1].map(|at| LOADER[at].load(Relaxed) as u64);
    let is_loaders = return_address.wrapping_sub(start) < bytes;
    if element == SLOT_BYTES && is_loaders {
        SLOT_BYTES
    } else {
        0
    }
}
