//! Hooks of the functions of allocators that are linked into the program. Their first
//! instructions were replaced by a jump (`lifecycle::detours`), so that a call comes to a
//! stub (`x86_64::detoured`), which calls [`before`], the function by its trampoline, and
//! [`after`].
//!
//! The functions call each other, by calls and by jumps, and are in the same module as
//! the program: whatever the program's own code calls in such a call is part of it.

use core::ffi::c_void;
use core::ptr;

use allotrope_detour::functions::{Operation, Size};
use allotrope_shm::hook_api::Caller;

use crate::capture::loader_tables;
use crate::hooks::detour_call::Call;
use crate::hooks::inner;
use crate::hooks::named;
use crate::hooks::record::{
    finish_reallocation, record_aligned, record_allocation, record_deallocation, start_reallocation,
};
use crate::lifecycle::enter;
use crate::state::detours as table;

/// The call begins. Returns the address of the function's trampoline.
pub extern "C" fn before(call: &mut Call, caller: Caller<'_>) -> usize {
    let (trampoline, function, skipped) = table::get(call.number);
    let block = call.argument(skipped, 0) as *mut c_void;
    let is_begun = match function.operation {
        Operation::Allocate(..) | Operation::AllocateInto | Operation::AllocatePath => true,
        Operation::Free if block.is_null() => false,
        Operation::Free => {
            record_deallocation(function.entry, block, caller);
            true
        }
        Operation::Named(what) => {
            named::before(call, what, function.entry, caller);
            return trampoline;
        }
        Operation::Reallocate(_) | Operation::ReallocateOrFree(_) | Operation::Resize
            if inner::was_inner(function.entry, block) =>
        {
            call.token = inner::INNER;
            return trampoline;
        }
        Operation::Reallocate(_) | Operation::ReallocateOrFree(_) | Operation::Resize => {
            block.is_null() || start_reallocation(function.entry, block, caller)
        }
    };
    call.token = match is_begun {
        true => enter::enter_detour(caller, &mut call.outer),
        false => 0,
    };
    trampoline
}

/// The call ends.
pub extern "C" fn after(call: &Call, caller: Caller<'_>) {
    let (_, function, skipped) = table::get(call.number);
    enter::leave_detour(call.token, call.outer);
    let entry = function.entry;
    let argument = |number| call.argument(skipped, number);
    let result = call.result as *mut c_void;
    let allocated = |block: *mut c_void, size, alignment| {
        if block.is_null() {
            return;
        }
        match alignment {
            0 | 1 => record_allocation(entry, block, size, 0, caller),
            _ => record_aligned(entry, block, alignment, size, caller),
        }
    };
    let reallocated = |size: usize, size_of_none: usize| {
        let block = argument(0) as *mut c_void;
        match (block.is_null(), result.is_null()) {
            (true, _) => allocated(result, size, 0),
            (false, true) => finish_reallocation(entry, block, result, size_of_none, caller),
            (false, false) => finish_reallocation(entry, block, result, size, caller),
        }
    };
    match function.operation {
        Operation::Named(what) => named::after(call, what, entry, caller),
        Operation::Reallocate(size) | Operation::ReallocateOrFree(size)
            if call.token == inner::INNER =>
        {
            let bytes = call.size(size, skipped);
            inner::moved(argument(0) as *mut c_void, result, bytes);
        }
        // `xallocx` leaves the block where it is.
        Operation::Resize if call.token == inner::INNER => {
            inner::moved(argument(0) as *mut c_void, argument(0) as *mut c_void, 1);
        }
        Operation::Allocate(size, alignment) if !result.is_null() => {
            let alignment = call.alignment(alignment, skipped);
            let own = match size {
                Size::Product(_) => loader_tables::own_bytes(argument(1), caller.return_address()),
                _ => 0,
            };
            let bytes = call.size(size, skipped).saturating_sub(own);
            allocated(result, bytes, alignment);
        }
        Operation::AllocateInto if call.result as i32 == 0 => {
            // SAFETY: the function has stored a block there.
            let block = unsafe { (argument(0) as *const *mut c_void).read() };
            allocated(block, argument(2), argument(1));
        }
        Operation::AllocatePath if !result.is_null() && call.result != argument(1) => {
            allocated(result, call.size(Size::Text, skipped), 0);
        }
        Operation::Reallocate(size) => {
            let bytes = call.size(size, skipped);
            // Only `realloc` to 0 bytes frees the block and returns none.
            let is_freed = size == Size::Argument(1) && bytes == 0;
            reallocated(bytes, usize::from(!is_freed));
        }
        Operation::ReallocateOrFree(size) => reallocated(call.size(size, skipped), 0),
        Operation::Resize => {
            let block = argument(0) as *mut c_void;
            let (least, more) = (argument(1), argument(2));
            if call.result >= least {
                let size = call.result.min(least.saturating_add(more));
                finish_reallocation(entry, block, block, size, caller);
            } else {
                finish_reallocation(entry, block, ptr::null_mut(), 1, caller);
            }
        }
        Operation::Allocate(..)
        | Operation::AllocateInto
        | Operation::AllocatePath
        | Operation::Free => {}
    }
}

/// The personality routine of the stub (Itanium C++ ABI, "Exception Handling", §2.5.2): an
/// exception of `operator new` ends the call.
pub extern "C" fn unwound(_version: i32, actions: i32) -> i32 {
    const CLEANUP_PHASE: i32 = 2;
    const CONTINUE_UNWIND: i32 = 8;
    if actions & CLEANUP_PHASE != 0 {
        enter::leave_unwound();
    }
    CONTINUE_UNWIND
}
