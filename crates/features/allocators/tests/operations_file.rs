//! The operations file: what is written is read, and no damaged or hostile file is accepted
//! that the replayer could not replay.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use allotrope_allocators::replay::{
    Call, LiveCurve, Operations, OperationsError, OperationsWriter, Record, ThreadExit,
};
use proptest::prelude::*;

/// A correct program of random calls on a few slots and threads.
fn program() -> impl Strategy<Value = Vec<Record>> {
    let step = (0..8_u32, 0..3_u16, 0..10_u8, 0..1_u64 << 40, 0..13_u8);
    prop::collection::vec(step, 1..400).prop_map(|steps| {
        let mut used = [false; 8];
        let mut slots = 0;
        let mut threads = 0;
        let mut records = Vec::new();
        for (slot, thread, call, size, alignment_log2) in steps {
            let slot = slot.min(slots);
            let thread = thread.min(threads);
            let in_use = &mut used[slot as usize];
            let call = match Call::from_number(call).expect("below 10") {
                Call::Free if !*in_use => Call::Malloc,
                call if *in_use && call != Call::Free && !call.reallocates() => Call::Realloc,
                call => call,
            };
            *in_use = call != Call::Free;
            slots = slots.max((slot + 1).min(7));
            threads = threads.max((thread + 1).min(2));
            records.push(Record {
                call: call as u8,
                alignment_log2: if call.has_alignment() {
                    alignment_log2
                } else {
                    0
                },
                thread,
                slot,
                size: if call == Call::Free { 0 } else { size },
            });
        }
        records
    })
}

fn write(records: &[Record], exits: Vec<ThreadExit>) -> Operations {
    let mut writer = OperationsWriter::temporary().expect("a temporary file");
    for record in records {
        writer.push(*record).expect("it is written");
    }
    writer.finish(exits).expect("there are operations")
}

fn bytes_of(operations: &Operations) -> Vec<u8> {
    let mut file = operations.file().try_clone().expect("a descriptor");
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).expect("a regular file");
    file.read_to_end(&mut bytes).expect("a regular file");
    bytes
}

fn open(bytes: &[u8]) -> Result<Operations, OperationsError> {
    let mut file: File = tempfile::tempfile().expect("a temporary file");
    file.write_all(bytes).expect("it is written");
    Operations::open(file)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(records in program()) {
        let written = write(&records, Vec::new());
        let read = open(&bytes_of(&written)).expect("it is correct");
        prop_assert_eq!(read.len(), records.len() as u64);
        let all: Vec<Record> = read.records(0..read.len()).map(|it| it.unwrap()).collect();
        prop_assert_eq!(&all, &records);
        let middle = records.len() as u64 / 2;
        prop_assert_eq!(read.record(middle).unwrap(), records[middle as usize]);
        let frees = records.iter().filter(|it| it.call == Call::Free as u8).count();
        prop_assert_eq!(read.calls(Call::Free), frees as u64);
    }

    #[test]
    fn a_changed_byte_is_noticed(records in program(), at in any::<prop::sample::Index>(), change in 1..=255_u8) {
        let mut bytes = bytes_of(&write(&records, Vec::new()));
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        prop_assert!(open(&bytes).is_err(), "byte {} of {}", at, bytes.len());
    }

    #[test]
    fn a_cut_file_is_noticed(records in program(), at in any::<prop::sample::Index>()) {
        let bytes = bytes_of(&write(&records, Vec::new()));
        prop_assert!(open(&bytes[..at.index(bytes.len())]).is_err());
    }

    #[test]
    fn garbage_is_no_operations_file(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(open(&bytes).is_err());
    }

    /// Correct checksums do not help: every record is checked.
    #[test]
    fn hostile_records_are_refused_or_replayable(
        records in prop::collection::vec((any::<u8>(), any::<u8>(), 0..3_u16, 0..4_u32, any::<u64>()), 1..40)
    ) {
        let records: Vec<Record> = records
            .into_iter()
            .map(|(call, alignment_log2, thread, slot, size)| Record {
                call: call % 12,
                alignment_log2: alignment_log2 % 50,
                thread,
                slot,
                size: size >> (size % 64),
            })
            .collect();
        let opened = open(&bytes_of(&write(&records, Vec::new())));
        let mut used = [false; 4];
        let mut threads = 0;
        let is_correct = records.iter().all(|it| {
            let Some(call) = Call::from_number(it.call) else { return false };
            let in_use = std::mem::replace(&mut used[it.slot as usize], call != Call::Free);
            let next = threads.max(it.thread + 1);
            let in_turn = it.thread <= threads;
            threads = next;
            in_turn
                && it.size < 1 << 47
                && it.alignment_log2 <= if call.has_alignment() { 40 } else { 0 }
                && match call {
                    Call::Free => in_use && it.size == 0,
                    call => !in_use || call.reallocates(),
                }
        });
        // A file cannot have more slots than operations.
        let slots = records.iter().map(|it| it.slot as usize + 1).max();
        let is_correct = is_correct && slots <= Some(records.len());
        prop_assert_eq!(opened.is_ok(), is_correct);
    }
}

fn record(call: Call, thread: u16, slot: u32, size: u64) -> Record {
    Record {
        call: call as u8,
        alignment_log2: 0,
        thread,
        slot,
        size,
    }
}

#[test]
fn a_thread_does_not_end_before_its_last_call() {
    let records = [
        record(Call::Malloc, 0, 0, 1),
        record(Call::Malloc, 1, 1, 1),
        record(Call::Free, 0, 0, 0),
    ];
    let exit = |thread, before| ThreadExit { thread, before };
    assert!(open(&bytes_of(&write(&records, vec![exit(1, 2)]))).is_ok());
    assert!(open(&bytes_of(&write(&records, vec![exit(1, 1)]))).is_err());
    assert!(open(&bytes_of(&write(&records, vec![exit(2, 2)]))).is_err());
    // The first thread is the process's, and the end of all is no operation.
    assert_eq!(
        bytes_of(&write(&records, vec![exit(0, 2), exit(1, 3)])),
        bytes_of(&write(&records, Vec::new()))
    );
}

#[test]
fn without_operations_there_is_no_file() {
    let writer = OperationsWriter::temporary().expect("a temporary file");
    assert!(matches!(
        writer.finish(Vec::new()),
        Err(OperationsError::Empty)
    ));
}

#[test]
fn the_live_curve_follows_sizes_and_reallocations() {
    let operations = write(
        &[
            record(Call::Malloc, 0, 0, 100),
            record(Call::Calloc, 0, 1, 50),
            record(Call::Realloc, 0, 0, 300),
            record(Call::Free, 0, 1, 0),
            record(Call::Realloc, 0, 0, 10),
        ],
        Vec::new(),
    );
    let live = LiveCurve::of(&operations, 5).expect("it is readable");
    assert_eq!(live.peak, 350);
    assert_eq!(live.end, 10);
    assert_eq!(
        live.points,
        [(1, 100), (2, 150), (3, 350), (4, 300), (5, 10)]
    );
}
