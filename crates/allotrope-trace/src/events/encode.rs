//! Events to columns. Makes no choice of compression and writes no chunk.

use super::block_list::{Block, BlockKind, BlockNumber};
use super::column::Column;
use super::freed::class_of;
use super::key_index::KeyIndex;
use super::prediction::{Blocks, Guess};
use super::successors::{NO_SHAPE, ShapeNumber, Successors};
use super::{
    ADDRESSES, COLUMNS, DISTANCES, FAR, FOREIGN, MARKS, MOST_BYTES, PLACES, SHAPES, SIZES, STACKS,
    SYMBOLS, allocation, deallocation, field, is_allocation, mark_position,
};
use crate::model::{Event, EventKind, StackId};
use crate::summary::Sums;
use crate::varint::put;

/// Addresses of blocks are multiples of sixteen nearly everywhere.
const USUAL_SHIFT: u32 = 4;

/// Searches for a place in vain, in a chunk, before there are no more ...
const PATIENCE: i32 = 512;
/// ... and by how many each that succeeds puts that off: less than one success
/// in eight saves too few bytes for the time.
const PATIENCE_PER_PLACE: i32 = 7;

/// Turns runs of events into columns; keeps its memory from run to run.
#[derive(Debug)]
pub(crate) struct Encoder {
    columns: [Column; COLUMNS],
    shapes: Vec<Shape>,
    shape_of: KeyIndex,
    /// The shapes of deallocations without alignment, by entry point.
    freeing: [ShapeNumber; 32],
    successors: Successors,
    blocks: Blocks,
    block_at: KeyIndex,
    sums: Sums,
    /// Addresses are written divided by two to this power.
    shift: u32,
    /// How many more times places are looked for in vain.
    patience: i32,
    last_stack: StackId,
    last_foreign: u64,
    last_address: u64,
    last_marks: [u64; 3],
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    /// Kind, entry, alignment, stack.
    key: u64,
    /// Size of its last allocation.
    last_size: u64,
}

/// The number of an event's shape, and how its symbol says it.
#[derive(Clone, Copy)]
struct Told {
    number: ShapeNumber,
    is_new: bool,
}

impl Default for Encoder {
    fn default() -> Self {
        Self {
            columns: Default::default(),
            shapes: Vec::new(),
            shape_of: KeyIndex::default(),
            freeing: [NO_SHAPE; 32],
            successors: Successors::default(),
            blocks: Blocks::default(),
            block_at: KeyIndex::default(),
            sums: Sums::default(),
            shift: USUAL_SHIFT,
            patience: 0,
            last_stack: 0,
            last_foreign: 0,
            last_address: 0,
            last_marks: [0; 3],
        }
    }
}

impl Encoder {
    /// Codes at most [`crate::chunk::MAX_EVENTS`] events; what comes before the
    /// columns is appended to `head`. Gives their sums.
    pub(crate) fn encode(&mut self, events: &[Event], head: &mut Vec<u8>) -> Sums {
        self.encode_shifted(events);
        let shift = self.sums.address_bits().trailing_zeros();
        if shift < self.shift {
            // An allocator that aligns less. It will go on so: addresses of
            // others take a bit more from now on, and nothing is coded twice.
            self.shift = shift;
            self.encode_shifted(events);
        }
        head.push(self.shift as u8);
        for column in self.columns() {
            put(head, column.len() as u64);
        }
        self.sums
    }

