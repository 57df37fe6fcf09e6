//! What an allocator will probably do next, guessed from the events so far.
//!
//! Encoder and decoder feed it the same events and get the same guesses, so an
//! event that was guessed right costs no bytes but its symbol. A wrong guess
//! costs size, never correctness. Every step is O(1).

use super::freed::{Freed, UNKNOWN_SIZE, class_of};
use super::successors::ShapeNumber;

/// Number of a block: how many allocations of the chunk came before it; there
/// are never more than events.
pub(crate) type BlockNumber = u16;
/// No block: a chunk holds fewer events than this.
pub(crate) const NONE: BlockNumber = BlockNumber::MAX;

/// An allocation of the chunk: sixteen bytes, for there are many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub address: u64,
    /// While it is live: the next older live block.
    older: BlockNumber,
    /// While it is live: the next newer live block.
    newer: BlockNumber,
    /// The shape of its allocation.
    pub shape: ShapeNumber,
    class: u8,
    live: bool,
}

/// The blocks of a chunk and the two guesses which is deallocated next.
#[derive(Debug)]
pub(crate) struct Blocks {
    blocks: Vec<Block>,
    newest: BlockNumber,
    freed: Freed,
    /// After an allocation: the newest live blocks. After a deallocation: the
    /// older and newer live neighbour of its block.
    slots: [BlockNumber; 2],
    /// The block of the innermost open reallocation.
    open: Option<Open>,
    /// Where a bump allocator would put the next block.
    bump: u64,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    address: u64,
    class: u8,
}

/// A guessed address, and whose it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guess {
    pub address: u64,
    /// The class whose stack of freed addresses serves the allocation.
    class: u8,
    /// It is the address on the stack's top.
    from_stack: bool,
}

impl Guess {
    /// It comes from the stack to which the block goes when it is freed.
    #[inline(always)]
    pub(crate) fn is_own(&self) -> bool {
        self.from_stack && self.class != UNKNOWN_SIZE
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
            freed: Freed::default(),
            slots: [NONE; 2],
            open: None,
            bump: 0,
        }
    }
}

impl Blocks {
    /// Forgets everything, keeps the memory. There will be at most `events`
    /// blocks.
    pub(crate) fn reset(&mut self, events: usize) {
        self.blocks.clear();
        self.blocks.reserve(events);
        self.newest = NONE;
        self.freed.reset();
        self.slots = [NONE; 2];
        self.open = None;
        self.bump = 0;
    }

    /// Number of blocks, live or not.
    #[inline(always)]
    pub(crate) fn len(&self) -> u16 {
        self.blocks.len() as u16
    }

    /// The block, if it is live as far as the chunk tells.
    #[inline(always)]
    pub(crate) fn live(&self, number: BlockNumber) -> Option<&Block> {
        let block = self.blocks.get(usize::from(number))?;
        block.live.then_some(block)
    }

    /// The guesses which block is deallocated next.
    #[inline(always)]
    pub(crate) fn slots(&self) -> [BlockNumber; 2] {
        self.slots
    }

    /// Guesses the address of an allocation of this size. `reallocation`: it
    /// is the end of one, which most often stays in place.
    #[inline(always)]
    pub(crate) fn guess(&self, size: u64, reallocation: bool) -> Guess {
        let class = self.freed.serving(class_of(size));
        let top = self.freed.top(class);
        let mut guess = Guess {
            address: top.unwrap_or(self.bump),
            class,
            from_stack: true,
        };
        if let (true, Some(open)) = (reallocation, self.open) {
            guess.address = open.address;
            guess.from_stack = false;
        }
        guess
    }

    /// The guess was right.
    #[inline(always)]
    pub(crate) fn confirm(&mut self, guess: Guess) {
        if guess.from_stack {
            self.freed.pop(guess.class);
        }
    }

    /// The guess was wrong: at which place of its stack the address is, from
    /// 1, or 0; it is taken from there.
    #[inline(always)]
    pub(crate) fn find(&mut self, guess: Guess, address: u64) -> u8 {
        let place = self.freed.place(guess.class, address);
        if place != 0 {
            self.freed.take(guess.class, place);
        }
        place
    }

    /// The address that [`Self::find`] found there.
    #[inline(always)]
    pub(crate) fn take(&mut self, guess: Guess, place: u8) -> Option<u64> {
        self.freed.take(guess.class, place)
    }

    /// Takes note of an allocation.
    #[inline(always)]
    pub(crate) fn allocate(
        &mut self,
        address: u64,
        size: u64,
        shape: ShapeNumber,
        reallocation: bool,
    ) {
        if reallocation {
            self.close(address);
        }
        let number = self.len();
        let older = self.newest;
        if let Some(block) = self.blocks.get_mut(usize::from(older)) {
            block.newer = number;
        }
        self.blocks.push(Block {
            address,
            older,
            newer: NONE,
            shape,
            class: class_of(size),
            live: true,
        });
        self.newest = number;
        self.slots = [number, older];
        self.bump = address.wrapping_add(footprint(size));
    }

    /// Puts the address of a block of this size onto its stack.
    #[inline(always)]
    pub(crate) fn push_freed(&mut self, address: u64, size: u64) {
        self.freed.push(class_of(size), address);
    }

