//! What a hook does in a process that is watched: asks the thread's sampler, and puts sampled
//! blocks into the process's memory. Calls that are not sampled mostly do not come here, see
//! `x86_64::entry`.

use core::ffi::c_void;
use core::sync::atomic::Ordering::Relaxed;

use allotrope_shm::hook_api::Caller;
use allotrope_shm::numbers::EntryPoint;
use allotrope_shm::samples::frees::Deallocation;
use allotrope_shm::samples::writer::{FirstAllocation, Sample};
use allotrope_unwind::CallKind;

use crate::capture::unwind;
use crate::hooks::probes;
use crate::lifecycle::enter;
use crate::lifecycle::ready;
use crate::state::sampling;
use crate::state::thread::OwnThread;
use crate::state::watched;
use crate::sys::clock;

/// The next allocator returned a block to the program.
pub fn allocated(
    thread: OwnThread,
    entry: EntryPoint,
    block: *mut c_void,
    size: usize,
    caller: Caller<'_>,
) {
    if let Some(sample) = sample(thread, entry, block, size, None, caller) {
        probes::malloc(&sample);
    }
}

/// The next `malloc` returned a block.
pub fn malloc_allocated(block: *mut c_void, size: usize, caller: Caller<'_>) {
    with_thread(caller, |thread| {
        allocated(thread, EntryPoint::Malloc, block, size, caller);
    });
}

/// `free` was called with a block that may have been sampled.
pub fn free(block: *mut c_void, caller: Caller<'_>) {
    if watched::may_be_sampled(block as u64) {
        with_thread(caller, |thread| deallocated(thread, block, caller));
    }
}

/// The next `calloc` returned a block of so many elements, of `size` bytes in all.
pub fn calloc_allocated(block: *mut c_void, elements: usize, size: usize, caller: Caller<'_>) {
    let sample = with_thread(caller, |thread| {
        sample(thread, EntryPoint::Calloc, block, size, None, caller)
    });
    if let Some(sample) = sample.flatten() {
        probes::calloc(&sample, elements);
    }
}

/// Counts an allocation down and adds its block to the live ones, if it is sampled. `first`: it is
/// a reallocation of a sampled block.
fn sample(
    thread: OwnThread,
    entry: EntryPoint,
    block: *mut c_void,
    size: usize,
    first: Option<FirstAllocation>,
    caller: Caller<'_>,
) -> Option<Sample> {
    // A pool's block lies in memory that was allocated: it would be there twice.
    if matches!(entry, EntryPoint::Pool) {
        return None;
    }
    let period = sampling::allocate(thread, size)?;
    let writer = watched::writer()?;
    let stack = unwind::stack_id_in_memory(thread, writer, CallKind::Allocation, caller);
    let sample = Sample {
        address: block as u64,
        size: size as u64,
        period,
        allocated: clock::monotonic(),
        stack,
        thread: thread.tid.load(Relaxed),
        entry,
        first,
    };
    writer.insert(&sample).then_some(sample)
}

/// The program frees a block, and the next allocator has not done so yet.
pub fn deallocated(thread: OwnThread, block: *mut c_void, caller: Caller<'_>) {
    if let Some(sample) = take(block) {
        freed(thread, &sample, caller);
        probes::free(&sample);
    }
}

/// Removes a block from the live ones, if it was sampled.
fn take(block: *mut c_void) -> Option<Sample> {
    watched::writer()?.take(block as u64)
}

fn freed(thread: OwnThread, sample: &Sample, caller: Caller<'_>) {
    let Some(writer) = watched::writer() else {
        return;
    };
    let stack = unwind::stack_id_in_memory(thread, writer, CallKind::Deallocation, caller);
    let deallocation = Deallocation {
        time: clock::monotonic(),
        stack,
        thread: thread.tid.load(Relaxed),
    };
    writer.freed(sample, deallocation);
}

/// The program reallocates a block that is not null, by `next`. Its sample is taken before:
/// afterwards another thread may have got the address.
#[inline(never)]
pub fn reallocate(
    entry: EntryPoint,
    block: *mut c_void,
    size: usize,
    caller: Caller<'_>,
    next: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    if !watched::may_be_sampled(block as u64) && sampling::passes(size) {
        return next();
    }
    let taken = with_thread(caller, |_| take(block)).flatten();
    let result = next();
    with_thread(caller, |thread| {
        if result.is_null() && size != 0 {
            if let (Some(sample), Some(writer)) = (&taken, watched::writer()) {
                writer.put_back(sample);
            }
            return;
        }
        if let Some(old) = &taken {
            freed(thread, old, caller);
        }
        if result.is_null() {
            return taken.iter().for_each(probes::free);
        }
        let first = taken.as_ref().map(Sample::first_allocation);
        let new = sample(thread, entry, result, size, first, caller);
        probes::realloc(block, taken.as_ref(), (result as u64, size, new.as_ref()));
    });
    result
}

/// Runs `body` in a hook. `None`: the call is a part of another one, and `body` was not run.
fn with_thread<R>(caller: Caller<'_>, body: impl FnOnce(OwnThread) -> R) -> Option<R> {
    let hook = enter::enter(caller)?;
    ready::ready_to_sample(*hook);
    Some(body(*hook))
}
