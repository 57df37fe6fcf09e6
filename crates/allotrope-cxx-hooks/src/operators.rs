//! C++ `operator new` and `operator delete`, all forms.

use core::ffi::c_void;

use crate::next::Next;
use crate::recorder;

/// Entry points, numbered as in the trace.
mod entry {
    pub const OPERATOR_NEW: u8 = 13;
    pub const OPERATOR_NEW_ARRAY: u8 = 14;
    pub const OPERATOR_DELETE: u8 = 15;
    pub const OPERATOR_DELETE_ARRAY: u8 = 16;
}

/// Every form takes three arguments at most, in registers; a form that takes
/// fewer ignores the rest.
type Three = unsafe extern "C" fn(usize, usize, usize) -> *mut c_void;

/// A form of `operator new`: what `entry` calls before and after the next
/// definition. `$aligned`: the second argument is the alignment.
macro_rules! new {
    ($name:ident, $symbol:literal, $entry:ident, $aligned:literal) => {
        #[allow(non_snake_case)]
        pub mod $name {
            use super::{Next, c_void, entry, recorder};

            pub static NEXT: Next = Next::new($symbol);

            pub unsafe extern "C" fn next(sp: *const u64) -> usize {
                let (next, recorded) = NEXT.get();
                if recorded && let Some(recorder) = recorder::interface() {
                    // SAFETY: `record` or an exception ends it.
                    unsafe { (recorder.enter)(sp, recorder::code()) };
                }
                next
            }

            pub unsafe extern "C" fn record(
                block: *mut c_void,
                size: usize,
                second: usize,
                sp: *const u64,
                bp: u64,
            ) {
                if !NEXT.get().1 {
                    return;
                }
                let Some(recorder) = recorder::interface() else {
                    return;
                };
                let alignment = if $aligned { second } else { 0 };
                // SAFETY: the block was just handed out; the entry stub gives
                // its caller's registers.
                unsafe {
                    (recorder.leave)();
                    if !block.is_null() {
                        (recorder.allocation)(entry::$entry, block, size, alignment, sp, bp);
                    }
                }
            }
        }
    };
}

/// A form of `operator delete`.
macro_rules! delete {
    ($name:ident, $symbol:literal, $entry:ident) => {
        #[allow(non_snake_case)]
        pub mod $name {
            pub static NEXT: super::Next = super::Next::new($symbol);
        }

        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name(
            block: *mut c_void,
            second: usize,
            third: usize,
            sp: *const u64,
            _: u64,
        ) {
            let (next, recorded) = $name::NEXT.get();
            // SAFETY: the next definition of this very function, called as it
            // was called.
            unsafe {
                let next = core::mem::transmute::<usize, Three>(next);
                let recorder = if recorded {
                    recorder::interface()
                } else {
                    None
                };
                let Some(recorder) = recorder.filter(|_| !block.is_null()) else {
                    next(block as usize, second, third);
                    return;
                };
                (recorder.deallocation)(entry::$entry, block, sp);
                (recorder.enter)(sp, recorder::code());
                next(block as usize, second, third);
                (recorder.leave)();
            }
        }
    };
}

new!(_Znwm, c"_Znwm", OPERATOR_NEW, false);
new!(_Znam, c"_Znam", OPERATOR_NEW_ARRAY, false);
new!(
    _ZnwmRKSt9nothrow_t,
    c"_ZnwmRKSt9nothrow_t",
    OPERATOR_NEW,
    false
);
new!(
    _ZnamRKSt9nothrow_t,
    c"_ZnamRKSt9nothrow_t",
    OPERATOR_NEW_ARRAY,
    false
);
new!(
    _ZnwmSt11align_val_t,
    c"_ZnwmSt11align_val_t",
    OPERATOR_NEW,
    true
);
new!(
    _ZnamSt11align_val_t,
    c"_ZnamSt11align_val_t",
    OPERATOR_NEW_ARRAY,
    true
);
new!(
    _ZnwmSt11align_val_tRKSt9nothrow_t,
    c"_ZnwmSt11align_val_tRKSt9nothrow_t",
    OPERATOR_NEW,
    true
);
new!(
    _ZnamSt11align_val_tRKSt9nothrow_t,
    c"_ZnamSt11align_val_tRKSt9nothrow_t",
    OPERATOR_NEW_ARRAY,
    true
);

delete!(_ZdlPv, c"_ZdlPv", OPERATOR_DELETE);
delete!(
    _ZdlPvRKSt9nothrow_t,
    c"_ZdlPvRKSt9nothrow_t",
    OPERATOR_DELETE
);
delete!(_ZdlPvm, c"_ZdlPvm", OPERATOR_DELETE);
delete!(
    _ZdlPvSt11align_val_t,
    c"_ZdlPvSt11align_val_t",
    OPERATOR_DELETE
);
delete!(
    _ZdlPvSt11align_val_tRKSt9nothrow_t,
    c"_ZdlPvSt11align_val_tRKSt9nothrow_t",
    OPERATOR_DELETE
);
delete!(
    _ZdlPvmSt11align_val_t,
    c"_ZdlPvmSt11align_val_t",
    OPERATOR_DELETE
);
delete!(_ZdaPv, c"_ZdaPv", OPERATOR_DELETE_ARRAY);
delete!(
    _ZdaPvRKSt9nothrow_t,
    c"_ZdaPvRKSt9nothrow_t",
    OPERATOR_DELETE_ARRAY
);
delete!(_ZdaPvm, c"_ZdaPvm", OPERATOR_DELETE_ARRAY);
delete!(
    _ZdaPvSt11align_val_t,
    c"_ZdaPvSt11align_val_t",
    OPERATOR_DELETE_ARRAY
);
delete!(
    _ZdaPvSt11align_val_tRKSt9nothrow_t,
    c"_ZdaPvSt11align_val_tRKSt9nothrow_t",
    OPERATOR_DELETE_ARRAY
);
delete!(
    _ZdaPvmSt11align_val_t,
    c"_ZdaPvmSt11align_val_t",
    OPERATOR_DELETE_ARRAY
);

/// All of them.
pub static ALL: [&Next; 20] = [
    &_Znwm::NEXT,
    &_Znam::NEXT,
    &_ZnwmRKSt9nothrow_t::NEXT,
    &_ZnamRKSt9nothrow_t::NEXT,
    &_ZnwmSt11align_val_t::NEXT,
    &_ZnamSt11align_val_t::NEXT,
    &_ZnwmSt11align_val_tRKSt9nothrow_t::NEXT,
    &_ZnamSt11align_val_tRKSt9nothrow_t::NEXT,
    &_ZdlPv::NEXT,
    &_ZdlPvRKSt9nothrow_t::NEXT,
    &_ZdlPvm::NEXT,
    &_ZdlPvSt11align_val_t::NEXT,
    &_ZdlPvSt11align_val_tRKSt9nothrow_t::NEXT,
    &_ZdlPvmSt11align_val_t::NEXT,
    &_ZdaPv::NEXT,
    &_ZdaPvRKSt9nothrow_t::NEXT,
    &_ZdaPvm::NEXT,
    &_ZdaPvSt11align_val_t::NEXT,
    &_ZdaPvSt11align_val_tRKSt9nothrow_t::NEXT,
    &_ZdaPvmSt11align_val_t::NEXT,
];
