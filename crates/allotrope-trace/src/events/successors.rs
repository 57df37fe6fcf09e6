//! Which shape will probably come next: those that followed last time. Encoder
//! and decoder keep the same tables.

use super::zeroed;

/// Number of a shape in its chunk; there are never more than events.
pub(crate) type ShapeNumber = u16;
/// No shape: a chunk holds fewer events than this.
pub(crate) const NO_SHAPE: ShapeNumber = ShapeNumber::MAX;

/// For each context the two shapes that last followed in it, the later one in
/// the low half.
///
/// A context is the shape of the last block that was allocated or deallocated,
/// and which of both happened to it: where in the program a deallocation
/// stands is best told by what it gives back.
#[derive(Debug)]
pub(crate) struct Successors {
    /// For every context that there can be, so that none is looked at for being
    /// within; what no chunk needs never becomes resident.
    of: Box<[u32; CONTEXTS]>,
    shapes: ShapeNumber,
    context: u32,
}

/// The two shapes to expect in a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Foreseen {
    both: u32,
    context: usize,
}

impl Foreseen {
    /// The likelier one.
    #[inline(always)]
    pub(crate) fn first(self) -> ShapeNumber {
        self.both as ShapeNumber
    }

    #[inline(always)]
    pub(crate) fn second(self) -> ShapeNumber {
        (self.both >> 16) as ShapeNumber
    }
}

const CONTEXTS: usize = 2 << ShapeNumber::BITS;
/// The context at the beginning and behind the deallocation of a block that
/// is not of the chunk.
const UNKNOWN: u32 = 0;
const NONE_FORESEEN: u32 = u32::MAX;

/// The context behind the allocation of a block; the next one is that behind the
/// deallocation of such a block.
#[inline(always)]
fn behind(shape: ShapeNumber) -> u32 {
    2 + 2 * u32::from(shape)
}

impl Default for Successors {
    fn default() -> Self {
        let mut successors = Self {
            of: zeroed(),
            shapes: 0,
            context: UNKNOWN,
        };
        successors.reset();
        successors
    }
}

impl Successors {
    pub(crate) fn reset(&mut self) {
        self.shapes = 0;
        self.context = UNKNOWN;
        *self.both() = NONE_FORESEEN;
    }

    /// Takes note that there is one more shape.
    #[inline]
    pub(crate) fn add_shape(&mut self) {
        let context = behind(self.shapes) as usize % CONTEXTS;
        self.of[context] = NONE_FORESEEN;
        self.of[(context + 1) % CONTEXTS] = NONE_FORESEEN;
        self.shapes = self.shapes.wrapping_add(1);
    }

    #[inline(always)]
    fn both(&mut self) -> &mut u32 {
        &mut self.of[self.context as usize % CONTEXTS]
    }

    /// What to expect.
    #[inline(always)]
    pub(crate) fn foreseen(&self) -> Foreseen {
        let context = self.context as usize % CONTEXTS;
        Foreseen {
            both: self.of[context],
            context,
        }
    }

    /// Takes note of the shape that came. Without a branch: whether it was
    /// foreseen is anybody's guess.
    #[inline(always)]
    pub(crate) fn came(&mut self, foreseen: Foreseen, shape: ShapeNumber) {
        let both = foreseen.both;
        let moved = both << 16 | u32::from(shape);
        self.of[foreseen.context] = if both as u16 == shape { both } else { moved };
    }

    /// Takes note of the shape that came, where it was not the first foreseen.
    #[inline(always)]
    pub(crate) fn came_unlike_first(&mut self, shape: ShapeNumber) {
        let both = self.both();
        *both = *both << 16 | u32::from(shape);
    }

    /// A block of this shape was allocated.
    #[inline(always)]
    pub(crate) fn allocated(&mut self, shape: ShapeNumber) {
        self.context = behind(shape);
    }

    /// A block was deallocated whose allocation had this shape.
    #[inline(always)]
    pub(crate) fn deallocated(&mut self, shape: ShapeNumber) {
        self.context = behind(shape) + 1;
    }

    /// A block was deallocated that is not of the chunk.
    #[inline(always)]
    pub(crate) fn deallocated_foreign(&mut self) {
        self.context = UNKNOWN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_two_different_followers_are_foreseen() {
        let mut successors = Successors::default();
        successors.reset();
        (0..4).for_each(|_| successors.add_shape());
        let both = |successors: &Successors| {
            let foreseen = successors.foreseen();
            [foreseen.first(), foreseen.second()]
        };
        let mut follow = |shape| {
            successors.allocated(0);
            successors.came(successors.foreseen(), shape);
            successors.allocated(0);
            both(&successors)
        };
        assert_eq!(follow(1), [1, NO_SHAPE]);
        assert_eq!(follow(2), [2, 1]);
        assert_eq!(follow(2), [2, 1]);
        assert_eq!(follow(1), [1, 2]);
        assert_eq!(follow(3), [3, 1]);
        successors.deallocated(0);
        assert_eq!(both(&successors), [NO_SHAPE; 2]);
    }
}
