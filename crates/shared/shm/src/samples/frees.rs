//! The latest deallocations of samples: a ring, each slot of which is a seqlock (Boehm, "Can
//! Seqlocks Get Along with Programming Language Memory Models?", MSPC 2012).
//!
//! A deallocation takes the next number, and with it a slot. If another thread is
//! still writing that slot, which it must have begun a whole round before, or was left by a
//! jump there, the deallocation is not written and counted as lost, in the second case for as
//! long as the process lives.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, fence};

use crate::samples::layout::FREES;
use crate::samples::writer::{Host, Sample, Writer};

/// How a sampled block was freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deallocation {
    /// When the block was freed, by `CLOCK_MONOTONIC_COARSE`, in nanoseconds.
    pub time: u64,
    /// The id of the stack.
    pub stack: u32,
    /// The thread that freed it.
    pub thread: u32,
}

impl<H: Host> Writer<'_, H> {
    /// Adds a sample that was taken and freed.
    pub fn freed(&self, sample: &Sample, deallocation: Deallocation) {
        let counters = &self.memory.counters.0;
        self.count_freed(sample);
        let number = counters.frees.fetch_add(1, Relaxed);
        let slot = &self.memory.frees[number as usize % FREES];
        let version = number.wrapping_add(1) << 1;
        let claims = |before| {
            let own = version | 1;
            // Odd: somebody is writing; larger: a later deallocation is there already.
            let is_ours = before & 1 == 0 && before < own;
            let claim = |it: &AtomicU64| it.compare_exchange(before, own, Acquire, Relaxed);
            is_ours && claim(&slot.version).is_ok()
        };
        if !self.commits(slot) || !claims(slot.version.load(Relaxed)) {
            counters.lost_frees.fetch_add(1, Relaxed);
            return;
        }
        fence(Release);
        slot.address.store(sample.address, Relaxed);
        slot.size.store(sample.size, Relaxed);
        slot.period.store(sample.period.bytes(), Relaxed);
        slot.allocated.store(sample.allocated, Relaxed);
        slot.freed.store(deallocation.time, Relaxed);
        let stacks = u64::from(sample.stack) | u64::from(deallocation.stack) << 32;
        slot.stacks.store(stacks, Relaxed);
        let threads = u64::from(sample.thread) | u64::from(deallocation.thread) << 32;
        slot.threads.store(threads, Relaxed);
        slot.version.store(version, Release);
    }
}