    /// As [`Self::allocate`] and [`Self::deallocate`] of the same block, but
    /// for [`Self::push_freed`].
    #[inline(always)]
    pub(crate) fn allocate_and_deallocate(&mut self, address: u64, size: u64, shape: ShapeNumber) {
        self.blocks.push(Block {
            address,
            older: self.newest,
            newer: NONE,
            shape,
            class: class_of(size),
            live: false,
        });
        self.slots = [self.newest, NONE];
        self.bump = address.wrapping_add(footprint(size));
    }

    /// Takes note of the deallocation of a live block of the chunk.
    #[inline(always)]
    pub(crate) fn deallocate(&mut self, number: BlockNumber) {
        let Block { address, class, .. } = self.retire(number);
        self.freed.push(class, address);
    }

    /// Takes note of the deallocation of a block that the chunk does not know.
    #[inline(always)]
    pub(crate) fn deallocate_foreign(&mut self, address: u64) {
        self.freed.push(UNKNOWN_SIZE, address);
    }

    /// Takes note of the start of a reallocation of a live block of the chunk.
    pub(crate) fn start_reallocation(&mut self, number: BlockNumber) {
        let Block { address, class, .. } = self.retire(number);
        self.open = Some(Open { address, class });
    }

    /// Takes note of that of a block that the chunk does not know.
    pub(crate) fn start_foreign_reallocation(&mut self, address: u64) {
        let class = UNKNOWN_SIZE;
        self.open = Some(Open { address, class });
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
        if open.address != address {
            self.freed.push(open.class, open.address);
        }
    }

    /// The block is live no longer.
    #[inline(always)]
    fn retire(&mut self, number: BlockNumber) -> Block {
        let block = &mut self.blocks[usize::from(number)];
        block.live = false;
        let block = *block;
        match self.blocks.get_mut(usize::from(block.newer)) {
            Some(newer) => newer.older = block.older,
            None => self.newest = block.older,
        }
        if let Some(older) = self.blocks.get_mut(usize::from(block.older)) {
            older.newer = block.newer;
        }
        self.slots = [block.older, block.newer];
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(blocks: &Blocks, size: u64) -> u64 {
        blocks.guess(size, false).address
    }

    #[test]
    fn blocks_freed_last_are_guessed_first_in_their_class() {
        let mut blocks = Blocks::default();
        blocks.allocate(0x1000, 24, 0, false);
        blocks.allocate(0x2000, 20, 0, false);
        blocks.allocate(0x3000, 200, 0, false);
        blocks.deallocate(0);
        blocks.deallocate(1);
        blocks.deallocate(2);
        // 24 and 20 bytes share a class of 32 bytes (8 of header), 200 does not.
        let right = blocks.guess(17, false);
        assert_eq!(right.address, 0x2000);
        blocks.confirm(right);
        blocks.allocate(0x2000, 17, 0, false);
        assert_eq!(guess(&blocks, 17), 0x1000);
        assert_eq!(guess(&blocks, 200), 0x3000);
    }

    #[test]
    fn a_block_further_down_is_found_by_its_place_and_gone_then() {
        let mut blocks = Blocks::default();
        for number in 0..3 {
            blocks.allocate(0x1000 + u64::from(number) * 64, 24, 0, false);
            blocks.deallocate(number);
        }
        let wrong = blocks.guess(24, false);
        assert_eq!(wrong.address, 0x1080);
        assert_eq!(blocks.find(wrong, 0x1040), 2);
        assert_eq!(blocks.find(wrong, 0x1040), 0);
        assert_eq!(blocks.take(wrong, 2), Some(0x1000));
        assert_eq!(guess(&blocks, 24), 0x1080);
    }

    #[test]
    fn a_pair_at_once_is_as_one_after_the_other() {
        let (mut at_once, mut one_by_one) = (Blocks::default(), Blocks::default());
        let history = [(0x1000, 24), (0x2000, 24), (0x1000, 2000), (0x9000, 8)];
        for (round, (address, size)) in history.into_iter().enumerate() {
            if round == 2 {
                // A live block in between.
                at_once.allocate(0x5000, 40, 1, false);
                one_by_one.allocate(0x5000, 40, 1, false);
            }
            let shape = round as u16;
            at_once.allocate_and_deallocate(address, size, shape);
            at_once.push_freed(address, size);
            one_by_one.allocate(address, size, shape, false);
            one_by_one.deallocate(one_by_one.len() - 1);
            // The block of a pair is never looked at again, but for ...
            let last = usize::from(one_by_one.len() - 1);
            assert_eq!(at_once.blocks[last], one_by_one.blocks[last]);
            // ... nothing; all else is the same, but for `newer` of a live one.
            assert_eq!(at_once.slots, one_by_one.slots);
            assert_eq!(at_once.newest, one_by_one.newest);
            assert_eq!(guess(&at_once, size), guess(&one_by_one, size));
            assert_eq!(at_once.bump, one_by_one.bump);
        }
        one_by_one.blocks[2].newer = NONE;
        assert_eq!(at_once.blocks, one_by_one.blocks);
    }

    #[test]
    fn slots_hold_the_neighbours_of_the_last_freed_block() {
        let mut blocks = Blocks::default();
        for i in 0..4 {
            blocks.allocate(i * 64, 8, 0, false);
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
        blocks.allocate(0x1000, 24, 0, false);
        blocks.start_reallocation(0);
        assert_eq!(blocks.guess(48, true).address, 0x1000);
        blocks.allocate(0x5000, 48, 0, true);
        assert_eq!(guess(&blocks, 24), 0x1000);
    }

    #[test]
    fn the_largest_sizes_have_a_footprint() {
        let _ = footprint(u64::MAX);
    }
}
