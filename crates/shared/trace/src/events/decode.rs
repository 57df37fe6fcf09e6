//! Decodes the columns of an event chunk to events. The columns are untrusted bytes.

use std::hint::select_unpredictable;

use super::allocator_model::AllocatorModel;
use super::block_list::{BlockInfo, BlockNumber};
use super::free_lists::class_of;
use super::shape_predictor::{Prediction, ShapeNumber, ShapePredictor};
use super::{
    ADDRESSES, COLUMNS, CONTROL_VALUES, DISTANCES, FOREIGN_ADDRESSES, FREE_LIST_INDEXES,
    NEW_SHAPES, SHAPE_NUMBERS, SIZES, STACKS, SYMBOLS, allocation, control_index, deallocation,
    field, is_allocation,
};
use crate::model::{EntryPoint, Event, EventKind, StackId};
use crate::varint::{Cursor, Malformed};

/// Number of events that are decoded before they are copied to the caller's vector.
///
/// Another CPU usually read the vector's memory last, so each cache line must be
/// fetched from that CPU before a store. A copy of many events fetches several
/// lines at the same time; stores event by event would wait for each.
const BATCH: usize = 512;

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

const NO_SUCH_SHAPE: Malformed = Malformed("an event has a shape that is not defined");
const NOT_LIVE: Malformed = Malformed("a deallocated block is not live");
const NO_SUCH_INDEX: Malformed = Malformed("a free-list index exceeds the length of the list");

/// Decodes one chunk after another, and reuses its memory.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    state: State,
    /// The last [`BATCH`] decoded events.
    batch: Vec<Event>,
}

/// The state of decoding one chunk, without the positions in its columns.
#[derive(Debug, Default)]
struct State {
    shapes: Vec<Shape>,
    predictor: ShapePredictor,
    model: AllocatorModel,
    /// Addresses in columns are shifted right by this.
    shift: u32,
    last_stack: StackId,
    last_foreign: u64,
    last_address: u64,
    /// Last value of each kind of control event, by [`control_index`].
    last_controls: [u64; 3],
    /// Number of control events.
    controls: usize,
}

type Columns<'a> = [Cursor<'a>; COLUMNS];

/// What events from one location in the program have in common.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// An event of the shape, without address and size.
    event: Event,
    /// `event.kind`. A copy, so that the compiler copies `event` as a whole.
    kind: EventKind,
    /// Size of its last allocation.
    last_size: u64,
    /// Shape and size class of the block of its last allocation.
    info: BlockInfo,
}

/// The decoded symbol of an event.
#[derive(Clone, Copy)]
struct Symbol {
    /// The event's shape.
    number: ShapeNumber,
    /// The prediction of the shape.
    predicted: Prediction,
    /// The lower two bits of the symbol.
    bits: u8,
}

/// Splits a payload. Returns the shift of its addresses, and its columns.
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
    /// [`crate::chunk::MAX_EVENTS`]) to `into`. Returns the number of counted events
    /// ([`Event::is_counted`]).
    pub(crate) fn decode(
        &mut self,
        payload: &[u8],
        count: usize,
        into: &mut Vec<Event>,
    ) -> Result<usize, Malformed> {
        let (shift, mut columns) = columns_of(payload)?;
        if columns[SYMBOLS].left() != count {
            return Err(Malformed(
                "the number of symbols is not the number of events",
            ));
        }
        let symbols = columns[SYMBOLS].take(count)?;
        self.state.begin(shift);
        self.batch.resize(BATCH, NO_EVENT);
        into.reserve(count);
        for symbols in symbols.chunks(BATCH) {
            let batch = &mut self.batch[..symbols.len()];
            for (&symbol, event) in symbols.iter().zip(&mut *batch) {
                self.state.event(&mut columns, symbol, event)?;
            }
            into.extend_from_slice(batch);
        }
        if columns.iter().any(|column| column.left() != 0) {
            return Err(Malformed("a column is longer than its events need"));
        }
        Ok(count - self.state.controls)
    }
}

