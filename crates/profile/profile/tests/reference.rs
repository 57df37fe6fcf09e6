//! Compares the aggregation with a simple reference: a map of live blocks, updated by one
//! event after the other. The histories are long enough for every fast path, also that
//! for thousands of events of one stream in a row. They contain illegal events: blocks
//! that are freed twice or allocated twice.

mod story;

use std::collections::BTreeMap;

use allotrope_profile::{Process, Totals};
use allotrope_trace::model::Event;
use proptest::prelude::*;
use story::*;

/// Nanoseconds from one event to the next: more than the time stamp counters of two
/// processors may differ, so that the order is certain.
const APART: u64 = 10_000;

/// An allocation or deallocation of a thread.
#[derive(Debug, Clone, Copy)]
struct Operation {
    /// Index of the thread's stream.
    stream: usize,
    allocates: bool,
    address: u64,
    size: u64,
}

/// Batches of operations, each of one stream.
fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = (any::<bool>(), 0..300_u64, 0..2_000_u64);
    let batch = (0..3_usize, prop::collection::vec(operation, 1..3_000));
    prop::collection::vec(batch, 1..9).prop_map(|batches| {
        let of_batch = |(stream, operations): (usize, Vec<(bool, u64, u64)>)| {
            operations
                .into_iter()
                .map(move |(allocates, at, size)| Operation {
                    stream,
                    allocates,
                    address: at * 16,
                    size,
                })
        };
        batches.into_iter().flat_map(of_batch).collect()
    })
}

/// The stack of an allocation follows from its size.
fn stack_of(operation: &Operation) -> u32 {
    8 + (operation.size % 20) as u32
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Figures {
    allocations: u64,
    leaked_bytes: u64,
    temporary: u64,
    lifetimes_ns: u128,
    bytes_at_peak: u64,
    /// The largest number of live bytes, and the live blocks at the latest such moment.
    maximum: (u64, u64),
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Reference {
    totals: Totals,
    by_stack: BTreeMap<u32, Figures>,
    lost: u64,
    unmatched: u64,
}

/// Live blocks by address: the allocation, its time, and the number of allocations
/// that its thread had made, this one included.
type Live = BTreeMap<u64, (Operation, u64, u64)>;

/// The figures of the operations, found in the simple way.
fn reference(operations: &[Operation], end: u64) -> Reference {
    let mut reference = Reference::default();
    let mut live = Live::new();
    let mut made = [0; 3];
    let mut at_peak = Live::new();
    let mut bytes = 0;
    // Live bytes and blocks by stack.
    let mut levels: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for (operation, now) in operations.iter().zip((APART..).step_by(APART as usize)) {
        let ended = live.remove(&operation.address);
        if let Some((old, since, sequence)) = ended {
            let site = reference.by_stack.entry(stack_of(&old)).or_default();
            site.lifetimes_ns += u128::from(now - since);
            bytes -= old.size;
            let level = levels.entry(stack_of(&old)).or_default();
            *level = (level.0 - old.size, level.1 - 1);
            // A block of 0 bytes leaves the level where it is.
            if level.0 >= site.maximum.0 {
                site.maximum = *level;
            }
            let own = old.stream == operation.stream && sequence == made[old.stream];
            let temporary = u64::from(!operation.allocates && own);
            site.temporary += temporary;
            reference.totals.temporary_allocations += temporary;
        }
        if operation.allocates {
            reference.lost += u64::from(ended.is_some());
            made[operation.stream] += 1;
            live.insert(operation.address, (*operation, now, made[operation.stream]));
            bytes += operation.size;
            let site = reference.by_stack.entry(stack_of(operation)).or_default();
            site.allocations += 1;
            let level = levels.entry(stack_of(operation)).or_default();
            *level = (level.0 + operation.size, level.1 + 1);
            if level.0 >= site.maximum.0 {
                site.maximum = *level;
            }
            reference.totals.allocations += 1;
            reference.totals.allocated_bytes += operation.size;
        } else {
            reference.totals.deallocations += 1;
            reference.unmatched += u64::from(ended.is_none());
        }
        if bytes >= reference.totals.peak_bytes {
            reference.totals.peak_bytes = bytes;
            reference.totals.peak_allocations = live.len() as u64;
            reference.totals.peak_time_us = now / 1_000;
            at_peak.clone_from(&live);
        }
    }
    for (operation, _, _) in at_peak.into_values() {
        let site = reference.by_stack.entry(stack_of(&operation)).or_default();
        site.bytes_at_peak += operation.size;
    }
    reference.totals.leaked_allocations = live.len() as u64;
    reference.totals.leaked_bytes = bytes;
    for (operation, since, _) in live.into_values() {
        let site = reference.by_stack.entry(stack_of(&operation)).or_default();
        site.leaked_bytes += operation.size;
        site.lifetimes_ns += u128::from(end - since);
    }
    reference
}

fn of_process(process: &Process) -> Reference {
    let sites = process.sites.iter().map(|site| {
        let figures = Figures {
            allocations: site.allocations,
            leaked_bytes: site.leaked_bytes,
            temporary: site.temporary_allocations,
            lifetimes_ns: site.lifetimes.total_ns(),
            bytes_at_peak: site.bytes_at_peak,
            maximum: (site.max_bytes, site.max_allocations),
        };
        (site.stack_id, figures)
    });
    Reference {
        totals: process.totals,
        by_stack: sites.collect(),
        lost: process.lost_events,
        unmatched: process.unmatched_deallocations,
    }
}

/// Aggregates the operations. Each stream has a timestamp before and after each event.
fn aggregated(operations: &[Operation], end: u64) -> Process {
    let mut streams: Vec<Vec<Event>> = (1..=3).map(|n| vec![thread(n)]).collect();
    for (operation, now) in operations.iter().zip((APART..).step_by(APART as usize)) {
        streams[operation.stream].extend([
            timestamp(now),
            if operation.allocates {
                alloc(stack_of(operation), operation.address, operation.size)
            } else {
                free(operation.address)
            },
            // Without it the last event of a batch could have happened at any time until
            // the stream's next one.
            timestamp(now + 1),
        ]);
    }
    let mut story = Story::one_image();
    for (number, stream) in (0..).zip(&streams) {
        for chunk in stream.chunks(1_500) {
            story.events(0, number, chunk);
        }
    }
    story.process(end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_profile_agrees_with_the_reference(operations in operations()) {
        let end = APART * (operations.len() as u64 + 1);
        let process = aggregated(&operations, end);
        let mut expected = reference(&operations, end);
        let mut found = of_process(&process);
        // A lost deallocation and an unmatched one at the same address within 100 ms may
        // be one event in the wrong position: the aggregation then counts neither.
        let same = expected.lost - found.lost;
        prop_assert_eq!(same, expected.unmatched - found.unmatched);
        for reference in [&mut expected, &mut found] {
            (reference.lost, reference.unmatched) = (0, 0);
        }
        prop_assert_eq!(found, expected);
    }
}
