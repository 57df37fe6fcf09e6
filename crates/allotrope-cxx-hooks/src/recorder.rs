//! Finds the recorder's [`HookApi`] in the process.

use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use allotrope_shm::hook_api::{Get, HookApi, SYMBOL, VERSION};

static HOOK_API: AtomicPtr<HookApi> = AtomicPtr::new(core::ptr::null_mut());

/// The recorder's functions; `None` if the recorder is not loaded or has another version
/// of them.
#[inline]
pub fn hook_api() -> Option<&'static HookApi> {
    let known = HOOK_API.load(Relaxed);
    if known.is_null() {
        return find();
    }
    // SAFETY: the recorder returned a pointer to a static.
    Some(unsafe { &*known })
}

#[cold]
fn find() -> Option<&'static HookApi> {
    // SAFETY: the recorder's symbol has this type.
    unsafe {
        let address: *mut c_void = libc::dlsym(libc::RTLD_DEFAULT, SYMBOL.as_ptr());
        if address.is_null() {
            return None;
        }
        let interface = core::mem::transmute::<*mut c_void, Get>(address)();
        if interface.is_null() || (*interface).version != VERSION {
            return None;
        }
        HOOK_API.store(interface.cast_mut(), Relaxed);
        Some(&*interface)
    }
}

/// An address in this library.
pub fn code() -> usize {
    code as *const () as usize
}
