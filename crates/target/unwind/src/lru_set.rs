//! Sets of a set-associative cache with LRU replacement: the words of a set are ordered
//! from the most to the least recently used one (move-to-front).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One set: `WAYS` words, the most recently used one first. 0 is an empty word.
///
/// The words are written one by one. If a signal handler leaves by a jump in the middle
/// of a change, a word may be missing or present twice, but each word is valid.
pub type LruSet<const WAYS: usize> = [AtomicU64; WAYS];

/// Puts `word` first. The words before `way` move back by one and replace that at `way`.
#[inline(always)]
pub fn promote<const WAYS: usize>(set: &LruSet<WAYS>, way: usize, word: u64) {
    for later in (1..=way.min(WAYS - 1)).rev() {
        set[later].store(set[later - 1].load(Relaxed), Relaxed);
    }
    set[0].store(word, Relaxed);
}
