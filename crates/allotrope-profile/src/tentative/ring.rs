//! The tentative steps in their order: a queue whose ends both move.
//!
//! Tens of thousands of them may wait, more than a processor's own caches hold.
//! So the memory that the next ones will take is asked for before they come.

use super::Placed;
use crate::near::bring_near;

/// How many steps ahead memory is asked for.
const AHEAD: usize = 8;

/// Steps, the oldest first.
pub(super) struct Ring {
    /// Empty, or as many as a power of two; those outside the ring mean nothing.
    steps: Vec<Placed>,
    first: usize,
    length: usize,
}

impl Ring {
    pub(super) fn new() -> Self {
        Self {
            steps: Vec::new(),
            first: 0,
            length: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Where the step with this index lies.
    #[inline]
    fn at(&self, index: usize) -> usize {
        self.first.wrapping_add(index) & self.steps.len().wrapping_sub(1)
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Placed> {
        if index < self.length {
            self.steps.get(self.at(index))
        } else {
            None
        }
    }

    pub(super) fn front(&self) -> Option<&Placed> {
        self.get(0)
    }

    pub(super) fn back(&self) -> Option<&Placed> {
        self.get(self.length.wrapping_sub(1))
    }

    #[inline]
    pub(super) fn push_back(&mut self, placed: Placed) {
        if self.length == self.steps.len() {
            self.grow(placed);
        }
        let at = self.at(self.length);
        self.steps[at] = placed;
        self.length += 1;
        let coming = &self.steps[self.at(self.length + AHEAD)];
        bring_near(&coming.step);
        bring_near(&coming.blocks);
    }

    /// Makes room; the new places hold `any`.
    #[cold]
    fn grow(&mut self, any: Placed) {
        self.steps.rotate_left(self.first);
        self.first = 0;
        let room = (self.steps.len() * 2).max(1 << 6);
        self.steps.resize(room, any);
    }

    pub(super) fn pop_back(&mut self) -> Option<Placed> {
        let last = *self.back()?;
        self.length -= 1;
        Some(last)
    }

    #[inline]
    pub(super) fn pop_front(&mut self) {
        if self.length > 0 {
            self.first = self.at(1);
            self.length -= 1;
        }
        if self.length == 0 {
            // What was used last is nearest.
            self.first = 0;
        }
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Placed> {
        let till_end = self.length.min(self.steps.len() - self.first);
        let (older, newer) = (
            &self.steps[self.first..self.first + till_end],
            &self.steps[..self.length - till_end],
        );
        older.iter().chain(newer)
    }
}
