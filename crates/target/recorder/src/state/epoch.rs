//! The image's epoch: how many windows it has opened and closed. `client::windows`
//! describes what it is for.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number on a cache line of its own: every event loads it, and hardly anybody writes.
#[repr(align(64))]
struct Alone(AtomicU64);

/// The epoch, in the upper half.
static EPOCH: Alone = Alone(AtomicU64::new(0));

/// One more.
const STEP: u64 = 1 << 32;

/// The epoch, in the upper half of the word.
#[inline(always)]
pub fn word() -> u64 {
    EPOCH.0.load(Relaxed)
}

/// One more window has been opened or closed; returns the new epoch.
pub fn advance() -> u64 {
    (EPOCH.0.fetch_add(STEP, Relaxed) >> 32) + 1
}
