//! Damage inside the chunks of a trace that is large enough for helper threads: the
//! aggregation ends, with an error that has the position of the damage.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use allotrope_profile::{AggregateError, Options, aggregate, aggregate_readable};
use allotrope_trace::model::*;
use allotrope_trace::{ReadError, TraceReader, TraceWriter};

/// Number of chunks of events, and of allocations in each, nearly all of which are freed:
/// more than twice the number of events from which on helper threads are used.
const CHUNKS: u64 = 200;
const ALLOCATIONS: u64 = 1_000;
/// An aggregation of this size never takes longer, however busy the machine.
const DEADLINE: Duration = Duration::from_secs(120);

fn event(kind: EventKind, stack: u32, address: u64, size: u64) -> Event {
    Event {
        kind,
        entry: EntryPoint::Malloc,
        alignment_log2: 0,
        stack,
        address,
        size,
    }
}

/// A trace file with this many streams. Each chunk allocates blocks of 16 bytes and frees
/// all but one. Also returns the offsets at which the chunks begin and the last one ends.
fn written(streams: u64) -> (Vec<u8>, Vec<usize>) {
    let mut writer = TraceWriter::new(Vec::new()).expect("memory takes everything");
    let start = ImageStart {
        image: 0,
        pid: 1,
        parent_pid: 0,
        origin: Origin::First,
        forked_from: None,
        fork_points: vec![],
        executable: "/bin/p".into(),
        command: vec!["p".into()],
        tick: 0,
    };
    let node = StackNode {
        parent: stack_end::COMPLETE,
        address: 16,
        mapping: NO_MAPPING,
        exact: true,
    };
    let stacks = Record::Stacks {
        image: 0,
        first: stack_end::FIRST_NODE,
        nodes: vec![node],
    };
    for record in [
        Record::Recording(Recording::default()),
        Record::ImageStart(start),
        stacks,
    ] {
        writer.write(&record).expect("memory takes everything");
    }
    let mut begins = Vec::new();
    for chunk in 0..CHUNKS {
        writer.flush().expect("memory takes everything");
        begins.push(writer.bytes_written() as usize);
        let mut events = vec![
            event(EventKind::Thread, 0, 0, 0),
            event(EventKind::Timestamp, 0, 1_000 * chunk, 0),
        ];
        let addresses = (0..ALLOCATIONS).map(|block| (chunk * ALLOCATIONS + block) * 16);
        let stack = stack_end::FIRST_NODE;
        events.extend(
            addresses
                .clone()
                .map(|at| event(EventKind::Allocation, stack, at, 16)),
        );
        let freed = addresses.skip(1);
        events.extend(freed.map(|at| event(EventKind::Deallocation, 0, at, 0)));
        let before = chunk / streams * (2 * ALLOCATIONS - 1);
        writer
            .write_events(0, (chunk % streams) as u32, before, &events)
            .expect("memory takes everything");
    }
    begins.push(writer.bytes_written() as usize);
    // Names follow the events.
    let name = ThreadName {
        thread: 0,
        name: "the name".into(),
    };
    let end = ImageEnd {
        image: 0,
        tick: 1_000 * CHUNKS,
        exit: Exit::Status(0),
        complete: true,
    };
    for record in [Record::ThreadName(name), Record::ImageEnd(end)] {
        writer.write(&record).expect("memory takes everything");
    }
    (writer.finish().expect("memory takes everything"), begins)
}

/// Runs `work` with a reader of the file on another thread, and waits for its result at
/// most until the deadline.
fn in_time<T: Send + 'static>(
    file: Vec<u8>,
    work: impl FnOnce(&mut TraceReader<&[u8]>) -> T + Send + 'static,
) -> T {
    let (sender, result) = channel();
    thread::spawn(move || {
        let mut trace = TraceReader::new(&file[..]).expect("its headers are whole");
        let _ = sender.send(work(&mut trace));
    });
    result.recv_timeout(DEADLINE).expect("the aggregation ends")
}

/// Reported: `report` hangs at a damaged file.
#[test]
fn a_flipped_bit_in_any_chunk_of_events_ends_the_aggregation() {
    for streams in [1, 3] {
        let (file, begins) = written(streams);
        for damaged in [0, 1, 2, 7, 50, 101, CHUNKS as usize - 1] {
            let mut file = file.clone();
            file[begins[damaged + 1] - 1] ^= 1;
            match in_time(file, |trace| aggregate(trace, &Options::default())) {
                Err(AggregateError::Read(ReadError::Damaged { offset, .. })) => {
                    assert_eq!(offset, begins[damaged] as u64);
                }
                other => panic!("{streams} streams, chunk {damaged}: {other:?}"),
            }
        }
    }
}

#[test]
fn events_before_the_damage_are_aggregated_with_the_names_after_it() {
    for streams in [1, 3] {
        let (file, begins) = written(streams);
        let length = file.len() as u64;
        for damaged in [1, 2, 50, CHUNKS - 1] {
            let (mut file, begins) = (file.clone(), begins.clone());
            file[begins[damaged as usize + 1] - 1] ^= 1;
            let profile = in_time(file, |trace| aggregate_readable(trace, &Options::default()));
            let profile = profile.expect("something is readable");
            let process = &profile.processes[0];
            assert_eq!(process.totals.allocations, damaged * ALLOCATIONS);
            assert_eq!(process.totals.leaked_allocations, damaged);
            assert_eq!(process.threads[0].name, "the name");
            assert_eq!((process.exit, process.complete), (Exit::Running, false));
            let at = begins[damaged as usize] as u64;
            let bytes = length - at;
            let events = (CHUNKS - damaged) * (2 * ALLOCATIONS - 1);
            let cut = profile.cut.expect("it is not whole");
            assert!(cut.contains(&format!("up to byte {at}: ")), "{cut}");
            let missing = format!("the {bytes} bytes from there on, with {events} events,");
            assert!(cut.contains(&missing), "{cut}");
        }
    }
}
