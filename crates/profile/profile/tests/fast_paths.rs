//! The fast paths of the aggregation lead to the same profile as the general path. Events are
//! accumulated in batches, but one by one if the image has a window. They are merged in
//! batches, but one by one if the image has very many streams. So the tests aggregate the
//! same events with and without a window, and with and without many empty streams.

mod story;

use allotrope_profile::Process;
use allotrope_trace::model::{Event, Record};
use proptest::prelude::*;
use story::*;

/// Number of streams with which the merge does not use its fast path.
const MANY_STREAMS: usize = 257;

/// Aggregates an image with these streams, in chunks of `chunk` events. `with_window` adds a
/// window to which no event belongs; `more` is a number of additional streams without
/// allocations or deallocations.
fn aggregated(streams: &[Vec<Event>], chunk: usize, with_window: bool, more: usize) -> Process {
    let mut story = Story::one_image();
    if with_window {
        story.push(Record::Window(window("later", 1)));
    }
    let empty = vec![vec![timestamp(0)]; more];
    for (number, events) in (0..).zip(streams.iter().chain(&empty)) {
        for part in events.chunks(chunk) {
            story.events(0, number, part);
        }
    }
    let process = story.process(u64::from(u32::MAX));
    assert_eq!(process.windows.len(), usize::from(with_window));
    Process {
        windows: Vec::new(),
        ..process
    }
}

/// Checks that accumulating in batches changes nothing.
fn check_batches(streams: &[Vec<Event>], chunk: usize) {
    let fast = aggregated(streams, chunk, false, 0);
    assert_eq!(fast, aggregated(streams, chunk, true, 0));
}

/// Checks that accumulating and merging in batches changes nothing.
fn check_all_fast_paths(streams: &[Vec<Event>], chunk: usize) {
    check_batches(streams, chunk);
    let fast = aggregated(streams, chunk, false, 0);
    assert_eq!(fast, aggregated(streams, chunk, false, MANY_STREAMS));
}

/// The events of operations (kind, address, size) of a thread, legal or not.
fn events(operations: &[(u8, u64, u64)], mut tick: u64) -> Vec<Event> {
    let event = |&(kind, at, size): &(u8, u64, u64)| {
        let stack = 8 + (size % 20) as u32;
        match kind {
            0..=5 => vec![alloc(stack, at, size)],
            6..=10 => vec![free(at)],
            11..=12 => vec![alloc(stack, at, size), free(at)],
            13..=14 => vec![realloc_start(at), realloc_end(stack, size % 50, size)],
            15 => vec![
                realloc_start(at),
                alloc(stack, size, size),
                realloc_end(stack, at, 1),
            ],
            16 => vec![realloc_start(at), realloc_failed()],
            17 => vec![realloc_start(at), realloc_freed()],
            18 => vec![realloc_start(at)],
            19 => vec![realloc_end(stack, at, size)],
            20 => vec![thread((size % 4) as u32)],
            _ => {
                tick += size * size;
                vec![timestamp(tick)]
            }
        }
    };
    operations.iter().flat_map(event).collect()
}

fn operations(most: usize) -> impl Strategy<Value = Vec<(u8, u64, u64)>> {
    prop::collection::vec((0..24_u8, 0..50_u64, 0..900_u64), 0..most)
}

proptest! {
    #[test]
    fn one_stream(operations in operations(600), chunk in 1..200_usize) {
        check_batches(&[events(&operations, 0)], chunk);
    }

    /// Many moments have as many live bytes as the peak, also moments after the
    /// deallocation of a block of 0 bytes.
    #[test]
    fn one_stream_with_many_ties_for_the_peak(
        operations in prop::collection::vec((0..24_u8, 0..5_u64, 0..3_u64), 0..300),
        chunk in 1..200_usize,
    ) {
        check_batches(&[events(&operations, 0)], chunk);
    }
}

