//! What happens in the place of `malloc` and its relatives, one file for each family.
//!
//! A deallocation is recorded before the real call and an allocation after it, so that
//! no address is recorded as allocated again before its deallocation is. A call that
//! fails changed nothing and is not recorded.
//!
//! The functions that the program calls are the stubs in `x86_64`.

use core::ffi::c_void;

/// The next definition of a function as a function pointer, or what to do
/// before there is one.
macro_rules! next {
    ($function:ident as $type:ty $(, $early:expr)?) => {{
        let mut address = crate::sys::next::address(crate::sys::next::Function::$function);
        if address == 0 {
            if crate::sys::next::resolve() {
                address = crate::sys::next::address(crate::sys::next::Function::$function);
            }
            if address == 0 {
                return $($early)?;
            }
        }
        // SAFETY: `dlsym` found the function of this name, whose type is known.
        unsafe { core::mem::transmute::<usize, $type>(address) }
    }};
}

pub mod aligned;
pub mod allocation;
pub mod deallocation;
pub mod exit;
pub mod hook_api;
pub mod reallocation;
pub mod record;
pub mod reported;
#[cfg(target_arch = "x86_64")]
pub mod x86_64;

type Allocate = unsafe extern "C" fn(usize) -> *mut c_void;

type AllocateTwo = unsafe extern "C" fn(usize, usize) -> *mut c_void;

type Reallocate = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;

type Release = unsafe extern "C" fn(*mut c_void);
