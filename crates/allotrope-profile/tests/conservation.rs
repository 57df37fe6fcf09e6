//! What must hold for every history: sums add up, and events of concurrent
//! threads, cut into streams with anchors, are put into an order in which
//! nothing is lost.

mod story;

use std::collections::BTreeMap;

use allotrope_profile::{Process, Totals};
use allotrope_trace::model::Event;
use proptest::prelude::*;
use story::*;

/// What a thread does next; numbers choose among what is there.
#[derive(Debug, Clone, Copy)]
struct Deed {
    thread: usize,
    kind: u8,
    choice: usize,
    size: u64,
    anchor: bool,
}

fn deeds(threads: usize, most: usize) -> impl Strategy<Value = Vec<Deed>> {
    let deed = (
        0..threads,
        0..8_u8,
        any::<usize>(),
        0..1000_u64,
        prop::bool::weighted(0.15),
    );
    let deed = deed.prop_map(|(thread, kind, choice, size, anchor)| Deed {
        thread,
        kind,
        choice,
        size,
        anchor,
    });
    prop::collection::vec(deed, 1..most)
}

/// A program that really ran: its streams and the truth about it.
struct History {
    streams: Vec<Vec<Event>>,
    truth: Totals,
}

/// Runs the deeds one after the other, a microsecond each. The allocator hands
/// out the address that came back last, from whichever thread: the hardest
/// case for putting events in order.
fn run(threads: usize, deeds: &[Deed], always_anchor: bool) -> History {
    let mut streams: Vec<Vec<Event>> = (1..=threads).map(|n| vec![thread(n as u32)]).collect();
    let mut live: BTreeMap<u64, (u64, usize, u64)> = BTreeMap::new();
    let mut unused: Vec<u64> = Vec::new();
    let mut fresh = 0x1000;
    let mut made = vec![0_u64; threads];
    let mut truth = Totals::default();
    let mut live_bytes = 0;
    for (deed, tick) in deeds.iter().zip((1_000_u64..).step_by(1_000)) {
        let stream = &mut streams[deed.thread];
        let old = (!live.is_empty()).then(|| {
            let at = deed.choice % live.len();
            *live.keys().nth(at).expect("within the live blocks")
        });
        let frees = deed.kind >= 3;
        let reallocates = deed.kind >= 6;
        if let (true, Some(address)) = (frees, old) {
            if deed.kind == 7 && deed.size % 3 == 0 {
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
            truth.temporary_allocations += u64::from(by == deed.thread && sequence == made[by]);
            live_bytes -= size;
            unused.push(address);
        }
        if !frees || old.is_none() || reallocates {
            let address = unused.pop().unwrap_or_else(|| {
                fresh += 0x10;
                fresh
            });
            let stack = 8 + (deed.choice % 5) as u32;
            if reallocates && old.is_some() {
                stream.push(realloc_end(stack, address, deed.size));
                truth.reallocations += 1;
            } else {
                stream.push(alloc(stack, address, deed.size));
            }
            made[deed.thread] += 1;
            live.insert(address, (deed.size, deed.thread, made[deed.thread]));
            truth.allocations += 1;
            truth.allocated_bytes += deed.size;
            live_bytes += deed.size;
        }
        if live_bytes >= truth.peak_bytes {
            truth.peak_bytes = live_bytes;
            truth.peak_allocations = live.len() as u64;
        }
        if deed.anchor || always_anchor {
            for stream in &mut streams {
                if always_anchor || stream.len() % 2 == 0 {
                    stream.push(anchor(tick + 10));
                }
            }
        }
    }
    truth.leaked_allocations = live.len() as u64;
    truth.leaked_bytes = live_bytes;
    let end = 1_000 * (deeds.len() as u64 + 2);
    for stream in &mut streams {
        stream.push(anchor(end));
    }
    History { streams, truth }
}

/// Replays the history; streams are cut into runs of `run` events.
fn replay_of(history: &History, run: usize) -> Process {
    let mut story = Story::one_image();
    for (number, events) in (0..).zip(&history.streams) {
        for part in events.chunks(run) {
            story.events(0, number, part);
        }
    }
    story.process(10_000_000)
}

fn adds_up(process: &Process) {
    let totals = process.totals;
    let matched =
        totals.deallocations - totals.inherited_deallocations - process.unmatched_deallocations;
    // Of these traces nothing was reported lost: what is lost is implied, and
    // each of those ended a block.
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
    fn one_thread_gives_every_total(deeds in deeds(1, 200), run_length in 1..50_usize) {
        let history = run(1, &deeds, false);
        let process = replay_of(&history, run_length);
        adds_up(&process);
        let peak_time_us = process.totals.peak_time_us;
        prop_assert_eq!(process.totals, Totals { peak_time_us, ..history.truth });
        prop_assert_eq!(process.ambiguous_events, 0);
    }

    #[test]
    fn threads_with_a_time_for_each_event_give_every_total(deeds in deeds(3, 120)) {
        let history = run(3, &deeds, true);
        let process = replay_of(&history, 64);
        adds_up(&process);
        prop_assert_eq!(process.lost_events, 0);
        // A reallocation's two halves lie between the same two anchors.
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
        deeds in deeds(4, 150),
        run_length in 5..80_usize,
    ) {
        let history = run(4, &deeds, false);
        let process = replay_of(&history, run_length);
        adds_up(&process);
        prop_assert_eq!(process.lost_events, 0, "lost");
        prop_assert_eq!(process.unmatched_deallocations, 0, "unmatched");
        prop_assert_eq!(process.totals.allocations, history.truth.allocations);
        prop_assert_eq!(process.totals.leaked_allocations, history.truth.leaked_allocations);
    }

    #[test]
    fn any_nonsense_adds_up(
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
                8 => anchor(size * 1_000),
                _ => thread((size % 5) as u32),
            }).collect();
            story.events(0, number, &events);
        }
        adds_up(&story.process(1_000_000));
    }
}
