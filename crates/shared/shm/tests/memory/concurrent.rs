//! Threads that write at once, what interrupts them, and a reader meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use allotrope_shm::samples::frees::Deallocation;
use allotrope_shm::samples::stacks::Frame;

use crate::support::{Done, TestProcess, is_whole, sample, sorted};

/// Numbers without order.
fn next(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    *state >> 33
}

/// Four threads allocate and free; each uses addresses that the others do not have meanwhile,
/// as an allocator hands them out. A reader sees whole samples only, and in the end
/// those that are live.
#[test]
fn a_reader_sees_whole_samples_while_threads_write() {
    const ROUNDS: u64 = 300_000;
    let watched = TestProcess::new();
    let is_done = AtomicBool::new(false);
    let mut live = BTreeMap::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                let writer = watched.writer();
                scope.spawn(move || {
                    let mut random = thread;
                    let mut own = BTreeMap::new();
                    for round in 0..ROUNDS {
                        // So few addresses that each is used hundreds of times.
                        let address = (next(&mut random) % 500 * 4 + thread + 1) * 16;
                        match own.remove(&address) {
                            Some(expected) => {
                                let taken = writer.take(address);
                                assert_eq!(taken, Some(expected));
                                let deallocation = Deallocation {
                                    time: round,
                                    stack: expected.stack,
                                    thread: expected.thread,
                                };
                                writer.freed(&expected, deallocation);
                            }
                            None => {
                                let new = sample(address, round);
                                assert!(writer.insert(&new));
                                own.insert(address, new);
                            }
                        }
                    }
                    own
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut reads = 0u64;
            let mut seen = 0u64;
            while !is_done.load(Relaxed) {
                let state = watched.state();
                assert_eq!(state.malformed, 0);
                assert!(state.samples.iter().all(is_whole));
                for freed in &state.freed {
                    // The same thread wrote both stacks and both numbers.
                    assert_eq!(freed.stack, freed.deallocation.stack);
                    assert_eq!(freed.thread, freed.deallocation.thread);
                    let whole = sample(freed.address, freed.thread.into());
                    assert_eq!((freed.size, freed.allocated), (whole.size, whole.allocated));
                }
                reads += 1;
                seen += state.samples.len() as u64;
            }
            (reads, seen)
        });
        let done = Done(&is_done);
        for thread in threads {
            live.extend(thread.join().expect("a writer"));
        }
        drop(done);
        let (reads, seen) = reader.join().expect("the reader");
        assert!(reads > 0 && seen > 0, "{reads} {seen}");
    });
    let state = watched.state();
    assert_eq!(
        sorted(state.samples),
        live.values().copied().collect::<Vec<_>>()
    );
    assert_eq!((state.unstable, state.counters.lost_samples), (0, 0));
    // With all of them freed, `free` recognises none.
    for address in live.keys() {
        assert!(watched.writer().take(*address).is_some());
    }
    assert!((1..=8000u64).all(|it| !watched.writer().may_be_sampled(it * 16)));
}

/// The allocator hands one address out again and again, so that its sample is being written at
/// most moments.
#[test]
fn a_sample_that_changes_all_the_time_is_whole_when_it_is_read() {
    let watched = TestProcess::new();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let writer = watched.writer();
            for number in (0..1 << 20).cycle() {
                if is_done.load(Relaxed) {
                    break;
                }
                assert!(writer.insert(&sample(64, number)));
                assert!(writer.take(64).is_some());
            }
        });
        let done = Done(&is_done);
        let (mut seen, mut looks) = (0, 0);
        // On a busy machine all looks may fall between two samples.
        while looks < 2_000 || (seen == 0 && looks < 2_000_000) {
            looks += 1;
            let state = watched.state();
            assert!(state.samples.iter().all(is_whole), "{:?}", state.samples);
            assert!(state.samples.len() <= 1);
            seen += state.samples.len();
        }
        drop(done);
        assert!(seen > 0);
    });
}

/// Threads find the same ids for the same stacks, and write no node twice but for races.
#[test]
fn threads_agree_on_ids_of_stacks() {
    const FRAMES: u64 = 3000;
    let watched = TestProcess::new();
    let ids: Vec<Vec<u32>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let writer = watched.writer();
                scope.spawn(move || {
                    let mut callers = 0;
                    let node = |address| {
                        // A new stack every ten frames.
                        if address % 10 == 0 {
                            callers = 0;
                        }
                        let frame = Frame {
                            address,
                            exact: false,
                            mapping: 1,
                        };
                        callers = writer.node(callers, frame).expect("a node");
                        callers
                    };
                    (0..FRAMES).map(node).collect()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|it| it.join().expect("a thread"))
            .collect()
    });
    for other in &ids[1..] {
        assert_eq!(other, &ids[0]);
    }
    let state = watched.state();
    for (address, id) in (0..FRAMES).zip(&ids[0]) {
        let addresses: Vec<_> = state
            .stack(*id)
            .frames
            .iter()
            .map(|it| it.address)
            .collect();
        let expected: Vec<_> = (address / 10 * 10..=address).rev().collect();
        assert_eq!(addresses, expected);
    }
}

/// A signal handler jumps out of an insertion (`siglongjmp`) behind each of its steps.
#[test]
fn an_insertion_that_was_left_is_not_seen_and_does_no_harm() {
    let watched = TestProcess::new();
    let writer = watched.writer();
    assert!(writer.insert(&sample(160, 1)));
    let (bucket, way) = {
        let buckets = watched.memory().buckets.iter().enumerate();
        let mut places = buckets.flat_map(|(number, bucket)| {
            let ways = bucket.keys.iter().position(|it| it.load(Relaxed) == 160);
            ways.map(|way| (number, way))
        });
        places.next().expect("the sample")
    };
    let bucket = &watched.memory().buckets[bucket];
    for version_is_odd in [false, true] {
        // As if the insertion had come just so far.
        bucket.keys[way].store(160 | 1, Relaxed);
        if version_is_odd {
            bucket.samples[way].version.fetch_or(1, Relaxed);
        }
        assert!(watched.state().samples.is_empty());
        assert_eq!(watched.state().unstable, 0);
        assert_eq!(writer.take(160), None);
        // Another block gets a place all the same.
        assert!(writer.insert(&sample(320, 2)));
        assert_eq!(writer.take(320), Some(sample(320, 2)));
        // The allocator hands the address out again.
        assert!(writer.insert(&sample(160, 3)));
        assert_eq!(watched.state().samples, [sample(160, 3)]);
        assert_eq!(bucket.keys[way].load(Relaxed), 160, "the same place");
    }
    // What a reader meets that has loaded the key before the sample was replaced.
    bucket.samples[way].version.fetch_or(1, Relaxed);
    let state = watched.state();
    assert_eq!((state.samples.len(), state.unstable), (0, 1));
    assert_eq!(writer.take(160), Some(sample(160, 3)));
    assert!(watched.state().samples.is_empty());
}

/// It jumps out while it writes a deallocation.
#[test]
fn a_deallocation_that_was_left_blocks_nothing_but_its_slot() {
    let watched = TestProcess::new();
    let writer = watched.writer();
    watched.memory().frees[3].version.store(9, Relaxed);
    for number in 0..10_000u64 {
        let deallocation = Deallocation {
            time: number,
            stack: 1,
            thread: 1,
        };
        writer.freed(&sample(16, number), deallocation);
    }
    let state = watched.state();
    // Of the last 4,096 one is missing; of all, those with the numbers 3, 4099 and 8195.
    assert_eq!(state.freed.len(), 4095);
    assert_eq!(state.counters.lost_frees, 3);
}
