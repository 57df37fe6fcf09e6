//! `free` and its other names.

use core::ffi::c_void;

use allotrope_shm::hook_api::Caller;
use allotrope_shm::numbers::EntryPoint;

use crate::emit::mode;
use crate::hooks::record::{record_deallocation, record_free};
use crate::hooks::sampled;
use crate::lifecycle::early;
use crate::lifecycle::enter;
use crate::sys::next;

/// # Safety
/// As the original: the block is null or was allocated and not freed.
pub unsafe extern "C" fn free(block: *mut c_void, caller: Caller<'_>) {
    let Some(next) = next::free() else {
        return early_free(block);
    };
    let record = || match mode::is_watching() {
        true => sampled::free(block, caller),
        false => record_free(block, caller),
    };
    // SAFETY: passed on.
    release(EntryPoint::Free, block, caller, record, || unsafe {
        next(block)
    });
}

/// The bump area takes nothing back.
#[cold]
fn early_free(block: *mut c_void) {
    early::is_recorded(block);
}

/// Records the deallocation of a block with `record`, unless it is null, and lets the next
/// allocator do it, unless the block is from the bump area.
#[inline(always)]
fn release(
    entry: EntryPoint,
    block: *mut c_void,
    caller: Caller<'_>,
    record: impl FnOnce(),
    next: impl FnOnce(),
) {
    if block.is_null() {
        return next();
    }
    if next::is_bump(block) {
        return release_bump(entry, block, caller);
    }
    record();
    next();
}

/// Records the deallocation of a block of the bump area.
#[cold]
#[inline(never)]
fn release_bump(entry: EntryPoint, block: *mut c_void, caller: Caller<'_>) {
    if early::is_recorded(block) {
        record_deallocation(entry, block, caller);
    }
}

/// Another name of `free`, with what the program knows of the block. The allocator may
/// make it a call of `free`, as glibc 2.43 does of C23's, which is no second
/// deallocation. Without such a function it is `free` by definition.
macro_rules! other_name {
    ($name:ident, $entry:ident, $($argument:ident),*) => {
        /// # Safety
        /// As [`free`].
        pub unsafe extern "C" fn $name(
            block: *mut c_void,
            $($argument: usize,)*
            caller: Caller<'_>,
        ) {
            let Some(free) = next::free() else {
                return;
            };
            let record = || record_deallocation(EntryPoint::$entry, block, caller);
            release(EntryPoint::$entry, block, caller, record, || match next::$name() {
                Some(next) => enter::call_allocator(caller, || {
                    // SAFETY: passed on.
                    unsafe { next(block, $($argument),*) }
                }),
                // SAFETY: passed on.
                None => unsafe { free(block) },
            });
        }
    };
}

// Old programs only; the C library has it as another name of `free`.
other_name!(cfree, Cfree,);
other_name!(free_sized, FreeSized, size);
other_name!(free_aligned_sized, FreeAlignedSized, alignment, size);
