//! Columns to events. The columns come from a file nobody vouches for.

use std::hint::select_unpredictable;

use super::block_list::{BlockKind, BlockNumber};
use super::freed::class_of;
use super::prediction::Blocks;
use super::successors::{Foreseen, ShapeNumber, Successors};
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

const NO_EVENT: Event = Event {
    kind: EventKind::Allocation,
    entry: EntryPoint::Malloc,
    alignment_log2: 0,
    stack: 0,
    address: 0,
    size: 0,
};

const KINDS: [EventKind; 9] = [
    EventKind::Allocation,
    EventKind::Deallocation,
    EventKind::ReallocationStart,
    EventKind::ReallocationEnd,
    EventKind::ReallocationFailed,
    EventKind::ReallocationFreed,
    EventKind::Timestamp,
    EventKind::Thread,
    EventKind::Epoch,
];

const UNTOLD: Malformed = Malformed("an event has a shape that was not told");
const NOT_LIVE: Malformed = Malformed("a block is deallocated that is not live");

const NO_PLACE: Malformed = Malformed("an address is at a place where there is none");

/// Turns columns into events; keeps its memory from chunk to chunk.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    run: Run,
    /// The last [`PIECE`].
    piece: Vec<Event>,
}

/// The state of decoding one chunk, but for its columns.
#[derive(Debug, Default)]
struct Run {
    shapes: Vec<Shape>,
    successors: Successors,
    blocks: Blocks,
    shift: u32,
    last_stack: StackId,
    last_foreign: u64,
    last_address: u64,
    last_marks: [u64; 3],
    /// How many events were marks.
    marks: usize,
}

type Columns<'a> = [Cursor<'a>; COLUMNS];

/// What events have in common that come from one place of the program.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// Its events, but for address and size.
    event: Event,
    /// Their kind once more, so that the event is copied as a whole.
    kind: EventKind,
    /// Size of its last allocation.
    last_size: u64,
    /// What that says of its block.
    of: BlockKind,
}

/// What an event's symbol tells.
#[derive(Clone, Copy)]
struct Told {
    /// Its shape.
    number: ShapeNumber,
    /// What was to be expected.
    foreseen: Foreseen,
    /// The lower two bits.
    bits: u8,
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
    /// [`crate::chunk::MAX_EVENTS`]) to `into`, and gives how many of them are
    /// counted (see [`Event::is_counted`]).
    pub(crate) fn decode(
        &mut self,
        payload: &[u8],
        count: usize,
        into: &mut Vec<Event>,
    ) -> Result<usize, Malformed> {
        let (shift, mut columns) = columns_of(payload)?;
        if columns[SYMBOLS].left() != count {
            return Err(Malformed("there are not as many symbols as events"));
        }
        let symbols = columns[SYMBOLS].take(count)?;
        self.run.begin(shift);
        self.piece.resize(PIECE, NO_EVENT);
        into.reserve(count);
        for symbols in symbols.chunks(PIECE) {
            let piece = &mut self.piece[..symbols.len()];
            for (&symbol, event) in symbols.iter().zip(&mut *piece) {
                self.run.event(&mut columns, symbol, event)?;
            }
            into.extend_from_slice(piece);
        }
        if columns.iter().any(|column| column.left() != 0) {
            return Err(Malformed("a column is longer than its events need"));
        }
        Ok(count - self.run.marks)
    }
}

impl Run {
    /// Forgets everything, keeps the memory.
    fn begin(&mut self, shift: u32) {
        self.shapes.clear();
        self.successors.reset();
        self.blocks.reset();
        self.shift = shift;
        self.last_stack = 0;
        self.last_foreign = 0;
        self.last_address = 0;
        self.last_marks = [0; 3];
        self.marks = 0;
    }

    #[inline(always)]
    fn event(
        &mut self,
        columns: &mut Columns<'_>,
        symbol: u8,
        into: &mut Event,
    ) -> Result<(), Malformed> {
        let foreseen = self.successors.foreseen();
        let number = self.shape_number(columns, symbol >> 2, foreseen)?;
        let shape = self.shapes.get(usize::from(number)).ok_or(UNTOLD)?;
        *into = shape.event;
        let told = Told {
            number,
            foreseen,
            bits: symbol & 3,
        };
        match shape.kind {
            EventKind::Allocation => self.allocation(columns, told, false, into),
            EventKind::Deallocation => self.deallocation(columns, told, false, into),
            _ => self.rare_event(columns, (number, told.bits), into),
        }
    }

    /// An event of any kind but the two frequent ones.
    #[inline(never)]
    fn rare_event(
        &mut self,
        columns: &mut Columns<'_>,
        (number, bits): (ShapeNumber, u8),
        into: &mut Event,
    ) -> Result<(), Malformed> {
        // What is to be expected is asked for again: handed over, it would be put
        // into memory with every event.
        let told = Told {
            number,
            foreseen: self.successors.foreseen(),
            bits,
        };
        match into.kind {
            EventKind::Allocation => return self.allocation(columns, told, false, into),
            EventKind::ReallocationEnd => return self.allocation(columns, told, true, into),
            EventKind::Deallocation => return self.deallocation(columns, told, false, into),
            EventKind::ReallocationStart => return self.deallocation(columns, told, true, into),
            EventKind::ReallocationFailed => self.blocks.fail_open(),
            EventKind::ReallocationFreed => self.blocks.free_open(),
            EventKind::Timestamp | EventKind::Thread | EventKind::Epoch => {
                let last = &mut self.last_marks[mark_position(into.kind)];
                *last = columns[MARKS].delta(*last)?;
                into.address = *last;
                self.marks += 1;
                return Ok(());
            }
        }
        self.successors.came(told.foreseen, told.number);
        Ok(())
    }

