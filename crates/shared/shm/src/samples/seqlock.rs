//! Slots of rings, each of which is a seqlock (Boehm, "Can Seqlocks Get Along with Programming
//! Language Memory Models?", MSPC 2012). Its version is twice the number of what is in it, counted
//! from 1; plus 1 while that is written; 0: nothing was.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, fence};

/// Writes what has this number, counted from 0, into its slot. `false`: another thread is still
/// writing there, or has written something later.
#[inline]
pub(crate) fn write(version: &AtomicU64, number: u64, store: impl FnOnce()) -> bool {
    let (before, after) = (version.load(Relaxed), number.wrapping_add(1) << 1);
    let own = after | 1;
    let is_ours = before & 1 == 0 && before < own;
    let claim = |it: &AtomicU64| it.compare_exchange(before, own, Acquire, Relaxed);
    if !is_ours || claim(version).is_err() {
        return false;
    }
    fence(Release);
    store();
    version.store(after, Release);
    true
}
