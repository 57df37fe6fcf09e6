//! Round trips: what the writer writes, the reader reads back.

mod arbitrary;

use allotrope_trace::model::*;
use allotrope_trace::{Compression, Entry, TraceReader, TraceWriter, WriteError};
use arbitrary::{compression, events, record, records_of, written};
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn records_round_trip_in_order(records in vec(record(), 1..30), compression in compression()) {
        let file = written(&records, compression);
        let mut reader = TraceReader::new(&file[..]).unwrap();
        reader.verify().unwrap();
        prop_assert!(reader.is_complete());
        prop_assert_eq!(reader.readable_bytes(), file.len() as u64);
        let (read, error) = records_of(&reader);
        prop_assert!(error.is_none(), "{:?}", error);
        prop_assert_eq!(read, records);
    }

    #[test]
    fn long_sequences_of_events_round_trip(written_events in events(3000), compression in compression()) {
        let records = [Record::Events(written_events)];
        let file = written(&records, compression);
        let (read, error) = records_of(&TraceReader::new(&file[..]).unwrap());
        prop_assert!(error.is_none(), "{:?}", error);
        prop_assert_eq!(&read[..], &records[..]);
    }

    #[test]
    fn stacks_of_deallocations_round_trip_where_the_recording_has_them(
        mut written_events in events(3000),
        stacks in vec(any::<u32>(), 1..20),
        compression in compression(),
    ) {
        let frees = written_events.events.iter_mut().filter(|event| is_free(event));
        for (at, event) in frees.enumerate() {
            event.stack = stacks[at * at % stacks.len()];
        }
        let of_recording = |free_stacks| [
            Record::Recording(Recording { free_stacks, ..Recording::default() }),
            Record::Events(written_events.clone()),
        ];
        let records = of_recording(true);
        let file = written(&records, compression);
        let mut reader = TraceReader::new(&file[..]).unwrap();
        reader.verify().unwrap();
        let (read, error) = records_of(&reader);
        prop_assert!(error.is_none(), "{:?}", error);
        prop_assert_eq!(&read[..], &records[..]);
        let (read, _) = records_of(&TraceReader::new(&written(&of_recording(false), compression)[..]).unwrap());
        let Record::Events(read) = &read[1] else { panic!() };
        let mut frees = read.events.iter().filter(|event| is_free(event));
        prop_assert!(frees.all(|event| event.stack == 0));
    }

    #[test]
    fn a_summary_matches_the_events(written_events in events(300)) {
        let file = written(&[Record::Events(written_events.clone())], Compression::Fast);
        let reader = TraceReader::new(&file[..]).unwrap();
        let Some(Ok(Entry::Events(at))) = reader.entries().next() else { panic!() };
        let count = |kind| written_events.events.iter().filter(|event| event.kind == kind).count() as u32;
        let values = |kind| written_events.events.iter().filter(move |event| event.kind == kind).map(|event| event.address);
        prop_assert_eq!(at.events as usize, written_events.events.len());
        prop_assert_eq!(at.counted as usize, written_events.events.iter().filter(|event| event.is_counted()).count());
        prop_assert_eq!(at.allocations, count(EventKind::Allocation) + count(EventKind::ReallocationEnd));
        prop_assert_eq!(at.deallocations, count(EventKind::Deallocation) + count(EventKind::ReallocationStart));
        prop_assert_eq!(at.reallocations_failed, count(EventKind::ReallocationFailed));
        prop_assert_eq!(at.first_tick, values(EventKind::Timestamp).next());
        prop_assert_eq!(at.last_tick, values(EventKind::Timestamp).next_back());
        prop_assert_eq!(at.last_thread, values(EventKind::Thread).next_back());
        prop_assert_eq!(at.last_epoch, values(EventKind::Epoch).next_back());
    }
}

fn is_free(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::Deallocation | EventKind::ReallocationStart
    )
}

fn clock(tick: u64) -> Record {
    Record::Clock(Clock {
        tick,
        monotonic_ns: 0,
    })
}

fn events_of(events: usize) -> Record {
    let event = Event {
        kind: EventKind::Allocation,
        entry: EntryPoint::Malloc,
        alignment_log2: 0,
        stack: 8,
        address: 16,
        size: 1,
    };
    Record::Events(Events {
        image: 0,
        stream: 0,
        first_ordinal: 0,
        events: vec![event; events],
    })
}

