//! What an allocator will probably do next, guessed from the events so far.
//!
//! Encoder and decoder feed it the same events and get the same guesses, so an
//! event that was guessed right costs no bytes but its symbol. A wrong guess
//! costs size, never correctness. Nothing here searches: every step is O(1).

/// Number of a block: how many allocations of the chunk came before it.
pub(crate) type BlockNumber = u32;
/// No block.
pub(crate) const NONE: BlockNumber = u32::MAX;

/// Blocks of one 16-byte class below this size are reused last in, first out.
const SMALL: u64 = 1024;
const SMALL_CLASSES: usize = 66;
/// Larger blocks have a class for each power of two.
const CLASSES: usize = SMALL_CLASSES + 64;
/// The class of blocks that were allocated before the chunk, of unknown size.
const UNKNOWN_SIZE: u8 = CLASSES as u8;

#[derive(Debug, Clone, Copy)]
struct Block {
    address: u64,
    /// Live: the next older live block. Freed: the block freed before it in
    /// its class.
    older: BlockNumber,
    /// Live: the next newer live block.
    newer: BlockNumber,
    class: u8,
    live: bool,
}

/// The blocks of a chunk and the two guesses which is deallocated next.
#[derive(Debug)]
pub(crate) struct Blocks {
    blocks: Vec<Block>,
    newest: BlockNumber,
    /// The last freed block of each class.
    freed: [BlockNumber; CLASSES + 1],
    /// After an allocation: the newest live blocks. After a deallocation: the
    /// older and newer live neighbour of its block.
    slots: [BlockNumber; 2],
    /// The block (and its address) of the innermost open reallocation.
    open: Option<Open>,
    /// Where a bump allocator would put the next block.
    bump: u64,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    address: u64,
    /// `NONE` if the block is older than the chunk.
    number: BlockNumber,
}

/// The size class; glibc's for small blocks.
#[inline]
fn class_of(size: u64) -> u8 {
    if size <= SMALL {
        ((size + 8).div_ceil(16)) as u8
    } else {
        (SMALL_CLASSES as u32 + size.ilog2()) as u8
    }
}

/// Bytes from one block of this size to the next in glibc.
#[inline]
fn footprint(size: u64) -> u64 {
    (size.wrapping_add(8 + 15) & !15).max(32)
}

impl Default for Blocks {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            newest: NONE,
            freed: [NONE; CLASSES + 1],
            slots: [NONE; 2],
            open: None,
            bump: 0,
        }
    }
}

impl Blocks {
    /// Forgets everything, keeps the memory.
    pub(crate) fn reset(&mut self) {
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.clear();
        *self = Self {
            blocks,
            ..Self::default()
        };
    }

    /// Number of blocks, live or not.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// The address of a block that is live, as far as the chunk tells.
    #[inline]
    pub(crate) fn live_address(&self, number: BlockNumber) -> Option<u64> {
        let block = self.blocks.get(number as usize)?;
        block.live.then_some(block.address)
    }

    /// The guesses which block is deallocated next.
    #[inline]
    pub(crate) fn slots(&self) -> [BlockNumber; 2] {
        self.slots
    }

    /// What an address that is not guessed is told relative to.
    #[inline]
    pub(crate) fn bump(&self) -> u64 {
        self.bump
    }

    /// Guesses the address of an allocation of this size. `reallocation`: it
    /// is the end of one, which most often stays in place.
    #[inline]
    pub(crate) fn guess(&self, size: u64, reallocation: bool) -> u64 {
        if let (true, Some(open)) = (reallocation, self.open) {
            return open.address;
        }
        let of_class = self.freed[usize::from(class_of(size))];
        let number = if of_class == NONE {
            self.freed[usize::from(UNKNOWN_SIZE)]
        } else {
            of_class
        };
        self.blocks
            .get(number as usize)
            .map_or(self.bump, |block| block.address)
    }

    /// Takes note of an allocation; `guessed`: its address was the guess.
    #[inline]
    pub(crate) fn allocate(&mut self, address: u64, size: u64, guessed: bool, reallocation: bool) {
        let class = class_of(size);
        if reallocation && self.open.is_some() {
            self.close(address);
        } else if guessed {
            self.reuse(class);
        }
        let number = self.len();
        let older = self.newest;
        if let Some(block) = self.blocks.get_mut(older as usize) {
            block.newer = number;
        }
        self.blocks.push(Block {
            address,
            older,
            newer: NONE,
            class,
            live: true,
        });
        self.newest = number;
        self.slots = [number, older];
        self.bump = address.wrapping_add(footprint(size));
    }

    /// As [`Self::allocate`] and [`Self::deallocate`] of the same block.
    #[inline]
    pub(crate) fn allocate_and_deallocate(&mut self, address: u64, size: u64, guessed: bool) {
        let class = class_of(size);
        if guessed {
            self.reuse(class);
        }
        let number = self.len();
        self.blocks.push(Block {
            address,
            older: NONE,
            newer: NONE,
            class,
            live: false,
        });
        self.push_freed(number);
        self.slots = [self.newest, NONE];
        self.bump = address.wrapping_add(footprint(size));
    }

