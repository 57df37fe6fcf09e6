//! The summary of an event chunk: stream, position and totals of its events. It
//! follows the chunk header, so that a reader can select chunks without decoding
//! them.

use crate::chunk::Header;
use crate::model::{Event, EventKind, ImageId, StreamId};
use crate::varint::{Cursor, Malformed};

/// Bytes of an encoded summary. A later minor version may append fields.
pub(crate) const SUMMARY: usize = 76;

// Bits of the summary's flags: they mark the optional fields that are set.
const HAS_TICKS: u32 = 1;
const HAS_THREAD: u32 = 2;
const HAS_EPOCH: u32 = 4;

/// A reference to an event chunk, with its summary. Decode the events with
/// [`TraceReader::read_events`](crate::TraceReader::read_events).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventsRef {
    /// The image of the stream.
    pub image: ImageId,
    /// The stream.
    pub stream: StreamId,
    /// Number of counted events of the stream before this chunk.
    pub first_ordinal: u64,
    /// Number of events.
    pub events: u32,
    /// Number of counted events ([`Event::is_counted`]).
    pub counted: u32,
    /// Tick of the first timestamp in the chunk.
    pub first_tick: Option<u64>,
    /// Tick of the last timestamp in the chunk.
    pub last_tick: Option<u64>,
    /// Value of the last thread event in the chunk: the thread of the first events
    /// of the stream's next chunk.
    pub last_thread: Option<u64>,
    /// Value of the last epoch event in the chunk, an encoded
    /// [`EpochChange`](crate::model::EpochChange).
    pub last_epoch: Option<u64>,
    /// Number of allocations, including ends of reallocations.
    pub allocations: u32,
    /// Number of deallocations, including starts of reallocations.
    pub deallocations: u32,
    /// Number of failed reallocations. Their starts are not deallocations.
    pub reallocations_failed: u32,
    /// Requested bytes of the allocations, at most `u64::MAX`.
    pub allocated_bytes: u64,
    /// Offset of the chunk in the file.
    pub(crate) offset: u64,
    /// Header of the chunk.
    pub(crate) header: Header,
}

/// Totals over the events of a chunk. The encoder adds each event to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sums {
    allocations: u32,
    deallocations: u32,
    reallocations_failed: u32,
    reallocations_freed: u32,
    allocated_bytes: u64,
    ticks: Option<(u64, u64)>,
    last_thread: Option<u64>,
    last_epoch: Option<u64>,
    /// Bitwise or of the block addresses: its trailing zeros are their common
    /// alignment.
    address_bits: u64,
}

impl Sums {
    #[inline(always)]
    pub(crate) fn add_allocation(&mut self, address: u64, size: u64) {
        self.allocations += 1;
        self.allocated_bytes = self.allocated_bytes.saturating_add(size);
        self.address_bits |= address;
    }

    /// A deallocation or the start of a reallocation.
    #[inline(always)]
    pub(crate) fn add_deallocation(&mut self, address: u64) {
        self.deallocations += 1;
        self.address_bits |= address;
    }

    /// An event of any kind.
    pub(crate) fn add(&mut self, event: &Event) {
        match event.kind {
            EventKind::Allocation | EventKind::ReallocationEnd => {
                self.add_allocation(event.address, event.size);
            }
            EventKind::Deallocation | EventKind::ReallocationStart => {
                self.add_deallocation(event.address);
            }
            EventKind::ReallocationFailed => self.reallocations_failed += 1,
            EventKind::ReallocationFreed => self.reallocations_freed += 1,
            EventKind::Timestamp => {
                let first = self.ticks.map_or(event.address, |(first, _)| first);
                self.ticks = Some((first, event.address));
            }
            EventKind::Thread => self.last_thread = Some(event.address),
            EventKind::Epoch => self.last_epoch = Some(event.address),
        }
    }

    /// Number of counted events.
    pub(crate) fn counted(&self) -> u32 {
        self.allocations + self.deallocations + self.reallocations_failed + self.reallocations_freed
    }

    pub(crate) fn address_bits(&self) -> u64 {
        self.address_bits
    }
}

/// The part of an [`EventsRef`] that the file has as the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Summary {
    image: ImageId,
    stream: StreamId,
    first_ordinal: u64,
    counted: u32,
    ticks: Option<(u64, u64)>,
    last_thread: Option<u64>,
    last_epoch: Option<u64>,
    allocations: u32,
    deallocations: u32,
    reallocations_failed: u32,
    allocated_bytes: u64,
}

impl Summary {
    pub(crate) fn new(image: ImageId, stream: StreamId, first_ordinal: u64, sums: &Sums) -> Self {
        Self {
            image,
            stream,
            first_ordinal,
            counted: sums.counted(),
            ticks: sums.ticks,
            last_thread: sums.last_thread,
            last_epoch: sums.last_epoch,
            allocations: sums.allocations,
            deallocations: sums.deallocations,
            reallocations_failed: sums.reallocations_failed,
            allocated_bytes: sums.allocated_bytes,
        }
    }

