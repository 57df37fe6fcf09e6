//! What an allocator will probably do next, guessed from the events so far.
//!
//! Encoder and decoder feed it the same events and get the same guesses, so an
//! event that was guessed right costs no bytes but its symbol. A wrong guess
//! costs size, never correctness. Every step is O(1).

use super::block_list::{Block, BlockKind, BlockList, BlockNumber, NONE};
use super::freed::{Freed, UNKNOWN_SIZE};

/// The blocks of a chunk and the two guesses which is deallocated next.
#[derive(Debug)]
pub(crate) struct Blocks {
    blocks: BlockList,
    freed: Freed,
    /// After an allocation: the newest live blocks. After a deallocation: the
    /// older and newer live neighbour of its block.
    slots: [BlockNumber; 2],
    /// The block of the innermost open reallocation.
    open: Option<Open>,
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

/// Where a bump allocator puts the next block after this one: as glibc does.
#[inline(always)]
fn bump(address: u64, size: u64) -> u64 {
    let footprint = (size.wrapping_add(8 + 15) & !15).max(32);
    address.wrapping_add(footprint)
}

impl Default for Blocks {
    fn default() -> Self {
        Self {
            blocks: BlockList::default(),
            freed: Freed::default(),
            slots: [NONE; 2],
            open: None,
        }
    }
}

impl Blocks {
    /// Forgets everything, keeps the memory.
    pub(crate) fn reset(&mut self) {
        self.blocks.reset();
        self.freed.reset();
        self.slots = [NONE; 2];
        self.open = None;
    }

    /// Number of blocks, live or not.
    #[inline(always)]
    pub(crate) fn len(&self) -> u16 {
        self.blocks.len()
    }

    /// The block, if it is live as far as the chunk tells; its number stood in a
    /// slot, or is below [`Self::len`].
    #[inline(always)]
    pub(crate) fn live(&self, number: BlockNumber) -> Option<Block> {
        self.blocks.live(number)
    }

    /// The guesses which block is deallocated next.
    #[inline(always)]
    pub(crate) fn slots(&self) -> [BlockNumber; 2] {
        self.slots
    }

