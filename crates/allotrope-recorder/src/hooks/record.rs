//! Records a call of the allocator: enters the thread's state, captures the stack and
//! writes the event; where calls are only counted, counts it.

use core::ffi::c_void;
use core::ptr;

use allotrope_shm::wire::kind;

use crate::capture::unwind;
use crate::emit::counts;
use crate::emit::events;
use crate::lifecycle::enter;
use crate::lifecycle::ready;

#[inline(always)]
pub unsafe fn record_allocation(
    entry: u8,
    block: *mut c_void,
    size: usize,
    alignment_log2: u8,
    sp: *const u64,
    bp: u64,
) {
    // SAFETY: `enter` gives this thread's own state, free for this hook.
    unsafe {
        let thread = enter::enter(sp as usize);
        if thread.is_null() {
            return;
        }
        if ready::ready(thread) {
            match unwind::stack_id(thread, sp, bp) {
                Some(stack) => {
                    #[cfg(feature = "verify")]
                    crate::capture::verify::compare(thread, sp.read());
                    events::allocation(
                        thread,
                        entry,
                        block as u64,
                        size as u64,
                        alignment_log2,
                        stack,
                    );
                }
                None => events::count_lost(thread),
            }
        } else {
            counts::allocation(thread, entry, size);
        }
        enter::leave(thread);
    }
}

#[inline(always)]
pub unsafe fn record_short(kind: u8, entry: u8, block: *mut c_void, sp: *const u64) {
    // SAFETY: `enter` gives this thread's own state, free for this hook.
    unsafe {
        let thread = enter::enter(sp as usize);
        if thread.is_null() {
            return;
        }
        if ready::ready(thread) {
            events::block_event(thread, kind, entry, block as u64);
        } else {
            counts::deallocation(thread, entry);
        }
        enter::leave(thread);
    }
}

/// Records that a block is about to be reallocated. `false`: the reallocation
/// can not be recorded, and is not counted.
#[inline(always)]
pub unsafe fn start_reallocation(entry: u8, block: *mut c_void, sp: *const u64) -> bool {
    // SAFETY: `enter` gives this thread's own state, free for this hook.
    unsafe {
        let thread = enter::enter(sp as usize);
        if thread.is_null() {
            return false;
        }
        let recorded = ready::ready(thread);
        if recorded {
            events::block_event(thread, kind::REALLOCATION_START, entry, block as u64);
        }
        let counted = !recorded && counts::are_kept(thread);
        enter::leave(thread);
        recorded || counted
    }
}

/// Writes the end of a reallocation whose start was recorded. A start without an end
/// must not remain for a block that is alive, so an end that can not be written counts
/// as lost.
#[inline(always)]
pub unsafe fn finish_reallocation(
    entry: u8,
    block: *mut c_void,
    result: *mut c_void,
    size: usize,
    sp: *const u64,
    bp: u64,
) {
    // SAFETY: `enter` gives this thread's own state, free for this hook.
    unsafe {
        let thread = enter::enter(sp as usize);
        if thread.is_null() {
            return;
        }
        if ready::ready(thread) {
            if !result.is_null() {
                match unwind::stack_id(thread, sp, bp) {
                    Some(stack) => {
                        #[cfg(feature = "verify")]
                        crate::capture::verify::compare(thread, sp.read());
                        events::reallocation_end(thread, entry, result as u64, size as u64, stack);
                    }
                    // The old block is gone all the same; `ready` left room for
                    // one word.
                    None => {
                        events::block_event(thread, kind::REALLOCATION_FREED, entry, block as u64);
                        events::count_lost(thread);
                    }
                }
            } else if size == 0 {
                events::block_event(thread, kind::REALLOCATION_FREED, entry, block as u64);
            } else {
                events::block_event(thread, kind::REALLOCATION_FAILED, entry, block as u64);
            }
        } else if !result.is_null() {
            counts::reallocation(thread, entry, size);
        } else if size == 0 {
            counts::deallocation(thread, entry);
        }
        enter::leave(thread);
    }
}

#[inline(always)]
pub unsafe fn record_aligned(
    entry: u8,
    block: *mut c_void,
    alignment: usize,
    size: usize,
    sp: *const u64,
    bp: u64,
) {
    // The C library rounds an alignment that is no power of two up.
    let log2 = alignment.max(1).next_power_of_two().trailing_zeros() as u8;
    // SAFETY: the caller vouches for `sp` and `bp`.
    unsafe { record_allocation(entry, block, size, log2, sp, bp) };
}

/// Counts an allocation whose thread has no counters attached: it has none yet, or the
/// call is perhaps one that the allocator makes of itself.
pub unsafe extern "C" fn count_allocation(
    entry: u8,
    block: *mut c_void,
    size: usize,
    sp: *const u64,
) {
    // SAFETY: the stub gives its caller's stack pointer. `ready` refuses where calls are
    // counted; the frame pointer is for events only.
    unsafe { record_allocation(entry, block, size, 0, sp, 0) };
}

/// As [`count_allocation`].
pub unsafe extern "C" fn count_deallocation(entry: u8, sp: *const u64) {
    // SAFETY: the stub gives its caller's stack pointer.
    unsafe { record_short(kind::DEALLOCATION, entry, ptr::null_mut(), sp) };
}
