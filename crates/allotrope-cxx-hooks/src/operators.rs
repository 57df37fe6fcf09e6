//! C++ `operator new` and `operator delete`, all forms.

use core::ffi::c_void;

use allotrope_shm::hook_api::Caller;
use allotrope_shm::numbers::EntryPoint;

use crate::next::Next;
use crate::recorder;

/// Every form takes three arguments at most, in registers; a form that takes
/// fewer ignores the rest.
type Three = unsafe extern "C" fn(usize, usize, usize) -> *mut c_void;

/// A form of `operator new`: what `entry` calls before and after the next
/// definition. `$aligned`: the second argument is the alignment.
macro_rules! new {
    ($name:ident, $symbol:literal, $entry:ident, $aligned:literal) => {
        #[allow(non_snake_case)]
        pub mod $name {
            use super::{Caller, EntryPoint, Next, c_void, recorder};

            pub static NEXT: Next = Next::new($symbol);

            pub extern "C" fn next(caller: Caller<'_>) -> usize {
                let (next, recorded) = NEXT.get();
                if recorded && let Some(recorder) = recorder::hook_api() {
                    (recorder.enter)(caller, recorder::code());
                }
                next
            }

            pub extern "C" fn record(
                block: *mut c_void,
                size: usize,
                second: usize,
                caller: Caller<'_>,
            ) {
                if !NEXT.get().1 {
                    return;
                }
                let Some(recorder) = recorder::hook_api() else {
                    return;
                };
                let alignment = if $aligned { second } else { 0 };
                (recorder.leave)();
                if !block.is_null() {
                    (recorder.allocation)(EntryPoint::$entry, block, size, alignment, caller);
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
            caller: Caller<'_>,
        ) {
            let (next, recorded) = $name::NEXT.get();
            // SAFETY: the next definition of this very function, called as it
            // was called.
            unsafe {
                let next = core::mem::transmute::<usize, Three>(next);
                let recorder = if recorded { recorder::hook_api() } else { None };
                let Some(recorder) = recorder.filter(|_| !block.is_null()) else {
                    next(block as usize, second, third);
                    return;
                };
                (recorder.deallocation)(EntryPoint::$entry, block, caller);
                (recorder.enter)(caller, recorder::code());
                next(block as usize, second, third);
                (recorder.leave)();
            }
        }
    };
}

new!(_Znwm, c"_Znwm", OperatorNew, false);
new!(_Znam, c"_Znam", OperatorNewArray, false);
new!(
    _ZnwmRKSt9nothrow_t,
    c"_ZnwmRKSt9nothrow_t",
    OperatorNew,
    false
);
new!(
    _ZnamRKSt9nothrow_t,
    c"_ZnamRKSt9nothrow_t",
    OperatorNewArray,
    false
);
new!(
    _ZnwmSt11align_val_t,
    c"_ZnwmSt11align_val_t",
    OperatorNew,
    true
);
new!(
    _ZnamSt11align_val_t,
    c"_ZnamSt11align_val_t",
    OperatorNewArray,
    true
);
new!(
    _ZnwmSt11align_val_tRKSt9nothrow_t,
    c"_ZnwmSt11align_val_tRKSt9nothrow_t",
    OperatorNew,
    true
);
new!(
    _ZnamSt11align_val_tRKSt9nothrow_t,
    c"_ZnamSt11align_val_tRKSt9nothrow_t",
    OperatorNewArray,
    true
);

delete!(_ZdlPv, c"_ZdlPv", OperatorDelete);
delete!(
    _ZdlPvRKSt9nothrow_t,
    c"_ZdlPvRKSt9nothrow_t",
    OperatorDelete
);
delete!(_ZdlPvm, c"_ZdlPvm", OperatorDelete);
delete!(
    _ZdlPvSt11align_val_t,
    c"_ZdlPvSt11align_val_t",
    OperatorDelete
);
delete!(
    _ZdlPvSt11align_val_tRKSt9nothrow_t,
    c"_ZdlPvSt11align_val_tRKSt9nothrow_t",
    OperatorDelete
);
delete!(
    _ZdlPvmSt11align_val_t,
    c"_ZdlPvmSt11align_val_t",
    OperatorDelete
);
delete!(_ZdaPv, c"_ZdaPv", OperatorDeleteArray);
delete!(
    _ZdaPvRKSt9nothrow_t,
    c"_ZdaPvRKSt9nothrow_t",
    OperatorDeleteArray
);
delete!(_ZdaPvm, c"_ZdaPvm", OperatorDeleteArray);
delete!(
    _ZdaPvSt11align_val_t,
    c"_ZdaPvSt11align_val_t",
    OperatorDeleteArray
);
delete!(
    _ZdaPvSt11align_val_tRKSt9nothrow_t,
    c"_ZdaPvSt11align_val_tRKSt9nothrow_t",
    OperatorDeleteArray
);
delete!(
    _ZdaPvmSt11align_val_t,
    c"_ZdaPvmSt11align_val_t",
    OperatorDeleteArray
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
