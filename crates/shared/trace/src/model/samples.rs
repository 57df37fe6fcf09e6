//! The records of a sampled profile: the state of watched processes at one moment. Estimates
//! from them are in `docs/watch.md`.

use allotrope_shm::numbers::EntryPoint;

use super::{ImageId, StackId};

/// The longest period, in bytes: 1 TiB.
pub const MAX_PERIOD: u64 = 1 << 40;

/// How an image was sampled, and what is missing. Its start ([`super::ImageStart`]) is when
/// its memory was made, its end ([`super::ImageEnd`]) when that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sampling {
    /// The image.
    pub image: ImageId,
    /// The mean number of bytes from one hit to the next; 0: sampling was off when the memory
    /// was read.
    pub period: u64,
    /// The longest period that was in force; 0: sampling was never on.
    pub longest_period: u64,
    /// Samples for which there was no place.
    pub lost_samples: u64,
    /// Samples whose stack was lost.
    pub lost_stacks: u64,
    /// Samples that are in no total.
    pub lost_totals: u64,
    /// Parts of the memory that could not be read: they changed all the time, or were
    /// malformed.
    pub unreadable: u64,
    /// When sampling was on; `None`: a file of an older version does not say.
    pub times: Option<SamplingTimes>,
}

/// When sampling was on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SamplingTimes {
    /// The tick since which it was on without a break, or was until [`Self::off_since`]: that of the
    /// image's start if it was on from the start. 0: it was never on.
    pub on_since: u64,
    /// The tick since which it was off again; 0: it was on, or was never on.
    pub off_since: u64,
}

impl SamplingTimes {
    /// Whether sampling was never off since this tick, at which the image began.
    pub fn are_complete(&self, began: u64) -> bool {
        (1..=began).contains(&self.on_since) && self.off_since == 0
    }
}

/// A block that was sampled, and live when the memory was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The stack of its allocation.
    pub stack: StackId,
    /// Requested bytes.
    pub size: u64,
    /// The period at which it was sampled, 1 to [`MAX_PERIOD`].
    pub period: u64,
    /// When it was allocated.
    pub tick: u64,
    /// The kernel's id of the thread that allocated it.
    pub tid: u32,
    /// The function that allocated it.
    pub entry: EntryPoint,
}

/// Samples with the same stack and period and with similar sizes, since the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleTotal {
    /// The stack of the allocations.
    pub stack: StackId,
    /// The period at which they were sampled, 1 to [`MAX_PERIOD`].
    pub period: u64,
    /// The smallest size that counts here, in bytes.
    pub smallest: u64,
    /// The largest size that counts here, in bytes.
    pub largest: u64,
    /// Number of samples.
    pub allocated: u64,
    /// Sizes of the samples that were allocated, in bytes.
    pub allocated_bytes: u64,
    /// Number of these that were freed.
    pub freed: u64,
    /// Sizes of the samples that were freed, in bytes.
    pub freed_bytes: u64,
}
