//! Columns to events. The columns come from a file nobody vouches for.

use super::prediction::{BlockNumber, Blocks};
use super::successors::{ShapeNumber, Successors};
use super::{
    ADDRESSES, COLUMNS, DISTANCES, FAR, FOREIGN, MARKS, PLACES, SHAPES, SIZES, STACKS, SYMBOLS,
    allocation, deallocation, field, is_allocation, mark_position,
};
use crate::model::{EntryPoint, Event, EventKind, StackId};
use crate::varint::{Cursor, Malformed};

/// Events that are decoded before they are copied to where they are wanted.
///
/// The memory there was mostly read by another processor before, and each cache
/// line of it has to be taken from there: stored to event by event, each is
/// waited for, in a copy of many they come at the same time.
const PIECE: usize = 512;

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

const UNTOLD: Malformed = Malformed("an event has a shape that was not told");
const NOT_LIVE: Malformed = Malformed("a block is deallocated that is not live");

const NO_PLACE: Malformed = Malformed("an address is at a place where there is none");

/// Turns columns into events; keeps its memory from chunk to chunk.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    shapes: Vec<Shape>,
    successors: Successors,
    blocks: Blocks,
}

/// What events have in common that come from one place of the program.
#[derive(Debug, Clone, Copy)]
struct Shape {
    kind: EventKind,
    entry: EntryPoint,
    alignment_log2: u8,
    stack: StackId,
    /// Size of its last allocation.
    last_size: u64,
}

/// The state of decoding one chunk.
struct Run<'a, 'd> {
    columns: [Cursor<'a>; COLUMNS],
    decoder: &'d mut Decoder,
    shift: u32,
    last_stack: StackId,
    last_foreign: u64,
    last_address: u64,
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
    /// Appends the `count` events of the payload (at most
    /// [`crate::chunk::MAX_EVENTS`]) to `into`.
    pub(crate) fn decode(
        &mut self,
        payload: &[u8],
        count: usize,
        into: &mut Vec<Event>,
    ) -> Result<(), Malformed> {
        let (shift, mut columns) = columns_of(payload)?;
        if columns[SYMBOLS].left() != count {
            return Err(Malformed("there are not as many symbols as events"));
        }
        let symbols = columns[SYMBOLS].take(count)?;
        self.shapes.clear();
        self.successors.reset();
        self.blocks.reset(count);
        into.reserve(count);
        let mut piece = Vec::with_capacity(PIECE.min(count));
        let mut run = Run {
            columns,
            decoder: self,
            shift,
            last_stack: 0,
            last_foreign: 0,
            last_address: 0,
            last_marks: [0; 3],
        };
        for symbols in symbols.chunks(PIECE) {
            piece.clear();
            for &symbol in symbols {
                piece.push(run.event(symbol)?);
            }
            into.extend_from_slice(&piece);
        }
        run.finish()
    }
}

impl Run<'_, '_> {
    #[inline(always)]
    fn event(&mut self, symbol: u8) -> Result<Event, Malformed> {
        let number = self.shape_number(symbol >> 2)?;
        let shape = *self.decoder.shapes.get(usize::from(number)).ok_or(UNTOLD)?;
        let bits = symbol & 3;
        let (address, size) = match shape.kind {
            EventKind::Allocation => self.allocation(number, bits, false)?,
            EventKind::Deallocation => (self.deallocation(number, bits, false)?, 0),
            rare => self.rare_event(rare, number, bits)?,
        };
        Ok(Event {
            kind: shape.kind,
            entry: shape.entry,
            alignment_log2: shape.alignment_log2,
            stack: shape.stack,
            address,
            size,
        })
    }

    /// Address and size of an event of any kind.
    #[inline(never)]
    fn rare_event(
        &mut self,
        kind: EventKind,
        number: ShapeNumber,
        bits: u8,
    ) -> Result<(u64, u64), Malformed> {
        match kind {
            EventKind::Allocation => return self.allocation(number, bits, false),
            EventKind::ReallocationEnd => return self.allocation(number, bits, true),
            EventKind::Deallocation => return Ok((self.deallocation(number, bits, false)?, 0)),
            EventKind::ReallocationStart => return Ok((self.deallocation(number, bits, true)?, 0)),
            EventKind::ReallocationFailed => self.decoder.blocks.fail_open(),
            EventKind::ReallocationFreed => self.decoder.blocks.free_open(),
            EventKind::Anchor | EventKind::Thread | EventKind::Epoch => {
                let last = &mut self.last_marks[mark_position(kind)];
                *last = self.columns[MARKS].delta(*last)?;
                return Ok((*last, 0));
            }
        }
        self.decoder.successors.came(number);
        Ok((0, 0))
    }

