//! The hooks of jemalloc's own functions (jemalloc(3), "Non-standard API").

use core::ffi::c_void;

use allotrope_shm::hook_api::HookApi;
use allotrope_shm::numbers::EntryPoint;

use crate::next::Next;
use crate::recorder;

type Three = unsafe extern "C" fn(usize, usize, usize) -> *mut c_void;

/// The alignment in the flags (`MALLOCX_LG_ALIGN`): their low six bits are its base-2
/// logarithm; 0 if there is none.
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
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    static NEXT: Next = Next::new(c"mallocx");
    let (next, recorded) = NEXT.get();
    // SAFETY: the address is the next definition of this function, which is called with
    // the same arguments.
    unsafe {
        let next = core::mem::transmute::<usize, Three>(next);
        let Some(recorder) = recorder_if(recorded) else {
            return next(size, flags, third);
        };
        (recorder.enter)(sp, recorder::code());
        let block = next(size, flags, third);
        (recorder.leave)();
        if !block.is_null() {
            (recorder.allocation)(
                EntryPoint::Mallocx as u8,
                block,
                size,
                alignment(flags),
                sp,
                bp,
            );
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
    sp: *const u64,
    bp: u64,
) -> *mut c_void {
    static NEXT: Next = Next::new(c"rallocx");
    let (next, recorded) = NEXT.get();
    // SAFETY: as above.
    unsafe {
        let next = core::mem::transmute::<usize, Three>(next);
        let Some(recorder) = recorder_if(recorded) else {
            return next(block as usize, size, flags);
        };
        let started = (recorder.reallocation_start)(EntryPoint::Rallocx as u8, block, sp);
        (recorder.enter)(sp, recorder::code());
        let result = next(block as usize, size, flags);
        (recorder.leave)();
        if started {
            (recorder.reallocation_end)(EntryPoint::Rallocx as u8, block, result, size, sp, bp);
        }
        result
    }
}

pub unsafe extern "C" fn dallocx(
    block: *mut c_void,
    flags: usize,
    third: usize,
    sp: *const u64,
    _: u64,
) {
    static NEXT: Next = Next::new(c"dallocx");
    // SAFETY: as above.
    unsafe { release(&NEXT, EntryPoint::Dallocx as u8, block, flags, third, sp) };
}

pub unsafe extern "C" fn sdallocx(
    block: *mut c_void,
    size: usize,
    flags: usize,
    sp: *const u64,
    _: u64,
) {
    static NEXT: Next = Next::new(c"sdallocx");
    // SAFETY: as above.
    unsafe { release(&NEXT, EntryPoint::Sdallocx as u8, block, size, flags, sp) };
}

/// The hook of both deallocation functions.
unsafe fn release(
    next: &Next,
    entry: u8,
    block: *mut c_void,
    second: usize,
    third: usize,
    sp: *const u64,
) {
    let (next, recorded) = next.get();
    // SAFETY: as above.
    unsafe {
        let next = core::mem::transmute::<usize, Three>(next);
        let Some(recorder) = recorder_if(recorded) else {
            next(block as usize, second, third);
            return;
        };
        (recorder.deallocation)(entry, block, sp);
        (recorder.enter)(sp, recorder::code());
        next(block as usize, second, third);
        (recorder.leave)();
    }
}
