//! Predicts the shape of the next event: an order-1 context model, as in text
//! compressors, with the two most recent shapes of each context as predictions.

use super::zeroed;

/// Number of a shape in its chunk. A chunk has at most as many shapes as events.
pub(crate) type ShapeNumber = u16;
/// No shape. [`crate::chunk::MAX_EVENTS`] keeps this number unused.
pub(crate) const NO_SHAPE: ShapeNumber = ShapeNumber::MAX;

/// Maps a context to the two shapes that last followed in it.
///
/// The context of an event is the shape of the block that was last allocated or
/// deallocated, and which of both happened. For a deallocation the shape is that of
/// the block's allocation: it identifies the location in the program better than
/// the deallocation does, which has no stack.
#[derive(Debug)]
pub(crate) struct ShapePredictor {
    /// Indexed by context. The array has an element for every possible context, so
    /// that no access needs a bounds check. Pages that no chunk uses never become
    /// resident. An element holds the more recent shape in its low half.
    table: Box<[u32; CONTEXTS]>,
    /// Number of shapes of the chunk.
    shapes: ShapeNumber,
    context: u32,
}

/// The two predicted shapes of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prediction {
    shapes: u32,
    context: usize,
}

impl Prediction {
    /// The shape that last followed in the context, or [`NO_SHAPE`].
    #[inline(always)]
    pub(crate) fn first(self) -> ShapeNumber {
        self.shapes as ShapeNumber
    }

    /// The shape that followed before the first one, or [`NO_SHAPE`].
    #[inline(always)]
    pub(crate) fn second(self) -> ShapeNumber {
        (self.shapes >> 16) as ShapeNumber
    }
}

const CONTEXTS: usize = 2 << ShapeNumber::BITS;
/// The context at the start of a chunk, and after the deallocation of a block that
/// was not allocated in the chunk.
const UNKNOWN: u32 = 0;
const NO_PREDICTION: u32 = u32::MAX;

/// The context after the allocation of a block. The context after the deallocation
/// of such a block is this plus 1.
#[inline(always)]
fn context_after(shape: ShapeNumber) -> u32 {
    2 + 2 * u32::from(shape)
}

impl Default for ShapePredictor {
    fn default() -> Self {
        let mut predictor = Self {
            table: zeroed(),
            shapes: 0,
            context: UNKNOWN,
        };
        predictor.reset();
        predictor
    }
}

impl ShapePredictor {
    /// Starts a new chunk. Reuses the memory.
    pub(crate) fn reset(&mut self) {
        self.shapes = 0;
        self.context = UNKNOWN;
        *self.current() = NO_PREDICTION;
    }

    /// Adds a shape, with the next free number.
    #[inline]
    pub(crate) fn add_shape(&mut self) {
        let context = context_after(self.shapes) as usize % CONTEXTS;
        self.table[context] = NO_PREDICTION;
        self.table[(context + 1) % CONTEXTS] = NO_PREDICTION;
        self.shapes = self.shapes.wrapping_add(1);
    }

    #[inline(always)]
    fn current(&mut self) -> &mut u32 {
        &mut self.table[self.context as usize % CONTEXTS]
    }

    /// The prediction for the next event.
    #[inline(always)]
    pub(crate) fn predict(&self) -> Prediction {
        let context = self.context as usize % CONTEXTS;
        Prediction {
            shapes: self.table[context],
            context,
        }
    }

    /// Makes `shape` the first prediction of the context of `prediction`. No branch,
    /// because the CPU would mispredict whether the shape was the first one already.
    #[inline(always)]
    pub(crate) fn update(&mut self, prediction: Prediction, shape: ShapeNumber) {
        let shapes = prediction.shapes;
        let moved = shapes << 16 | u32::from(shape);
        let is_first = prediction.first() == shape;
        self.table[prediction.context] = if is_first { shapes } else { moved };
    }

    /// Like [`Self::update`] for the current context, if `shape` is not the first
    /// prediction.
    #[inline(always)]
    pub(crate) fn update_after_miss(&mut self, shape: ShapeNumber) {
        let shapes = self.current();
        *shapes = *shapes << 16 | u32::from(shape);
    }

    /// Sets the context after the allocation of a block with this shape.
    #[inline(always)]
    pub(crate) fn after_allocation(&mut self, shape: ShapeNumber) {
        self.context = context_after(shape);
    }

    /// Sets the context after the deallocation of a block whose allocation had this
    /// shape.
    #[inline(always)]
    pub(crate) fn after_deallocation(&mut self, shape: ShapeNumber) {
        self.context = context_after(shape) + 1;
    }

    /// Sets the context after the deallocation of a block that was not allocated in
    /// the chunk.
    #[inline(always)]
    pub(crate) fn after_foreign_deallocation(&mut self) {
        self.context = UNKNOWN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_two_different_followers_are_predicted() {
        let mut predictor = ShapePredictor::default();
        predictor.reset();
        (0..4).for_each(|_| predictor.add_shape());
        let both = |predictor: &ShapePredictor| {
            let prediction = predictor.predict();
            [prediction.first(), prediction.second()]
        };
        let mut follow = |shape| {
            predictor.after_allocation(0);
            predictor.update(predictor.predict(), shape);
            predictor.after_allocation(0);
            both(&predictor)
        };
        assert_eq!(follow(1), [1, NO_SHAPE]);
        assert_eq!(follow(2), [2, 1]);
        assert_eq!(follow(2), [2, 1]);
        assert_eq!(follow(1), [1, 2]);
        assert_eq!(follow(3), [3, 1]);
        predictor.after_deallocation(0);
        assert_eq!(both(&predictor), [NO_SHAPE; 2]);
    }
}
