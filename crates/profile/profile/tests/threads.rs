//! The order of events across threads. Where the order of each stream and the timestamps
//! leave it open, the rule decides that allocation and deallocation of an address
//! alternate.

mod story;

use allotrope_trace::model::Event;
use story::*;

/// The process of these streams, which are of threads 1, 2, ….
fn of_threads(streams: &[&[Event]]) -> allotrope_profile::Process {
    let mut story = Story::one_image();
    for (number, events) in (0_u32..).zip(streams) {
        let mut all = vec![thread(number + 1)];
        all.extend_from_slice(events);
        story.events(0, number, &all);
    }
    story.process(100_000)
}

fn is_clean(process: &allotrope_profile::Process) {
    assert_eq!(process.lost_events, 0, "lost");
    assert_eq!(process.unmatched_deallocations, 0, "unmatched");
}

#[test]
fn a_block_freed_by_another_thread_is_matched_in_either_order_of_streams() {
    let maker = [alloc(8, 0x10, 10), alloc(8, 0x20, 20), timestamp(50_000)];
    let taker = [free(0x20), free(0x10), timestamp(50_000)];
    for streams in [[&maker[..], &taker[..]], [&taker[..], &maker[..]]] {
        let process = of_threads(&streams);
        is_clean(&process);
        assert_eq!(process.totals.leaked_allocations, 0);
        assert_eq!(process.totals.temporary_allocations, 0);
        assert_eq!(process.totals.peak_bytes, 30);
        assert_eq!(process.ambiguous_events, 0);
    }
}

#[test]
fn an_address_is_allocated_again_only_after_it_was_freed() {
    // By estimate thread 2 allocates 0x10 before thread 1 frees it.
    let first = [
        alloc(8, 0x10, 10),
        alloc(8, 0x20, 1),
        free(0x10),
        timestamp(90_000),
    ];
    let second = [free(0x20), alloc(9, 0x10, 30), timestamp(90_000)];
    for streams in [[&first[..], &second[..]], [&second[..], &first[..]]] {
        let process = of_threads(&streams);
        is_clean(&process);
        assert_eq!(process.totals.peak_bytes, 30);
        assert_eq!(process.totals.leaked_bytes, 30);
    }
}

#[test]
fn a_wrong_first_choice_is_rolled_back() {
    // Both allocate 0x10 at the same estimated time. Thread 1 never frees it, so thread 2
    // came first. By the estimate thread 1 would: of equal times the lower stream's is
    // first.
    let keeps = [
        alloc(8, 0x10, 10),
        alloc(8, 0x20, 1),
        free(0x20),
        timestamp(10_000),
    ];
    let returns = [
        alloc(9, 0x10, 30),
        free(0x10),
        alloc(9, 0x30, 1),
        timestamp(10_000),
    ];
    for streams in [[&keeps[..], &returns[..]], [&returns[..], &keeps[..]]] {
        let process = of_threads(&streams);
        is_clean(&process);
        assert_eq!(site(&process, 8).leaked_bytes, 10);
        assert_eq!(site(&process, 9).leaked_bytes, 1);
        assert_eq!(process.ambiguous_events, 0, "only one order is legal");
    }
}

#[test]
fn of_two_frees_the_one_before_the_same_threads_allocation_comes_first() {
    // Thread 3 allocates 0x10; thread 2 frees it, allocates it again; thread 1
    // frees that. By estimate thread 1's only event comes first.
    let third = [alloc(8, 0x10, 1), timestamp(1_000)];
    let second = [free(0x10), alloc(9, 0x10, 2), timestamp(9_000)];
    let first = [free(0x10), timestamp(9_000)];
    let process = of_threads(&[&first, &second, &third]);
    is_clean(&process);
    assert_eq!(process.totals.leaked_bytes, 0);
    assert_eq!(process.ambiguous_events, 0);
}

