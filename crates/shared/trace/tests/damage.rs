//! Files that were truncated, damaged, or written by other programs or versions: the
//! reader returns the readable part, reports where it ends, and never panics.

mod arbitrary;

use allotrope_trace::model::*;
use allotrope_trace::{
    Compression, Cut, CutReason, Entry, OutlineEntry, ReadError, TraceReader, TraceWriter,
};
use arbitrary::{event, record, records_of, written};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const FILE_HEADER: usize = 16;
const CHUNK_HEADER: usize = 28;
/// The closing chunk: header and four 64-bit totals.
const END_CHUNK: usize = CHUNK_HEADER + 32;
/// Largest number of events in a chunk (`docs/trace-format.md`, section "Limits").
const MAX_EVENTS: usize = (1 << 16) - 1;

fn clock(tick: u64) -> Record {
    Record::Clock(Clock {
        tick,
        monotonic_ns: tick * 2,
    })
}

/// Arbitrary records, the same in each run of the tests.
fn some_records(count: usize) -> Vec<Record> {
    let mut runner = TestRunner::deterministic();
    vec(record(), count)
        .new_tree(&mut runner)
        .unwrap()
        .current()
}

/// Writes each record in a chunk of its own. Returns the file and, for each end of a
/// chunk, its offset and the number of records before it.
fn written_with_boundaries(records: &[Record]) -> (Vec<u8>, Vec<(usize, usize)>) {
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    let mut boundaries = vec![(FILE_HEADER, 0)];
    for (i, record) in records.iter().enumerate() {
        writer.write(record).unwrap();
        writer.flush().unwrap();
        boundaries.push((writer.bytes_written() as usize, i + 1));
    }
    (writer.finish().unwrap(), boundaries)
}

/// A trace with the stacks of deallocations, and the offset and length of the chunk with
/// them, which precedes that of the events.
fn with_free_stacks() -> (Vec<u8>, usize, usize) {
    let event = Event {
        kind: EventKind::Deallocation,
        entry: EntryPoint::Free,
        alignment_log2: 0,
        stack: 8,
        address: 16,
        size: 0,
    };
    let recording = Recording {
        free_stacks: true,
        ..Recording::default()
    };
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    writer.write(&Record::Recording(recording)).unwrap();
    writer.flush().unwrap();
    let start = writer.bytes_written() as usize;
    writer.write_events(0, 0, 0, &[event; 3]).unwrap();
    // A varint with the length of the numbers, three numbers, a stack.
    (writer.finish().unwrap(), start, CHUNK_HEADER + 5)
}

#[test]
fn damaged_free_stacks_end_the_readable_part_before_them() {
    let (good, start, length) = with_free_stacks();
    assert_eq!(good[start..start + 2], [4, 0], "the kind of the chunk");
    let mut file = good.clone();
    file[start + length - 1] ^= 1;
    let mut reader = TraceReader::new(&file[..]).unwrap();
    reader.cut_at_damage().unwrap();
    let cut = reader.cut_at().unwrap();
    assert_eq!(cut.offset, start as u64);
    assert_eq!(cut.reason, CutReason::PayloadChecksum);
    let (records, error) = records_of(&reader);
    assert!(error.is_none());
    assert_eq!(records.len(), 1, "the events are not read without");
    for end in start..good.len() {
        let (records, error) = records_of(&TraceReader::new(&good[..end]).unwrap());
        assert!(error.is_none());
        assert!((1..=2).contains(&records.len()));
    }
}

/// Reads the events as a reader of minor version 3 does, to which the kind of chunk is unknown.
#[test]
fn without_the_chunk_of_free_stacks_the_events_are_the_same() {
    let (mut file, start, _) = with_free_stacks();
    let (records, _) = records_of(&TraceReader::new(&file[..]).unwrap());
    file[start] = 99;
    let crc = crc32fast::hash(&file[start..start + 24]);
    file[start + 24..start + 28].copy_from_slice(&crc.to_le_bytes());
    let mut reader = TraceReader::new(&file[..]).unwrap();
    reader.verify().unwrap();
    assert!(reader.is_complete());
    let (mut skipped, _) = records_of(&reader);
    let Record::Events(events) = &mut skipped[1] else {
        panic!()
    };
    for event in &mut events.events {
        assert_eq!(event.stack, 0);
        event.stack = 8;
    }
    assert_eq!(skipped, records);
}