    /// Position of the symbol's shape, which is read if it is a new one.
    #[inline(always)]
    fn shape_number(
        &mut self,
        columns: &mut Columns<'_>,
        told: u8,
        foreseen: Foreseen,
    ) -> Result<ShapeNumber, Malformed> {
        if told == field::FAR || told == field::NEW {
            return self.untold_shape(columns, told);
        }
        // Without a branch: which it is, is hard to foresee.
        let is_first = told == field::FIRST;
        let foreseen = select_unpredictable(is_first, foreseen.first(), foreseen.second());
        Ok(select_unpredictable(
            told < field::NEAR,
            told.into(),
            foreseen,
        ))
    }

    #[inline(never)]
    fn untold_shape(
        &mut self,
        columns: &mut Columns<'_>,
        told: u8,
    ) -> Result<ShapeNumber, Malformed> {
        if told == field::NEW {
            return self.new_shape(columns);
        }
        let above = columns[FAR].varint()?;
        let number = above.saturating_add(field::NEAR.into());
        ShapeNumber::try_from(number).map_err(|_| UNTOLD)
    }

    fn new_shape(&mut self, columns: &mut Columns<'_>) -> Result<ShapeNumber, Malformed> {
        let column = &mut columns[SHAPES];
        let kind = *KINDS
            .get(usize::from(column.byte()?))
            .ok_or(Malformed("there is no such kind of event"))?;
        let entry = EntryPoint::from_number(column.byte()?)
            .ok_or(Malformed("there is no such entry point"))?;
        let alignment_log2 = column.byte()?;
        let mut stack = 0;
        if is_allocation(kind) {
            stack = StackId::try_from(columns[STACKS].delta(self.last_stack.into())?)
                .map_err(|_| Malformed("a stack id has more than 32 bits"))?;
            self.last_stack = stack;
        }
        let number = self.shapes.len() as ShapeNumber;
        self.shapes.push(Shape {
            event: Event {
                kind,
                entry,
                alignment_log2,
                stack,
                address: 0,
                size: 0,
            },
            kind,
            last_size: 0,
            of: BlockKind::new(number, class_of(0)),
        });
        self.successors.add_shape();
        Ok(number)
    }

    /// Address and size of an event that hands out a block.
    #[inline(always)]
    fn allocation(
        &mut self,
        columns: &mut Columns<'_>,
        told: Told,
        reallocation: bool,
        into: &mut Event,
    ) -> Result<(), Malformed> {
        let Told { number, bits, .. } = told;
        self.successors.came(told.foreseen, number);
        self.successors.allocated(number);
        let shape = &mut self.shapes[usize::from(number)];
        if bits & allocation::OTHER_SIZE != 0 {
            shape.last_size = columns[SIZES].varint()?;
            shape.of = BlockKind::new(number, class_of(shape.last_size));
        }
        let Shape { last_size, of, .. } = *shape;
        into.size = last_size;
        let guess = self.blocks.guess(of.class(), reallocation);
        let address = if bits & allocation::OTHER_ADDRESS == 0 {
            self.blocks.confirm(guess);
            guess.address
        } else {
            let place = columns[PLACES].byte()?;
            if place == 0 {
                self.last_address = columns[ADDRESSES].delta(self.last_address)?;
                self.last_address << self.shift
            } else {
                self.blocks.take(guess, place).ok_or(NO_PLACE)?
            }
        };
        into.address = address;
        self.blocks.allocate(address, last_size, of, reallocation);
        Ok(())
    }

    /// The address of an event that gives a block back.
    #[inline(always)]
    fn deallocation(
        &mut self,
        columns: &mut Columns<'_>,
        told: Told,
        reallocation: bool,
        into: &mut Event,
    ) -> Result<(), Malformed> {
        self.successors.came(told.foreseen, told.number);
        if told.bits == deallocation::FOREIGN {
            into.address = self.foreign(&mut columns[FOREIGN], reallocation)?;
            return Ok(());
        }
        let number = self.block_number(columns, told.bits)?;
        let block = self.blocks.live(number).ok_or(NOT_LIVE)?;
        into.address = block.address;
        self.successors.deallocated(block.of.shape());
        if reallocation {
            self.blocks.start_reallocation(number, &block);
        } else {
            self.blocks.deallocate(number, &block);
        }
        Ok(())
    }

    #[inline(always)]
    fn block_number(
        &mut self,
        columns: &mut Columns<'_>,
        bits: u8,
    ) -> Result<BlockNumber, Malformed> {
        if bits == deallocation::DISTANCE {
            let distance = columns[DISTANCES].varint()?;
            return u64::from(self.blocks.len())
                .checked_sub(distance.saturating_add(1))
                .map(|number| number as BlockNumber)
                .ok_or(Malformed("a block lies before the chunk"));
        }
        let [first, second] = self.blocks.slots();
        Ok(if bits == deallocation::FIRST {
            first
        } else {
            second
        })
    }

    #[inline(always)]
    fn foreign(&mut self, column: &mut Cursor<'_>, reallocation: bool) -> Result<u64, Malformed> {
        self.last_foreign = column.delta(self.last_foreign)?;
        let address = self.last_foreign << self.shift;
        self.successors.deallocated_foreign();
        if reallocation {
            self.blocks.start_foreign_reallocation(address);
        } else {
            self.blocks.deallocate_foreign(address);
        }
        Ok(address)
    }
}
