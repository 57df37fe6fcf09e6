//! Events come to the books by a short way, a stretch at a time, unless the image
//! has a window: then one by one. What is said of the image must not depend on it.

mod story;

use allotrope_profile::Process;
use allotrope_trace::model::{Event, Record};
use proptest::prelude::*;
use story::*;

/// The image of these streams, in runs of this many events; with a window that no
/// event belongs to, or without.
fn replayed(streams: &[Vec<Event>], run: usize, with_window: bool) -> Process {
    let mut story = Story::one_image();
    if with_window {
        story.push(Record::Window(window("later", 1)));
    }
    for (number, events) in (0..).zip(streams) {
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
    let (short, long) = (replayed(streams, run, false), replayed(streams, run, true));
    assert_eq!(short, long);
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

}

proptest! {
    // To look for an order that nonsense does not have takes its time.
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn of_streams_one_after_the_other(
        stretches in prop::collection::vec((0..3_usize, deeds(1_500)), 1..5),
        run in 50..2_000_usize,
    ) {
        // More than one event's time is uncertain, so that their order is not open.
        let mut streams = vec![vec![thread(1)], vec![thread(2)], vec![thread(3)]];
        for (at, (stream, deeds)) in (1..).zip(&stretches) {
            let begin = at * 10_000_000_000;
            streams[*stream].push(anchor(begin));
            streams[*stream].extend(events(deeds, begin));
            streams[*stream].push(anchor(begin + 9_000_000_000));
        }
        agrees(&streams, run);
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
    let process = replayed(&[all], 10_000, false);
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
