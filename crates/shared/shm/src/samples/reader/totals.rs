//! The totals that a process has added up.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use allotrope_sampling::Period;

use crate::samples::layout::TotalSlot;
use crate::samples::reader::{Found, Reader};
use crate::samples::totals::{BEING_WRITTEN, parse_key, sizes_of};

/// The samples of one stack, of similar sizes and one period, since the beginning. There may be
/// several of the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Total {
    /// The id of the stack.
    pub stack: u32,
    /// The period at which they were sampled.
    pub period: Period,
    /// The smallest and the largest size that belongs here, in bytes.
    pub sizes: (u64, u64),
    /// Number of samples that were allocated.
    pub allocated: u64,
    /// Sizes of the samples that were allocated, in bytes.
    pub allocated_bytes: u64,
    /// Number of these that were freed.
    pub freed: u64,
    /// Sizes of the samples that were freed, in bytes.
    pub freed_bytes: u64,
}

impl Reader<'_> {
    pub(super) fn totals(&mut self) -> Vec<Total> {
        let mut all = Vec::new();
        for (_, slot) in self.committed(&self.memory.totals) {
            all.extend(self.stable(|| total(slot)));
        }
        all
    }
}

/// An entry. Its counts grow while it is read: a sample may be in one of them already and not
/// in the other yet.
fn total(slot: &TotalSlot) -> Found<Total> {
    let key = slot.key.load(Acquire);
    if key == 0 || key == BEING_WRITTEN {
        return Found::Nothing;
    }
    let class = parse_key(key).and_then(|(stack, class)| Some((stack, sizes_of(class)?)));
    let (Some((stack, sizes)), Some(period)) = (class, Period::new(slot.period.load(Relaxed)))
    else {
        return Found::Malformed;
    };
    Found::Part(Total {
        stack,
        period,
        sizes,
        allocated: slot.allocated.load(Relaxed),
        allocated_bytes: slot.allocated_bytes.load(Relaxed),
        freed: slot.freed.load(Relaxed),
        freed_bytes: slot.freed_bytes.load(Relaxed),
    })
}
