//! C++ `operator new` and `operator delete`, all forms, with names as the Itanium C++
//! ABI mangles them (§5.1), and the other functions that only free a block.

use core::ffi::c_void;

use allotrope_shm::hook_api::Caller;
use allotrope_shm::numbers::EntryPoint;

use crate::entry::{jump, wrap};
use crate::next::{Next, release};
use crate::recorder;

/// One form: its next definition, its hook, and the exported function.
macro_rules! form {
    // The second argument of `new_aligned` is the alignment.
    (new $name:ident $entry:ident) => { form!(@new $name $entry _ => 0); };
    (new_aligned $name:ident $entry:ident) => { form!(@new $name $entry second => second); };
    (@new $name:ident $entry:ident $second:pat => $alignment:expr) => {
        #[allow(non_snake_case)]
        mod $name {
            use super::*;

            pub static NEXT: Next = Next::new(concat!(stringify!($name), "\0"));

            /// Is called before the call; returns the address of the next definition.
            pub extern "C" fn begin(caller: Caller<'_>) -> usize {
                let next = NEXT.get();
                if let Some(recorder) = next.recorder() {
                    (recorder.enter)(caller, recorder::code());
                }
                next.address()
            }

            /// Is called after the call, unless that has thrown an exception.
            pub extern "C" fn end(
                block: *mut c_void,
                size: usize,
                $second: usize,
                caller: Caller<'_>,
            ) {
                if let Some(recorder) = NEXT.get().recorder() {
                    (recorder.leave)();
                    if !block.is_null() {
                        let entry = EntryPoint::$entry;
                        (recorder.allocation)(entry, block, size, $alignment, caller);
                    }
                }
            }
        }
        wrap!($name, $name::begin, $name::end);
    };
    (release $name:ident $entry:ident) => {
        #[allow(non_snake_case)]
        mod $name {
            use super::*;

            pub static NEXT: Next = Next::new(concat!(stringify!($name), "\0"));

            pub unsafe extern "C" fn hook(
                block: *mut c_void,
                second: usize,
                third: usize,
                caller: Caller<'_>,
            ) {
                // SAFETY: called as the exported function was.
                unsafe { release(&NEXT, EntryPoint::$entry, block, second, third, caller) };
            }
        }
        jump!($name, $name::hook);
    };
}

macro_rules! forms {
    ($($form:ident $name:ident $entry:ident;)*) => {
        $(form!($form $name $entry);)*

        /// The next definitions of all forms.
        pub static ALL: &[&Next] = &[$(&$name::NEXT),*];
    };
}

forms! {
    new _Znwm OperatorNew;
    new _Znam OperatorNewArray;
    new _ZnwmRKSt9nothrow_t OperatorNew;
    new _ZnamRKSt9nothrow_t OperatorNewArray;
    new_aligned _ZnwmSt11align_val_t OperatorNew;
    new_aligned _ZnamSt11align_val_t OperatorNewArray;
    new_aligned _ZnwmSt11align_val_tRKSt9nothrow_t OperatorNew;
    new_aligned _ZnamSt11align_val_tRKSt9nothrow_t OperatorNewArray;
    release _ZdlPv OperatorDelete;
    release _ZdlPvRKSt9nothrow_t OperatorDelete;
    release _ZdlPvm OperatorDelete;
    release _ZdlPvSt11align_val_t OperatorDelete;
    release _ZdlPvSt11align_val_tRKSt9nothrow_t OperatorDelete;
    release _ZdlPvmSt11align_val_t OperatorDelete;
    release _ZdaPv OperatorDeleteArray;
    release _ZdaPvRKSt9nothrow_t OperatorDeleteArray;
    release _ZdaPvm OperatorDeleteArray;
    release _ZdaPvSt11align_val_t OperatorDeleteArray;
    release _ZdaPvSt11align_val_tRKSt9nothrow_t OperatorDeleteArray;
    release _ZdaPvmSt11align_val_t OperatorDeleteArray;
    release dallocx Dallocx;
    release sdallocx Sdallocx;
}
