//! What happens in the place of `malloc` and its relatives, one file for each family.
//!
//! A deallocation is recorded before the real call and an allocation after it, so that
//! no address is recorded as allocated again before its deallocation is. A call that
//! fails changed nothing and is not recorded.
//!
//! The functions that the program calls are the stubs in `x86_64`.

/// The next definition of a function, or what to do before there is one.
macro_rules! next {
    ($function:ident $(, $early:expr)?) => {
        match crate::sys::next::$function() {
            Some(next) => next,
            None => return $($early)?,
        }
    };
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
