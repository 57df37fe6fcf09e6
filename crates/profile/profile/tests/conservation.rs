//! Properties of every history: the sums agree with each other, and the aggregation finds an
//! order of concurrent threads' events in which no event counts as lost.

mod story;

use std::collections::BTreeMap;

use allotrope_profile::{Process, Totals};
use allotrope_trace::model::Event;
use proptest::prelude::*;
use story::*;

/// What a thread does next.
#[derive(Debug, Clone, Copy)]
struct Operation {
    thread: usize,
    /// 0 to 2: allocates; 3 to 5: frees; 6 and 7: reallocates.
    kind: u8,
    /// Chooses the block that is freed, and the stack.
    choice: usize,
    size: u64,
    /// Threads record a timestamp afterwards.
    timestamp: bool,
}

fn operations(threads: usize, most: usize) -> impl Strategy<Value = Vec<Operation>> {
    let operation = (
        0..threads,
        0..8_u8,
        any::<usize>(),
        0..1000_u64,
        prop::bool::weighted(0.15),
    );
    let operation = operation.prop_map(|(thread, kind, choice, size, timestamp)| Operation {
        thread,
        kind,
        choice,
        size,
        timestamp,
    });
    prop::collection::vec(operation, 1..most)
}

/// A simulated run of a program: its streams and its true totals.
struct History {
    streams: Vec<Vec<Event>>,
    truth: Totals,
}

/// Runs the operations one after the other, a microsecond each. The allocator always
/// uses the address that was freed last, by any thread: the hardest case for finding the
/// order of the events.
fn run(threads: usize, operations: &[Operation], always_timestamp: bool) -> History {
    let mut streams: Vec<Vec<Event>> = (1..=threads).map(|n| vec![thread(n as u32)]).collect();
    let mut live: BTreeMap<u64, (u64, usize, u64)> = BTreeMap::new();
    let mut unused: Vec<u64> = Vec::new();
    let mut next_address = 0x1000;
    let mut made = vec![0_u64; threads];
    let mut truth = Totals::default();
    let mut live_bytes = 0;
    for (operation, tick) in operations.iter().zip((1_000_u64..).step_by(1_000)) {
        let stream = &mut streams[operation.thread];
        let old = (!live.is_empty()).then(|| {
            let at = operation.choice % live.len();
            *live.keys().nth(at).expect("within the live blocks")
        });
        let frees = operation.kind >= 3;
        let reallocates = operation.kind >= 6;
        if let (true, Some(address)) = (frees, old) {
            if operation.kind == 7 && operation.size % 3 == 0 {
                stream.push(realloc_start(address));
                stream.push(realloc_failed());
                continue;
            }
            stream.push(if reallocates {
                realloc_start(address)
            } else {
                free(address)
            });
            let (size, by, sequence) = live.remove(&address).expect("chosen among the live");
            truth.deallocations += 1;
            truth.temporary_allocations +=
                u64::from(by == operation.thread && sequence == made[by]);
            live_bytes -= size;
            unused.push(address);
        }
        if !frees || old.is_none() || reallocates {
            let address = unused.pop().unwrap_or_else(|| {
                next_address += 0x10;
                next_address
            });
            let stack = 8 + (operation.choice % 5) as u32;
            if reallocates && old.is_some() {
                stream.push(realloc_end(stack, address, operation.size));
                truth.reallocations += 1;
            } else {
                stream.push(alloc(stack, address, operation.size));
            }
            made[operation.thread] += 1;
            live.insert(
                address,
                (operation.size, operation.thread, made[operation.thread]),
            );
            truth.allocations += 1;
            truth.allocated_bytes += operation.size;
            live_bytes += operation.size;
        }
        if live_bytes >= truth.peak_bytes {
            truth.peak_bytes = live_bytes;
            truth.peak_allocations = live.len() as u64;
        }
        if operation.timestamp || always_timestamp {
            for stream in &mut streams {
                if always_timestamp || stream.len() % 2 == 0 {
                    stream.push(timestamp(tick + 10));
                }
            }
        }
    }
    truth.leaked_allocations = live.len() as u64;
    truth.leaked_bytes = live_bytes;
    let end = 1_000 * (operations.len() as u64 + 2);
    for stream in &mut streams {
        stream.push(timestamp(end));
    }
    History { streams, truth }
}

/// Aggregates the history, with streams in chunks of `chunk` events.
fn aggregate_of(history: &History, chunk: usize) -> Process {
    let mut story = Story::one_image();
    for (number, events) in (0..).zip(&history.streams) {
        for part in events.chunks(chunk) {
            story.events(0, number, part);
        }
    }
    story.process(10_000_000)
}

