//! Which allocations of a thread are sampled, where the process is watched
//! (`allotrope_sampling::countdown`).
//!
//! The thread's countdown is in thread-local storage, where the stubs
//! (`hooks::x86_64::entry`) subtract from it. While the thread is in a call of the
//! allocator whose inner calls are no allocations of the program's, it is *detached*: the
//! thread-local countdown is 0, so that each call comes to a hook, which knows whose it is, and the
//! rest of the countdown is in [`Thread::countdown`]. A nested state, in a signal handler that has
//! interrupted a hook, always has its countdown there.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU64, compiler_fence};

use allotrope_sampling::countdown::{STRETCH, Sampler};
use allotrope_sampling::exponential::Generator;
use allotrope_sampling::{Period, counted_bytes};

use crate::state::thread::{OwnThread, Thread};
use crate::state::watched;
use crate::sys::arch;
use crate::sys::arch::thread_slot;
use crate::sys::system;

/// Random, different in each process; 0: not drawn yet.
static SEED: AtomicU64 = AtomicU64::new(0);

/// Draws what makes this process's distances differ from those of others. A later one, in a
/// forked child, mixes its id in.
pub fn seed() {
    let random = system::random().map_or_else(arch::tick, u64::from_le_bytes);
    SEED.store(random, Relaxed);
}

/// A generator that no other thread of this process or another has.
fn generator(thread: OwnThread) -> Generator {
    let own = core::ptr::from_ref(thread.state()).addr() as u64;
    Generator::seeded(&[
        SEED.load(Relaxed),
        u64::from(system::process_id()),
        own,
        arch::tick(),
    ])
}

/// Whether the thread's countdown is the thread-local one.
fn is_attached(thread: OwnThread) -> bool {
    !thread.is_nested.load(Relaxed) && thread.suspended_call.load(Relaxed) == 0
}

fn left(thread: OwnThread) -> u64 {
    if is_attached(thread) {
        thread_slot::countdown()
    } else {
        thread.countdown.load(Relaxed)
    }
}

fn set_left(thread: OwnThread, left: u64) {
    if is_attached(thread) {
        thread_slot::set_countdown(left);
    } else {
        thread.countdown.store(left, Relaxed);
    }
}

/// The thread allocates a block: the period at which it is sampled, if it is.
pub fn allocate(thread: OwnThread, size: usize) -> Option<Period> {
    let sampling = &thread.fork_local().sampling;
    let (mut sampler, left) = match (sampling.sampler.get(), left(thread)) {
        (Some(sampler), left) if left <= STRETCH => (sampler, left),
        // What is left is another thread's, or the parent's, or below 0.
        (known, _) => {
            let mut sampler = known.unwrap_or_else(|| Sampler::new(generator(thread)));
            let left = sampler.start(watched::setting());
            (sampler, left)
        }
    };
    let bytes = counted_bytes(size as u64);
    let (left, sampled_at) = if bytes < left {
        (left - bytes, None)
    } else {
        let expired = sampler.expire(bytes - left, watched::setting());
        (expired.countdown, expired.sampled_at)
    };
    sampling.sampler.set(Some(sampler));
    set_left(thread, left);
    sampled_at
}

/// Counts an allocation down without a hook, if that does not end the countdown.
#[inline(always)]
pub fn passes(size: usize) -> bool {
    let (left, bytes) = (thread_slot::countdown(), counted_bytes(size as u64));
    let passes = bytes < left && left <= STRETCH;
    if passes {
        thread_slot::set_countdown(left - bytes);
    }
    passes
}

/// A call is not seen by a hook with a state: the thread has none, because there are too many
/// threads. It asks again later.
#[cold]
pub fn postpone() {
    thread_slot::set_countdown(STRETCH);
    watched::count_lost_look();
}

/// Each call of the thread is to come to a hook, until [`attach`].
pub fn detach(thread: &Thread) {
    let left = thread_slot::countdown();
    if !thread.is_nested.load(Relaxed) && left != 0 {
        thread.countdown.store(left, Relaxed);
        compiler_fence(SeqCst);
        thread_slot::set_countdown(0);
    }
}

/// Calls that need no hook do not come to one.
pub fn attach(thread: &'static Thread) {
    if !thread.is_nested.load(Relaxed) && thread_slot::countdown() == 0 {
        thread_slot::set_countdown(thread.countdown.load(Relaxed));
    }
}