#[test]
fn an_early_step_at_the_address_may_have_come_after_the_waiting_one() {
    // In microseconds: 0x10 is allocated at 10, freed at 40, allocated at 50, freed
    // at 70, allocated at 90 and freed at 100. By its estimate that last deallocation is
    // the second event: its thread has no timestamp between 0 and 120. The last step
    // before the deallocation at 70 certainly precedes it.
    let exactly = |at: u64, event: Event| {
        [
            timestamp(at * 1_000 - 500),
            event,
            timestamp(at * 1_000 + 500),
        ]
    };
    let own = |from: u64, count: u64| (0..count).map(move |n| alloc(9, from + n * 0x10, 1));
    let mut last = vec![free(0x10)];
    last.extend(own(0x1000, 7));
    last.push(timestamp(120_000));
    let mut second = vec![timestamp(25_000), alloc(8, 0x10, 1)];
    second.extend(own(0x2000, 7));
    second.push(timestamp(60_000));
    let process = of_threads(&[
        &exactly(10, alloc(8, 0x10, 1)),
        &last,
        &second,
        &exactly(40, free(0x10)),
        &exactly(70, free(0x10)),
        &exactly(90, alloc(8, 0x10, 1)),
    ]);
    is_clean(&process);
    assert_eq!(process.totals.leaked_allocations, 14);
}

#[test]
fn two_orders_that_are_both_legal_are_ambiguous() {
    let one = [alloc(8, 0x10, 10), free(0x10), timestamp(9_000)];
    let other = [alloc(9, 0x10, 30), free(0x10), timestamp(9_000)];
    let process = of_threads(&[&one, &other]);
    is_clean(&process);
    assert_eq!(process.ambiguous_events, 1);
    assert_eq!(process.totals.peak_bytes, 30);
}

#[test]
fn timestamps_can_rule_out_all_but_one_order() {
    let one = [alloc(8, 0x10, 10), free(0x10), timestamp(9_000)];
    let other = [
        timestamp(20_000),
        alloc(9, 0x10, 30),
        free(0x10),
        timestamp(29_000),
    ];
    let process = of_threads(&[&other, &one]);
    is_clean(&process);
    assert_eq!(process.ambiguous_events, 0);
}

#[test]
fn a_lost_free_is_implied_if_no_other_thread_can_have_done_it_in_time() {
    // Thread 1 allocates 0x10 twice before 10 µs; thread 2 frees it at 50 µs,
    // which is the second block.
    let one = [
        alloc(8, 0x10, 10),
        alloc(9, 0x10, 30),
        alloc(9, 0x20, 1),
        timestamp(10_000),
    ];
    let other = [timestamp(50_000), free(0x10), timestamp(60_000)];
    let process = of_threads(&[&one, &other]);
    assert_eq!(process.lost_events, 1);
    assert_eq!(process.unmatched_deallocations, 0);
    assert_eq!(process.totals.leaked_bytes, 1);
    assert_eq!(
        process.totals.deallocations, 1,
        "the one that is in the trace"
    );
    assert_eq!(process.totals.peak_bytes, 31);
}

#[test]
fn a_free_of_an_unknown_address_does_not_block_its_stream() {
    let one = [free(0x99), alloc(8, 0x10, 5), free(0x10), timestamp(1_000)];
    let other = [
        alloc(9, 0x20, 1),
        timestamp(500),
        free(0x20),
        alloc(9, 0x99, 1),
        timestamp(90_000),
    ];
    let process = of_threads(&[&one, &other]);
    // By its estimate the allocation of 0x99 comes far too late to be the block that was
    // freed. But it may have happened from 0.5 µs on, so the two are matched.
    assert_eq!(process.lost_events, 0);
    assert_eq!(process.totals.deallocations, 3);
    assert_eq!(process.unmatched_deallocations, 0);
}