/// Checks that the sums by site, thread and entry point agree with the totals.
fn check_sums(process: &Process) {
    let totals = process.totals;
    let matched =
        totals.deallocations - totals.inherited_deallocations - process.unmatched_deallocations;
    // These traces report no losses. So each lost event is an implied deallocation, which
    // freed a block.
    assert_eq!(
        totals.allocations - matched - process.lost_events,
        totals.leaked_allocations
    );
    let sum = |of: fn(&allotrope_profile::Site) -> u64| process.sites.iter().map(of).sum::<u64>();
    assert_eq!(sum(|s| s.allocations), totals.allocations);
    assert_eq!(sum(|s| s.allocated_bytes), totals.allocated_bytes);
    assert_eq!(sum(|s| s.reallocations), totals.reallocations);
    assert_eq!(
        sum(|s| s.temporary_allocations),
        totals.temporary_allocations
    );
    assert_eq!(sum(|s| s.leaked_allocations), totals.leaked_allocations);
    assert_eq!(sum(|s| s.leaked_bytes), totals.leaked_bytes);
    assert_eq!(sum(|s| s.bytes_at_peak), totals.peak_bytes);
    assert_eq!(sum(|s| s.allocations_at_peak), totals.peak_allocations);
    assert_eq!(sum(|s| s.lifetimes.blocks), totals.allocations);
    let by_thread: u64 = process.threads.iter().map(|t| t.allocations).sum();
    let by_entry: u64 = process.entries.iter().map(|e| e.allocated_bytes).sum();
    assert_eq!(
        (by_thread, by_entry),
        (totals.allocations, totals.allocated_bytes)
    );
    let highest = process.live.samples.iter().map(|s| s.max_bytes).max();
    assert_eq!(highest.unwrap_or(0), totals.peak_bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_total_of_one_thread_is_exact(operations in operations(1, 200), chunk in 1..50_usize) {
        let history = run(1, &operations, false);
        let process = aggregate_of(&history, chunk);
        check_sums(&process);
        let peak_time_us = process.totals.peak_time_us;
        prop_assert_eq!(process.totals, Totals { peak_time_us, ..history.truth });
        prop_assert_eq!(process.ambiguous_events, 0);
    }

    #[test]
    fn every_total_is_exact_if_each_event_has_a_timestamp(operations in operations(3, 120)) {
        let history = run(3, &operations, true);
        let process = aggregate_of(&history, 64);
        check_sums(&process);
        prop_assert_eq!(process.lost_events, 0);
        // The start and the result of a reallocation are between the same two timestamps.
        let Totals { allocations, deallocations, reallocations, leaked_bytes, .. } = history.truth;
        let totals = process.totals;
        prop_assert_eq!(
            (totals.allocations, totals.deallocations, totals.reallocations, totals.leaked_bytes),
            (allocations, deallocations, reallocations, leaked_bytes)
        );
        prop_assert_eq!(totals.peak_bytes, history.truth.peak_bytes);
        prop_assert_eq!(totals.temporary_allocations, history.truth.temporary_allocations);
    }

    #[test]
    fn threads_are_put_in_a_legal_order(
        operations in operations(4, 150),
        chunk in 5..80_usize,
    ) {
        let history = run(4, &operations, false);
        let process = aggregate_of(&history, chunk);
        check_sums(&process);
        prop_assert_eq!(process.lost_events, 0, "lost");
        prop_assert_eq!(process.unmatched_deallocations, 0, "unmatched");
        prop_assert_eq!(process.totals.allocations, history.truth.allocations);
        prop_assert_eq!(process.totals.leaked_allocations, history.truth.leaked_allocations);
    }

    #[test]
    fn sums_agree_even_for_illegal_events(
        streams in prop::collection::vec(
            prop::collection::vec((0..10_u8, 0..6_u64, 0..100_u64), 0..120),
            1..4,
        ),
    ) {
        let mut story = Story::one_image();
        for (number, stream) in (0..).zip(&streams) {
            let events: Vec<Event> = stream.iter().map(|&(kind, at, size)| match kind {
                0..=2 => alloc(8 + at as u32, at, size),
                3..=4 => free(at),
                5 => realloc_start(at),
                6 => realloc_end(9, at, size),
                7 => if size % 2 == 0 { realloc_failed() } else { realloc_freed() },
                8 => timestamp(size * 1_000),
                _ => thread((size % 5) as u32),
            }).collect();
            story.events(0, number, &events);
        }
        check_sums(&story.process(1_000_000));
    }
}
