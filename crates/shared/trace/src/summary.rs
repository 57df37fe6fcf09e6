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
    /// Offset and header of the chunk with the stacks of its deallocations.
    pub(crate) free_stacks: Option<(u64, Header)>,
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

    /// The bytes of the summary of a chunk with these events. `first_ordinal` is the
    /// number of counted events of the stream before the chunk.
    pub(crate) fn to_summary(
        self,
        image: ImageId,
        stream: StreamId,
        first_ordinal: u64,
    ) -> [u8; SUMMARY] {
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
        put(&image.to_le_bytes());
        put(&stream.to_le_bytes());
        put(&first_ordinal.to_le_bytes());
        put(&self.counted().to_le_bytes());
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
}

impl EventsRef {
    /// Combines the header and the summary of the event chunk at `offset`.
    pub(crate) fn from_chunk(
        offset: u64,
        header: Header,
        summary: &[u8],
    ) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(summary);
        let image = cursor.u32()?;
        let stream = cursor.u32()?;
        let first_ordinal = cursor.u64()?;
        let counted = cursor.u32()?;
        let flags = cursor.u32()?;
        let mut optional = |flag: u32| -> Result<Option<u64>, Malformed> {
            let value = cursor.u64()?;
            Ok((flags & flag != 0).then_some(value))
        };
        let events = Self {
            image,
            stream,
            first_ordinal,
            events: header.items,
            counted,
            first_tick: optional(HAS_TICKS)?,
            last_tick: optional(HAS_TICKS)?,
            last_thread: optional(HAS_THREAD)?,
            last_epoch: optional(HAS_EPOCH)?,
            allocations: cursor.u32()?,
            deallocations: cursor.u32()?,
            reallocations_failed: cursor.u32()?,
            allocated_bytes: cursor.u64()?,
            offset,
            header,
            free_stacks: None,
        };
        if counted > header.items {
            return Err(Malformed("the summary counts more events than there are"));
        }
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{Coding, kind};
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

    fn header(items: usize) -> Header {
        Header {
            kind: kind::EVENTS,
            coding: Coding::Raw.number(),
            summary_length: SUMMARY as u16,
            stored: 0,
            decoded: 0,
            items: items as u32,
            payload_crc: 0,
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
        let header = header(events.len());
        let expected = EventsRef {
            image: 1,
            stream: 2,
            first_ordinal: 30,
            events: 9,
            counted: 6,
            first_tick: Some(100),
            last_tick: Some(90),
            last_thread: Some(3),
            last_epoch: None,
            allocations: 2,
            deallocations: 3,
            reallocations_failed: 1,
            allocated_bytes: 57,
            offset: 400,
            header,
            free_stacks: None,
        };
        let summary = sums.to_summary(1, 2, 30);
        assert_eq!(EventsRef::from_chunk(400, header, &summary), Ok(expected));
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
        let mut summary = sums.to_summary(1, 2, 3).to_vec();
        let events = EventsRef::from_chunk(4, header(1), &summary);
        assert!(events.is_ok_and(|events| events.last_epoch == Some(5)));
        summary.extend([1, 2, 3]);
        assert_eq!(EventsRef::from_chunk(4, header(1), &summary), events);
        assert!(EventsRef::from_chunk(4, header(1), &summary[..SUMMARY - 1]).is_err());
    }
}
