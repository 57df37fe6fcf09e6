//! Addresses that were given back, last in, first out in each size class, as
//! allocators hand them out again.

use std::hint::select_unpredictable;

use super::zeroed;

/// Blocks of one 16-byte class below this size are reused last in, first out.
const SMALL: u64 = 1024;
const SMALL_CLASSES: usize = 66;
/// Larger blocks have a class for each power of two.
const CLASSES: usize = SMALL_CLASSES + 64;
/// The class of blocks that were allocated before the chunk, of unknown size.
pub(crate) const UNKNOWN_SIZE: u8 = u8::MAX;
const _: () = assert!(CLASSES <= UNKNOWN_SIZE as usize);

/// Addresses in a stack at most; when there are so many, the older half is
/// forgotten at once, so that a byte counts them.
const DEPTH: usize = 256;
/// Places that are looked at, from the top of a stack on.
pub(crate) const PLACES: usize = 8;

/// The size class; glibc's for small blocks.
#[inline]
pub(crate) fn class_of(size: u64) -> u8 {
    if size <= SMALL {
        ((size + 8).div_ceil(16)) as u8
    } else {
        (SMALL_CLASSES as u32 + size.ilog2()) as u8
    }
}

/// Classes that a byte can name, more than there are: no look at a stack or an
/// address need see whether it is within.
const NAMES: usize = 1 << u8::BITS;

/// A stack of freed addresses for each class.
#[derive(Debug)]
pub(crate) struct Freed {
    /// `DEPTH` for each class; those of classes that there are not are never
    /// written to, nor resident. The last one of unknown size is what is expected
    /// where nothing is freed: so it lies below the bottom of their stack, and
    /// comes into use as a place of it only when older ones are forgotten.
    addresses: Box<[u64; NAMES * DEPTH]>,
    depths: [u8; NAMES],
}

impl Default for Freed {
    fn default() -> Self {
        Self {
            addresses: zeroed(),
            depths: [0; NAMES],
        }
    }
}

/// Where the address at a depth from the bottom of the class's stack is.
#[inline(always)]
fn at(class: u8, depth: u8) -> usize {
    usize::from(u16::from(class) << u8::BITS | u16::from(depth))
}

impl Freed {
    pub(crate) fn reset(&mut self) {
        self.depths = [0; NAMES];
        self.expect_fresh(0);
    }

    /// The class whose stack serves an allocation of this class: that of
    /// unknown sizes, if its own is empty. Which it is, is hard to foresee.
    #[inline(always)]
    pub(crate) fn serving(&self, class: u8) -> u8 {
        let is_empty = self.depths[usize::from(class)] == 0;
        select_unpredictable(is_empty, UNKNOWN_SIZE, class)
    }

    /// What to expect where no address is freed.
    #[inline(always)]
    pub(crate) fn expect_fresh(&mut self, address: u64) {
        self.addresses[at(UNKNOWN_SIZE, u8::MAX)] = address;
    }

    /// The class's addresses, the last freed one last.
    #[inline(always)]
    fn stack(&self, class: u8) -> &[u64] {
        let from = at(class, 0);
        &self.addresses[from..from + usize::from(self.depths[usize::from(class)])]
    }

    /// The address on the top of the stack of a class that [serves](Self::serving)
    /// another, or the one that is expected where there is none.
    #[inline(always)]
    pub(crate) fn top(&self, serving: u8) -> u64 {
        let depth = self.depths[usize::from(serving)];
        self.addresses[at(serving, depth.wrapping_sub(1))]
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self, class: u8) {
        let depth = &mut self.depths[usize::from(class)];
        *depth = depth.saturating_sub(1);
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, class: u8, address: u64) {
        let depth = &mut self.depths[usize::from(class)];
        self.addresses[at(class, *depth)] = address;
        *depth = depth.wrapping_add(1);
        if *depth == 0 {
            self.forget_older_half(class);
        }
    }

    /// Of a stack of `DEPTH` addresses.
    #[cold]
    fn forget_older_half(&mut self, class: u8) {
        let from = at(class, 0);
        self.addresses
            .copy_within(from + DEPTH / 2..from + DEPTH, from);
        self.depths[usize::from(class)] = (DEPTH / 2) as u8;
    }

    /// At which place the address is among the last freed ones: 1 is the top.
    /// 0: at none that is looked at.
    #[inline(always)]
    pub(crate) fn place(&self, class: u8, address: u64) -> u8 {
        let stack = self.stack(class);
        let Some(last) = stack.last_chunk::<PLACES>() else {
            let from_top = stack.iter().rev().position(|&freed| freed == address);
            return from_top.map_or(0, |place| place as u8 + 1);
        };
        if !last
            .iter()
            .fold(false, |any, &freed| any | (freed == address))
        {
            return 0;
        }
        // All at once, without a branch for each.
        let mut places = 0_u32;
        for (i, &freed) in last.iter().enumerate() {
            places |= u32::from(freed == address) << i;
        }
        if places == 0 {
            0
        } else {
            (PLACES as u32 + places.leading_zeros() - 31) as u8
        }
    }

    /// Takes the address at the place (from 1) off the stack; the one at the
    /// top comes into its place, which costs next to no guesses and is cheaper
    /// than to move all above.
    #[inline(always)]
    pub(crate) fn take(&mut self, class: u8, place: u8) -> Option<u64> {
        let depth = self.depths[usize::from(class)];
        let (taken, top) = (depth.checked_sub(place)?, depth.wrapping_sub(1));
        let address = self.addresses[at(class, taken)];
        self.addresses[at(class, taken)] = self.addresses[at(class, top)];
        self.depths[usize::from(class)] = top;
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_sizes_have_a_class() {
        assert!(usize::from(class_of(u64::MAX)) < CLASSES);
        assert!(usize::from(class_of(SMALL)) < SMALL_CLASSES);
    }

    #[test]
    fn places_are_counted_from_the_top_which_fills_the_place_of_what_is_taken() {
        for depth in 1..20_u64 {
            let mut freed = Freed::default();
            (0..depth).for_each(|i| freed.push(3, 100 + i));
            for place in 1..=depth {
                let told = if place <= PLACES as u64 { place } else { 0 };
                assert_eq!(u64::from(freed.place(3, 100 + depth - place)), told);
            }
            assert_eq!(freed.place(3, 99), 0);
            let mut expected: Vec<u64> = (100..100 + depth).collect();
            let third = expected.len().checked_sub(3);
            assert_eq!(freed.take(3, 3), third.map(|at| expected.swap_remove(at)));
            assert_eq!(freed.take(3, 200), None);
            assert_eq!(freed.stack(3), expected);
        }
    }

    #[test]
    fn a_full_stack_keeps_its_upper_half() {
        let mut freed = Freed::default();
        (0..DEPTH as u64).for_each(|i| freed.push(0, i));
        assert_eq!(freed.stack(0), (128..256).collect::<Vec<u64>>());
        freed.push(0, 7);
        assert_eq!(freed.top(0), 7);
    }
}