#[test]
fn records_stay_in_memory_until_the_next_events_or_flush() {
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    let header = writer.bytes_written();
    writer.write(&clock(1)).unwrap();
    assert_eq!(writer.bytes_written(), header);
    writer.write(&events_of(1)).unwrap();
    let with_events = writer.bytes_written();
    assert!(with_events > header);
    writer.write(&clock(2)).unwrap();
    assert_eq!(writer.bytes_written(), with_events);
    writer.flush().unwrap();
    assert!(writer.bytes_written() > with_events);
    let file = writer.finish().unwrap();
    let (records, error) = records_of(&TraceReader::new(&file[..]).unwrap());
    assert!(error.is_none());
    assert_eq!(records, [clock(1), events_of(1), clock(2)]);
}

#[test]
fn more_events_than_a_chunk_may_hold_become_several_chunks() {
    let most = (1 << 16) - 1;
    let file = written(&[events_of(most + 5)], Compression::Fast);
    let reader = TraceReader::new(&file[..]).unwrap();
    let chunks: Vec<_> = reader
        .entries()
        .map(|entry| match entry.unwrap() {
            Entry::Events(at) => (at.first_ordinal, at.events),
            Entry::Record(_) => panic!(),
        })
        .collect();
    assert_eq!(chunks, [(0, most as u32), (most as u64, 5)]);
}

#[test]
fn events_can_be_read_by_several_threads_at_once() {
    let records: Vec<_> = (1..40).map(|i| events_of(i * 10)).collect();
    let file = written(&records, Compression::Fast);
    let reader = TraceReader::new(&file[..]).unwrap();
    let entries: Vec<_> = reader.entries().map(Result::unwrap).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut events = Vec::new();
                for (entry, record) in entries.iter().zip(&records) {
                    let (Entry::Events(at), Record::Events(written_events)) = (entry, record)
                    else {
                        panic!()
                    };
                    reader.read_events(at, &mut events).unwrap();
                    assert_eq!(events, written_events.events);
                }
            });
        }
    });
}

#[test]
fn an_inconsistent_record_is_not_written() {
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    let node = |parent| StackNode {
        parent,
        address: 1,
        mapping: 0,
        exact: false,
    };
    let own_caller = Record::Stacks {
        image: 0,
        first: 8,
        nodes: vec![node(0), node(9)],
    };
    let refused = writer.write(&own_caller);
    assert!(matches!(refused, Err(WriteError::Inconsistent(_))));
    let location = Location {
        address: 1,
        exact: false,
        frames: vec![0],
    };
    let missing_frame = Symbols {
        locations: vec![location],
        ..Symbols::default()
    };
    let refused = writer.write(&Record::Symbols(missing_frame));
    assert!(matches!(refused, Err(WriteError::Inconsistent(_))));
    writer.write(&clock(1)).unwrap();
    let file = writer.finish().unwrap();
    let (records, error) = records_of(&TraceReader::new(&file[..]).unwrap());
    assert!(error.is_none());
    assert_eq!(records, [clock(1)]);
}

#[test]
fn a_record_larger_than_a_chunk_is_refused_and_nothing_else_is_lost() {
    let named = |length: usize| {
        Record::ThreadName(ThreadName {
            thread: 1,
            name: "x".repeat(length),
        })
    };
    let limit = 8 << 20;
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    writer.write(&named(10)).unwrap();
    let refused = writer.write(&named(limit));
    assert!(matches!(refused, Err(WriteError::TooLarge { .. })));
    // Fits into a chunk of its own, but not into one with the pending record.
    let largest = limit - 1 - 4 - 1 - 4;
    writer.write(&named(largest)).unwrap();
    let file = writer.finish().unwrap();
    let (records, error) = records_of(&TraceReader::new(&file[..]).unwrap());
    assert!(error.is_none());
    assert_eq!(records, [named(10), named(largest)]);
}

#[test]
fn a_trace_of_a_recording_in_which_nothing_happened_is_complete() {
    let file = written(&[], Compression::Fast);
    let reader = TraceReader::new(&file[..]).unwrap();
    assert!(reader.is_complete());
    assert_eq!(reader.entries().count(), 0);
}

/// Accepts a number of bytes, then fails like a full disk.
struct FullDisk(usize);

impl std::io::Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 {
            Err(std::io::ErrorKind::StorageFull.into())
        } else {
            Ok(taken)
        }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn after_a_failed_write_nothing_more_is_written() {
    let mut writer = TraceWriter::new(FullDisk(100)).unwrap();
    let offset = writer.bytes_written();
    let first = writer.write(&events_of(100));
    assert!(
        matches!(first, Err(WriteError::Io { offset: at, .. }) if at == offset),
        "{first:?}"
    );
    let second = writer.write(&events_of(1));
    assert!(matches!(second, Err(WriteError::Broken { offset: at }) if at == offset));
}
