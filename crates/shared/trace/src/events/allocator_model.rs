//! A model of the program's allocator. It predicts the address of the next
//! allocation and the block of the next deallocation.
//!
//! Encoder and decoder feed it the same events and get the same predictions. An event
//! with a correct prediction needs only its symbol byte; a wrong prediction costs a
//! few bytes more. Every operation is O(1).

use super::block_list::{Block, BlockInfo, BlockList, BlockNumber, NONE};
use super::free_lists::{FreeLists, UNKNOWN_SIZE};

/// The state of the modelled allocator since the start of the chunk.
#[derive(Debug)]
pub(crate) struct AllocatorModel {
    blocks: BlockList,
    free_lists: FreeLists,
    /// Predictions of the block that is deallocated next. After an allocation: the
    /// two newest live blocks. After a deallocation: the live blocks that were
    /// allocated before and after the deallocated one. So destroying a container from
    /// either end is predicted.
    candidates: [BlockNumber; 2],
    /// The block of the last started reallocation that did not end yet.
    open: Option<Open>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    address: u64,
    class: u8,
}

/// The predicted address of an allocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PredictedAddress {
    pub address: u64,
    /// The class whose free list serves the allocation.
    class: u8,
    /// `address` is the top of that list, or the bump address if the list is empty.
    from_list: bool,
}

impl PredictedAddress {
    /// Whether the address comes from the free list to which freeing the block
    /// returns it.
    #[inline(always)]
    pub(crate) fn is_from_own_list(&self) -> bool {
        self.from_list && self.class != UNKNOWN_SIZE
    }
}

/// The address at which a bump allocator places the block after this one. Footprints
/// are those of glibc's malloc: 8 bytes of header, multiples of 16, at least 32.
#[inline(always)]
fn bump(address: u64, size: u64) -> u64 {
    let footprint = (size.wrapping_add(8 + 15) & !15).max(32);
    address.wrapping_add(footprint)
}

impl Default for AllocatorModel {
    fn default() -> Self {
        Self {
            blocks: BlockList::default(),
            free_lists: FreeLists::default(),
            candidates: [NONE; 2],
            open: None,
        }
    }
}

impl AllocatorModel {
    /// Starts a new chunk. Reuses the memory.
    pub(crate) fn reset(&mut self) {
        self.blocks.reset();
        self.free_lists.reset();
        self.candidates = [NONE; 2];
        self.open = None;
    }

    /// Number of blocks allocated in the chunk.
    #[inline(always)]
    pub(crate) fn len(&self) -> u16 {
        self.blocks.len()
    }

    /// The block, if it is live. `number` is a candidate or below [`Self::len`].
    #[inline(always)]
    pub(crate) fn live(&self, number: BlockNumber) -> Option<Block> {
        self.blocks.live(number)
    }

    /// The two predictions of the block that is deallocated next; [`NONE`] if there
    /// is none.
    #[inline(always)]
    pub(crate) fn candidates(&self) -> [BlockNumber; 2] {
        self.candidates
    }

    /// Predicts the address of an allocation of this size class. `reallocation`: it
    /// ends a reallocation, which is predicted to stay in place.
    #[inline(always)]
    pub(crate) fn predict_address(&self, class: u8, reallocation: bool) -> PredictedAddress {
        let class = self.free_lists.serving_class(class);
        let mut predicted = PredictedAddress {
            address: self.free_lists.top(class),
            class,
            from_list: true,
        };
        if let (true, Some(open)) = (reallocation, self.open) {
            predicted.address = open.address;
            predicted.from_list = false;
        }
        predicted
    }

    /// Removes a correctly predicted address from its free list.
    #[inline(always)]
    pub(crate) fn confirm(&mut self, predicted: PredictedAddress) {
        if predicted.from_list {
            self.free_lists.pop(predicted.class);
        }
    }

    /// After a wrong prediction: searches the address in the free list of the
    /// prediction and removes it. Returns its index from the top, from 1, or 0 if it
    /// was not found.
    #[inline(always)]
    pub(crate) fn find_and_remove(&mut self, predicted: PredictedAddress, address: u64) -> u8 {
        let index = self.free_lists.index_of(predicted.class, address);
        if index != 0 {
            self.free_lists.remove(predicted.class, index);
        }
        index
    }

