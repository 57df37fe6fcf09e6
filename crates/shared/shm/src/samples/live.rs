//! The live samples: a hash table from the address of a block to its sample.
//!
//! Each address has two buckets of seven places, and goes to the one that has more of them free
//! (two-choice hashing: Azar, Broder, Karlin and Upfal, "Balanced Allocations", SIAM Journal
//! on Computing 29(1), 1999). So a look-up loads two cache lines of keys, an entry never
//! moves, and the table is about 70 % full (40,000 samples) before an address finds both of its
//! buckets full.
//!
//! A thread claims a place by compare-and-swap of its key from 0 to the address + 1, writes the
//! sample, then stores the address as the key. As long as a block lives, only the
//! thread that got it from the allocator can insert its address, and only the one that frees it
//! can take it. So an address + 1 that an insertion finds is its own: a jump (`siglongjmp`) has left
//! an earlier insertion of the same address there, and it goes on in its place.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, fence};

use crate::numbers::EntryPoint;
use allotrope_sampling::Period;

use crate::samples::byte_table::MULTIPLIER;
use crate::samples::layout::{BUCKETS, Bucket, REALLOCATED, SampleSlot, WAYS};
use crate::samples::writer::{FirstAllocation, Host, Sample, Writer};

/// Bit of a key that is being written.
pub(crate) const BEING_WRITTEN: u64 = 1;

/// The numbers of the two buckets of an address; they are different.
pub(crate) const fn buckets_of(address: u64) -> [usize; 2] {
    // Other bits than those of the byte table.
    let hash = (address >> 3).wrapping_mul(MULTIPLIER);
    let hash = (hash ^ hash >> 32).wrapping_mul(MULTIPLIER);
    let first = (hash >> 48) as usize % BUCKETS;
    let step = (hash >> 32) as usize % (BUCKETS - 1) + 1;
    [first, (first + step) % BUCKETS]
}

impl<H: Host> Writer<'_, H> {
    fn buckets(&self, address: u64) -> [&Bucket; 2] {
        buckets_of(address).map(|number| &self.memory.buckets[number])
    }

    /// Adds a sampled block. `false`: there is no place for it, which is counted.
    pub fn insert(&self, sample: &Sample) -> bool {
        self.memory.counters.0.sampled.fetch_add(1, Relaxed);
        self.count_allocated(sample);
        self.put_back(sample)
    }

    /// Puts a sample back that was taken: its reallocation has failed. As [`Writer::insert`],
    /// but it is no new sample.
    pub fn put_back(&self, sample: &Sample) -> bool {
        let Some((bucket, way)) = self.claim(sample.address) else {
            self.memory.counters.0.lost_samples.fetch_add(1, Relaxed);
            return false;
        };
        let slot = &bucket.samples[way];
        // Even or odd as a jump has left it.
        let version = slot.version.load(Relaxed) | 1;
        slot.version.store(version, Relaxed);
        fence(Release);
        slot.size.store(sample.size, Relaxed);
        slot.period.store(sample.period.bytes(), Relaxed);
        slot.allocated.store(sample.allocated, Relaxed);
        let stack_and_thread = u64::from(sample.stack) | u64::from(sample.thread) << 32;
        slot.stack_and_thread.store(stack_and_thread, Relaxed);
        slot.entry.store(sample.entry as u64, Relaxed);
        let first_stack = match sample.first {
            Some(first) => {
                slot.first_allocated.store(first.allocated, Relaxed);
                u64::from(first.stack) | REALLOCATED
            }
            None => 0,
        };
        slot.first_stack.store(first_stack, Relaxed);
        slot.version.store(version.wrapping_add(1), Release);
        self.private.recognised.add(sample.address);
        bucket.keys[way].store(sample.address, Release);
        true
    }

    /// A place for an address that is in the table not yet.
    fn claim(&self, address: u64) -> Option<(&Bucket, usize)> {
        if address == 0 || address & BEING_WRITTEN != 0 {
            return None;
        }
        let claimed = address | BEING_WRITTEN;
        let buckets = self.buckets(address);
        let mut free = [WAYS; 2];
        for (bucket, free) in buckets.iter().zip(&mut free) {
            if !self.is_committed(*bucket) {
                continue;
            }
            for (way, key) in bucket.keys.iter().enumerate() {
                match key.load(Relaxed) {
                    0 => {}
                    own if own == claimed => return Some((*bucket, way)),
                    _ => *free -= 1,
                }
            }
        }
        let order = if free[0] >= free[1] { [0, 1] } else { [1, 0] };
        for bucket in order.map(|number| buckets[number]) {
            if !self.commits(bucket) {
                continue;
            }
            let claim = |key: &AtomicU64| {
                key.load(Relaxed) == 0 && key.compare_exchange(0, claimed, Acquire, Relaxed).is_ok()
            };
            if let Some(way) = bucket.keys.iter().position(claim) {
                return Some((bucket, way));
            }
        }
        None
    }

    /// Whether a block may have been sampled. `false`, the usual answer, is certain.
    #[inline(always)]
    pub fn may_be_sampled(&self, address: u64) -> bool {
        self.private.recognised.may_contain(address)
    }

    /// Removes a block that is about to be freed or reallocated, if it was sampled.
    pub fn take(&self, address: u64) -> Option<Sample> {
        if !self.may_be_sampled(address) || address == 0 || address & BEING_WRITTEN != 0 {
            return None;
        }
        for bucket in self.buckets(address) {
            if !self.is_committed(bucket) {
                continue;
            }
            for (key, slot) in bucket.keys.iter().zip(&bucket.samples) {
                if key.load(Acquire) != address {
                    continue;
                }
                let sample = slot.sample(address);
                if key.compare_exchange(address, 0, AcqRel, Relaxed).is_ok() {
                    self.private.recognised.remove(address);
                    return sample;
                }
            }
        }
        None
    }
}

impl SampleSlot {
    /// What is in it now; `None` if that is no sample.
    pub(crate) fn sample(&self, address: u64) -> Option<Sample> {
        let stack_and_thread = self.stack_and_thread.load(Relaxed);
        let entry = u8::try_from(self.entry.load(Relaxed)).ok()?;
        let first_stack = self.first_stack.load(Relaxed);
        let first = (first_stack & REALLOCATED != 0).then(|| FirstAllocation {
            allocated: self.first_allocated.load(Relaxed),
            stack: first_stack as u32,
        });
        Some(Sample {
            address,
            size: self.size.load(Relaxed),
            period: Period::new(self.period.load(Relaxed))?,
            allocated: self.allocated.load(Relaxed),
            stack: stack_and_thread as u32,
            thread: (stack_and_thread >> 32) as u32,
            entry: EntryPoint::from_number(entry)?,
            first,
        })
    }
}
