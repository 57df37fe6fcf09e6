//! Finds the recorder.

use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use allotrope_shm::hook_api::{Get, HookApi, SYMBOL, VERSION};

use crate::dlsym;

static HOOK_API: AtomicPtr<HookApi> = AtomicPtr::new(core::ptr::null_mut());

/// The recorder's functions; `None` if it is not there or has another version.
#[inline]
pub fn hook_api() -> Option<&'static HookApi> {
    let known = HOOK_API.load(Relaxed);
    if known.is_null() {
        return find();
    }
    // SAFETY: `find` stored the recorder's static.
    Some(unsafe { &*known })
}

#[cold]
fn find() -> Option<&'static HookApi> {
    let address = dlsym::find(libc::RTLD_DEFAULT, SYMBOL);
    if address.is_null() {
        return None;
    }
    // SAFETY: the recorder's symbol has this type in every version. What it returns is
    // null or begins with its version; of this version it is a `HookApi`, a static.
    let found = unsafe {
        let found = core::mem::transmute::<*mut c_void, Get>(address)();
        if found.is_null() || (*found).version != VERSION {
            return None;
        }
        &*found
    };
    HOOK_API.store(core::ptr::from_ref(found).cast_mut(), Relaxed);
    Some(found)
}

/// An address in this library.
pub fn code() -> usize {
    code as *const () as usize
}