    /// The bytes of the summary in the file.
    pub(crate) fn to_bytes(self) -> [u8; SUMMARY] {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let flags = flag(self.ticks.is_some(), HAS_TICKS)
            | flag(self.last_thread.is_some(), HAS_THREAD)
            | flag(self.last_epoch.is_some(), HAS_EPOCH);
        let (first_tick, last_tick) = self.ticks.unwrap_or_default();
        let mut bytes = [0; SUMMARY];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&self.image.to_le_bytes());
        put(&self.stream.to_le_bytes());
        put(&self.first_ordinal.to_le_bytes());
        put(&self.counted.to_le_bytes());
        put(&flags.to_le_bytes());
        put(&first_tick.to_le_bytes());
        put(&last_tick.to_le_bytes());
        put(&self.last_thread.unwrap_or(0).to_le_bytes());
        put(&self.last_epoch.unwrap_or(0).to_le_bytes());
        put(&self.allocations.to_le_bytes());
        put(&self.deallocations.to_le_bytes());
        put(&self.reallocations_failed.to_le_bytes());
        put(&self.allocated_bytes.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(bytes);
        let image = cursor.u32()?;
        let stream = cursor.u32()?;
        let first_ordinal = cursor.u64()?;
        let counted = cursor.u32()?;
        let flags = cursor.u32()?;
        let ticks = (cursor.u64()?, cursor.u64()?);
        let last_thread = cursor.u64()?;
        let last_epoch = cursor.u64()?;
        Ok(Self {
            image,
            stream,
            first_ordinal,
            counted,
            ticks: (flags & HAS_TICKS != 0).then_some(ticks),
            last_thread: (flags & HAS_THREAD != 0).then_some(last_thread),
            last_epoch: (flags & HAS_EPOCH != 0).then_some(last_epoch),
            allocations: cursor.u32()?,
            deallocations: cursor.u32()?,
            reallocations_failed: cursor.u32()?,
            allocated_bytes: cursor.u64()?,
        })
    }
}

impl EventsRef {
    /// Combines the header and the summary of the event chunk at `offset`.
    pub(crate) fn from_chunk(
        offset: u64,
        header: Header,
        summary: &[u8],
    ) -> Result<Self, Malformed> {
        let summary = Summary::from_bytes(summary)?;
        if summary.counted > header.items {
            return Err(Malformed("the summary counts more events than there are"));
        }
        Ok(Self {
            image: summary.image,
            stream: summary.stream,
            first_ordinal: summary.first_ordinal,
            events: header.items,
            counted: summary.counted,
            first_tick: summary.ticks.map(|(first, _)| first),
            last_tick: summary.ticks.map(|(_, last)| last),
            last_thread: summary.last_thread,
            last_epoch: summary.last_epoch,
            allocations: summary.allocations,
            deallocations: summary.deallocations,
            reallocations_failed: summary.reallocations_failed,
            allocated_bytes: summary.allocated_bytes,
            offset,
            header,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::EntryPoint;

    fn event(kind: EventKind, address: u64, size: u64) -> Event {
        Event {
            kind,
            entry: EntryPoint::Malloc,
            alignment_log2: 0,
            stack: 0,
            address,
            size,
        }
    }

    fn sums(events: &[Event]) -> Sums {
        let mut sums = Sums::default();
        events.iter().for_each(|event| sums.add(event));
        sums
    }

    #[test]
    fn a_summary_counts_the_events() {
        let events = [
            event(EventKind::Thread, 3, 0),
            event(EventKind::Timestamp, 100, 0),
            event(EventKind::Allocation, 0x10, 7),
            event(EventKind::ReallocationStart, 0x10, 0),
            event(EventKind::ReallocationEnd, 0x20, 50),
            event(EventKind::ReallocationStart, 0x20, 0),
            event(EventKind::ReallocationFailed, 0, 0),
            event(EventKind::Deallocation, 0x20, 0),
            event(EventKind::Timestamp, 90, 0),
        ];
        let sums = sums(&events);
        assert_eq!(sums.address_bits(), 0x30);
        let summary = Summary::new(1, 2, 30, &sums);
        let expected = Summary {
            image: 1,
            stream: 2,
            first_ordinal: 30,
            counted: 6,
            ticks: Some((100, 90)),
            last_thread: Some(3),
            last_epoch: None,
            allocations: 2,
            deallocations: 3,
            reallocations_failed: 1,
            allocated_bytes: 57,
        };
        assert_eq!(summary, expected);
        assert_eq!(Summary::from_bytes(&summary.to_bytes()), Ok(expected));
    }

    #[test]
    fn allocated_bytes_saturate() {
        let huge = event(EventKind::Allocation, 0x10, u64::MAX);
        assert_eq!(sums(&[huge, huge]).allocated_bytes, u64::MAX);
    }

    #[test]
    fn a_later_version_may_append_fields() {
        let sums = sums(&[event(EventKind::Epoch, 5, 0)]);
        assert_eq!(sums.address_bits(), 0, "an epoch event has no address");
        let summary = Summary::new(1, 2, 3, &sums);
        let mut longer = summary.to_bytes().to_vec();
        longer.extend([1, 2, 3]);
        assert_eq!(Summary::from_bytes(&longer), Ok(summary));
        assert!(Summary::from_bytes(&longer[..SUMMARY - 1]).is_err());
    }
}