proptest! {
    // Few cases, because the merge searches long for an order of illegal events.
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn streams_one_after_the_other(
        batches in prop::collection::vec((0..3_usize, operations(1_500)), 1..5),
        chunk in 50..2_000_usize,
    ) {
        // The batches are further apart than the times of their events are uncertain, so
        // that their order is certain.
        let mut streams = vec![vec![thread(1)], vec![thread(2)], vec![thread(3)]];
        for (at, (stream, operations)) in (1..).zip(&batches) {
            let begin = at * 10_000_000_000;
            streams[*stream].push(timestamp(begin));
            streams[*stream].extend(events(operations, begin));
            streams[*stream].push(timestamp(begin + 9_000_000_000));
        }
        check_batches(&streams, chunk);
    }
}

/// The streams of threads that share 40 addresses. An operation is (thread, kind,
/// address, size, nanoseconds since the operation before). Each thread records a
/// timestamp before every `timestamp_each`th of its events.
fn shared(operations: &[(usize, u8, u64, u64, u64)], timestamp_each: usize) -> Vec<Vec<Event>> {
    let mut streams: Vec<Vec<Event>> = (1..=4).map(|id| vec![thread(id)]).collect();
    let mut live = std::collections::BTreeSet::new();
    let mut tick = 0;
    for &(by, kind, at, size, passed) in operations {
        tick += passed;
        let stack = 8 + (size % 20) as u32;
        let (address, other) = (at * 16, (at / 10 * 10 + (at + 1) % 10) * 16);
        let mut events = match (kind, live.contains(&address), live.contains(&other)) {
            (0, true, false) => {
                live.insert(other);
                vec![realloc_start(address), realloc_end(stack, other, size)]
            }
            (_, true, _) => vec![free(address)],
            (..) => vec![alloc(stack, address, size)],
        };
        if !live.remove(&address) {
            live.insert(address);
        }
        let stream = &mut streams[by];
        if stream.len().is_multiple_of(timestamp_each) {
            stream.push(timestamp(tick));
        }
        stream.append(&mut events);
    }
    streams
}

fn shared_operations() -> impl Strategy<Value = Vec<(usize, u8, u64, u64, u64)>> {
    prop::collection::vec(
        (0..4_usize, 0..4_u8, 0..40_u64, 0..900_u64, 0..400_u64),
        0..3_000,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn streams_that_share_addresses(
        operations in shared_operations(),
        timestamp_each in 1..40_usize,
        chunk in 20..500_usize,
    ) {
        check_batches(&shared(&operations, timestamp_each), chunk);
    }

    /// The streams share no address, so that only the times determine the order.
    #[test]
    fn streams_with_addresses_of_their_own(
        operations in shared_operations(),
        timestamp_each in 1..40_usize,
        chunk in 50..2_000_usize,
    ) {
        let own = |&(_, kind, at, size, passed): &(usize, u8, u64, u64, u64)| {
            ((at / 10) as usize, kind, at, size, passed)
        };
        let operations: Vec<_> = operations.iter().map(own).collect();
        check_all_fast_paths(&shared(&operations, timestamp_each), chunk);
    }
}

/// There are so many blocks that the records of live blocks are prefetched.
#[test]
fn very_many_live_blocks() {
    const BLOCKS: u64 = 40_000;
    // A step that is coprime to the number of blocks reaches each of them once.
    let scattered = |n: u64| n * 17_977 % BLOCKS * 48;
    let mut all = vec![thread(1)];
    for n in 0..BLOCKS {
        all.push(alloc(8 + (n % 20) as u32, n * 48, n % 100));
        all.extend((n % 7 == 0).then(|| timestamp(n * 500)));
    }
    for n in 0..BLOCKS {
        let address = scattered(n);
        match n % 3 {
            0 => all.push(free(address)),
            1 => all.extend([realloc_start(address), realloc_end(9, address + 16, 8)]),
            _ => all.extend([free(address), alloc(10, address, 5)]),
        }
        all.extend((n % 11 == 0).then(|| timestamp((BLOCKS + n) * 500)));
    }
    check_batches(&[all.clone()], 10_000);
    let process = aggregated(&[all], 10_000, false, 0);
    assert_eq!(
        (process.lost_events, process.unmatched_deallocations),
        (0, 0)
    );
    // Every third block was freed and not replaced.
    assert_eq!(
        process.totals.leaked_allocations,
        BLOCKS - BLOCKS.div_ceil(3)
    );
}