impl State {
    /// Starts a new chunk. Reuses the memory.
    fn begin(&mut self, shift: u32) {
        self.shapes.clear();
        self.predictor.reset();
        self.model.reset();
        self.shift = shift;
        self.last_stack = 0;
        self.last_foreign = 0;
        self.last_address = 0;
        self.last_controls = [0; 3];
        self.controls = 0;
    }

    /// Decodes the event with this symbol byte.
    #[inline(always)]
    fn event(
        &mut self,
        columns: &mut Columns<'_>,
        symbol: u8,
        into: &mut Event,
    ) -> Result<(), Malformed> {
        let predicted = self.predictor.predict();
        let number = self.shape_number(columns, symbol >> 2, predicted)?;
        let shape = self.shapes.get(usize::from(number)).ok_or(NO_SUCH_SHAPE)?;
        *into = shape.event;
        let symbol = Symbol {
            number,
            predicted,
            bits: symbol & 3,
        };
        match shape.kind {
            EventKind::Allocation => self.allocation(columns, symbol, false, into),
            EventKind::Deallocation => self.deallocation(columns, symbol, false, into),
            _ => self.other_event(columns, (number, symbol.bits), into),
        }
    }

    /// Decodes an event of a less frequent kind.
    #[inline(never)]
    fn other_event(
        &mut self,
        columns: &mut Columns<'_>,
        (number, bits): (ShapeNumber, u8),
        into: &mut Event,
    ) -> Result<(), Malformed> {
        // Predicts again: if the caller passed the prediction, it would store it to
        // memory for every event.
        let symbol = Symbol {
            number,
            predicted: self.predictor.predict(),
            bits,
        };
        match into.kind {
            EventKind::Allocation => return self.allocation(columns, symbol, false, into),
            EventKind::ReallocationEnd => return self.allocation(columns, symbol, true, into),
            EventKind::Deallocation => return self.deallocation(columns, symbol, false, into),
            EventKind::ReallocationStart => return self.deallocation(columns, symbol, true, into),
            EventKind::ReallocationFailed => self.model.fail_open(),
            EventKind::ReallocationFreed => self.model.free_open(),
            EventKind::Timestamp | EventKind::Thread | EventKind::Epoch => {
                let last = &mut self.last_controls[control_index(into.kind)];
                *last = columns[CONTROL_VALUES].delta(*last)?;
                into.address = *last;
                self.controls += 1;
                return Ok(());
            }
        }
        self.predictor.update(symbol.predicted, symbol.number);
        Ok(())
    }

    /// The number of an event's shape. Decodes the shape if it is new. `field` is that
    /// of the symbol.
    #[inline(always)]
    fn shape_number(
        &mut self,
        columns: &mut Columns<'_>,
        field: u8,
        predicted: Prediction,
    ) -> Result<ShapeNumber, Malformed> {
        if field == field::EXPLICIT || field == field::NEW {
            return self.explicit_shape(columns, field);
        }
        // No branch, because the CPU would mispredict it.
        let is_first = field == field::FIRST;
        let predicted = select_unpredictable(is_first, predicted.first(), predicted.second());
        Ok(select_unpredictable(
            field < field::INLINE_NUMBERS,
            field.into(),
            predicted,
        ))
    }

    /// The number of a shape that is in a column: a new shape, or a large number.
    #[inline(never)]
    fn explicit_shape(
        &mut self,
        columns: &mut Columns<'_>,
        field: u8,
    ) -> Result<ShapeNumber, Malformed> {
        if field == field::NEW {
            return self.new_shape(columns);
        }
        let number = columns[SHAPE_NUMBERS].varint()?;
        let number = number.saturating_add(field::INLINE_NUMBERS.into());
        ShapeNumber::try_from(number).map_err(|_| NO_SUCH_SHAPE)
    }

