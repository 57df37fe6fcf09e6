//! The blocks of a chunk by number, and a list of those that are live, the newest
//! first. Which of them is given back next is guessed elsewhere.

use super::successors::ShapeNumber;
use super::zeroed;

/// Number of a block: how many allocations of the chunk came before it; there
/// are never more than events.
pub(crate) type BlockNumber = u16;
/// No block: a chunk holds fewer events than this.
pub(crate) const NONE: BlockNumber = BlockNumber::MAX;

const NUMBERS: usize = 1 << BlockNumber::BITS;

/// A live block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub address: u64,
    pub of: BlockKind,
}

/// The shape of a block's allocation, the class of its size, and whether it is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockKind(u32);

const LIVE: u32 = 1 << 31;

impl BlockKind {
    /// That of a live block.
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

/// The blocks of a chunk.
///
/// There is room for every number, so that none is looked at for being within, in
/// arrays of plain numbers: new memory is zero already, and what no chunk needs
/// never becomes resident.
#[derive(Debug)]
pub(crate) struct BlockList {
    addresses: Box<[u64; NUMBERS]>,
    kinds: Box<[u32; NUMBERS]>,
    /// The next older live block of each, and the next newer one. Those of
    /// [`NONE`], which is never live, are the newest live block and the oldest, so
    /// that no end of the list is special.
    neighbours: Box<[[BlockNumber; 2]; NUMBERS]>,
    length: BlockNumber,
}

const OLDER: usize = 0;
const NEWER: usize = 1;

impl Default for BlockList {
    fn default() -> Self {
        let mut list = Self {
            addresses: zeroed(),
            kinds: zeroed(),
            neighbours: zeroed(),
            length: 0,
        };
        list.reset();
        list
    }
}

impl BlockList {
    /// Forgets everything, keeps the memory.
    pub(crate) fn reset(&mut self) {
        self.length = 0;
        self.neighbours[usize::from(NONE)] = [NONE; 2];
    }

    /// Number of blocks, live or not.
    #[inline(always)]
    pub(crate) fn len(&self) -> u16 {
        self.length
    }

    /// The newest live block.
    #[inline(always)]
    pub(crate) fn newest(&self) -> BlockNumber {
        self.neighbours[usize::from(NONE)][OLDER]
    }

    /// The block, if it is live as far as the chunk tells. The number is one that
    /// was given out since the last [`Self::reset`], or [`NONE`].
    #[inline(always)]
    pub(crate) fn live(&self, number: BlockNumber) -> Option<Block> {
        let kind = self.kinds[usize::from(number)];
        (kind & LIVE != 0).then(|| Block {
            address: self.addresses[usize::from(number)],
            of: BlockKind(kind),
        })
    }

    /// Appends a live block and gives its number.
    #[inline(always)]
    pub(crate) fn push(&mut self, address: u64, of: BlockKind) -> BlockNumber {
        let (number, older) = (self.length, self.newest());
        self.put(address, of.0);
        self.neighbours[usize::from(number)] = [older, NONE];
        self.neighbours[usize::from(older)][NEWER] = number;
        self.neighbours[usize::from(NONE)][OLDER] = number;
        number
    }

    /// Appends one that is live no longer.
    #[inline(always)]
    pub(crate) fn push_retired(&mut self, address: u64, of: BlockKind) {
        self.put(address, of.0 & !LIVE);
    }

    #[inline(always)]
    fn put(&mut self, address: u64, kind: u32) {
        let number = usize::from(self.length);
        self.addresses[number] = address;
        self.kinds[number] = kind;
        self.length = self.length.wrapping_add(1);
    }

    /// A live block is live no longer; gives the next older live one and the next
    /// newer one.
    #[inline(always)]
    pub(crate) fn retire(&mut self, number: BlockNumber) -> [BlockNumber; 2] {
        self.kinds[usize::from(number)] &= !LIVE;
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
        fn the_live_blocks_are_listed_by_age(deeds in prop::collection::vec(0..8_u16, 0..200)) {
            let mut list = BlockList::default();
            let mut live: Vec<BlockNumber> = Vec::new();
            for (address, deed) in (100_u16..).zip(deeds) {
                let kind = BlockKind::new(deed, 200 + deed as u8);
                match deed {
                    0 => list.push_retired(address.into(), kind),
                    1..4 => live.push(list.push(address.into(), kind)),
                    _ if live.is_empty() => {}
                    _ => {
                        let at = usize::from(address) * 7 % live.len();
                        let number = live.remove(at);
                        let block = list.live(number).expect("a live block");
                        prop_assert_eq!(block.of.class(), 200 + block.of.shape() as u8);
                        let older = live[..at].last().copied().unwrap_or(NONE);
                        let newer = live.get(at).copied().unwrap_or(NONE);
                        prop_assert_eq!(list.retire(number), [older, newer]);
                        prop_assert_eq!(list.live(number), None);
                    }
                }
                prop_assert_eq!(list.newest(), live.last().copied().unwrap_or(NONE));
            }
            prop_assert_eq!(list.live(NONE), None);
        }
    }
}
