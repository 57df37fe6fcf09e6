//! Records a call of the allocator: enters the thread's state, captures the stack and
//! writes the event; where there is to be no event, counts it as the mode does.

use core::ffi::c_void;
use core::sync::atomic::Ordering::Relaxed;

use allotrope_shm::hook_api::Caller;
use allotrope_shm::numbers::{AddressSpace, EntryPoint};
use allotrope_shm::wire::kind;

use crate::capture::unwind;
use crate::emit::counts::Call;
use crate::emit::events::{self, Space};
use crate::emit::mode;
use crate::hooks::inner;
use crate::hooks::sampled;
use crate::lifecycle::enter::{self, Hook};
use crate::lifecycle::ready;
use crate::state::live_blocks;
use crate::state::process;
use crate::state::thread::OwnThread;

/// Records an allocation that did not fail.
#[inline(always)]
pub fn record_allocation(
    entry: EntryPoint,
    block: *mut c_void,
    size: usize,
    alignment_log2: u8,
    caller: Caller<'_>,
) {
    let Some(hook) = enter::enter(caller) else {
        return inner::not_recorded(entry, block, caller);
    };
    if live_blocks::is_tracking() {
        track(entry, block, size);
    }
    write_allocation(hook, entry, block, size, alignment_log2, caller);
}

/// Same as [`record_allocation`], for the stubs that work at any time: where live blocks are
/// tracked, only the recording's very first call comes to them (`emit::mode::choose`).
#[inline(always)]
pub fn record_untracked_allocation(
    entry: EntryPoint,
    block: *mut c_void,
    size: usize,
    caller: Caller<'_>,
) {
    let begun = || {
        if live_blocks::is_tracking() {
            track(entry, block, size);
        }
    };
    let Some(hook) = enter::enter_or_begin(caller, begun) else {
        return inner::not_recorded(entry, block, caller);
    };
    write_allocation(hook, entry, block, size, 0, caller);
}

/// Adds a block to the table of live blocks. Those of pools lie in other blocks.
#[inline(never)]
fn track(entry: EntryPoint, block: *mut c_void, size: usize) {
    if entry.address_space() != AddressSpace::Pools {
        process::note_block();
        live_blocks::insert(block as usize, size);
    }
}

/// Removes a block from the table of live blocks, and returns what the table had of it.
#[inline(never)]
fn untrack(entry: EntryPoint, block: *mut c_void) -> live_blocks::Entry {
    match entry.address_space() {
        AddressSpace::Pools => 0,
        _ => live_blocks::take(block as usize),
    }
}

#[inline(always)]
fn write_allocation(
    hook: Hook,
    entry: EntryPoint,
    block: *mut c_void,
    size: usize,
    alignment_log2: u8,
    caller: Caller<'_>,
) {
    match ready::ready(*hook) {
        Some(space) => match captured(space, caller) {
            Some(stack) => {
                let (block, size) = (block as u64, size as u64);
                events::allocation(space, entry, block, size, alignment_log2, stack);
            }
            None => events::count_lost(*hook),
        },
        None => without_event(*hook, entry, Call::Allocation(size), block, caller),
    }
}

/// Counts or samples a call for which there is no event.
#[cold]
#[inline(never)]
fn without_event(
    thread: OwnThread,
    entry: EntryPoint,
    call: Call,
    block: *mut c_void,
    caller: Caller<'_>,
) {
    if !mode::is_watching() {
        return (mode::current().count)(thread.state(), entry, call);
    }
    match call {
        Call::Allocation(size) | Call::Reallocation(size) => {
            sampled::allocated(thread, entry, block, size, caller);
        }
        Call::Deallocation => sampled::deallocated(thread, block, caller),
    }
}

/// Records an allocation with an alignment in bytes, unless it failed.
#[inline(always)]
pub fn record_aligned(
    entry: EntryPoint,
    block: *mut c_void,
    alignment: usize,
    size: usize,
    caller: Caller<'_>,
) {
    if block.is_null() {
        return;
    }
    // The C library rounds an alignment that is no power of two up.
    let log2 = alignment.max(1).next_power_of_two().trailing_zeros() as u8;
    record_allocation(entry, block, size, log2, caller);
}

/// The id of the caller's stack.
#[inline(always)]
fn captured(space: Space, caller: Caller<'_>) -> Option<u32> {
    let stack = unwind::stack_id(space, caller);
    #[cfg(feature = "verify")]
    if stack.is_some() {
        crate::capture::verify::compare(*space, caller.return_address());
    }
    stack
}

