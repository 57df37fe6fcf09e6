//! Which shape will probably come next: those that followed last time. Encoder
//! and decoder keep the same tables.

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
#[derive(Debug, Default)]
pub(crate) struct Successors {
    of: Vec<u32>,
    context: usize,
}

/// The context at the beginning and behind the deallocation of a block that
/// is not of the chunk.
const UNKNOWN: usize = 0;

impl Successors {
    pub(crate) fn reset(&mut self) {
        self.of.clear();
        self.of.resize(2, u32::MAX);
        self.context = UNKNOWN;
    }

    /// Takes note that there is one more shape.
    #[inline]
    pub(crate) fn add_shape(&mut self) {
        self.of.extend([u32::MAX; 2]);
    }

    /// The two shapes to expect, the likelier one first.
    #[inline(always)]
    pub(crate) fn foreseen(&self) -> [ShapeNumber; 2] {
        let both = self.of[self.context];
        [both as u16, (both >> 16) as u16]
    }

    /// Takes note of the shape that came. Without a branch: whether it was
    /// foreseen is anybody's guess.
    #[inline(always)]
    pub(crate) fn came(&mut self, shape: ShapeNumber) {
        let both = &mut self.of[self.context];
        let moved = *both << 16 | u32::from(shape);
        *both = if *both as u16 == shape { *both } else { moved };
    }

    /// Takes note of the shape that came, where it was not the first foreseen.
    #[inline(always)]
    pub(crate) fn came_unlike_first(&mut self, shape: ShapeNumber) {
        let both = &mut self.of[self.context];
        *both = *both << 16 | u32::from(shape);
    }

    /// A block of this shape was allocated.
    #[inline(always)]
    pub(crate) fn allocated(&mut self, shape: ShapeNumber) {
        self.context = 2 + usize::from(shape) * 2;
    }

    /// A block was deallocated whose allocation had this shape.
    #[inline(always)]
    pub(crate) fn deallocated(&mut self, shape: ShapeNumber) {
        self.context = 3 + usize::from(shape) * 2;
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
        let mut follow = |shape| {
            successors.allocated(0);
            successors.came(shape);
            successors.allocated(0);
            successors.foreseen()
        };
        assert_eq!(follow(1), [1, NO_SHAPE]);
        assert_eq!(follow(2), [2, 1]);
        assert_eq!(follow(2), [2, 1]);
        assert_eq!(follow(1), [1, 2]);
        assert_eq!(follow(3), [3, 1]);
        successors.deallocated(0);
        assert_eq!(successors.foreseen(), [NO_SHAPE; 2]);
    }
}