    /// What the last events were turned into.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &[u8]> {
        self.columns.iter().map(Column::bytes)
    }

    fn encode_shifted(&mut self, events: &[Event]) {
        self.reset(events.len());
        // Their number is known, so they are not written through the column.
        let mut lent = self.columns[SYMBOLS].lend();
        let symbols = &mut lent[..events.len()];
        let mut at = 0;
        while let Some(event) = events.get(at) {
            symbols[at] = match event.kind {
                EventKind::Allocation => match events.get(at + 1) {
                    Some(next) if frees(next, event.address) => {
                        let [symbol, freeing] = self.pair(event, next);
                        symbols[at] = symbol;
                        at += 1;
                        freeing
                    }
                    _ => self.allocation(event, false),
                },
                EventKind::Deallocation => self.deallocation(event),
                _ => self.rare_event(event),
            };
            at += 1;
        }
        self.columns[SYMBOLS].give_back(lent, events.len());
    }

    fn reset(&mut self, events: usize) {
        for (column, most) in self.columns.iter_mut().zip(MOST_BYTES) {
            column.reset(events * most);
        }
        self.shapes.clear();
        self.shape_of.reset();
        self.freeing = [NO_SHAPE; 32];
        self.successors.reset();
        self.blocks.reset();
        self.block_at.reset();
        self.sums = Sums::default();
        self.patience = PATIENCE;
        self.last_stack = 0;
        self.last_foreign = 0;
        self.last_address = 0;
        self.last_marks = [0; 3];
    }

    /// An allocation and the deallocation of its block at once, the most
    /// frequent events of all: nobody will look for the block by its address.
    #[inline(always)]
    fn pair(&mut self, allocation: &Event, deallocation: &Event) -> [u8; 2] {
        let (shape, field) = self.allocation_shape(allocation);
        let Event { address, size, .. } = *allocation;
        self.sums.add_allocation(address, size);
        self.sums.add_deallocation(address);
        let mut bits = self.size(shape, size);
        let class = class_of(size);
        let guess = self.blocks.guess(class, false);
        if address != guess.address {
            bits |= self.other_address(guess, address);
            self.blocks.push_freed(address, class);
        } else if !guess.is_own() {
            self.blocks.confirm(guess);
            self.blocks.push_freed(address, class);
        } // Otherwise it would come off its stack and go back to it at once.
        self.blocks
            .allocate_and_deallocate(address, size, BlockKind::new(shape, class));
        self.successors.allocated(shape);
        let freeing = self.deallocation_shape(deallocation);
        self.successors.deallocated(shape);
        [field | bits, freeing | deallocation::FIRST]
    }

    #[inline(always)]
    fn allocation(&mut self, event: &Event, reallocation: bool) -> u8 {
        let (shape, field) = self.allocation_shape(event);
        let class = class_of(event.size);
        let bits = self.size_and_address(event, shape, class, reallocation);
        self.successors.allocated(shape);
        let number = self.blocks.len();
        let of = BlockKind::new(shape, class);
        self.blocks
            .allocate(event.address, event.size, of, reallocation);
        self.block_at.insert(event.address, number);
        field | bits
    }

    #[inline(always)]
    fn deallocation(&mut self, event: &Event) -> u8 {
        let field = self.deallocation_shape(event);
        self.sums.add_deallocation(event.address);
        let Some((number, block, bits)) = self.live_block(event.address) else {
            self.foreign(event.address);
            self.blocks.deallocate_foreign(event.address);
            return field | deallocation::FOREIGN;
        };
        self.successors.deallocated(block.of.shape());
        self.blocks.deallocate(number, &block);
        field | bits
    }

    fn rare_event(&mut self, event: &Event) -> u8 {
        match event.kind {
            EventKind::Allocation => return self.allocation(event, false),
            EventKind::ReallocationEnd => return self.allocation(event, true),
            EventKind::Deallocation => return self.deallocation(event),
            EventKind::ReallocationStart => return self.reallocation_start(event),
            EventKind::Timestamp | EventKind::Thread | EventKind::Epoch => return self.mark(event),
            EventKind::ReallocationFailed => self.blocks.fail_open(),
            EventKind::ReallocationFreed => self.blocks.free_open(),
        }
        self.sums.add_rare(event);
        let told = self.shape(event, key_of(event, 0));
        self.told(told)
    }

    fn reallocation_start(&mut self, event: &Event) -> u8 {
        let told = self.shape(event, key_of(event, 0));
        let field = self.told(told);
        self.sums.add_deallocation(event.address);
        let Some((number, block, bits)) = self.live_block(event.address) else {
            self.foreign(event.address);
            self.blocks.start_foreign_reallocation(event.address);
            return field | deallocation::FOREIGN;
        };
        self.successors.deallocated(block.of.shape());
        self.blocks.start_reallocation(number, &block);
        field | bits
    }

    /// Marks come at any moment, and nothing follows from them.
    fn mark(&mut self, event: &Event) -> u8 {
        let last = &mut self.last_marks[mark_position(event.kind)];
        self.columns[MARKS].delta(*last, event.address);
        *last = event.address;
        self.sums.add_rare(event);
        let told = self.shape(event, key_of(event, 0));
        self.unforeseen(told) << 2
    }

    /// The shape's number and the symbol's upper bits. The foreseen shapes are
    /// looked at first, which most often saves looking for it.
    #[inline(always)]
    fn allocation_shape(&mut self, event: &Event) -> (ShapeNumber, u8) {
        let key = key_of(event, event.stack);
        let foreseen = self.successors.foreseen();
        let (first, second) = (foreseen.first(), foreseen.second());
        if let Some(shape) = self.shapes.get(usize::from(first))
            && shape.key == key
        {
            return (first, field::FIRST << 2);
        }
        if let Some(shape) = self.shapes.get(usize::from(second))
            && shape.key == key
        {
            self.successors.came_unlike_first(second);
            return (second, field::SECOND << 2);
        }
        let told = self.shape(event, key);
        (told.number, self.told(told))
    }

    /// The upper bits of a deallocation's symbol.
    #[inline(always)]
    fn deallocation_shape(&mut self, event: &Event) -> u8 {
        let number = self.freeing[usize::from(event.entry as u8) & 31];
        let told = if number != NO_SHAPE && event.alignment_log2 == 0 {
            Told {
                number,
                is_new: false,
            }
        } else {
            self.rare_deallocation_shape(event)
        };
        self.told(told)
    }

    #[cold]
    fn rare_deallocation_shape(&mut self, event: &Event) -> Told {
        let told = self.shape(event, key_of(event, 0));
        if event.alignment_log2 == 0 {
            self.freeing[usize::from(event.entry as u8) & 31] = told.number;
        }
        told
    }

    /// The upper bits of the symbol of any event but a mark.
    #[inline(always)]
    fn told(&mut self, shape: Told) -> u8 {
        let foreseen = self.successors.foreseen();
        let (first, second) = (foreseen.first(), foreseen.second());
        if shape.number == first {
            return field::FIRST << 2;
        }
        self.successors.came_unlike_first(shape.number);
        let field = if shape.number == second {
            field::SECOND
        } else {
            self.unforeseen(shape)
        };
        field << 2
    }

    /// The symbol's field for a shape that is told by its number.
    #[inline(always)]
    fn unforeseen(&mut self, shape: Told) -> u8 {
        if shape.is_new {
            field::NEW
        } else if shape.number < field::NEAR.into() {
            shape.number as u8
        } else {
            self.columns[FAR].varint((shape.number - ShapeNumber::from(field::NEAR)).into());
            field::FAR
        }
    }

    /// The number of the event's shape, a new one if need be.
    #[inline(always)]
    fn shape(&mut self, event: &Event, key: u64) -> Told {
        if let Some(number) = self.shape_of.get(key)
            && self.shapes[usize::from(number)].key == key
        {
            return Told {
                number,
                is_new: false,
            };
        }
        self.new_shape(key, event)
    }

    #[inline(never)]
    fn new_shape(&mut self, key: u64, event: &Event) -> Told {
        let number = self.shapes.len() as ShapeNumber;
        self.shape_of.insert(key, number);
        self.shapes.push(Shape { key, last_size: 0 });
        self.successors.add_shape();
        let column = &mut self.columns[SHAPES];
        column.byte(event.kind as u8);
        column.byte(event.entry as u8);
        column.byte(event.alignment_log2);
        if is_allocation(event.kind) {
            let stack = event.stack;
            self.columns[STACKS].delta(self.last_stack.into(), stack.into());
            self.last_stack = stack;
        }
        Told {
            number,
            is_new: true,
        }
    }

    /// The bits of an allocation's symbol.
    #[inline(always)]
    fn size_and_address(
        &mut self,
        event: &Event,
        shape: ShapeNumber,
        class: u8,
        reallocation: bool,
    ) -> u8 {
        self.sums.add_allocation(event.address, event.size);
        let mut bits = self.size(shape, event.size);
        let guess = self.blocks.guess(class, reallocation);
        if event.address == guess.address {
            self.blocks.confirm(guess);
        } else {
            bits |= self.other_address(guess, event.address);
        }
        bits
    }

    #[inline(always)]
    fn size(&mut self, shape: ShapeNumber, size: u64) -> u8 {
        let last_size = &mut self.shapes[usize::from(shape)].last_size;
        if size == *last_size {
            return 0;
        }
        *last_size = size;
        self.columns[SIZES].varint(size);
        allocation::OTHER_SIZE
    }

    #[inline(always)]
    fn other_address(&mut self, guess: Guess, address: u64) -> u8 {
        // Where looking for the place hardly ever succeeds, it stops: what is
        // not looked for is told as what is not found.
        let place = if self.patience > 0 {
            self.blocks.find(guess, address)
        } else {
            0
        };
        self.patience += if place == 0 { -1 } else { PATIENCE_PER_PLACE };
        self.columns[PLACES].byte(place);
        if place == 0 {
            self.address(address);
        }
        allocation::OTHER_ADDRESS
    }

    #[inline(always)]
    fn address(&mut self, address: u64) {
        let address = address >> self.shift;
        self.columns[ADDRESSES].delta(self.last_address, address);
        self.last_address = address;
    }

    /// The live block at the address, its number and the bits of its
    /// deallocation's symbol. The slots are looked at first: in most
    /// programs most blocks are there.
    #[inline(always)]
    fn live_block(&mut self, address: u64) -> Option<(BlockNumber, Block, u8)> {
        let [first, second] = self.blocks.slots();
        if let Some(block) = self.block_if_at(first, address) {
            return Some((first, block, deallocation::FIRST));
        }
        if let Some(block) = self.block_if_at(second, address) {
            return Some((second, block, deallocation::SECOND));
        }
        let number = self.block_at.get(address)?;
        let block = self.block_if_at(number, address)?;
        let distance = self.blocks.len() - 1 - number;
        self.columns[DISTANCES].varint(distance.into());
        Some((number, block, deallocation::DISTANCE))
    }

    /// The block of this number, if it is a live one there.
    #[inline(always)]
    fn block_if_at(&self, number: BlockNumber, address: u64) -> Option<Block> {
        let block = self.blocks.live(number)?;
        (block.address == address).then_some(block)
    }

    fn foreign(&mut self, address: u64) {
        let address = address >> self.shift;
        self.columns[FOREIGN].delta(self.last_foreign, address);
        self.last_foreign = address;
        self.successors.deallocated_foreign();
    }
}

/// What events of one shape have in common.
#[inline(always)]
fn key_of(event: &Event, stack: StackId) -> u64 {
    u64::from(stack) << 24
        | u64::from(event.alignment_log2) << 16
        | u64::from(event.entry as u8) << 8
        | event.kind as u64
}

/// Whether the event frees the block at the address.
#[inline(always)]
fn frees(event: &Event, address: u64) -> bool {
    event.kind == EventKind::Deallocation && event.address == address
}
