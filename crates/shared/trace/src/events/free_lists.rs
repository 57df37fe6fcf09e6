//! Models the free lists of an allocator: a last-in-first-out stack of freed
//! addresses for each size class. The allocator is expected to return the address
//! that was freed last in the class, as the caches of glibc and others do.

use std::hint::select_unpredictable;

use super::zeroed;

/// Largest size of the small classes, which are 16 bytes wide.
const SMALL: u64 = 1024;
const SMALL_CLASSES: usize = 66;
/// Larger sizes have a class for each power of two.
const CLASSES: usize = SMALL_CLASSES + 64;
/// The class of blocks that were not allocated in the chunk: their size is unknown.
pub(crate) const UNKNOWN_SIZE: u8 = u8::MAX;
const _: () = assert!(CLASSES <= UNKNOWN_SIZE as usize);

/// Largest number of addresses on a free list. When a list is full, the older half
/// is dropped at once. So the length fits into a byte.
const CAPACITY: usize = 256;
/// Number of addresses that [`FreeLists::index_of`] searches, from the top.
pub(crate) const SEARCHED: usize = 8;

/// The size class of a size in bytes. Small classes are those of glibc's malloc:
/// chunks have 8 bytes of header and multiples of 16 bytes.
#[inline]
pub(crate) fn class_of(size: u64) -> u8 {
    if size <= SMALL {
        ((size + 8).div_ceil(16)) as u8
    } else {
        (SMALL_CLASSES as u32 + size.ilog2()) as u8
    }
}

/// Number of values of a class, more than [`CLASSES`], so that no access needs a
/// bounds check.
const CLASS_VALUES: usize = 1 << u8::BITS;

/// A stack of freed addresses for each size class, and the address at which a bump
/// allocator would place the next block.
///
/// ```text
/// addresses:  | class 0: CAPACITY addresses | class 1 | … | class 255 (unknown size) |
///              bottom …          … top                                bump address ^
/// ```
///
/// The bump address is the last element of the last class. The element below the
/// bottom of an empty list of unknown sizes wraps around to it, so [`Self::top`] reads
/// it without a branch. It is overwritten only when that list is full.
#[derive(Debug)]
pub(crate) struct FreeLists {
    /// Elements of nonexistent classes are never written, and so never resident.
    addresses: Box<[u64; CLASS_VALUES * CAPACITY]>,
    lengths: [u8; CLASS_VALUES],
}

impl Default for FreeLists {
    fn default() -> Self {
        Self {
            addresses: zeroed(),
            lengths: [0; CLASS_VALUES],
        }
    }
}

/// The position in `addresses` of an element of a list, counted from its bottom.
#[inline(always)]
fn at(class: u8, element: u8) -> usize {
    usize::from(u16::from(class) << u8::BITS | u16::from(element))
}

impl FreeLists {
    /// Empties all lists and sets the bump address to 0.
    pub(crate) fn reset(&mut self) {
        self.lengths = [0; CLASS_VALUES];
        self.set_bump_address(0);
    }

    /// The class whose free list serves an allocation of `class`: `class` itself, or
    /// [`UNKNOWN_SIZE`] if its list is empty. No branch, because the CPU would
    /// mispredict it.
    #[inline(always)]
    pub(crate) fn serving_class(&self, class: u8) -> u8 {
        let is_empty = self.lengths[usize::from(class)] == 0;
        select_unpredictable(is_empty, UNKNOWN_SIZE, class)
    }

    /// Sets the predicted address for allocations whose free list is empty.
    #[inline(always)]
    pub(crate) fn set_bump_address(&mut self, address: u64) {
        self.addresses[at(UNKNOWN_SIZE, u8::MAX)] = address;
    }

    /// The free list of a class, the address that was freed last at the end.
    #[inline(always)]
    fn list(&self, class: u8) -> &[u64] {
        let from = at(class, 0);
        &self.addresses[from..from + usize::from(self.lengths[usize::from(class)])]
    }