    /// Position of the symbol's shape, which is read if it is a new one.
    #[inline(always)]
    fn shape_number(&mut self, told: u8) -> Result<ShapeNumber, Malformed> {
        if told == field::FAR || told == field::NEW {
            return self.untold_shape(told);
        }
        // Without a branch: which it is, is hard to foresee.
        let [first, second] = self.decoder.successors.foreseen();
        let foreseen = if told == field::FIRST { first } else { second };
        Ok(if told < field::NEAR {
            told.into()
        } else {
            foreseen
        })
    }

    #[inline(never)]
    fn untold_shape(&mut self, told: u8) -> Result<ShapeNumber, Malformed> {
        if told == field::NEW {
            return self.new_shape();
        }
        let above = self.columns[FAR].varint()?;
        let number = above.saturating_add(field::NEAR.into());
        ShapeNumber::try_from(number).map_err(|_| UNTOLD)
    }

    fn new_shape(&mut self) -> Result<ShapeNumber, Malformed> {
        let column = &mut self.columns[SHAPES];
        let kind = *KINDS
            .get(usize::from(column.byte()?))
            .ok_or(Malformed("there is no such kind of event"))?;
        let entry = EntryPoint::from_number(column.byte()?)
            .ok_or(Malformed("there is no such entry point"))?;
        let alignment_log2 = column.byte()?;
        let mut stack = 0;
        if is_allocation(kind) {
            stack = StackId::try_from(self.columns[STACKS].delta(self.last_stack.into())?)
                .map_err(|_| Malformed("a stack id has more than 32 bits"))?;
            self.last_stack = stack;
        }
        let number = self.decoder.shapes.len() as ShapeNumber;
        self.decoder.shapes.push(Shape {
            kind,
            entry,
            alignment_log2,
            stack,
            last_size: 0,
        });
        self.decoder.successors.add_shape();
        Ok(number)
    }

    /// Address and size.
    #[inline(always)]
    fn allocation(
        &mut self,
        number: ShapeNumber,
        bits: u8,
        reallocation: bool,
    ) -> Result<(u64, u64), Malformed> {
        let Decoder {
            shapes,
            successors,
            blocks,
        } = &mut *self.decoder;
        successors.came(number);
        successors.allocated(number);
        let last_size = &mut shapes[usize::from(number)].last_size;
        if bits & allocation::OTHER_SIZE != 0 {
            *last_size = self.columns[SIZES].varint()?;
        }
        let size = *last_size;
        let guess = blocks.guess(size, reallocation);
        let address = if bits & allocation::OTHER_ADDRESS == 0 {
            blocks.confirm(guess);
            guess.address
        } else {
            let place = self.columns[PLACES].byte()?;
            if place == 0 {
                self.last_address = self.columns[ADDRESSES].delta(self.last_address)?;
                self.last_address << self.shift
            } else {
                blocks.take(guess, place).ok_or(NO_PLACE)?
            }
        };
        blocks.allocate(address, size, number, reallocation);
        Ok((address, size))
    }

    /// The address.
    #[inline(always)]
    fn deallocation(
        &mut self,
        number: ShapeNumber,
        bits: u8,
        reallocation: bool,
    ) -> Result<u64, Malformed> {
        self.decoder.successors.came(number);
        if bits == deallocation::FOREIGN {
            return self.foreign(reallocation);
        }
        let number = self.block_number(bits)?;
        let blocks = &mut self.decoder.blocks;
        let block = *blocks.live(number).ok_or(NOT_LIVE)?;
        self.decoder.successors.deallocated(block.shape);
        if reallocation {
            blocks.start_reallocation(number);
        } else {
            blocks.deallocate(number);
        }
        Ok(block.address)
    }

    #[inline(always)]
    fn block_number(&mut self, bits: u8) -> Result<BlockNumber, Malformed> {
        if bits == deallocation::DISTANCE {
            let distance = self.columns[DISTANCES].varint()?;
            return u64::from(self.decoder.blocks.len())
                .checked_sub(distance.saturating_add(1))
                .map(|number| number as BlockNumber)
                .ok_or(Malformed("a block lies before the chunk"));
        }
        let [first, second] = self.decoder.blocks.slots();
        Ok(if bits == deallocation::FIRST {
            first
        } else {
            second
        })
    }

    #[inline(never)]
    fn foreign(&mut self, reallocation: bool) -> Result<u64, Malformed> {
        self.last_foreign = self.columns[FOREIGN].delta(self.last_foreign)?;
        let address = self.last_foreign << self.shift;
        self.decoder.successors.deallocated_foreign();
        if reallocation {
            self.decoder.blocks.start_foreign_reallocation(address);
        } else {
            self.decoder.blocks.deallocate_foreign(address);
        }
        Ok(address)
    }

    fn finish(self) -> Result<(), Malformed> {
        if self.columns.iter().all(|column| column.left() == 0) {
            Ok(())
        } else {
            Err(Malformed("a column is longer than its events need"))
        }
    }
}