#[test]
fn a_file_truncated_anywhere_yields_every_whole_chunk() {
    let records = some_records(40);
    let (file, boundaries) = written_with_boundaries(&records);
    for length in FILE_HEADER..file.len() {
        let (end, whole) = *boundaries.iter().rfind(|(end, _)| *end <= length).unwrap();
        let reason = if end == length {
            CutReason::NotClosed
        } else {
            CutReason::Truncated
        };
        let cut = Cut {
            offset: end as u64,
            reason,
        };
        match TraceReader::new(&file[..length]) {
            Err(ReadError::Nothing(at)) => assert_eq!((at, whole), (cut, 0)),
            Err(error) => panic!("cut at {length}: {error}"),
            Ok(reader) => {
                assert_eq!(reader.cut_at(), Some(cut), "cut at {length}");
                assert!(!reader.is_complete());
                assert_eq!(reader.readable_bytes(), end as u64);
                let (read, error) = records_of(&reader);
                assert!(error.is_none(), "cut at {length}: {error:?}");
                assert_eq!(read, records[..whole], "cut at {length}");
            }
        }
    }
}

#[test]
fn a_flipped_byte_anywhere_ends_the_readable_part_there() {
    let records = some_records(25);
    let (file, boundaries) = written_with_boundaries(&records);
    for at in FILE_HEADER..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x55;
        let (end, whole) = *boundaries.iter().rfind(|(end, _)| *end <= at).unwrap();
        let verified =
            TraceReader::new(&damaged[..]).and_then(|mut reader| reader.verify().map(|()| reader));
        match verified {
            Err(ReadError::Nothing(cut)) => assert_eq!((cut.offset, whole), (end as u64, 0)),
            Err(error) => panic!("flipped {at}: {error}"),
            Ok(reader) => {
                assert_eq!(
                    reader.cut_at().map(|cut| cut.offset),
                    Some(end as u64),
                    "flipped {at}"
                );
                assert_eq!(reader.readable_bytes(), end as u64);
                let (read, error) = records_of(&reader);
                assert!(error.is_none(), "flipped {at}: {error:?}");
                assert_eq!(read, records[..whole], "flipped {at}");
            }
        }
    }
}

/// After the damage the reader uses only names, and it counts the missing events.
#[test]
fn after_damage_only_names_are_used() {
    let run = |stream| {
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
            stream,
            first_ordinal: 0,
            events: vec![event; 3],
        })
    };
    let name = Record::ThreadName(ThreadName {
        thread: 4,
        name: "worker".into(),
    });
    let stacks = Record::Stacks {
        image: 0,
        first: stack_end::FIRST_NODE,
        nodes: vec![StackNode {
            parent: 0,
            address: 1,
            mapping: NO_MAPPING,
            exact: false,
        }],
    };
    let records = [
        clock(1),
        run(0),
        run(1),
        run(2),
        clock(2),
        stacks,
        name.clone(),
    ];
    let (file, boundaries) = written_with_boundaries(&records);
    let damage = |repaired| {
        let mut file = file.clone();
        // In the last column of the second chunk of events.
        file[boundaries[3].0 - 1] ^= 0x80;
        if repaired {
            repair(&mut file);
        }
        file
    };
    for (damaged, verified) in [(damage(false), 2), (damage(true), 7)] {
        let mut reader = TraceReader::new(&damaged[..]).unwrap();
        reader.verify().unwrap();
        let undecoded = reader.entries().filter(Result::is_ok).count();
        assert_eq!(
            undecoded, verified,
            "`verify` detects wrong checksums, but decodes nothing"
        );
        let mut reader = TraceReader::new(&damaged[..]).unwrap();
        reader.cut_at_damage().unwrap();
        let (read, error) = records_of(&reader);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(read, [clock(1), run(0), name.clone()]);
        let shortfall = reader.shortfall().unwrap();
        assert_eq!(shortfall.cut.offset, boundaries[2].0 as u64);
        assert_eq!(shortfall.bytes, (file.len() - boundaries[2].0) as u64);
        assert_eq!(shortfall.events, Some(6));
    }
}