    /// Takes the block that [`Self::guess`] named off its list.
    #[inline]
    fn reuse(&mut self, class: u8) {
        let of_class = usize::from(class);
        let list = if self.freed[of_class] == NONE {
            usize::from(UNKNOWN_SIZE)
        } else {
            of_class
        };
        if let Some(block) = self.blocks.get(self.freed[list] as usize) {
            self.freed[list] = block.older;
        }
    }

    /// Takes note of the deallocation of a live block of the chunk.
    #[inline]
    pub(crate) fn deallocate(&mut self, number: BlockNumber) {
        self.unlink(number);
        self.push_freed(number);
    }

    /// Takes note of the deallocation of a block that the chunk does not know.
    #[inline]
    pub(crate) fn deallocate_foreign(&mut self, address: u64) {
        let number = self.len();
        self.blocks.push(Block {
            address,
            older: NONE,
            newer: NONE,
            class: UNKNOWN_SIZE,
            live: false,
        });
        self.push_freed(number);
    }

    /// Takes note of the start of a reallocation; `number` is `NONE` if the
    /// chunk does not know the block.
    pub(crate) fn start_reallocation(&mut self, address: u64, number: BlockNumber) {
        if number != NONE {
            self.unlink(number);
        }
        self.open = Some(Open { address, number });
    }

    /// Takes note that the open reallocation freed its block.
    pub(crate) fn free_open(&mut self) {
        self.close(0);
    }

    /// Takes note that the open reallocation failed.
    pub(crate) fn fail_open(&mut self) {
        self.open = None;
    }

    /// Ends the open reallocation: unless the block stayed where it was, its
    /// old place is free now.
    fn close(&mut self, address: u64) {
        let Some(open) = self.open.take() else { return };
        if open.address == address {
            return;
        }
        match open.number {
            NONE => self.deallocate_foreign(open.address),
            number => self.push_freed(number),
        }
    }

    #[inline]
    fn push_freed(&mut self, number: BlockNumber) {
        let block = &mut self.blocks[number as usize];
        let list = usize::from(block.class);
        block.older = self.freed[list];
        self.freed[list] = number;
    }

    #[inline]
    fn unlink(&mut self, number: BlockNumber) {
        let Block { older, newer, .. } = self.blocks[number as usize];
        self.blocks[number as usize].live = false;
        match self.blocks.get_mut(newer as usize) {
            Some(block) => block.older = older,
            None => self.newest = older,
        }
        if let Some(block) = self.blocks.get_mut(older as usize) {
            block.newer = newer;
        }
        self.slots = [older, newer];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_freed_last_are_guessed_first_in_their_class() {
        let mut blocks = Blocks::default();
        blocks.allocate(0x1000, 24, false, false);
        blocks.allocate(0x2000, 20, false, false);
        blocks.allocate(0x3000, 200, false, false);
        blocks.deallocate(0);
        blocks.deallocate(1);
        blocks.deallocate(2);
        // 24 and 20 bytes share a class of 32 bytes (8 of header), 200 does not.
        assert_eq!(blocks.guess(17, false), 0x2000);
        blocks.allocate(0x2000, 17, true, false);
        assert_eq!(blocks.guess(17, false), 0x1000);
        assert_eq!(blocks.guess(200, false), 0x3000);
    }

    #[test]
    fn a_pair_at_once_is_as_one_after_the_other() {
        let (mut at_once, mut one_by_one) = (Blocks::default(), Blocks::default());
        let history = [(0x1000, 24), (0x2000, 24), (0x1000, 2000), (0x9000, 8)];
        for (round, (address, size)) in history.into_iter().enumerate() {
            let guessed = at_once.guess(size, false) == address;
            if round == 2 {
                // A live block in between.
                at_once.allocate(0x5000, 40, false, false);
                one_by_one.allocate(0x5000, 40, false, false);
            }
            at_once.allocate_and_deallocate(address, size, guessed);
            one_by_one.allocate(address, size, guessed, false);
            one_by_one.deallocate(one_by_one.len() - 1);
            assert_eq!(format!("{at_once:?}"), format!("{one_by_one:?}"));
        }
    }

    #[test]
    fn slots_hold_the_neighbours_of_the_last_freed_block() {
        let mut blocks = Blocks::default();
        for i in 0..4 {
            blocks.allocate(i * 64, 8, false, false);
        }
        assert_eq!(blocks.slots(), [3, 2]);
        blocks.deallocate(1);
        assert_eq!(blocks.slots(), [0, 2]);
        blocks.deallocate(2);
        assert_eq!(blocks.slots(), [0, 3]);
        blocks.deallocate(3);
        assert_eq!(blocks.slots(), [0, NONE]);
    }

    #[test]
    fn a_reallocation_is_guessed_to_stay_and_frees_its_place_when_it_moves() {
        let mut blocks = Blocks::default();
        blocks.allocate(0x1000, 24, false, false);
        blocks.start_reallocation(0x1000, 0);
        assert_eq!(blocks.guess(48, true), 0x1000);
        blocks.allocate(0x5000, 48, false, true);
        assert_eq!(blocks.guess(24, false), 0x1000);
    }

    #[test]
    fn the_largest_sizes_have_a_class() {
        assert!(usize::from(class_of(u64::MAX)) < CLASSES);
        assert!(usize::from(class_of(SMALL)) < SMALL_CLASSES);
        let _ = footprint(u64::MAX);
    }
}
