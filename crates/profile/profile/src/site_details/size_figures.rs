//! The figures of an image by size of its blocks.

use crate::details::{SizeClass, SizeFigures};
use crate::site::Sites;
use crate::stack::Stack;

/// Sums up blocks by size: a site for each class, whose stack id is the number of the class.
#[derive(Default, Clone)]
pub(super) struct SizesBuilder {
    classes: Sites,
}

impl SizesBuilder {
    pub(super) fn allocate(&mut self, size: u64) {
        let class = self.classes.of_stack(number(size));
        self.classes.allocate(class, size, false);
    }

    pub(super) fn free(&mut self, size: u64) {
        let class = self.classes.of_stack(number(size));
        self.classes.deallocate(class, size, 0, false);
    }

    pub(super) fn mark_peak(&mut self) {
        self.classes.mark_peak();
    }

    /// The figures of the classes that have blocks, in order of size.
    pub(super) fn finish(self) -> Vec<SizeFigures> {
        let mut classes = self.classes.finish();
        classes.sort_by_key(|class| class.stack_id);
        let figures = classes.iter().map(|class| {
            let site = class.with_stack(Stack::default());
            SizeFigures {
                up_to_bytes: match site.stack_id {
                    0 => 0,
                    number => 1_u64.checked_shl(number - 1).unwrap_or(u64::MAX),
                },
                allocations: site.allocations,
                allocated_bytes: site.allocated_bytes,
                allocations_at_peak: site.allocations_at_peak,
                bytes_at_peak: site.bytes_at_peak,
                leaked_allocations: site.leaked_allocations,
                leaked_bytes: site.leaked_bytes,
            }
        });
        figures.collect()
    }
}

/// The number of a size's class: 0 for 0 bytes, and one more than the logarithm of its
/// largest size.
fn number(size: u64) -> u32 {
    match SizeClass::up_to(size) {
        0 => 0,
        u64::MAX => u64::BITS + 1,
        power => power.trailing_zeros() + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_what_was_live_at_the_peak_and_at_the_end() {
        let mut sizes = SizesBuilder::default();
        for size in [0, 1, 3, 4, 64, 65, u64::MAX] {
            sizes.allocate(size);
        }
        sizes.free(u64::MAX);
        sizes.free(3);
        sizes.mark_peak();
        sizes.free(64);
        sizes.free(4);
        sizes.allocate(60);
        let found = sizes.finish();
        let rows = found.iter().map(|it| {
            (
                it.up_to_bytes,
                it.allocations,
                it.bytes_at_peak,
                it.leaked_bytes,
            )
        });
        let expected = [
            (0, 1, 0, 0),
            (1, 1, 1, 1),
            (4, 2, 4, 0),
            (64, 2, 64, 60),
            (128, 1, 65, 65),
            (u64::MAX, 1, 0, 0),
        ];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }
}