#[test]
fn without_verification_damage_is_reported_when_the_chunk_is_read() {
    let run = |first_ordinal| {
        let kind = EventKind::Allocation;
        let entry = EntryPoint::Malloc;
        let event = Event {
            kind,
            entry,
            alignment_log2: 0,
            stack: 8,
            address: 16,
            size: 1,
        };
        Record::Events(Events {
            image: 0,
            stream: 0,
            first_ordinal,
            events: vec![event],
        })
    };
    let (file, boundaries) = written_with_boundaries(&[run(0), clock(1), clock(2)]);
    let mut damaged = file.clone();
    damaged[boundaries[1].0 - 1] ^= 1;
    damaged[boundaries[2].0 - 1] ^= 1;
    let reader = TraceReader::new(&damaged[..]).unwrap();
    let mut entries = reader.entries();
    let Some(Ok(Entry::Events(at))) = entries.next() else {
        panic!()
    };
    let read = reader.read_events(&at, &mut Vec::new());
    let is_damage = |error: &ReadError, begins: usize| {
        matches!(error, ReadError::Damaged { offset, reason: CutReason::PayloadChecksum }
            if *offset == begins as u64)
    };
    assert!(is_damage(&read.unwrap_err(), FILE_HEADER));
    assert!(is_damage(
        &entries.next().unwrap().unwrap_err(),
        boundaries[1].0
    ));
    assert!(entries.next().is_none(), "reading ends at the damage");
}

#[test]
fn the_totals_detect_a_removed_chunk() {
    let (file, boundaries) = written_with_boundaries(&[clock(1), clock(2), clock(3)]);
    let without = [&file[..boundaries[1].0], &file[boundaries[2].0..]].concat();
    let reader = TraceReader::new(&without[..]).unwrap();
    let offset = (without.len() - END_CHUNK) as u64;
    assert_eq!(
        reader.cut_at(),
        Some(Cut {
            offset,
            reason: CutReason::Totals
        })
    );
    assert_eq!(records_of(&reader).0, [clock(1), clock(3)]);
}

#[test]
fn bytes_after_the_closing_chunk_are_reported() {
    let mut file = written(&[clock(1)], Compression::Fast);
    let offset = file.len() as u64;
    file.push(0);
    let reader = TraceReader::new(&file[..]).unwrap();
    assert_eq!(
        reader.cut_at(),
        Some(Cut {
            offset,
            reason: CutReason::TrailingBytes
        })
    );
    assert_eq!(records_of(&reader).0, [clock(1)]);
}

/// A chunk with arbitrary contents and correct checksums.
fn chunk(
    kind: u16,
    coding: u8,
    summary: &[u8],
    payload: &[u8],
    decoded: u32,
    items: u32,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(kind.to_le_bytes());
    bytes.extend([coding, 0]);
    bytes.extend((summary.len() as u16).to_le_bytes());
    bytes.extend([0, 0]);
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(decoded.to_le_bytes());
    bytes.extend(items.to_le_bytes());
    bytes.extend(crc32fast::hash(payload).to_le_bytes());
    let checked = [&bytes[..], summary].concat();
    bytes.extend(crc32fast::hash(&checked).to_le_bytes());
    [&bytes[..], summary, payload].concat()
}

/// A file header and a chunk with one record, without a closing chunk.
fn beginning() -> Vec<u8> {
    let (file, boundaries) = written_with_boundaries(&[clock(1)]);
    file[..boundaries[1].0].to_vec()
}

#[test]
fn unknown_chunks_are_skipped_whatever_their_summary() {
    for summary in [0, 5, 300, 65_535] {
        let mut file = beginning();
        file.extend(chunk(999, 77, &vec![1; summary], b"from the future", 15, 3));
        file.extend(&beginning()[FILE_HEADER..]);
        let reader = TraceReader::new(&file[..]).unwrap();
        assert_eq!(reader.readable_bytes(), file.len() as u64);
        assert_eq!(records_of(&reader).0, [clock(1), clock(1)]);
    }
}

#[test]
fn unknown_records_are_skipped_and_added_fields_ignored() {
    let unknown = [200, 1, 3, 9, 9, 9];
    let longer_thread_end = [7, 4, 5, 6, 1, 1];
    let payload = [&unknown[..], &longer_thread_end].concat();
    let mut file = beginning();
    file.extend(chunk(1, 0, &[], &payload, payload.len() as u32, 2));
    let reader = TraceReader::new(&file[..]).unwrap();
    let (records, error) = records_of(&reader);
    assert!(error.is_none(), "{error:?}");
    let thread_end = Record::ThreadEnd(ThreadEnd { thread: 5, tick: 6 });
    assert_eq!(records, [clock(1), thread_end]);
}