/// Records a call of `free` whose stack is not recorded. With named allocators every call comes to
/// [`record_deallocation`], see `emit::mode::choose`.
#[inline(always)]
pub fn record_free(block: *mut c_void, caller: Caller<'_>) {
    let Some(hook) = enter::enter(caller) else {
        return;
    };
    let entry = EntryPoint::Free;
    match ready::ready(*hook) {
        Some(space) => events::block_event(space, kind::DEALLOCATION, entry, block as u64),
        None => without_event(*hook, entry, Call::Deallocation, block, caller),
    }
}

/// Records a deallocation, with its stack if the mode records that.
#[inline(always)]
pub fn record_deallocation(entry: EntryPoint, block: *mut c_void, caller: Caller<'_>) {
    if live_blocks::is_tracking() {
        untrack(entry, block);
    }
    if inner::was_inner(entry, block) {
        return;
    }
    let Some(hook) = enter::enter_to_end(caller) else {
        return;
    };
    match ready::ready(*hook) {
        Some(space) => write_end_of_block(space, kind::DEALLOCATION, entry, block, caller),
        None => without_event(*hook, entry, Call::Deallocation, block, caller),
    }
}

/// Writes a `Deallocation` or `ReallocationStart`, with its stack if the mode records
/// that. Without space for new frames it is written without: `ready` reserved one word.
#[inline(always)]
fn write_end_of_block(
    space: Space,
    kind: u8,
    entry: EntryPoint,
    block: *mut c_void,
    caller: Caller<'_>,
) {
    let stack = match mode::records_free_stacks() {
        true => captured(space, caller),
        false => None,
    };
    match stack {
        Some(stack) => events::block_event_at(space, kind, entry, block as u64, stack),
        None => events::block_event(space, kind, entry, block as u64),
    }
}

/// Records that a block is about to be reallocated. `false`: the reallocation
/// cannot be recorded, and is not counted.
#[inline(always)]
pub fn start_reallocation(entry: EntryPoint, block: *mut c_void, caller: Caller<'_>) -> bool {
    let Some(hook) = enter::enter_to_end(caller) else {
        return false;
    };
    if live_blocks::is_tracking() {
        hook.reallocated.store(untrack(entry, block), Relaxed);
    }
    match ready::ready(*hook) {
        Some(space) => {
            write_end_of_block(space, kind::REALLOCATION_START, entry, block, caller);
            true
        }
        None if mode::is_watching() => {
            // A reallocation that the program reports is not undone if it fails: a live block
            // without a sample is less wrong than a sample that stays for ever.
            sampled::deallocated(*hook, block, caller);
            true
        }
        None => (mode::current().is_counting)(&hook),
    }
}

/// Writes the end of a reallocation whose start was recorded. A start without an end
/// must not remain for a block that is alive, so an end that cannot be written counts
/// as lost.
#[inline(always)]
pub fn finish_reallocation(
    entry: EntryPoint,
    block: *mut c_void,
    result: *mut c_void,
    size: usize,
    caller: Caller<'_>,
) {
    let Some(hook) = enter::enter_to_end(caller) else {
        return;
    };
    if live_blocks::is_tracking() {
        match hook.reallocated.swap(0, Relaxed) {
            _ if !result.is_null() => track(entry, result, size),
            before if size != 0 && before != 0 => live_blocks::put(block as usize, before),
            _ => {}
        }
    }
    match ready::ready(*hook) {
        Some(space) if result.is_null() => {
            let kind = match size {
                0 => kind::REALLOCATION_FREED,
                _ => kind::REALLOCATION_FAILED,
            };
            events::block_event(space, kind, entry, block as u64);
        }
        Some(space) => match captured(space, caller) {
            Some(stack) => {
                events::reallocation_end(space, entry, result as u64, size as u64, stack);
            }
            // The old block does not exist any more all the same; `ready` reserved one
            // word.
            None => {
                events::block_event(space, kind::REALLOCATION_FREED, entry, block as u64);
                events::count_lost(*hook);
            }
        },
        None => {
            let call = match (result.is_null(), size) {
                (false, _) => Call::Reallocation(size),
                (true, 0) => Call::Deallocation,
                (true, _) => return,
            };
            without_event(*hook, entry, call, result, caller);
        }
    }
}

/// Counts an allocation whose thread has no counters attached: it has none yet, or the
/// call is perhaps one that the allocator makes of itself.
pub extern "C" fn count_allocation(
    entry: EntryPoint,
    block: *mut c_void,
    size: usize,
    caller: Caller<'_>,
) {
    record_allocation(entry, block, size, 0, caller);
}

/// Records a deallocation by a thread that has no counters attached: as
/// [`count_allocation`], or because events are written, with the stack of each
/// deallocation.
pub extern "C" fn free_without_counters(entry: EntryPoint, block: *mut c_void, caller: Caller<'_>) {
    record_deallocation(entry, block, caller);
}
