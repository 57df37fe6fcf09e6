//! Encodes events to the columns of an event chunk. The writer compresses them.

use super::allocator_model::{AllocatorModel, PredictedAddress};
use super::block_list::{Block, BlockInfo, BlockNumber};
use super::column::Column;
use super::free_lists::class_of;
use super::key_index::KeyIndex;
use super::shape_predictor::{NO_SHAPE, ShapeNumber, ShapePredictor};
use super::{
    ADDRESSES, COLUMNS, CONTROL_VALUES, DISTANCES, FOREIGN_ADDRESSES, FREE_LIST_INDEXES, MAX_BYTES,
    NEW_SHAPES, SHAPE_NUMBERS, SIZES, STACKS, SYMBOLS, allocation, control_index, deallocation,
    field, is_allocation,
};
use crate::model::{Event, EventKind, StackId};
use crate::summary::Sums;
use crate::varint::put;

/// Base-2 logarithm of the usual alignment of blocks, 16 bytes.
const USUAL_SHIFT: u32 = 4;

/// Number of unsuccessful searches in free lists after which the encoder searches no
/// more in a chunk.
const SEARCH_BUDGET: i32 = 512;
/// A successful search adds this to the budget: with less than one success in eight
/// searches, the saved bytes are not worth the time.
const BUDGET_PER_HIT: i32 = 7;

/// Encodes one chunk after another, and reuses its memory.
#[derive(Debug)]
pub(crate) struct Encoder {
    columns: [Column; COLUMNS],
    shapes: Vec<Shape>,
    /// Maps the key of a shape to its number.
    shape_of: KeyIndex,
    /// The shapes of deallocations without alignment, by entry point: a shortcut for
    /// `shape_of`.
    deallocation_shapes: [ShapeNumber; 32],
    predictor: ShapePredictor,
    model: AllocatorModel,
    /// Maps an address to the number of the block that was last allocated there.
    block_at: KeyIndex,
    sums: Sums,
    /// Addresses are multiples of `1 << shift` and written shifted right by it.
    shift: u32,
    /// Number of unsuccessful searches in free lists until they stop.
    search_budget: i32,
    last_stack: StackId,
    last_foreign: u64,
    last_address: u64,
    /// Last value of each kind of control event, by [`control_index`].
    last_controls: [u64; 3],
}

/// What events from one location in the program have in common.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// Kind, entry point, alignment and stack; see [`key_of`].
    key: u64,
    /// Size of its last allocation.
    last_size: u64,
}

/// The number of an event's shape, and whether this event defined it.
#[derive(Clone, Copy)]
struct EncodedShape {
    number: ShapeNumber,
    is_new: bool,
}

impl Default for Encoder {
    fn default() -> Self {
        Self {
            columns: Default::default(),
            shapes: Vec::new(),
            shape_of: KeyIndex::default(),
            deallocation_shapes: [NO_SHAPE; 32],
            predictor: ShapePredictor::default(),
            model: AllocatorModel::default(),
            block_at: KeyIndex::default(),
            sums: Sums::default(),
            shift: USUAL_SHIFT,
            search_budget: 0,
            last_stack: 0,
            last_foreign: 0,
            last_address: 0,
            last_controls: [0; 3],
        }
    }
}

impl Encoder {
    /// Encodes at most [`crate::chunk::MAX_EVENTS`] events. Appends the part of the
    /// payload before the columns to `head`. Returns the totals of the events.
    pub(crate) fn encode(&mut self, events: &[Event], head: &mut Vec<u8>) -> Sums {
        self.encode_shifted(events);
        let shift = self.sums.address_bits().trailing_zeros();
        if shift < self.shift {
            // An allocator with a smaller alignment. It will use it in later chunks,
            // too, so the shift stays smaller, and no later chunk is encoded twice.
            self.shift = shift;
            self.encode_shifted(events);
        }
        head.push(self.shift as u8);
        for column in self.columns() {
            put(head, column.len() as u64);
        }
        self.sums
    }