    /// Removes and returns the address at the index that [`Self::find_and_remove`]
    /// returned.
    #[inline(always)]
    pub(crate) fn remove_at(&mut self, predicted: PredictedAddress, index: u8) -> Option<u64> {
        self.free_lists.remove(predicted.class, index)
    }

    /// Updates the model with an allocation whose address is not on a free list any
    /// more.
    #[inline(always)]
    pub(crate) fn allocate(
        &mut self,
        address: u64,
        size: u64,
        info: BlockInfo,
        reallocation: bool,
    ) {
        if reallocation {
            self.end_reallocation(address);
        }
        let older = self.blocks.newest();
        let number = self.blocks.push(address, info);
        self.candidates = [number, older];
        self.free_lists.set_bump_address(bump(address, size));
    }

    /// Puts the address of a freed block on the free list of its size class.
    #[inline(always)]
    pub(crate) fn push_freed(&mut self, address: u64, class: u8) {
        self.free_lists.push(class, address);
    }

    /// Does the same as [`Self::allocate`] and [`Self::deallocate`] of one block, except
    /// [`Self::push_freed`].
    #[inline(always)]
    pub(crate) fn allocate_and_deallocate(&mut self, address: u64, size: u64, info: BlockInfo) {
        self.blocks.push_freed(address, info);
        self.candidates = [self.blocks.newest(), NONE];
        self.free_lists.set_bump_address(bump(address, size));
    }

    /// Updates the model with the deallocation of a live block of the chunk.
    #[inline(always)]
    pub(crate) fn deallocate(&mut self, number: BlockNumber, block: &Block) {
        self.free(number);
        self.free_lists.push(block.info.class(), block.address);
    }

    /// Updates the model with the deallocation of a foreign block: one that was not
    /// allocated in the chunk.
    #[inline(always)]
    pub(crate) fn deallocate_foreign(&mut self, address: u64) {
        self.free_lists.push(UNKNOWN_SIZE, address);
    }

    /// Updates the model with the start of a reallocation of a live block of the
    /// chunk.
    pub(crate) fn start_reallocation(&mut self, number: BlockNumber, block: &Block) {
        self.free(number);
        self.open = Some(Open {
            address: block.address,
            class: block.info.class(),
        });
    }

    /// Updates the model with the start of a reallocation of a foreign block.
    pub(crate) fn start_foreign_reallocation(&mut self, address: u64) {
        let class = UNKNOWN_SIZE;
        self.open = Some(Open { address, class });
    }

    /// The open reallocation freed its block.
    pub(crate) fn free_open(&mut self) {
        self.end_reallocation(0);
    }

    /// The open reallocation failed.
    pub(crate) fn fail_open(&mut self) {
        self.open = None;
    }

    /// Ends the open reallocation with the block at `address`. If the block moved, its
    /// old address goes to a free list.
    fn end_reallocation(&mut self, address: u64) {
        let Some(open) = self.open.take() else { return };
        if open.address != address {
            self.free_lists.push(open.class, open.address);
        }
    }

    /// Marks a live block as freed; its neighbours become the candidates.
    #[inline(always)]
    fn free(&mut self, number: BlockNumber) {
        self.candidates = self.blocks.free(number);
    }
}

#[cfg(test)]
mod tests {
    use super::super::free_lists::class_of;
    use super::super::shape_predictor::ShapeNumber;
    use super::*;

    fn predict(model: &AllocatorModel, size: u64) -> u64 {
        model.predict_address(class_of(size), false).address
    }

    fn info(size: u64, shape: ShapeNumber) -> BlockInfo {
        BlockInfo::new(shape, class_of(size))
    }

    fn allocate(model: &mut AllocatorModel, address: u64, size: u64) {
        model.allocate(address, size, info(size, 0), false);
    }

    fn deallocate(model: &mut AllocatorModel, number: BlockNumber) {
        let block = model.live(number).expect("a live block");
        model.deallocate(number, &block);
    }

