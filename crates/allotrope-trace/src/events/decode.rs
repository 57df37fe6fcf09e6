//! Columns to events. The columns come from a file nobody vouches for.

use super::prediction::{BlockNumber, Blocks, NONE};
use super::{
    ADDRESSES, COLUMNS, DISTANCES, FAR, FAR_SHAPE, FOREIGN, MARKS, SHAPES, SIZES, SYMBOLS, Shape,
    allocation, deallocation, mark_position,
};
use crate::model::{EntryPoint, Event, EventKind, StackId};
use crate::varint::{Cursor, Malformed};

const KINDS: [EventKind; 9] = [
    EventKind::Allocation,
    EventKind::Deallocation,
    EventKind::ReallocationStart,
    EventKind::ReallocationEnd,
    EventKind::ReallocationFailed,
    EventKind::ReallocationFreed,
    EventKind::Anchor,
    EventKind::Thread,
    EventKind::Epoch,
];

/// Turns columns into events; keeps its memory from chunk to chunk.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    shapes: Vec<Shape>,
    blocks: Blocks,
}

/// The state of decoding one chunk.
struct Run<'a, 'd> {
    columns: [Cursor<'a>; COLUMNS],
    decoder: &'d mut Decoder,
    shift: u32,
    last_stack: StackId,
    last_foreign: u64,
    last_marks: [u64; 3],
}

/// The address shift of a payload, and its columns.
pub(crate) fn columns_of(payload: &[u8]) -> Result<(u32, [Cursor<'_>; COLUMNS]), Malformed> {
    let mut head = Cursor::new(payload);
    let shift = u32::from(head.byte()?);
    if shift > 4 {
        return Err(Malformed("the address shift is above 4"));
    }
    let mut lengths = [0; COLUMNS];
    for length in &mut lengths {
        *length = head.length()?;
    }
    let mut columns = [Cursor::new(&[]); COLUMNS];
    for (column, length) in columns.iter_mut().zip(lengths) {
        *column = Cursor::new(head.take(length)?);
    }
    Ok((shift, columns))
}

impl Decoder {
    /// Appends the `count` events of the payload to `into`.
    pub(crate) fn decode(
        &mut self,
        payload: &[u8],
        count: usize,
        into: &mut Vec<Event>,
    ) -> Result<(), Malformed> {
        let (shift, columns) = columns_of(payload)?;
        if columns[SYMBOLS].left() != count {
            return Err(Malformed("there are not as many symbols as events"));
        }
        self.shapes.clear();
        self.blocks.reset();
        into.reserve(count);
        let mut run = Run {
            columns,
            decoder: self,
            shift,
            last_stack: 0,
            last_foreign: 0,
            last_marks: [0; 3],
        };
        for _ in 0..count {
            into.push(run.event()?);
        }
        run.finish()
    }
}

impl Run<'_, '_> {
    #[inline]
    fn event(&mut self) -> Result<Event, Malformed> {
        let symbol = self.columns[SYMBOLS].byte()?;
        let number = self.shape_number(symbol)?;
        let shape = self.decoder.shapes[number];
        let mut event = Event {
            kind: shape.kind,
            entry: shape.entry,
            alignment_log2: shape.alignment_log2,
            stack: shape.stack,
            address: 0,
            size: 0,
        };
        let bits = symbol & 3;
        match shape.kind {
            EventKind::Allocation => self.allocation(&mut event, number, bits, false)?,
            EventKind::ReallocationEnd => self.allocation(&mut event, number, bits, true)?,
            EventKind::Deallocation => self.deallocation(&mut event, bits, false)?,
            EventKind::ReallocationStart => self.deallocation(&mut event, bits, true)?,
            EventKind::ReallocationFailed => self.decoder.blocks.fail_open(),
            EventKind::ReallocationFreed => self.decoder.blocks.free_open(),
            EventKind::Anchor | EventKind::Thread | EventKind::Epoch => {
                let last = &mut self.last_marks[mark_position(shape.kind)];
                *last = self.columns[MARKS].delta(*last)?;
                event.address = *last;
            }
        }
        Ok(event)
    }

    /// Position of the symbol's shape, which is read if it is a new one.
    #[inline]
    fn shape_number(&mut self, symbol: u8) -> Result<usize, Malformed> {
        let mut number = u32::from(symbol >> 2);
        if number == FAR_SHAPE {
            let above = self.columns[FAR].varint_u32()?;
            number = FAR_SHAPE.saturating_add(above);
        }
        let number = number as usize;
        if number >= self.decoder.shapes.len() {
            self.new_shape(number)?;
        }
        Ok(number)
    }

    #[cold]
    fn new_shape(&mut self, number: usize) -> Result<(), Malformed> {
        if number > self.decoder.shapes.len() {
            return Err(Malformed("an event has a shape that was not told"));
        }
        let column = &mut self.columns[SHAPES];
        let kind = *KINDS
            .get(usize::from(column.byte()?))
            .ok_or(Malformed("there is no such kind of event"))?;
        let entry = EntryPoint::from_number(column.byte()?)
            .ok_or(Malformed("there is no such entry point"))?;
        let alignment_log2 = column.byte()?;
        let stack = StackId::try_from(column.delta(u64::from(self.last_stack))?)
            .map_err(|_| Malformed("a stack id has more than 32 bits"))?;
        self.last_stack = stack;
        self.decoder.shapes.push(Shape {
            kind,
            entry,
            alignment_log2,
            stack,
            last_size: 0,
        });
        Ok(())
    }

    #[inline]
    fn allocation(
        &mut self,
        event: &mut Event,
        shape: usize,
        bits: u8,
        reallocation: bool,
    ) -> Result<(), Malformed> {
        let last_size = &mut self.decoder.shapes[shape].last_size;
        if bits & allocation::OTHER_SIZE != 0 {
            *last_size = self.columns[SIZES].varint()?;
        }
        event.size = *last_size;
        let blocks = &mut self.decoder.blocks;
        let guessed = bits & allocation::OTHER_ADDRESS == 0;
        event.address = if guessed {
            blocks.guess(event.size, reallocation)
        } else {
            self.columns[ADDRESSES].delta(blocks.bump() >> self.shift)? << self.shift
        };
        blocks.allocate(event.address, event.size, guessed, reallocation);
        Ok(())
    }

    #[inline]
    fn deallocation(
        &mut self,
        event: &mut Event,
        bits: u8,
        reallocation: bool,
    ) -> Result<(), Malformed> {
        if bits == deallocation::FOREIGN {
            return self.foreign(event, reallocation);
        }
        let number = self.block_number(bits)?;
        let blocks = &mut self.decoder.blocks;
        event.address = blocks
            .live_address(number)
            .ok_or(Malformed("a block is deallocated that is not live"))?;
        if reallocation {
            blocks.start_reallocation(event.address, number);
        } else {
            blocks.deallocate(number);
        }
        Ok(())
    }

    #[inline]
    fn block_number(&mut self, bits: u8) -> Result<BlockNumber, Malformed> {
        let [first, second] = self.decoder.blocks.slots();
        match bits {
            deallocation::FIRST => Ok(first),
            deallocation::SECOND => Ok(second),
            _ => {
                let distance = self.columns[DISTANCES].varint_u32()?;
                let back = distance
                    .checked_add(1)
                    .ok_or(Malformed("a block lies before the chunk"))?;
                self.decoder
                    .blocks
                    .len()
                    .checked_sub(back)
                    .ok_or(Malformed("a block lies before the chunk"))
            }
        }
    }

    #[inline]
    fn foreign(&mut self, event: &mut Event, reallocation: bool) -> Result<(), Malformed> {
        let from = self.last_foreign >> self.shift;
        event.address = self.columns[FOREIGN].delta(from)? << self.shift;
        self.last_foreign = event.address;
        if reallocation {
            self.decoder.blocks.start_reallocation(event.address, NONE);
        } else {
            self.decoder.blocks.deallocate_foreign(event.address);
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Malformed> {
        if self.columns.iter().all(|column| column.left() == 0) {
            Ok(())
        } else {
            Err(Malformed("a column is longer than its events need"))
        }
    }
}
