//! The latest deallocations of samples: a ring, each slot of which is a seqlock
//! (`seqlock.rs`).
//!
//! A deallocation takes the next number, and with it a slot. If another thread is
//! still writing that slot, which it must have begun a whole round before, or was left by a
//! jump there, the deallocation is not written and counted as lost, in the second case for as
//! long as the process lives.

use core::sync::atomic::Ordering::Relaxed;

use crate::samples::layout::FREES;
use crate::samples::seqlock;
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
        let store = || {
            slot.address.store(sample.address, Relaxed);
            slot.size.store(sample.size, Relaxed);
            slot.period.store(sample.period.bytes(), Relaxed);
            slot.allocated.store(sample.allocated, Relaxed);
            slot.freed.store(deallocation.time, Relaxed);
            let stacks = u64::from(sample.stack) | u64::from(deallocation.stack) << 32;
            slot.stacks.store(stacks, Relaxed);
            let threads = u64::from(sample.thread) | u64::from(deallocation.thread) << 32;
            slot.threads.store(threads, Relaxed);
        };
        if !self.commits(slot) || !seqlock::write(&slot.version, number, store) {
            counters.lost_frees.fetch_add(1, Relaxed);
        }
    }
}