    #[test]
    fn the_block_freed_last_in_the_class_is_predicted_first() {
        let mut model = AllocatorModel::default();
        allocate(&mut model, 0x1000, 24);
        allocate(&mut model, 0x2000, 20);
        allocate(&mut model, 0x3000, 200);
        deallocate(&mut model, 0);
        deallocate(&mut model, 1);
        deallocate(&mut model, 2);
        // 24 and 20 bytes share a class of 32 bytes (8 of header), 200 does not.
        let right = model.predict_address(class_of(17), false);
        assert_eq!(right.address, 0x2000);
        model.confirm(right);
        allocate(&mut model, 0x2000, 17);
        assert_eq!(predict(&model, 17), 0x1000);
        assert_eq!(predict(&model, 200), 0x3000);
    }

    #[test]
    fn an_address_below_the_top_is_found_and_removed_by_its_index() {
        let mut model = AllocatorModel::default();
        for number in 0..3 {
            allocate(&mut model, 0x1000 + u64::from(number) * 64, 24);
            deallocate(&mut model, number);
        }
        let wrong = model.predict_address(class_of(24), false);
        assert_eq!(wrong.address, 0x1080);
        assert_eq!(model.find_and_remove(wrong, 0x1040), 2);
        assert_eq!(model.find_and_remove(wrong, 0x1040), 0);
        assert_eq!(model.remove_at(wrong, 2), Some(0x1000));
        assert_eq!(predict(&model, 24), 0x1080);
    }

    #[test]
    fn allocate_and_deallocate_equals_the_two_operations() {
        let (mut at_once, mut one_by_one) = (AllocatorModel::default(), AllocatorModel::default());
        let history = [(0x1000, 24), (0x2000, 24), (0x1000, 2000), (0x9000, 8)];
        for (round, (address, size)) in history.into_iter().enumerate() {
            if round == 2 {
                // Adds a live block between.
                allocate(&mut at_once, 0x5000, 40);
                allocate(&mut one_by_one, 0x5000, 40);
            }
            let info = info(size, round as u16);
            at_once.allocate_and_deallocate(address, size, info);
            at_once.push_freed(address, info.class());
            one_by_one.allocate(address, size, info, false);
            let number = one_by_one.len() - 1;
            deallocate(&mut one_by_one, number);
            assert_eq!(at_once.len(), one_by_one.len());
            assert_eq!(at_once.live(number), None);
            assert_eq!(at_once.candidates, one_by_one.candidates);
            assert_eq!(at_once.blocks.newest(), one_by_one.blocks.newest());
            assert_eq!(predict(&at_once, size), predict(&one_by_one, size));
            // The free list of this size is empty.
            assert_eq!(predict(&at_once, 5_000), predict(&one_by_one, 5_000));
            assert_eq!(predict(&at_once, 5_000), bump(address, size));
        }
        assert_eq!(at_once.live(2), one_by_one.live(2));
    }

    #[test]
    fn the_candidates_are_the_neighbours_of_the_last_freed_block() {
        let mut model = AllocatorModel::default();
        for i in 0..4 {
            allocate(&mut model, i * 64, 8);
        }
        assert_eq!(model.candidates(), [3, 2]);
        deallocate(&mut model, 1);
        assert_eq!(model.candidates(), [0, 2]);
        deallocate(&mut model, 2);
        assert_eq!(model.candidates(), [0, 3]);
        deallocate(&mut model, 3);
        assert_eq!(model.candidates(), [0, NONE]);
    }

    #[test]
    fn a_reallocation_is_predicted_to_stay_in_place_and_frees_its_address_if_it_moves() {
        let mut model = AllocatorModel::default();
        allocate(&mut model, 0x1000, 24);
        let block = model.live(0).expect("a live block");
        model.start_reallocation(0, &block);
        assert_eq!(model.predict_address(class_of(48), true).address, 0x1000);
        model.allocate(0x5000, 48, info(48, 0), true);
        assert_eq!(predict(&model, 24), 0x1000);
    }

    #[test]
    fn the_largest_sizes_do_not_overflow() {
        let _ = bump(u64::MAX, u64::MAX);
    }
}