#[test]
fn other_streams_do_not_run_ahead_while_one_waits() {
    // Thread 1 waits for 0x10 from 1 µs on; only a lost event could free it.
    // Thread 2's large block at 80 µs must not be live together with thread 1's
    // at 2 µs.
    let one = [
        alloc(8, 0x10, 1),
        timestamp(1_000),
        alloc(8, 0x10, 1),
        timestamp(2_000),
        alloc(8, 0x20, 1_000),
        free(0x20),
        timestamp(3_000),
    ];
    let other = [
        timestamp(80_000),
        alloc(9, 0x30, 5_000),
        free(0x30),
        timestamp(90_000),
    ];
    let process = of_threads(&[&one, &other]);
    assert_eq!(process.lost_events, 1);
    assert_eq!(process.totals.peak_bytes, 5_001);
}

#[test]
fn a_failed_reallocation_does_not_release_its_address_to_others() {
    let one = [
        alloc(8, 0x10, 1),
        realloc_failing(),
        realloc_failed(),
        free(0x10),
        timestamp(9_000),
    ];
    let other = [alloc(9, 0x10, 2), timestamp(9_000)];
    let process = of_threads(&[&one, &other]);
    is_clean(&process);
    assert_eq!(process.totals.leaked_bytes, 2);
    assert_eq!(process.totals.peak_bytes, 2);
}

fn realloc_failing() -> Event {
    realloc_start(0x10)
}

#[test]
fn threads_that_use_a_stream_one_after_another_are_counted_separately() {
    let mut story = Story::one_image();
    story.events(
        0,
        0,
        &[
            thread(1),
            alloc(8, 0x10, 1),
            thread(2),
            alloc(8, 0x20, 1),
            free(0x20),
            timestamp(900),
        ],
    );
    story.events(0, 1, &[thread(3), free(0x10), timestamp(950)]);
    let process = story.process(1_000);
    is_clean(&process);
    let made: Vec<_> = process.threads[..3]
        .iter()
        .map(|thread| {
            (
                thread.allocations,
                thread.deallocations,
                thread.temporary_allocations,
            )
        })
        .collect();
    assert_eq!(made, [(1, 0, 0), (1, 1, 1), (0, 1, 0)]);
}

#[test]
fn a_deallocation_in_the_wrong_position_is_no_loss() {
    // The timestamps contradict the addresses: by time thread 2 allocates 0x10
    // again 10 µs before thread 1 frees it.
    let one = [
        alloc(8, 0x10, 10),
        timestamp(1_000),
        timestamp(40_000),
        free(0x10),
        timestamp(41_000),
    ];
    let other = [
        timestamp(20_000),
        alloc(9, 0x10, 30),
        timestamp(30_000),
        timestamp(60_000),
        free(0x10),
    ];
    for streams in [[&one[..], &other[..]], [&other[..], &one[..]]] {
        let process = of_threads(&streams);
        is_clean(&process);
        assert_eq!(process.totals.deallocations, 2);
        assert_eq!(process.totals.leaked_allocations, 0);
        assert!(process.ambiguous_events > 0);
    }
}

#[test]
fn events_of_a_busy_thread_that_then_waits_are_estimated_before_the_wait() {
    // Thread 1 allocates a block every 50 ns, 40 in all, then wakes thread 2 without an
    // interruption of its own, and records its next timestamp much later. Thread 2 frees
    // its large block at 3 µs, 1 µs after thread 1's last allocation.
    let blocks = |from: u64| (from..from + 20).map(|at| alloc(8, 0x1000 + at * 16, 1));
    let mut one = vec![timestamp(1)];
    one.extend(blocks(0));
    one.push(timestamp(1_001));
    one.extend(blocks(20));
    one.push(timestamp(90_000));
    let other = [
        timestamp(1),
        alloc(9, 0x10, 100),
        timestamp(3_000),
        free(0x10),
        timestamp(3_100),
    ];
    let process = of_threads(&[&one, &other]);
    is_clean(&process);
    assert_eq!(process.totals.peak_allocations, 41);
    assert_eq!(process.totals.peak_bytes, 140);
}
