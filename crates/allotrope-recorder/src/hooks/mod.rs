//! What happens in the place of `malloc` and its relatives, one file for each family.
//!
//! A deallocation is recorded before the real call and an allocation after it, so that
//! no address is recorded as allocated again before its deallocation is. A call that
//! fails changed nothing and is not recorded.
//!
//! The functions that the program calls are the stubs in `x86_64`. They pass the
//! program's arguments on, and a [`Caller`]: where the stack of the call begins. A hook
//! that hands a block of the program's to the next allocator is `unsafe`: that the block
//! is one of the allocator's is the program's promise, as it is without the recorder.
//!
//! [`Caller`]: allotrope_shm::hook_api::Caller

use core::ffi::c_void;

/// The next definition of a function as a function pointer, if there is one by now.
macro_rules! next {
    ($function:ident as $type:ty) => {{
        use crate::sys::next::{self, Function};
        let mut address = next::address(Function::$function);
        if address == 0 && next::resolve() {
            address = next::address(Function::$function);
        }
        // SAFETY: 0 is `None`; else `dlsym` found the function of this name, whose type
        // is known.
        unsafe { core::mem::transmute::<usize, Option<$type>>(address) }
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

type Allocate = extern "C" fn(usize) -> *mut c_void;

type AllocateTwo = extern "C" fn(usize, usize) -> *mut c_void;

type Reallocate = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;

type Release = unsafe extern "C" fn(*mut c_void);
