//! Work that several threads share, each piece of which may lead to more of it.
//!
//! A channel that counts for itself who is at work: each piece in it comes with a
//! sending end, with which whoever does the piece adds more. When no piece waits and
//! none is being done, no sending end is left, and all who wait for a piece are
//! told that there is none. That holds in a panic, too.

use std::sync::mpsc::{Receiver, RecvError, Sender, channel};
use std::sync::{Mutex, PoisonError};

/// Pieces of work that wait for a thread.
pub(super) struct SharedWork<T>(Mutex<Receiver<Piece<T>>>);

/// Whoever holds this may add pieces; the others wait for that.
pub(super) struct Adder<T>(Sender<Piece<T>>);

struct Piece<T> {
    work: T,
    adder: Adder<T>,
}

/// No work, and the first who may add some.
pub(super) fn shared_work<T>() -> (SharedWork<T>, Adder<T>) {
    let (sender, receiver) = channel();
    (SharedWork(Mutex::new(receiver)), Adder(sender))
}

impl<T> Adder<T> {
    /// Adds a piece.
    pub(super) fn add(&self, work: T) {
        let adder = Self(self.0.clone());
        // If nobody can take it any more, nobody waits for it either.
        let _ = self.0.send(Piece { work, adder });
    }
}

impl<T> SharedWork<T> {
    /// Does pieces until none is left and nobody is at work who may add one.
    pub(super) fn take_all(&self, mut work: impl FnMut(T, &Adder<T>)) {
        while let Ok(piece) = self.take() {
            work(piece.work, &piece.adder);
        }
    }

    fn take(&self) -> Result<Piece<T>, RecvError> {
        // Nobody panics while holding it.
        let pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.recv()
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
            let ((work, adder), counted) = (shared_work(), AtomicU64::new(0));
            let help = || {
                work.take_all(|piece: u32, adder| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    if piece > 1 {
                        adder.add(piece - 1);
                        adder.add(piece - 2);
                    }
                });
            };
            thread::scope(|scope| {
                for _ in 0..helpers {
                    scope.spawn(help);
                }
                adder.add(15);
                drop(adder);
                help();
            });
            assert_eq!(counted.into_inner(), done);
        }
    }

    #[test]
    fn a_panic_at_work_leaves_nobody_waiting() {
        let (work, adder) = shared_work();
        let (others, panicked) = thread::scope(|scope| {
            let panicking = scope.spawn(|| work.take_all(|(), _| panic!("as the test wants it")));
            adder.add(());
            // It has taken the piece when it has ended.
            let panicked = panicking.join().is_err();
            drop(adder);
            (
                scope.spawn(|| work.take_all(|(), _| {})).join().is_ok(),
                panicked,
            )
        });
        assert!(others && panicked);
    }
}
