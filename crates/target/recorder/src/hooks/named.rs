//! Calls of allocators that the user named (`allotrope_detour::named`): their functions have detours, as
//! those of an allocator that is linked in ([`detoured`](crate::hooks::detoured)).
//!
//! A call that allocates is *the* allocation: what it takes from other allocators meanwhile on the same
//! thread is a part of it, not recorded, and noted as an inner block (`state::named`), since its
//! deallocation must not be recorded either, which may come much later and anywhere. What other calls
//! do (a `reset` runs the program's own handlers) is recorded as usual, except for inner blocks.

use core::ffi::c_void;
use core::ptr;

use allotrope_detour::named::{Named, Role};
use allotrope_shm::hook_api::Caller;
use allotrope_shm::numbers::{EntryPoint, LossReason};

use crate::hooks::detour_call::Call;
use crate::hooks::inner::{INNER, add_inner};
use crate::hooks::record::{
    finish_reallocation, record_allocation, record_deallocation, start_reallocation,
};
use crate::lifecycle::enter;
use crate::state::named::{self, Inner};
use crate::state::process;

/// Value of [`Call::token`], which is no address, nor [`INNER`]: the function frees a block.
const FREEING: u64 = 2;

/// Blocks of an owner that are freed at once.
const AT_ONCE: usize = 64;

/// The call begins. `entry` is [`EntryPoint::Pool`] if blocks have owners.
pub fn before(call: &mut Call, named: Named, entry: EntryPoint, caller: Caller<'_>) {
    let is_pool = entry == EntryPoint::Pool;
    call.token = match named.role {
        Role::Allocate(..) => begin_allocation(call, is_pool, caller),
        Role::Reallocate(block, _) => {
            let block = call.register(block) as *mut c_void;
            match block.is_null() {
                true => begin_allocation(call, is_pool, caller),
                false => begin_reallocation(call, entry, block, caller),
            }
        }
        Role::Free(block) => {
            let block = call.register(block) as *mut c_void;
            match block.is_null() {
                true => 0,
                false if is_pool => {
                    if named::remove(block as u64) {
                        record_deallocation(entry, block, caller);
                    }
                    0
                }
                false => free(call, entry, block, caller),
            }
        }
        Role::Reset(owner) => {
            reset(entry, call.register(owner) as u64, caller);
            0
        }
    };
}

fn begin_allocation(call: &mut Call, is_pool: bool, caller: Caller<'_>) -> u64 {
    match enter::enter_named(caller, &mut call.outer) {
        // A pool's table knows what was recorded.
        0 if !is_pool && enter::is_in_named(caller) => INNER,
        token => token,
    }
}

fn begin_reallocation(
    call: &mut Call,
    entry: EntryPoint,
    block: *mut c_void,
    caller: Caller<'_>,
) -> u64 {
    let is_pool = entry == EntryPoint::Pool;
    if is_pool && !named::remove(block as u64) {
        // An inner one, or one that there was no space for.
        return 0;
    }
    // It may free the old block by a function that is named, too.
    call.outer_free = enter::begin_free(block as usize, caller);
    let token = if !is_pool && named::remove_inner(Inner::Named, block as u64) {
        INNER
    } else if enter::is_in_named(caller) {
        // The new block is a part of what is being allocated.
        record_deallocation(entry, block, caller);
        INNER
    } else if start_reallocation(entry, block, caller) {
        enter::enter_named(caller, &mut call.outer)
    } else {
        0
    };
    if token == 0 {
        enter::end_free(call.outer_free);
    }
    token
}

/// A function that frees a block may call another one that is named, for the same block, as one that
/// replaces it may.
fn free(call: &mut Call, entry: EntryPoint, block: *mut c_void, caller: Caller<'_>) -> u64 {
    if enter::is_freeing(block as usize, caller) {
        return 0;
    }
    if !named::remove_inner(Inner::Named, block as u64) {
        record_deallocation(entry, block, caller);
    }
    call.outer_free = enter::begin_free(block as usize, caller);
    FREEING
}

/// Frees the blocks of an owner.
fn reset(entry: EntryPoint, owner: u64, caller: Caller<'_>) {
    let mut blocks = [0; AT_ONCE];
    loop {
        let count = named::take(owner, &mut blocks);
        for block in &blocks[..count] {
            record_deallocation(entry, *block as *mut c_void, caller);
        }
        if count < AT_ONCE {
            return;
        }
    }
}

/// The call ends.
pub fn after(call: &Call, named: Named, entry: EntryPoint, caller: Caller<'_>) {
    let is_pool = entry == EntryPoint::Pool;
    let result = call.result as *mut c_void;
    let owner = named.owner.map_or(0, |it| call.register(it) as u64);
    match (named.role, call.token) {
        (_, FREEING) => enter::end_free(call.outer_free),
        (Role::Reallocate(block, _), INNER) => {
            let block = call.register(block);
            if block != 0 {
                enter::end_free(call.outer_free);
            }
            // A pool's table knows what was recorded.
            if !is_pool {
                let kept = if result.is_null() { block } else { call.result };
                add_inner(Inner::Named, kept as u64);
            }
        }
        (_, INNER) => add_inner(Inner::Named, result as u64),
        (Role::Allocate(size, by), _) => {
            let by = by.map_or(1, |it| call.register(it));
            // A product that is too large makes the call fail.
            let size = call.register(size).wrapping_mul(by);
            allocated(is_pool.then_some(owner), entry, result, size, caller);
        }
        (Role::Reallocate(block, size), _) => {
            let (block, size) = (call.register(block) as *mut c_void, call.register(size));
            if block.is_null() {
                allocated(is_pool.then_some(owner), entry, result, size, caller);
                return;
            }
            enter::end_free(call.outer_free);
            // One that failed leaves the old block.
            let now = if result.is_null() { block } else { result };
            if !is_pool || named::add(owner, now as u64) {
                finish_reallocation(entry, block, result, size.max(1), caller);
            } else {
                finish_reallocation(entry, block, ptr::null_mut(), 0, caller);
                process::lost(LossReason::NoMemory);
            }
        }
        _ => {}
    }
}

/// A function returned a new block, or null; `owner` is that of a pool's.
fn allocated(
    owner: Option<u64>,
    entry: EntryPoint,
    block: *mut c_void,
    size: usize,
    caller: Caller<'_>,
) {
    if block.is_null() {
        return;
    }
    let is_known = match owner {
        Some(owner) => named::add(owner, block as u64),
        None => {
            // Of a function that only passes on what another one returns.
            named::remove_inner(Inner::Named, block as u64);
            true
        }
    };
    match is_known {
        true => record_allocation(entry, block, size, 0, caller),
        // Nothing would free it.
        false => process::lost(LossReason::NoMemory),
    }
}