    fn new_shape(&mut self, columns: &mut Columns<'_>) -> Result<ShapeNumber, Malformed> {
        let column = &mut columns[NEW_SHAPES];
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
            info: BlockInfo::new(number, class_of(0)),
        });
        self.predictor.add_shape();
        Ok(number)
    }

    /// Decodes address and size of an allocation. `reallocation`: it ends a
    /// reallocation.
    #[inline(always)]
    fn allocation(
        &mut self,
        columns: &mut Columns<'_>,
        symbol: Symbol,
        reallocation: bool,
        into: &mut Event,
    ) -> Result<(), Malformed> {
        let Symbol { number, bits, .. } = symbol;
        self.predictor.update(symbol.predicted, number);
        self.predictor.after_allocation(number);
        let shape = &mut self.shapes[usize::from(number)];
        if bits & allocation::OTHER_SIZE != 0 {
            shape.last_size = columns[SIZES].varint()?;
            shape.info = BlockInfo::new(number, class_of(shape.last_size));
        }
        let Shape {
            last_size, info, ..
        } = *shape;
        into.size = last_size;
        let predicted = self.model.predict_address(info.class(), reallocation);
        let address = if bits & allocation::OTHER_ADDRESS == 0 {
            self.model.confirm(predicted);
            predicted.address
        } else {
            let index = columns[FREE_LIST_INDEXES].byte()?;
            if index == 0 {
                self.last_address = columns[ADDRESSES].delta(self.last_address)?;
                self.last_address << self.shift
            } else {
                self.model
                    .remove_at(predicted, index)
                    .ok_or(NO_SUCH_INDEX)?
            }
        };
        into.address = address;
        self.model.allocate(address, last_size, info, reallocation);
        Ok(())
    }

    /// Decodes the address of a deallocation. `reallocation`: it starts a
    /// reallocation.
    #[inline(always)]
    fn deallocation(
        &mut self,
        columns: &mut Columns<'_>,
        symbol: Symbol,
        reallocation: bool,
        into: &mut Event,
    ) -> Result<(), Malformed> {
        self.predictor.update(symbol.predicted, symbol.number);
        if symbol.bits == deallocation::FOREIGN {
            into.address = self.foreign(&mut columns[FOREIGN_ADDRESSES], reallocation)?;
            return Ok(());
        }
        let number = self.block_number(columns, symbol.bits)?;
        let block = self.model.live(number).ok_or(NOT_LIVE)?;
        into.address = block.address;
        self.predictor.after_deallocation(block.info.shape());
        if reallocation {
            self.model.start_reallocation(number, &block);
        } else {
            self.model.deallocate(number, &block);
        }
        Ok(())
    }

    /// The number of a deallocated block of the chunk.
    #[inline(always)]
    fn block_number(
        &mut self,
        columns: &mut Columns<'_>,
        bits: u8,
    ) -> Result<BlockNumber, Malformed> {
        if bits == deallocation::DISTANCE {
            let distance = columns[DISTANCES].varint()?;
            return u64::from(self.model.len())
                .checked_sub(distance.saturating_add(1))
                .map(|number| number as BlockNumber)
                .ok_or(Malformed("a block distance exceeds the number of blocks"));
        }
        let [first, second] = self.model.candidates();
        Ok(if bits == deallocation::FIRST {
            first
        } else {
            second
        })
    }

    /// Decodes the address of a deallocated block that was not allocated in the chunk.
    #[inline(always)]
    fn foreign(&mut self, column: &mut Cursor<'_>, reallocation: bool) -> Result<u64, Malformed> {
        self.last_foreign = column.delta(self.last_foreign)?;
        let address = self.last_foreign << self.shift;
        self.predictor.after_foreign_deallocation();
        if reallocation {
            self.model.start_foreign_reallocation(address);
        } else {
            self.model.deallocate_foreign(address);
        }
        Ok(address)
    }
}