#[test]
fn chunks_beyond_the_limits_end_the_readable_part() {
    let over = (32 << 20) + 1;
    let events = MAX_EVENTS as u32 + 1;
    let summary = [0; 76];
    let cases = [
        (chunk(1, 1, &[], &[0; 5000], over, 1), CutReason::TooLarge),
        (
            chunk(1, 1, &[], &[0; 5000], (8 << 20) + 1, 1),
            CutReason::TooLarge,
        ),
        (
            chunk(1, 1, &[], &[0; 4], 1 << 20, 1),
            CutReason::Compression,
        ),
        (chunk(1, 0, &[], &[0; 4], 5, 1), CutReason::Compression),
        (chunk(1, 9, &[], &[0; 4], 4, 1), CutReason::UnknownCoding),
        (
            chunk(2, 1, &summary, &[0; 4000], 4000, events),
            CutReason::TooLarge,
        ),
    ];
    for (case, reason) in cases {
        let mut file = beginning();
        let offset = file.len() as u64;
        file.extend(case);
        let reader = TraceReader::new(&file[..]).unwrap();
        assert_eq!(reader.cut_at(), Some(Cut { offset, reason }));
    }
}

#[test]
fn malformed_records_are_reported_as_damage() {
    let cases: [(&[u8], u32); 10] = [
        (&[2], 1),                       // a tag without a length
        (&[2, 9, 0], 1),                 // longer than the chunk
        (&[6, 4, 0, 2, 0xff, 0xfe], 1),  // a thread's name that is not UTF-8
        (&[11, 3, 0, 8, 0xff, 0x7f], 1), // more stack nodes than bytes
        (&[7, 2, 5, 6, 0], 1),           // a byte after the last record
        (&[26, 2, 0, 5], 1),             // more environment variables than bytes
        (&[26, 4, 0, 1, 7, b'A'], 1),    // a variable's name is longer than the record
        (&[26, 5, 0, 1, 3, b'=', 1], 1), // a variable's name that cannot be one
        // A value of 8 MiB, and one whose length has more than 32 bits.
        (&[26, 7, 0, 1, 2, 0x80, 0x80, 0x80, 4], 1),
        (&[26, 9, 0, 1, 2, 0x80, 0x80, 0x80, 0x80, 0x80, 1], 1),
    ];
    for (payload, items) in cases {
        let mut file = beginning();
        let begins = file.len() as u64;
        file.extend(chunk(1, 0, &[], payload, payload.len() as u32, items));
        let reader = TraceReader::new(&file[..]).unwrap();
        match records_of(&reader).1 {
            Some(ReadError::Damaged {
                offset,
                reason: CutReason::Malformed(_),
            }) => {
                assert_eq!(offset, begins, "{payload:?}");
            }
            other => panic!("{payload:?}: {other:?}"),
        }
    }
}

#[test]
fn files_that_are_no_traces_have_errors_of_their_own() {
    let open = |bytes: &[u8]| TraceReader::new(bytes).err().unwrap();
    assert!(matches!(open(b""), ReadError::Empty));
    assert!(matches!(
        open(b"#!/bin/sh\necho a text file\n"),
        ReadError::Foreign
    ));
    assert!(matches!(
        open(b"ALLO"),
        ReadError::ShortHeader {
            length: 4,
            header: 16
        }
    ));
    assert!(matches!(
        open(b"ALLOTROP\x01\0"),
        ReadError::ShortHeader { length: 10, .. }
    ));
    let newer = open(b"ALLOTROP\x04\0\x07\0\0\0\0\0").to_string();
    assert!(
        newer.contains("4.7") && newer.contains("reads version 2.x"),
        "{newer}"
    );
    let nothing = open(b"ALLOTROP\x02\0\0\0\0\0\0\0");
    let not_closed = Cut {
        offset: 16,
        reason: CutReason::NotClosed,
    };
    assert!(matches!(nothing, ReadError::Nothing(cut) if cut == not_closed));
}

#[test]
fn a_missing_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = TraceReader::open(&folder.path().join("none"))
        .err()
        .unwrap();
    assert!(matches!(error, ReadError::Io { offset: 0, .. }));
}

#[test]
fn a_file_on_disk_is_read_like_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let mut writer = TraceWriter::new(std::fs::File::create(&path).unwrap()).unwrap();
    writer.write(&clock(7)).unwrap();
    writer.finish().unwrap();
    let reader = TraceReader::open(&path).unwrap();
    assert!(reader.is_complete());
    let entries: Vec<_> = reader.entries().map(Result::unwrap).collect();
    assert_eq!(entries, [Entry::Record(clock(7))]);
}

/// Reads everything, as the commands do, and checks the limits.
fn read_all(bytes: &[u8]) {
    let Ok(mut reader) = TraceReader::new(bytes) else {
        return;
    };
    assert!(reader.readable_bytes() <= bytes.len() as u64);
    for _ in 0..2 {
        let mut events = Vec::new();
        for entry in reader.entries().flatten() {
            if let Entry::Events(at) = entry {
                let read = reader.read_events(&at, &mut events);
                assert!(events.len() <= MAX_EVENTS);
                assert_eq!(events.len(), read.map_or(0, |()| at.events as usize));
            }
        }
        let (mut stack_nodes, mut nodes) = (reader.stack_nodes(), Vec::new());
        for entry in reader.outline().flatten() {
            if let OutlineEntry::Stacks(at) = entry {
                let read = stack_nodes.read(&at, &mut nodes);
                assert!(read.is_err() || nodes.len() == at.nodes);
            }
        }
        if reader.verify().is_err() {
            return;
        }
    }
}