    /// Guesses the address of an allocation of a size of this class. `reallocation`:
    /// it is the end of one, which most often stays in place.
    #[inline(always)]
    pub(crate) fn guess(&self, class: u8, reallocation: bool) -> Guess {
        let class = self.freed.serving(class);
        let mut guess = Guess {
            address: self.freed.top(class),
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
    pub(crate) fn allocate(&mut self, address: u64, size: u64, of: BlockKind, reallocation: bool) {
        if reallocation {
            self.close(address);
        }
        let older = self.blocks.newest();
        let number = self.blocks.push(address, of);
        self.slots = [number, older];
        self.freed.expect_fresh(bump(address, size));
    }

    /// Puts the address of a block of a size of this class onto its stack.
    #[inline(always)]
    pub(crate) fn push_freed(&mut self, address: u64, class: u8) {
        self.freed.push(class, address);
    }

    /// As [`Self::allocate`] and [`Self::deallocate`] of the same block, but
    /// for [`Self::push_freed`].
    #[inline(always)]
    pub(crate) fn allocate_and_deallocate(&mut self, address: u64, size: u64, of: BlockKind) {
        self.blocks.push_retired(address, of);
        self.slots = [self.blocks.newest(), NONE];
        self.freed.expect_fresh(bump(address, size));
    }

    /// Takes note of the deallocation of a live block of the chunk.
    #[inline(always)]
    pub(crate) fn deallocate(&mut self, number: BlockNumber, block: &Block) {
        self.retire(number);
        self.freed.push(block.of.class(), block.address);
    }

    /// Takes note of the deallocation of a block that the chunk does not know.
    #[inline(always)]
    pub(crate) fn deallocate_foreign(&mut self, address: u64) {
        self.freed.push(UNKNOWN_SIZE, address);
    }

    /// Takes note of the start of a reallocation of a live block of the chunk.
    pub(crate) fn start_reallocation(&mut self, number: BlockNumber, block: &Block) {
        self.retire(number);
        self.open = Some(Open {
            address: block.address,
            class: block.of.class(),
        });
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
    fn retire(&mut self, number: BlockNumber) {
        self.slots = self.blocks.retire(number);
    }
}

#[cfg(test)]
mod tests {
    use super::super::freed::class_of;
    use super::super::successors::ShapeNumber;
    use super::*;

    fn guess(blocks: &Blocks, size: u64) -> u64 {
        blocks.guess(class_of(size), false).address
    }

    fn kind(size: u64, shape: ShapeNumber) -> BlockKind {
        BlockKind::new(shape, class_of(size))
    }

    fn allocate(blocks: &mut Blocks, address: u64, size: u64) {
        blocks.allocate(address, size, kind(size, 0), false);
    }

    fn deallocate(blocks: &mut Blocks, number: BlockNumber) {
        let block = blocks.live(number).expect("a live block");
        blocks.deallocate(number, &block);
    }

    #[test]
    fn blocks_freed_last_are_guessed_first_in_their_class() {
        let mut blocks = Blocks::default();
        allocate(&mut blocks, 0x1000, 24);
        allocate(&mut blocks, 0x2000, 20);
        allocate(&mut blocks, 0x3000, 200);
        deallocate(&mut blocks, 0);
        deallocate(&mut blocks, 1);
        deallocate(&mut blocks, 2);
        // 24 and 20 bytes share a class of 32 bytes (8 of header), 200 does not.
        let right = blocks.guess(class_of(17), false);
        assert_eq!(right.address, 0x2000);
        blocks.confirm(right);
        allocate(&mut blocks, 0x2000, 17);
        assert_eq!(guess(&blocks, 17), 0x1000);
        assert_eq!(guess(&blocks, 200), 0x3000);
    }

    #[test]
    fn a_block_further_down_is_found_by_its_place_and_gone_then() {
        let mut blocks = Blocks::default();
        for number in 0..3 {
            allocate(&mut blocks, 0x1000 + u64::from(number) * 64, 24);
            deallocate(&mut blocks, number);
        }
        let wrong = blocks.guess(class_of(24), false);
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
                allocate(&mut at_once, 0x5000, 40);
                allocate(&mut one_by_one, 0x5000, 40);
            }
            let of = kind(size, round as u16);
            at_once.allocate_and_deallocate(address, size, of);
            at_once.push_freed(address, of.class());
            one_by_one.allocate(address, size, of, false);
            let number = one_by_one.len() - 1;
            deallocate(&mut one_by_one, number);
            assert_eq!(at_once.len(), one_by_one.len());
            assert_eq!(at_once.live(number), None);
            assert_eq!(at_once.slots, one_by_one.slots);
            assert_eq!(at_once.blocks.newest(), one_by_one.blocks.newest());
            assert_eq!(guess(&at_once, size), guess(&one_by_one, size));
            // Of which nothing is freed.
            assert_eq!(guess(&at_once, 5_000), guess(&one_by_one, 5_000));
            assert_eq!(guess(&at_once, 5_000), bump(address, size));
        }
        assert_eq!(at_once.live(2), one_by_one.live(2));
    }

    #[test]
    fn slots_hold_the_neighbours_of_the_last_freed_block() {
        let mut blocks = Blocks::default();
        for i in 0..4 {
            allocate(&mut blocks, i * 64, 8);
        }
        assert_eq!(blocks.slots(), [3, 2]);
        deallocate(&mut blocks, 1);
        assert_eq!(blocks.slots(), [0, 2]);
        deallocate(&mut blocks, 2);
        assert_eq!(blocks.slots(), [0, 3]);
        deallocate(&mut blocks, 3);
        assert_eq!(blocks.slots(), [0, NONE]);
    }

    #[test]
    fn a_reallocation_is_guessed_to_stay_and_frees_its_place_when_it_moves() {
        let mut blocks = Blocks::default();
        allocate(&mut blocks, 0x1000, 24);
        let block = blocks.live(0).expect("a live block");
        blocks.start_reallocation(0, &block);
        assert_eq!(blocks.guess(class_of(48), true).address, 0x1000);
        blocks.allocate(0x5000, 48, kind(48, 0), true);
        assert_eq!(guess(&blocks, 24), 0x1000);
    }

    #[test]
    fn the_largest_sizes_do_not_overflow() {
        let _ = bump(u64::MAX, u64::MAX);
    }
}
