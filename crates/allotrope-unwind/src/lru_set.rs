//! Sets of a set-associative cache in which the word used last comes first and
//! the one that was not used for longest is replaced (LRU, move-to-front).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One set: `WAYS` words, the one used last first. 0 is an empty word.
///
/// The words are written one by one: when a signal handler jumps away in the
/// middle of a change, the set lacks a word or has one twice, and each is whole.
pub type LruSet<const WAYS: usize> = [AtomicU64; WAYS];

/// Puts `word` first; the words before `way` move back by one, and the one at `way`
/// is replaced.
#[inline(always)]
pub fn promote<const WAYS: usize>(set: &LruSet<WAYS>, way: usize, word: u64) {
    for later in (1..=way.min(WAYS - 1)).rev() {
        set[later].store(set[later - 1].load(Relaxed), Relaxed);
    }
    set[0].store(word, Relaxed);
}
