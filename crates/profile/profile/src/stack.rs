//! Storage for the frames of stacks. An image may have hundreds of thousands of stacks of
//! fifty frames. They are stored one after another in a few large arrays that the sites
//! share by reference count, so that a stack needs no allocation of its own.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Frame indexes in an array of stacks: a megabyte. Only a longer stack gets a larger
/// one.
const ARRAY_LENGTH: usize = 1 << 18;

/// The frames of a stack: indexes into [`Profile::frames`](crate::Profile::frames),
/// innermost first. Inlined functions have frames of their own.
#[derive(Clone, Default)]
pub struct Stack {
    array: Arc<Vec<u32>>,
    start: u32,
    length: u32,
}

impl Deref for Stack {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        &self.array[self.start as usize..][..self.length as usize]
    }
}

impl From<Vec<u32>> for Stack {
    fn from(frames: Vec<u32>) -> Self {
        Self {
            start: 0,
            length: frames.len() as u32,
            array: Arc::new(frames),
        }
    }
}

impl PartialEq for Stack {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Stack {}

impl PartialOrd for Stack {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares frame by frame, from the innermost.
impl Ord for Stack {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

/// Builds the stacks of an image, numbered from 0 in the order in which they are added.
#[derive(Default)]
pub(crate) struct Stacks {
    full: Vec<Arc<Vec<u32>>>,
    /// The array that is being filled; its index is `full.len()`.
    open: Vec<u32>,
    /// Places of the frames of each stack, by the stack's number.
    ranges: Vec<StackRange>,
}

#[derive(Clone, Copy)]
struct StackRange {
    /// Index of the array.
    array: u32,
    start: u32,
    length: u32,
}

impl StackRange {
    fn indexes(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.length as usize
    }
}

impl Stacks {
    /// Adds a stack, whose frames are given outermost first.
    pub(crate) fn add(&mut self, outermost_first: &[u32]) {
        if self.open.len() + outermost_first.len() > ARRAY_LENGTH && !self.open.is_empty() {
            let next = Vec::with_capacity(ARRAY_LENGTH);
            let full = std::mem::replace(&mut self.open, next);
            self.full.push(Arc::new(full));
        }
        self.ranges.push(StackRange {
            array: self.full.len() as u32,
            start: self.open.len() as u32,
            length: outermost_first.len() as u32,
        });
        self.open.extend(outermost_first.iter().rev());
    }

    /// The frames of a stack, innermost first.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> &[u32] {
        let range = self.ranges[number];
        let array = self.full.get(range.array as usize);
        &array.map_or(&self.open, |full| &**full)[range.indexes()]
    }

    /// The stacks, in the order of these numbers.
    pub(crate) fn into_stacks(mut self, numbers: &[u32]) -> impl Iterator<Item = Stack> {
        self.open.shrink_to_fit();
        self.full.push(Arc::new(self.open));
        numbers.iter().map(move |&number| {
            let range = self.ranges[number as usize];
            Stack {
                array: Arc::clone(&self.full[range.array as usize]),
                start: range.start,
                length: range.length,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_can_be_taken_in_any_order_whatever_array_they_are_in() {
        // The third does not fit into the first array, the fourth into none.
        let lengths = [3, ARRAY_LENGTH - 5, 7, ARRAY_LENGTH + 1, 0, 2];
        let outermost_first = |length: usize| (0..length as u32).collect::<Vec<u32>>();
        let mut stacks = Stacks::default();
        for length in lengths {
            stacks.add(&outermost_first(length));
        }
        let expected = |number: usize| {
            let mut frames = outermost_first(lengths[number]);
            frames.reverse();
            frames
        };
        for number in 0..lengths.len() {
            assert_eq!(stacks.get(number), expected(number));
        }
        let order = [5, 0, 3, 1, 4, 2];
        for (stack, number) in stacks.into_stacks(&order).zip(order) {
            assert_eq!(*stack, *expected(number as usize));
            assert_eq!(stack, Stack::from(expected(number as usize)));
        }
    }
}
