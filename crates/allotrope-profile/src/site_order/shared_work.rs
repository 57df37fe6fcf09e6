//! Work that several threads share, each piece of which may lead to more of it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Pieces of work that wait for a thread.
pub(super) struct SharedWork<T> {
    state: Mutex<State<T>>,
    /// There is another piece, or the end has come.
    changed: Condvar,
}

struct State<T> {
    waiting: Vec<T>,
    /// Threads at work, each of which may add pieces.
    busy: usize,
}

/// That a thread is at work. Also in a panic it ends, so that nobody waits for it.
pub(super) struct AtWork<'w, T>(&'w SharedWork<T>);

impl<T> Default for SharedWork<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                waiting: Vec::new(),
                busy: 0,
            }),
            changed: Condvar::new(),
        }
    }
}

impl<T> SharedWork<T> {
    /// The caller is at work and may add pieces until it drops what this gives.
    pub(super) fn begin(&self) -> AtWork<'_, T> {
        self.lock().busy += 1;
        AtWork(self)
    }

    /// Adds a piece; whoever does so is at work.
    pub(super) fn add(&self, piece: T) {
        self.lock().waiting.push(piece);
        self.changed.notify_one();
    }

    /// Does pieces until none is left and nobody is at work who may add one.
    pub(super) fn take_all(&self, mut work: impl FnMut(T)) {
        while let Some((piece, _at_work)) = self.take() {
            work(piece);
        }
    }

    fn take(&self) -> Option<(T, AtWork<'_, T>)> {
        let mut state = self.lock();
        loop {
            if let Some(piece) = state.waiting.pop() {
                state.busy += 1;
                return Some((piece, AtWork(self)));
            }
            if state.busy == 0 {
                return None;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nobody panics while holding it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for AtWork<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.busy -= 1;
        if state.busy == 0 {
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    #[test]
    fn all_pieces_are_done_once_by_whatever_thread() {
        // A piece of n leads to one of n - 1 and one of n - 2: with the piece itself
        // that is done(n) = 1 + done(n - 1) + done(n - 2), and done(0) = done(1) = 1.
        let (mut last, mut done) = (1_u64, 1_u64);
        for _ in 2..=15 {
            (last, done) = (done, 1 + done + last);
        }
        for helpers in [0, 1, 5] {
            let (work, counted) = (SharedWork::default(), AtomicU64::new(0));
            let help = || {
                work.take_all(|piece: u32| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    if piece > 1 {
                        work.add(piece - 1);
                        work.add(piece - 2);
                    }
                });
            };
            thread::scope(|scope| {
                let begun = work.begin();
                for _ in 0..helpers {
                    scope.spawn(help);
                }
                work.add(15);
                drop(begun);
                help();
            });
            assert_eq!(counted.into_inner(), done);
        }
    }

    #[test]
    fn a_panic_at_work_leaves_nobody_waiting() {
        let work = SharedWork::default();
        let (others, panicked) = thread::scope(|scope| {
            let begun = work.begin();
            let panicking = scope.spawn(|| work.take_all(|()| panic!("as the test wants it")));
            work.add(());
            // It has taken the piece when it has ended.
            let panicked = panicking.join().is_err();
            drop(begun);
            (
                scope.spawn(|| work.take_all(|()| {})).join().is_ok(),
                panicked,
            )
        });
        assert!(others && panicked);
    }
}
