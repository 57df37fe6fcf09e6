//! jemalloc's own calls that allocate (jemalloc(3), "Non-standard API").

use core::ffi::c_void;

use allotrope_shm::hook_api::Caller;
use allotrope_shm::numbers::EntryPoint;

use crate::entry::jump;
use crate::next::Next;
use crate::recorder;

jump!(mallocx, allocate);
jump!(rallocx, reallocate);

/// `MALLOCX_LG_ALIGN`: the low six bits of the flags, the alignment's base-2
/// logarithm; 0 for none.
fn alignment(flags: usize) -> usize {
    match flags & 0x3f {
        0 => 0,
        log2 => 1 << log2,
    }
}

unsafe extern "C" fn allocate(
    size: usize,
    flags: usize,
    third: usize,
    caller: Caller<'_>,
) -> *mut c_void {
    static NEXT: Next = Next::new("mallocx\0");
    let next = NEXT.get();
    // SAFETY: called as the exported function was.
    let call = || unsafe { next.call(size, flags, third) };
    let Some(recorder) = next.recorder() else {
        return call();
    };
    (recorder.enter)(caller, recorder::code());
    let block = call();
    (recorder.leave)();
    if !block.is_null() {
        (recorder.allocation)(EntryPoint::Mallocx, block, size, alignment(flags), caller);
    }
    block
}

unsafe extern "C" fn reallocate(
    block: *mut c_void,
    size: usize,
    flags: usize,
    caller: Caller<'_>,
) -> *mut c_void {
    static NEXT: Next = Next::new("rallocx\0");
    let next = NEXT.get();
    // SAFETY: called as the exported function was.
    let call = || unsafe { next.call(block as usize, size, flags) };
    let Some(recorder) = next.recorder() else {
        return call();
    };
    let is_started = (recorder.reallocation_start)(EntryPoint::Rallocx, block, caller);
    (recorder.enter)(caller, recorder::code());
    let result = call();
    (recorder.leave)();
    if is_started {
        (recorder.reallocation_end)(EntryPoint::Rallocx, block, result, size, caller);
    }
    result
}
