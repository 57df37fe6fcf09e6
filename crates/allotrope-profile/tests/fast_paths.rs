//! The fast paths of the replay give the same profile as the general way. Events are
//! accumulated a batch at a time, unless the image has a window: then one by one. They
//! are merged a batch at a time, unless the image has very many streams: then one by
//! one.

mod story;

use allotrope_profile::Process;
use allotrope_trace::model::{Event, Record};
use proptest::prelude::*;
use story::*;

/// With so many the order is found the long way.
const MANY_STREAMS: usize = 65;

/// The image of these streams, in runs of this many events; with a window that no
/// event belongs to, or without.
/// Among the streams are as many more that hold no event.
fn replayed(streams: &[Vec<Event>], run: usize, with_window: bool, more: usize) -> Process {
    let mut story = Story::one_image();
    if with_window {
        story.push(Record::Window(window("later", 1)));
    }
    let empty = vec![vec![anchor(0)]; more];
    for (number, events) in (0..).zip(streams.iter().chain(&empty)) {
        for part in events.chunks(run) {
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

fn agrees(streams: &[Vec<Event>], run: usize) {
    let short = replayed(streams, run, false, 0);
    assert_eq!(short, replayed(streams, run, true, 0));
}

fn agrees_among_many(streams: &[Vec<Event>], run: usize) {
    agrees(streams, run);
    let short = replayed(streams, run, false, 0);
    assert_eq!(short, replayed(streams, run, false, MANY_STREAMS));
}

/// What a thread did, sense or not: (kind, address, size).
fn events(deeds: &[(u8, u64, u64)], mut tick: u64) -> Vec<Event> {
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
                vec![anchor(tick)]
            }
        }
    };
    deeds.iter().flat_map(event).collect()
}

fn deeds(most: usize) -> impl Strategy<Value = Vec<(u8, u64, u64)>> {
    prop::collection::vec((0..24_u8, 0..50_u64, 0..900_u64), 0..most)
}

proptest! {
    #[test]
    fn of_one_stream(deeds in deeds(600), run in 1..200_usize) {
        agrees(&[events(&deeds, 0)], run);
    }

    /// Many moments have as many live bytes as the peak, also such that follow the
    /// deallocation of a block of 0 bytes.
    #[test]
    fn of_one_stream_with_many_ties(
        deeds in prop::collection::vec((0..24_u8, 0..5_u64, 0..3_u64), 0..300),
        run in 1..200_usize,
    ) {
        agrees(&[events(&deeds, 0)], run);
    }
}

proptest! {
    // To look for an order that nonsense does not have takes its time.
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn of_streams_one_after_the_other(
        batches in prop::collection::vec((0..3_usize, deeds(1_500)), 1..5),
        run in 50..2_000_usize,
    ) {
        // More than one event's time is uncertain, so that their order is not open.
        let mut streams = vec![vec![thread(1)], vec![thread(2)], vec![thread(3)]];
        for (at, (stream, deeds)) in (1..).zip(&batches) {
            let begin = at * 10_000_000_000;
            streams[*stream].push(anchor(begin));
            streams[*stream].extend(events(deeds, begin));
            streams[*stream].push(anchor(begin + 9_000_000_000));
        }
        agrees(&streams, run);
    }
}

/// What threads did that share 40 addresses: (thread, what, at which address, size,
/// nanoseconds since the deed before). Each marks the time before every `marked`th
/// of its events.
fn shared(deeds: &[(usize, u8, u64, u64, u64)], marked: usize) -> Vec<Vec<Event>> {
    let mut streams: Vec<Vec<Event>> = (1..=4).map(|id| vec![thread(id)]).collect();
    let mut live = std::collections::BTreeSet::new();
    let mut tick = 0;
    for &(by, what, at, size, passed) in deeds {
        tick += passed;
        let stack = 8 + (size % 20) as u32;
        let (place, other) = (at * 16, (at / 10 * 10 + (at + 1) % 10) * 16);
        let mut made = match (what, live.contains(&place), live.contains(&other)) {
            (0, true, false) => {
                live.insert(other);
                vec![realloc_start(place), realloc_end(stack, other, size)]
            }
            (_, true, _) => vec![free(place)],
            (..) => vec![alloc(stack, place, size)],
        };
        if !live.remove(&place) {
            live.insert(place);
        }
        let stream = &mut streams[by];
        if stream.len().is_multiple_of(marked) {
            stream.push(anchor(tick));
        }
        stream.append(&mut made);
    }
    streams
}

fn shared_deeds() -> impl Strategy<Value = Vec<(usize, u8, u64, u64, u64)>> {
    prop::collection::vec(
        (0..4_usize, 0..4_u8, 0..40_u64, 0..900_u64, 0..400_u64),
        0..3_000,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn of_streams_that_share_addresses(
        deeds in shared_deeds(),
        marked in 1..40_usize,
        run in 20..500_usize,
    ) {
        agrees(&shared(&deeds, marked), run);
    }

    /// Their times alone say in which order they are.
    #[test]
    fn of_streams_with_addresses_of_their_own(
        deeds in shared_deeds(),
        marked in 1..40_usize,
        run in 50..2_000_usize,
    ) {
        let own = |&(_, what, at, size, passed): &(usize, u8, u64, u64, u64)| {
            ((at / 10) as usize, what, at, size, passed)
        };
        let deeds: Vec<_> = deeds.iter().map(own).collect();
        agrees_among_many(&shared(&deeds, marked), run);
    }
}

/// More blocks than the tables of live blocks hold without being looked at ahead.
#[test]
fn of_very_many_live_blocks() {
    const BLOCKS: u64 = 40_000;
    // A step that is prime to the number of blocks meets each of them once.
    let scattered = |n: u64| n * 17_977 % BLOCKS * 48;
    let mut all = vec![thread(1)];
    for n in 0..BLOCKS {
        all.push(alloc(8 + (n % 20) as u32, n * 48, n % 100));
        all.extend((n % 7 == 0).then(|| anchor(n * 500)));
    }
    for n in 0..BLOCKS {
        let address = scattered(n);
        match n % 3 {
            0 => all.push(free(address)),
            1 => all.extend([realloc_start(address), realloc_end(9, address + 16, 8)]),
            _ => all.extend([free(address), alloc(10, address, 5)]),
        }
        all.extend((n % 11 == 0).then(|| anchor((BLOCKS + n) * 500)));
    }
    agrees(&[all.clone()], 10_000);
    let process = replayed(&[all], 10_000, false, 0);
    assert_eq!(
        (process.lost_events, process.unmatched_deallocations),
        (0, 0)
    );
    // Those of every third are gone.
    assert_eq!(
        process.totals.leaked_allocations,
        BLOCKS - BLOCKS.div_ceil(3)
    );
}
