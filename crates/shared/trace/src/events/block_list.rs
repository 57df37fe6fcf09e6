//! The blocks that the events of a chunk allocate, by number, and a doubly linked
//! list of the live ones, in order of allocation.

use super::shape_predictor::ShapeNumber;
use super::zeroed;

/// Number of a block: the number of allocations before it in the chunk.
pub(crate) type BlockNumber = u16;
/// No block. [`crate::chunk::MAX_EVENTS`] keeps this number unused.
pub(crate) const NONE: BlockNumber = BlockNumber::MAX;

const NUMBERS: usize = 1 << BlockNumber::BITS;

/// A live block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub address: u64,
    pub info: BlockInfo,
}

/// Properties of a block in 32 bits, from the low bits: the shape of its allocation
/// (16), its size class (8), unused (7), whether it is live (1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockInfo(u32);

const LIVE: u32 = 1 << 31;

impl BlockInfo {
    /// The properties of a live block.
    #[inline(always)]
    pub(crate) const fn new(shape: ShapeNumber, class: u8) -> Self {
        Self(shape as u32 | (class as u32) << 16 | LIVE)
    }

    #[inline(always)]
    pub(crate) const fn shape(self) -> ShapeNumber {
        self.0 as ShapeNumber
    }

    #[inline(always)]
    pub(crate) const fn class(self) -> u8 {
        (self.0 >> 16) as u8
    }
}

/// The blocks of a chunk: a table of their properties by block number, as a struct
/// of arrays, and the doubly linked list of the live ones.
///
/// The arrays have an element for every possible number, so that no access needs a
/// bounds check. They begin as zeroed memory; pages that no chunk uses never become
/// resident.
#[derive(Debug)]
pub(crate) struct BlockList {
    addresses: Box<[u64; NUMBERS]>,
    infos: Box<[u32; NUMBERS]>,
    /// The links of the list: for each live block, the next older and the next newer
    /// live block. [`NONE`] is the sentinel that closes the list to a ring: its links
    /// are the newest and the oldest live block.
    neighbours: Box<[[BlockNumber; 2]; NUMBERS]>,
    /// Number of blocks, live or freed.
    length: BlockNumber,
}

const OLDER: usize = 0;
const NEWER: usize = 1;

impl Default for BlockList {
    fn default() -> Self {
        let mut list = Self {
            addresses: zeroed(),
            infos: zeroed(),
            neighbours: zeroed(),
            length: 0,
        };
        list.reset();
        list
    }
}

impl BlockList {
    /// Removes all blocks. Reuses the memory.
    pub(crate) fn reset(&mut self) {
        self.length = 0;
        self.neighbours[usize::from(NONE)] = [NONE; 2];
    }

    /// Number of blocks, live or freed.
    #[inline(always)]
    pub(crate) fn len(&self) -> u16 {
        self.length
    }

    /// The newest live block, or [`NONE`].
    #[inline(always)]
    pub(crate) fn newest(&self) -> BlockNumber {
        self.neighbours[usize::from(NONE)][OLDER]
    }

    /// The block, if it is live. `number` is below [`Self::len`], or [`NONE`].
    #[inline(always)]
    pub(crate) fn live(&self, number: BlockNumber) -> Option<Block> {
        let info = self.infos[usize::from(number)];
        (info & LIVE != 0).then(|| Block {
            address: self.addresses[usize::from(number)],
            info: BlockInfo(info),
        })
    }

    /// Adds a live block and returns its number.
    #[inline(always)]
    pub(crate) fn push(&mut self, address: u64, info: BlockInfo) -> BlockNumber {
        let (number, older) = (self.length, self.newest());
        self.append(address, info.0);
        self.neighbours[usize::from(number)] = [older, NONE];
        self.neighbours[usize::from(older)][NEWER] = number;
        self.neighbours[usize::from(NONE)][OLDER] = number;
        number
    }

    /// Adds a block that is already freed.
    #[inline(always)]
    pub(crate) fn push_freed(&mut self, address: u64, info: BlockInfo) {
        self.append(address, info.0 & !LIVE);
    }

    #[inline(always)]
    fn append(&mut self, address: u64, info: u32) {
        let number = usize::from(self.length);
        self.addresses[number] = address;
        self.infos[number] = info;
        self.length = self.length.wrapping_add(1);
    }

    /// Marks a live block as freed. Returns the next older and the next newer live
    /// block.
    #[inline(always)]
    pub(crate) fn free(&mut self, number: BlockNumber) -> [BlockNumber; 2] {
        self.infos[usize::from(number)] &= !LIVE;
        let neighbours = self.neighbours[usize::from(number)];
        let [older, newer] = neighbours;
        self.neighbours[usize::from(newer)][OLDER] = older;
        self.neighbours[usize::from(older)][NEWER] = newer;
        neighbours
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn live_blocks_are_listed_in_order_of_allocation(operations in prop::collection::vec(0..8_u16, 0..200)) {
            let mut list = BlockList::default();
            let mut live: Vec<BlockNumber> = Vec::new();
            for (address, operation) in (100_u16..).zip(operations) {
                let info = BlockInfo::new(operation, 200 + operation as u8);
                match operation {
                    0 => list.push_freed(address.into(), info),
                    1..4 => live.push(list.push(address.into(), info)),
                    _ if live.is_empty() => {}
                    _ => {
                        let at = usize::from(address) * 7 % live.len();
                        let number = live.remove(at);
                        let block = list.live(number).expect("a live block");
                        prop_assert_eq!(block.info.class(), 200 + block.info.shape() as u8);
                        let older = live[..at].last().copied().unwrap_or(NONE);
                        let newer = live.get(at).copied().unwrap_or(NONE);
                        prop_assert_eq!(list.free(number), [older, newer]);
                        prop_assert_eq!(list.live(number), None);
                    }
                }
                prop_assert_eq!(list.newest(), live.last().copied().unwrap_or(NONE));
            }
            prop_assert_eq!(list.live(NONE), None);
        }
    }
}