    /// The top of the free list of a class that [`Self::serving_class`] returned, or
    /// the bump address if the list is empty.
    #[inline(always)]
    pub(crate) fn top(&self, serving: u8) -> u64 {
        let length = self.lengths[usize::from(serving)];
        self.addresses[at(serving, length.wrapping_sub(1))]
    }

    /// Removes the top of the class's free list, if there is one.
    #[inline(always)]
    pub(crate) fn pop(&mut self, class: u8) {
        let length = &mut self.lengths[usize::from(class)];
        *length = length.saturating_sub(1);
    }

    /// Puts a freed address on the top of the class's free list.
    #[inline(always)]
    pub(crate) fn push(&mut self, class: u8, address: u64) {
        let length = &mut self.lengths[usize::from(class)];
        self.addresses[at(class, *length)] = address;
        *length = length.wrapping_add(1);
        if *length == 0 {
            self.drop_older_half(class);
        }
    }

    /// Halves a list of [`CAPACITY`] addresses.
    #[cold]
    fn drop_older_half(&mut self, class: u8) {
        let from = at(class, 0);
        self.addresses
            .copy_within(from + CAPACITY / 2..from + CAPACITY, from);
        self.lengths[usize::from(class)] = (CAPACITY / 2) as u8;
    }

    /// The index of an address in the class's free list: 1 is the top. 0 if it is not
    /// among the top [`SEARCHED`] addresses.
    #[inline(always)]
    pub(crate) fn index_of(&self, class: u8, address: u64) -> u8 {
        let list = self.list(class);
        let Some(last) = list.last_chunk::<SEARCHED>() else {
            let from_top = list.iter().rev().position(|&freed| freed == address);
            return from_top.map_or(0, |position| position as u8 + 1);
        };
        if !last
            .iter()
            .fold(false, |any, &freed| any | (freed == address))
        {
            return 0;
        }
        // Compares all without a branch for each: a bit mask of the matches.
        let mut matches = 0_u32;
        for (i, &freed) in last.iter().enumerate() {
            matches |= u32::from(freed == address) << i;
        }
        (SEARCHED as u32 + matches.leading_zeros() - 31) as u8
    }

    /// Removes the address at an index (from 1) of the class's free list and returns
    /// it, or `None` if the list is shorter. The top moves to the index: that is
    /// cheaper than moving all addresses above, and hardly worsens the predictions.
    #[inline(always)]
    pub(crate) fn remove(&mut self, class: u8, index: u8) -> Option<u64> {
        let length = self.lengths[usize::from(class)];
        let (removed, top) = (length.checked_sub(index)?, length.wrapping_sub(1));
        let address = self.addresses[at(class, removed)];
        self.addresses[at(class, removed)] = self.addresses[at(class, top)];
        self.lengths[usize::from(class)] = top;
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
    fn indexes_count_from_the_top_which_replaces_a_removed_address() {
        for length in 1..20_u64 {
            let mut lists = FreeLists::default();
            (0..length).for_each(|i| lists.push(3, 100 + i));
            for index in 1..=length {
                let expected = if index <= SEARCHED as u64 { index } else { 0 };
                assert_eq!(u64::from(lists.index_of(3, 100 + length - index)), expected);
            }
            assert_eq!(lists.index_of(3, 99), 0);
            let mut expected: Vec<u64> = (100..100 + length).collect();
            let third = expected.len().checked_sub(3);
            assert_eq!(lists.remove(3, 3), third.map(|at| expected.swap_remove(at)));
            assert_eq!(lists.remove(3, 200), None);
            assert_eq!(lists.list(3), expected);
        }
    }

    #[test]
    fn a_full_list_keeps_its_newer_half() {
        let mut lists = FreeLists::default();
        (0..CAPACITY as u64).for_each(|i| lists.push(0, i));
        assert_eq!(lists.list(0), (128..256).collect::<Vec<u64>>());
        lists.push(0, 7);
        assert_eq!(lists.top(0), 7);
    }
}