/// A symbol of an event. New, small and predicted shape numbers are frequent, because
/// others end the decoding.
fn symbol() -> impl Strategy<Value = u8> {
    let field = prop_oneof![3 => Just(61_u8), 2 => 0..3_u8, 2 => 62..64_u8, 1 => 0..64_u8];
    (field, 0..4_u8).prop_map(|(field, bits)| field << 2 | bits)
}

/// Sets the checksums of all chunks, so that damage gets past their verification.
fn repair(file: &mut [u8]) {
    let mut at = FILE_HEADER;
    while at + CHUNK_HEADER <= file.len() {
        let u32_at = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        let summary = usize::from(u16::from_le_bytes([file[at + 4], file[at + 5]]));
        let payload = at + CHUNK_HEADER + summary;
        let Some(end) = payload
            .checked_add(u32_at(at + 8))
            .filter(|&end| end <= file.len())
        else {
            return;
        };
        let payload_crc = crc32fast::hash(&file[payload..end]).to_le_bytes();
        file[at + 20..at + 24].copy_from_slice(&payload_crc);
        let checked = [&file[at..at + 24], &file[at + CHUNK_HEADER..payload]].concat();
        let header_crc = crc32fast::hash(&checked).to_le_bytes();
        file[at + 24..at + 28].copy_from_slice(&header_crc);
        at = end;
    }
}

/// A short, repeatable form of the fuzz target `read_trace`.
#[test]
fn thousands_of_mutated_files_cause_no_panic() {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |limit: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 20) as usize % limit
    };
    let mut runner = TestRunner::deterministic();
    let mut records = some_records(20);
    let events = vec(event(), 400).new_tree(&mut runner).unwrap().current();
    records.push(Record::Events(Events {
        image: 1,
        stream: 2,
        first_ordinal: 3,
        events,
    }));
    let files = [
        written(&records, Compression::None),
        written(&records, Compression::Fast),
    ];
    for round in 0..6000 {
        let mut file = files[round % 2].clone();
        for _ in 0..1 + random(4) {
            let at = random(file.len());
            match random(4) {
                0 => file[at] ^= 1 << random(8),
                1 => file[at] = [0, 0xff, 0x80, 0x7f][random(4)],
                2 => file[at] = random(256) as u8,
                _ => {
                    let from = random(file.len());
                    let length = random(16).min(file.len() - at.max(from));
                    file.copy_within(from..from + length, at);
                }
            }
        }
        if round % 4 < 3 {
            repair(&mut file);
        }
        if random(8) == 0 {
            file.truncate(random(file.len()));
        }
        read_all(&file);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_changed_byte_of_any_file_causes_a_panic(
        records in vec(record(), 1..10),
        at: prop::sample::Index,
        byte: u8,
        repaired: bool,
    ) {
        let mut file = written(&records, Compression::None);
        let at = at.index(file.len());
        file[at] ^= byte;
        if repaired {
            repair(&mut file);
        }
        read_all(&file);
    }

    #[test]
    fn no_bytes_as_an_event_payload_cause_a_panic(payload in vec(any::<u8>(), 9..200), count in 0..64_u32) {
        let mut file = beginning();
        file.extend(chunk(2, 0, &[0; 76], &payload, payload.len() as u32, count));
        read_all(&file);
    }

    #[test]
    fn no_bytes_as_event_columns_cause_a_panic(
        shift in 0..6_u8,
        symbols in vec(symbol(), 1..100),
        columns in vec(vec(prop_oneof![0..10_u8, any::<u8>()], 0..100), 9),
    ) {
        let columns: Vec<&[u8]> = [&symbols].into_iter().chain(&columns).map(|column| &column[..]).collect();
        // All lengths are below 128, so their varints have one byte each.
        let lengths: Vec<u8> = columns.iter().map(|column| column.len() as u8).collect();
        let payload = [&[shift], &lengths[..], &columns.concat()].concat();
        let mut file = beginning();
        file.extend(chunk(2, 0, &[0; 76], &payload, payload.len() as u32, symbols.len() as u32));
        read_all(&file);
    }
}
