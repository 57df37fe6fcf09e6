//! jemalloc's own calls (jemalloc(3), "Non-standard API").

use core::ffi::c_void;

use allotrope_shm::hook_api::{Caller, HookApi};
use allotrope_shm::numbers::EntryPoint;

use crate::next::Next;
use crate::recorder;

type Three = unsafe extern "C" fn(usize, usize, usize) -> *mut c_void;

/// `MALLOCX_LG_ALIGN`: the low six bits of the flags, the alignment's base-2
/// logarithm; 0 for none.
fn alignment(flags: usize) -> usize {
    match flags & 0x3f {
        0 => 0,
        log2 => 1 << log2,
    }
}

pub unsafe extern "C" fn mallocx(
    size: usize,
    flags: usize,
    third: usize,
    caller: Caller<'_>,
) -> *mut c_void {
    static NEXT: Next = Next::new(c"mallocx");
    let (next, recorded) = NEXT.get();
    // SAFETY: the next definition of this very function, called as it was called.
    unsafe {
        let next = core::mem::transmute::<usize, Three>(next);
        let Some(recorder) = recorder_if(recorded) else {
            return next(size, flags, third);
        };
        (recorder.enter)(caller, recorder::code());
        let block = next(size, flags, third);
        (recorder.leave)();
        if !block.is_null() {
            (recorder.allocation)(EntryPoint::Mallocx, block, size, alignment(flags), caller);
        }
        block
    }
}

fn recorder_if(recorded: bool) -> Option<&'static HookApi> {
    if recorded { recorder::hook_api() } else { None }
}

pub unsafe extern "C" fn rallocx(
    block: *mut c_void,
    size: usize,
    flags: usize,
    caller: Caller<'_>,
) -> *mut c_void {
    static NEXT: Next = Next::new(c"rallocx");
    let (next, recorded) = NEXT.get();
    // SAFETY: as above.
    unsafe {
        let next = core::mem::transmute::<usize, Three>(next);
        let Some(recorder) = recorder_if(recorded) else {
            return next(block as usize, size, flags);
        };
        let started = (recorder.reallocation_start)(EntryPoint::Rallocx, block, caller);
        (recorder.enter)(caller, recorder::code());
        let result = next(block as usize, size, flags);
        (recorder.leave)();
        if started {
            (recorder.reallocation_end)(EntryPoint::Rallocx, block, result, size, caller);
        }
        result
    }
}

pub unsafe extern "C" fn dallocx(
    block: *mut c_void,
    flags: usize,
    third: usize,
    caller: Caller<'_>,
) {
    static NEXT: Next = Next::new(c"dallocx");
    // SAFETY: as above.
    unsafe { release(&NEXT, EntryPoint::Dallocx, block, flags, third, caller) };
}

pub unsafe extern "C" fn sdallocx(
    block: *mut c_void,
    size: usize,
    flags: usize,
    caller: Caller<'_>,
) {
    static NEXT: Next = Next::new(c"sdallocx");
    // SAFETY: as above.
    unsafe { release(&NEXT, EntryPoint::Sdallocx, block, size, flags, caller) };
}

unsafe fn release(
    next: &Next,
    entry: EntryPoint,
    block: *mut c_void,
    second: usize,
    third: usize,
    caller: Caller<'_>,
) {
    let (next, recorded) = next.get();
    // SAFETY: as above.
    unsafe {
        let next = core::mem::transmute::<usize, Three>(next);
        let Some(recorder) = recorder_if(recorded) else {
            next(block as usize, second, third);
            return;
        };
        (recorder.deallocation)(entry, block, caller);
        (recorder.enter)(caller, recorder::code());
        next(block as usize, second, third);
        (recorder.leave)();
    }
}
