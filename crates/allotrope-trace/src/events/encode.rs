//! Events to columns. Makes no choice of compression and writes no chunk.

use super::key_index::KeyIndex;
use super::prediction::{Blocks, NONE};
use super::{
    ADDRESSES, COLUMNS, DISTANCES, FAR, FAR_SHAPE, FOREIGN, MARKS, SHAPES, SIZES, SYMBOLS, Shape,
    allocation, deallocation, is_allocation, mark_position,
};
use crate::model::{Event, EventKind};
use crate::varint::{put, put_delta};

/// Turns runs of events into columns; keeps its memory from run to run.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    columns: [Vec<u8>; COLUMNS],
    shapes: Vec<Shape>,
    shape_of: KeyIndex,
    blocks: Blocks,
    block_at: KeyIndex,
    shift: u32,
    last_foreign: u64,
    last_marks: [u64; 3],
}

impl Encoder {
    /// Codes the events; what comes before the columns is appended to `head`.
    /// `address_bits`: those that the address of any block has.
    pub(crate) fn encode(
        &mut self,
        events: &[Event],
        address_bits: u64,
        head: &mut Vec<u8>,
    ) -> &[Vec<u8>; COLUMNS] {
        self.reset(events.len(), address_bits);
        let mut events = events.iter();
        while let Some(event) = events.next() {
            let next = events.as_slice().first();
            if let Some(next) = next.filter(|next| is_pair(event, next)) {
                self.pair(event, next);
                events.next();
            } else {
                self.event(event);
            }
        }
        head.push(self.shift as u8);
        for column in &self.columns {
            put(head, column.len() as u64);
        }
        &self.columns
    }

    fn reset(&mut self, events: usize, address_bits: u64) {
        self.columns.iter_mut().for_each(Vec::clear);
        self.shapes.clear();
        self.shape_of.reset();
        self.columns[SYMBOLS].reserve(events);
        self.blocks.reset();
        self.block_at.reset();
        self.last_foreign = 0;
        self.last_marks = [0; 3];
        self.shift = (address_bits | 0x10).trailing_zeros();
    }

    /// An allocation and the deallocation of its block at once, the most
    /// frequent events of all: nobody will look for the block by its address.
    #[inline]
    fn pair(&mut self, allocation: &Event, deallocation: &Event) {
        let shape = self.shape(allocation);
        let (bits, guessed) = self.size_and_address(allocation, shape, false);
        self.symbol(shape, bits);
        let shape = self.shape(deallocation);
        self.symbol(shape, deallocation::FIRST);
        self.blocks
            .allocate_and_deallocate(allocation.address, allocation.size, guessed);
    }

    #[inline]
    fn event(&mut self, event: &Event) {
        let shape = self.shape(event);
        let bits = match event.kind {
            EventKind::Allocation => self.allocation(event, shape, false),
            EventKind::ReallocationEnd => self.allocation(event, shape, true),
            EventKind::Deallocation => self.deallocation(event, false),
            EventKind::ReallocationStart => self.deallocation(event, true),
            EventKind::ReallocationFailed => {
                self.blocks.fail_open();
                0
            }
            EventKind::ReallocationFreed => {
                self.blocks.free_open();
                0
            }
            EventKind::Anchor | EventKind::Thread | EventKind::Epoch => self.mark(event),
        };
        self.symbol(shape, bits);
    }

    #[inline(always)]
    fn symbol(&mut self, shape: u32, bits: u8) {
        if shape < FAR_SHAPE {
            self.columns[SYMBOLS].push((shape as u8) << 2 | bits);
        } else {
            self.columns[SYMBOLS].push((FAR_SHAPE as u8) << 2 | bits);
            put(&mut self.columns[FAR], u64::from(shape - FAR_SHAPE));
        }
    }

    /// The number of the event's shape, a new one if need be.
    #[inline(always)]
    fn shape(&mut self, event: &Event) -> u32 {
        let stack = if is_allocation(event.kind) {
            event.stack
        } else {
            0
        };
        let key = u64::from(stack) << 24
            | u64::from(event.alignment_log2) << 16
            | u64::from(event.entry as u8) << 8
            | event.kind as u64;
        if let Some(number) = self.shape_of.get(key) {
            return number;
        }
        let number = self.shapes.len() as u32;
        self.shape_of.insert(key, number);
        let last_stack = self.shapes.last().map_or(0, |shape| shape.stack);
        self.shapes.push(Shape {
            kind: event.kind,
            entry: event.entry,
            alignment_log2: event.alignment_log2,
            stack,
            last_size: 0,
        });
        let column = &mut self.columns[SHAPES];
        column.extend([event.kind as u8, event.entry as u8, event.alignment_log2]);
        put_delta(column, u64::from(last_stack), u64::from(stack));
        number
    }

    #[inline(always)]
    fn allocation(&mut self, event: &Event, shape: u32, reallocation: bool) -> u8 {
        let (bits, guessed) = self.size_and_address(event, shape, reallocation);
        self.blocks
            .allocate(event.address, event.size, guessed, reallocation);
        self.block_at.insert(event.address, self.blocks.len() - 1);
        bits
    }

    /// The bits of an allocation's symbol, and whether its address was guessed.
    #[inline(always)]
    fn size_and_address(&mut self, event: &Event, shape: u32, reallocation: bool) -> (u8, bool) {
        let mut bits = 0;
        let last_size = &mut self.shapes[shape as usize].last_size;
        if event.size != *last_size {
            *last_size = event.size;
            bits |= allocation::OTHER_SIZE;
            put(&mut self.columns[SIZES], event.size);
        }
        let guessed = event.address == self.blocks.guess(event.size, reallocation);
        if !guessed {
            bits |= allocation::OTHER_ADDRESS;
            let from = self.blocks.bump() >> self.shift;
            put_delta(
                &mut self.columns[ADDRESSES],
                from,
                event.address >> self.shift,
            );
        }
        (bits, guessed)
    }

    #[inline]
    fn deallocation(&mut self, event: &Event, reallocation: bool) -> u8 {
        let known = self
            .block_at
            .get(event.address)
            .filter(|&number| self.blocks.live_address(number).is_some());
        let bits = match known {
            Some(number) => self.known_block(number),
            None => {
                let from = self.last_foreign >> self.shift;
                put_delta(
                    &mut self.columns[FOREIGN],
                    from,
                    event.address >> self.shift,
                );
                self.last_foreign = event.address;
                deallocation::FOREIGN
            }
        };
        match (reallocation, known) {
            (true, number) => {
                self.blocks
                    .start_reallocation(event.address, number.unwrap_or(NONE));
            }
            (false, Some(number)) => self.blocks.deallocate(number),
            (false, None) => self.blocks.deallocate_foreign(event.address),
        }
        bits
    }

    #[inline]
    fn known_block(&mut self, number: u32) -> u8 {
        let [first, second] = self.blocks.slots();
        if number == first {
            deallocation::FIRST
        } else if number == second {
            deallocation::SECOND
        } else {
            let distance = self.blocks.len() - 1 - number;
            put(&mut self.columns[DISTANCES], u64::from(distance));
            deallocation::DISTANCE
        }
    }

    fn mark(&mut self, event: &Event) -> u8 {
        let last = &mut self.last_marks[mark_position(event.kind)];
        put_delta(&mut self.columns[MARKS], *last, event.address);
        *last = event.address;
        0
    }
}

/// Whether the second event frees what the first one allocated.
#[inline]
fn is_pair(event: &Event, next: &Event) -> bool {
    event.kind == EventKind::Allocation
        && next.kind == EventKind::Deallocation
        && event.address == next.address
}
