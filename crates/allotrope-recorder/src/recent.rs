//! Sets of words of a cache in which the one that was used last comes first, and
//! the one that was not used for longest is pushed out.

/// Puts a word first in its set; those before `way` move by one. Left in the
/// middle (a signal handler that jumps away), the set lacks a word or has one
/// twice; each is whole.
///
/// # Safety
/// The set is the thread's own and has more than `way` words.
#[inline(always)]
pub unsafe fn enter(set: *mut u64, way: usize, word: u64) {
    // SAFETY: passed on.
    unsafe {
        for later in (1..=way).rev() {
            set.add(later).write_volatile(*set.add(later - 1));
        }
        set.write_volatile(word);
    }
}
