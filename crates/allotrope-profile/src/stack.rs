//! Storage for the frames of stacks. An image may have hundreds of thousands of
//! stacks of fifty frames: these lie one after another in a few large arrays that the
//! sites share, so that a stack needs no allocation of its own.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Indexes of frames to an array: a megabyte.
const ARRAY: usize = 1 << 18;

/// The frames of a stack: indexes into [`Profile::frames`](crate::Profile::frames),
/// innermost first, inlined expanded.
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

/// Frame by frame, from the innermost.
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

/// Stacks that are put together, by number in the order of their coming.
#[derive(Default)]
pub(crate) struct Stacks {
    full: Vec<Arc<Vec<u32>>>,
    /// The array that is filled.
    open: Vec<u32>,
    parts: Vec<Part>,
}

#[derive(Clone, Copy)]
struct Part {
    array: u32,
    start: u32,
    length: u32,
}

impl Part {
    fn range(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.length as usize
    }
}

impl Stacks {
    /// Adds a stack whose frames come outermost first.
    pub(crate) fn add(&mut self, outermost_first: &[u32]) {
        if self.open.len() + outermost_first.len() > ARRAY && !self.open.is_empty() {
            let next = Vec::with_capacity(ARRAY);
            let full = std::mem::replace(&mut self.open, next);
            self.full.push(Arc::new(full));
        }
        self.parts.push(Part {
            array: self.full.len() as u32,
            start: self.open.len() as u32,
            length: outermost_first.len() as u32,
        });
        self.open.extend(outermost_first.iter().rev());
    }

    /// The frames of a stack, innermost first.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> &[u32] {
        let part = self.parts[number];
        let array = self.full.get(part.array as usize);
        &array.map_or(&self.open, |full| &**full)[part.range()]
    }

    /// The stacks, in the order of these numbers.
    pub(crate) fn give(mut self, numbers: &[u32]) -> impl Iterator<Item = Stack> {
        self.open.shrink_to_fit();
        self.full.push(Arc::new(self.open));
        numbers.iter().map(move |&number| {
            let part = self.parts[number as usize];
            Stack {
                array: Arc::clone(&self.full[part.array as usize]),
                start: part.start,
                length: part.length,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_given_in_any_order_whatever_array_they_lie_in() {
        // The third does not fit the first array, the fourth no array at all.
        let lengths = [3, ARRAY - 5, 7, ARRAY + 1, 0, 2];
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
        for (stack, number) in stacks.give(&order).zip(order) {
            assert_eq!(*stack, *expected(number as usize));
            assert_eq!(stack, Stack::from(expected(number as usize)));
        }
    }
}
