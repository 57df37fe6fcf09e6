//! What a hook does in a process that is watched: asks the thread's sampler, and puts sampled
//! blocks into the process's memory. Calls that are not sampled mostly do not come here, see
//! `x86_64::sampling`.

use core::ffi::c_void;
use core::sync::atomic::Ordering::Relaxed;

use allotrope_shm::hook_api::Caller;
use allotrope_shm::numbers::EntryPoint;
use allotrope_watched::frees::Deallocation;
use allotrope_watched::writer::Sample;

use crate::capture::unwind;
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
    // A pool's block lies in memory that was allocated: it would be there twice.
    if matches!(entry, EntryPoint::Pool) {
        return;
    }
    let (Some(period), Some(writer)) = (sampling::allocate(thread, size), watched::writer()) else {
        return;
    };
    let stack = unwind::stack_id_in_memory(thread, writer, caller);
    writer.insert(&Sample {
        address: block as u64,
        size: size as u64,
        period,
        allocated: clock::monotonic(),
        stack,
        thread: thread.tid.load(Relaxed),
        entry,
    });
}

/// The program frees a block, and the next allocator has not done so yet.
pub fn deallocated(thread: OwnThread, block: *mut c_void, caller: Caller<'_>) {
    if let Some(sample) = take(block) {
        freed(thread, &sample, caller);
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
    let stack = unwind::stack_id_in_memory(thread, writer, caller);
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
        let is_done = !result.is_null() || size == 0;
        match (&taken, watched::writer()) {
            (Some(sample), _) if is_done => freed(thread, sample, caller),
            (Some(sample), Some(writer)) => {
                writer.put_back(sample);
            }
            _ => {}
        }
        if !result.is_null() {
            allocated(thread, entry, result, size, caller);
        }
    });
    result
}

/// Runs `body` in a hook. `None`: the call is a part of another one, and `body` was not run.
fn with_thread<R>(caller: Caller<'_>, body: impl FnOnce(OwnThread) -> R) -> Option<R> {
    let hook = enter::enter(caller)?;
    // A forked child begins here. There is never space for an event.
    ready::ready(*hook);
    Some(body(*hook))
}
