//! Sampling of allocations: which ones, and what the sampled ones tell about all.
//!
//! Every allocated byte is a *hit* with the same small probability, independently of all
//! others, so that a hit comes every [`Period`] bytes on average: a Poisson process over
//! bytes. An allocation is sampled if at least one of its bytes is a hit. One allocation is
//! one sample, however many of its bytes are hits.
//!
//! - [`exponential`]: random distances between hits, in integer arithmetic.
//! - [`countdown`]: the sampling state of a thread; one subtraction for an allocation that
//!   is not sampled.
//! - [`weight`]: what one sample stands for, in integer arithmetic.
//! - `estimate` (a feature, needs `std`): estimates with 95 % intervals.
//!
//! # Why the distances are random and not fixed
//! With a fixed distance, a program whose allocations repeat with the same period would be
//! sampled always at the same allocation. An exponential distance is *memoryless*: how many
//! bytes have passed since the last hit tells nothing about the next one. So each
//! allocation's probability depends on its size alone, in whatever order sizes come, and
//! inclusions of different allocations are independent.
//!
//! # The probability of an allocation
//! With period *P*, an allocation of *s* bytes is sampled with probability
//! 1 − e^(−max(*s*, 1)/*P*), exactly: distances are whole bytes with the geometric
//! distribution, which an exponential one becomes if it is rounded up. An allocation of 0
//! bytes counts as one of 1 byte, because otherwise none would ever be sampled, and their
//! number could not be estimated.
//!
//! # What this crate is not for
//! It does not know where samples are stored, nor whether an allocation failed.
//!
//! It uses no floating point without the feature `estimate`: it runs in other people's programs,
//! whose rounding mode, exception flags and traps of floating point it must leave alone.
#![cfg_attr(not(any(test, feature = "estimate")), no_std)]
#![forbid(unsafe_code)]

pub mod countdown;
#[cfg(feature = "estimate")]
pub mod estimate;
pub mod exponential;
#[cfg(feature = "estimate")]
pub mod gamma;
pub mod weight;

use core::num::NonZeroU64;

/// Mean number of bytes from one hit to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Period(NonZeroU64);

impl Period {
    /// 512 KiB.
    pub const DEFAULT: Self = Self(NonZeroU64::new(512 << 10).unwrap());
    /// 32 MiB: the period of a process that nobody watches.
    pub const SPARSE: Self = Self(NonZeroU64::new(32 << 20).unwrap());
    /// The longest one: 1 TiB.
    pub const MAX: Self = Self(NonZeroU64::new(1 << 40).unwrap());

    /// A period in bytes; `None` if it is 0 or longer than [`Period::MAX`].
    pub const fn new(bytes: u64) -> Option<Self> {
        match NonZeroU64::new(bytes) {
            Some(it) if bytes <= Self::MAX.bytes() => Some(Self(it)),
            _ => None,
        }
    }

    /// Returns the period in bytes.
    pub const fn bytes(self) -> u64 {
        self.0.get()
    }
}

impl Default for Period {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The bytes by which an allocation of `size` bytes advances the process: at least 1.
#[inline(always)]
pub const fn counted_bytes(size: u64) -> u64 {
    if size == 0 { 1 } else { size }
}