    /// The columns of the last chunk.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &[u8]> {
        self.columns.iter().map(Column::bytes)
    }

    fn encode_shifted(&mut self, events: &[Event]) {
        self.reset(events.len());
        // The number of symbols is known, so they bypass `Column`.
        let mut buffer = self.columns[SYMBOLS].take_buffer();
        let symbols = &mut buffer[..events.len()];
        let mut at = 0;
        while let Some(event) = events.get(at) {
            symbols[at] = match event.kind {
                EventKind::Allocation => match events.get(at + 1) {
                    Some(next) if frees(next, event.address) => {
                        let [symbol, next_symbol] = self.pair(event, next);
                        symbols[at] = symbol;
                        at += 1;
                        next_symbol
                    }
                    _ => self.allocation(event, false),
                },
                EventKind::Deallocation => self.deallocation(event),
                _ => self.other_event(event),
            };
            at += 1;
        }
        self.columns[SYMBOLS].put_buffer(buffer, events.len());
    }

    fn reset(&mut self, events: usize) {
        for (column, max_bytes) in self.columns.iter_mut().zip(MAX_BYTES) {
            column.reset(events * max_bytes);
        }
        self.shapes.clear();
        self.shape_of.reset();
        self.deallocation_shapes = [NO_SHAPE; 32];
        self.predictor.reset();
        self.model.reset();
        self.block_at.reset();
        self.sums = Sums::default();
        self.search_budget = SEARCH_BUDGET;
        self.last_stack = 0;
        self.last_foreign = 0;
        self.last_address = 0;
        self.last_controls = [0; 3];
    }

    /// Encodes an allocation that is immediately followed by the deallocation of its
    /// block, the most frequent pair of events. The block needs no entry in
    /// `block_at`. Returns both symbols.
    #[inline(always)]
    fn pair(&mut self, allocation: &Event, deallocation: &Event) -> [u8; 2] {
        let (shape, field) = self.allocation_shape(allocation);
        let Event { address, size, .. } = *allocation;
        self.sums.add_allocation(address, size);
        self.sums.add_deallocation(address);
        let mut bits = self.size(shape, size);
        let class = class_of(size);
        let predicted = self.model.predict_address(class, false);
        if address != predicted.address {
            bits |= self.other_address(predicted, address);
            self.model.push_freed(address, class);
        } else if !predicted.is_from_own_list() {
            self.model.confirm(predicted);
            self.model.push_freed(address, class);
        } // Otherwise the address would leave its free list and return to it.
        self.model
            .allocate_and_deallocate(address, size, BlockInfo::new(shape, class));
        self.predictor.after_allocation(shape);
        let deallocation_field = self.deallocation_shape(deallocation);
        self.predictor.after_deallocation(shape);
        [field | bits, deallocation_field | deallocation::FIRST]
    }

    #[inline(always)]
    fn allocation(&mut self, event: &Event, reallocation: bool) -> u8 {
        let (shape, field) = self.allocation_shape(event);
        let class = class_of(event.size);
        let bits = self.size_and_address(event, shape, class, reallocation);
        self.predictor.after_allocation(shape);
        let number = self.model.len();
        let info = BlockInfo::new(shape, class);
        self.model
            .allocate(event.address, event.size, info, reallocation);
        self.block_at.insert(event.address, number);
        field | bits
    }

    #[inline(always)]
    fn deallocation(&mut self, event: &Event) -> u8 {
        let field = self.deallocation_shape(event);
        self.sums.add_deallocation(event.address);
        let Some((number, block, bits)) = self.live_block(event.address) else {
            self.foreign(event.address);
            self.model.deallocate_foreign(event.address);
            return field | deallocation::FOREIGN;
        };
        self.predictor.after_deallocation(block.info.shape());
        self.model.deallocate(number, &block);
        field | bits
    }

    fn other_event(&mut self, event: &Event) -> u8 {
        match event.kind {
            EventKind::Allocation => return self.allocation(event, false),
            EventKind::ReallocationEnd => return self.allocation(event, true),
            EventKind::Deallocation => return self.deallocation(event),
            EventKind::ReallocationStart => return self.reallocation_start(event),
            EventKind::Timestamp | EventKind::Thread | EventKind::Epoch => {
                return self.control_event(event);
            }
            EventKind::ReallocationFailed => self.model.fail_open(),
            EventKind::ReallocationFreed => self.model.free_open(),
        }
        self.sums.add(event);
        let shape = self.shape(event, key_of(event, 0));
        self.field_bits(shape)
    }

    fn reallocation_start(&mut self, event: &Event) -> u8 {
        let shape = self.shape(event, key_of(event, 0));
        let field = self.field_bits(shape);
        self.sums.add_deallocation(event.address);
        let Some((number, block, bits)) = self.live_block(event.address) else {
            self.foreign(event.address);
            self.model.start_foreign_reallocation(event.address);
            return field | deallocation::FOREIGN;
        };
        self.predictor.after_deallocation(block.info.shape());
        self.model.start_reallocation(number, &block);
        field | bits
    }

    /// A control event. It may occur between any two events, so it neither uses nor
    /// changes predictions.
    fn control_event(&mut self, event: &Event) -> u8 {
        let last = &mut self.last_controls[control_index(event.kind)];
        self.columns[CONTROL_VALUES].delta(*last, event.address);
        *last = event.address;
        self.sums.add(event);
        let shape = self.shape(event, key_of(event, 0));
        self.field_of_number(shape) << 2
    }

    /// The number of an allocation's shape and the upper bits of its symbol. Compares
    /// the predicted shapes first, which usually saves the search in `shape_of`.
    #[inline(always)]
    fn allocation_shape(&mut self, event: &Event) -> (ShapeNumber, u8) {
        let key = key_of(event, event.stack);
        let predicted = self.predictor.predict();
        let (first, second) = (predicted.first(), predicted.second());
        if let Some(shape) = self.shapes.get(usize::from(first))
            && shape.key == key
        {
            return (first, field::FIRST << 2);
        }
        if let Some(shape) = self.shapes.get(usize::from(second))
            && shape.key == key
        {
            self.predictor.update_after_miss(second);
            return (second, field::SECOND << 2);
        }
        let shape = self.shape(event, key);
        (shape.number, self.field_bits(shape))
    }

    /// The upper bits of the symbol of a deallocation.
    #[inline(always)]
    fn deallocation_shape(&mut self, event: &Event) -> u8 {
        let number = self.deallocation_shapes[usize::from(event.entry as u8) & 31];
        let shape = if number != NO_SHAPE && event.alignment_log2 == 0 {
            EncodedShape {
                number,
                is_new: false,
            }
        } else {
            self.other_deallocation_shape(event)
        };
        self.field_bits(shape)
    }

    #[cold]
    fn other_deallocation_shape(&mut self, event: &Event) -> EncodedShape {
        let shape = self.shape(event, key_of(event, 0));
        if event.alignment_log2 == 0 {
            self.deallocation_shapes[usize::from(event.entry as u8) & 31] = shape.number;
        }
        shape
    }

    /// The upper bits of the symbol of a counted event. Updates the shape predictor.
    #[inline(always)]
    fn field_bits(&mut self, shape: EncodedShape) -> u8 {
        let predicted = self.predictor.predict();
        let (first, second) = (predicted.first(), predicted.second());
        if shape.number == first {
            return field::FIRST << 2;
        }
        self.predictor.update_after_miss(shape.number);
        let field = if shape.number == second {
            field::SECOND
        } else {
            self.field_of_number(shape)
        };
        field << 2
    }

    /// The symbol's field for a shape that was not predicted. Writes large numbers to
    /// their column.
    #[inline(always)]
    fn field_of_number(&mut self, shape: EncodedShape) -> u8 {
        if shape.is_new {
            field::NEW
        } else if shape.number < field::INLINE_NUMBERS.into() {
            shape.number as u8
        } else {
            self.columns[SHAPE_NUMBERS]
                .varint((shape.number - ShapeNumber::from(field::INLINE_NUMBERS)).into());
            field::EXPLICIT
        }
    }

    /// The shape of the event; defines a new one if there is none with this key.
    #[inline(always)]
    fn shape(&mut self, event: &Event, key: u64) -> EncodedShape {
        if let Some(number) = self.shape_of.get(key)
            && self.shapes[usize::from(number)].key == key
        {
            return EncodedShape {
                number,
                is_new: false,
            };
        }
        self.new_shape(key, event)
    }

    #[inline(never)]
    fn new_shape(&mut self, key: u64, event: &Event) -> EncodedShape {
        let number = self.shapes.len() as ShapeNumber;
        self.shape_of.insert(key, number);
        self.shapes.push(Shape { key, last_size: 0 });
        self.predictor.add_shape();
        let column = &mut self.columns[NEW_SHAPES];
        column.byte(event.kind as u8);
        column.byte(event.entry as u8);
        column.byte(event.alignment_log2);
        if is_allocation(event.kind) {
            let stack = event.stack;
            self.columns[STACKS].delta(self.last_stack.into(), stack.into());
            self.last_stack = stack;
        }
        EncodedShape {
            number,
            is_new: true,
        }
    }

    /// Encodes size and address of an allocation. Returns the lower bits of its
    /// symbol.
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
        let predicted = self.model.predict_address(class, reallocation);
        if event.address == predicted.address {
            self.model.confirm(predicted);
        } else {
            bits |= self.other_address(predicted, event.address);
        }
        bits
    }

    /// Encodes the size of an allocation if it differs from the predicted one.
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

    /// Encodes an address that was predicted wrong.
    #[inline(always)]
    fn other_address(&mut self, predicted: PredictedAddress, address: u64) -> u8 {
        // An address that is not searched is encoded as one that is not found.
        let index = if self.search_budget > 0 {
            self.model.find_and_remove(predicted, address)
        } else {
            0
        };
        self.search_budget += if index == 0 { -1 } else { BUDGET_PER_HIT };
        self.columns[FREE_LIST_INDEXES].byte(index);
        if index == 0 {
            let address = address >> self.shift;
            self.columns[ADDRESSES].delta(self.last_address, address);
            self.last_address = address;
        }
        allocation::OTHER_ADDRESS
    }

    /// The number of the live block at the address, the block, and the lower bits of
    /// the symbol of its deallocation. Compares the candidates first: in most programs
    /// most deallocated blocks are among them.
    #[inline(always)]
    fn live_block(&mut self, address: u64) -> Option<(BlockNumber, Block, u8)> {
        let [first, second] = self.model.candidates();
        if let Some(block) = self.block_if_at(first, address) {
            return Some((first, block, deallocation::FIRST));
        }
        if let Some(block) = self.block_if_at(second, address) {
            return Some((second, block, deallocation::SECOND));
        }
        let number = self.block_at.get(address)?;
        let block = self.block_if_at(number, address)?;
        let distance = self.model.len() - 1 - number;
        self.columns[DISTANCES].varint(distance.into());
        Some((number, block, deallocation::DISTANCE))
    }

    /// The block with this number, if it is live and at the address.
    #[inline(always)]
    fn block_if_at(&self, number: BlockNumber, address: u64) -> Option<Block> {
        let block = self.model.live(number)?;
        (block.address == address).then_some(block)
    }

    /// Encodes the address of a deallocated block that was not allocated in the chunk.
    fn foreign(&mut self, address: u64) {
        let address = address >> self.shift;
        self.columns[FOREIGN_ADDRESSES].delta(self.last_foreign, address);
        self.last_foreign = address;
        self.predictor.after_foreign_deallocation();
    }
}

/// The key of a shape: kind, entry point, alignment and stack of an event.
#[inline(always)]
fn key_of(event: &Event, stack: StackId) -> u64 {
    u64::from(stack) << 24
        | u64::from(event.alignment_log2) << 16
        | u64::from(event.entry as u8) << 8
        | event.kind as u64
}

/// Whether the event is a deallocation of the block at the address.
#[inline(always)]
fn frees(event: &Event, address: u64) -> bool {
    event.kind == EventKind::Deallocation && event.address == address
}
