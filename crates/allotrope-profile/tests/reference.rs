//! The replay beside a simple one: a map of live blocks, one event after the
//! other. The histories are long enough that every short cut is taken, one of
//! a stream that goes on alone for thousands of events among them, and they
//! hold events that make no sense: blocks given back twice, handed out twice.

mod story;

use std::collections::BTreeMap;

use allotrope_profile::{Process, Totals};
use allotrope_trace::model::Event;
use proptest::prelude::*;
use story::*;

/// Nanoseconds from one event to the next: more than two processors' counters
/// are apart, so that the order is not open.
const APART: u64 = 10_000;

/// The event at this time, of this stream; its thread is told by the stream's mark.
#[derive(Debug, Clone, Copy)]
struct Deed {
    stream: usize,
    allocates: bool,
    address: u64,
    size: u64,
}

/// Stretches of events, each of one stream.
fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = (any::<bool>(), 0..300_u64, 0..2_000_u64);
    let batch = (0..3_usize, prop::collection::vec(deed, 1..3_000));
    prop::collection::vec(batch, 1..9).prop_map(|batches| {
        let of_stretch = |(stream, deeds): (usize, Vec<(bool, u64, u64)>)| {
            deeds.into_iter().map(move |(allocates, at, size)| Deed {
                stream,
                allocates,
                address: at * 16,
                size,
            })
        };
        batches.into_iter().flat_map(of_stretch).collect()
    })
}

/// The stack of an allocation follows from its size.
fn stack_of(deed: &Deed) -> u32 {
    8 + (deed.size % 20) as u32
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Figures {
    allocations: u64,
    leaked_bytes: u64,
    temporary: u64,
    lifetimes_ns: u128,
    bytes_at_peak: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Reference {
    totals: Totals,
    by_stack: BTreeMap<u32, Figures>,
    lost: u64,
    unmatched: u64,
}

/// What a block's deed was and when, and how many its thread had made with it.
type Live = BTreeMap<u64, (Deed, u64, u64)>;

fn reference(deeds: &[Deed], end: u64) -> Reference {
    let mut reference = Reference::default();
    let mut live = Live::new();
    let mut made = [0; 3];
    let mut at_peak = Live::new();
    let mut bytes = 0;
    for (deed, now) in deeds.iter().zip((APART..).step_by(APART as usize)) {
        let ended = live.remove(&deed.address);
        if let Some((old, since, sequence)) = ended {
            let site = reference.by_stack.entry(stack_of(&old)).or_default();
            site.lifetimes_ns += u128::from(now - since);
            bytes -= old.size;
            let own = old.stream == deed.stream && sequence == made[old.stream];
            let temporary = u64::from(!deed.allocates && own);
            site.temporary += temporary;
            reference.totals.temporary_allocations += temporary;
        }
        if deed.allocates {
            reference.lost += u64::from(ended.is_some());
            made[deed.stream] += 1;
            live.insert(deed.address, (*deed, now, made[deed.stream]));
            bytes += deed.size;
            let site = reference.by_stack.entry(stack_of(deed)).or_default();
            site.allocations += 1;
            reference.totals.allocations += 1;
            reference.totals.allocated_bytes += deed.size;
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
    for (deed, _, _) in at_peak.into_values() {
        let site = reference.by_stack.entry(stack_of(&deed)).or_default();
        site.bytes_at_peak += deed.size;
    }
    reference.totals.leaked_allocations = live.len() as u64;
    reference.totals.leaked_bytes = bytes;
    for (deed, since, _) in live.into_values() {
        let site = reference.by_stack.entry(stack_of(&deed)).or_default();
        site.leaked_bytes += deed.size;
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

/// Each stream marks the time before and after each of its events.
fn replayed(deeds: &[Deed], end: u64) -> Process {
    let mut streams: Vec<Vec<Event>> = (1..=3).map(|n| vec![thread(n)]).collect();
    for (deed, now) in deeds.iter().zip((APART..).step_by(APART as usize)) {
        streams[deed.stream].extend([
            anchor(now),
            if deed.allocates {
                alloc(stack_of(deed), deed.address, deed.size)
            } else {
                free(deed.address)
            },
            // Else the last event of a batch could have been made until the next one.
            anchor(now + 1),
        ]);
    }
    let mut story = Story::one_image();
    for (number, stream) in (0..).zip(&streams) {
        for run in stream.chunks(1_500) {
            story.events(0, number, run);
        }
    }
    story.process(end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_replay_of_any_history_is_the_plain_one(deeds in deeds()) {
        let end = APART * (deeds.len() as u64 + 1);
        let process = replayed(&deeds, end);
        let mut expected = reference(&deeds, end);
        let mut found = of_process(&process);
        // A lost deallocation and an unmatched one at the same address within
        // 100 ms may be one that stands at a wrong place: both are taken back.
        let same = expected.lost - found.lost;
        prop_assert_eq!(same, expected.unmatched - found.unmatched);
        for reference in [&mut expected, &mut found] {
            (reference.lost, reference.unmatched) = (0, 0);
        }
        prop_assert_eq!(found, expected);
    }
}
