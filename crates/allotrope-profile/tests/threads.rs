//! Orders across threads: what one stream's order and the anchors leave open,
//! the rule of alternation at an address decides.

mod story;

use allotrope_trace::model::Event;
use story::*;

/// Streams of threads 1, 2, …, each a list of events.
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
    let maker = [alloc(8, 0x10, 10), alloc(8, 0x20, 20), anchor(50_000)];
    let taker = [free(0x20), free(0x10), anchor(50_000)];
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
fn an_address_is_handed_out_again_only_after_it_came_back() {
    // By estimate thread 2 allocates 0x10 before thread 1 gives it back.
    let first = [
        alloc(8, 0x10, 10),
        alloc(8, 0x20, 1),
        free(0x10),
        anchor(90_000),
    ];
    let second = [free(0x20), alloc(9, 0x10, 30), anchor(90_000)];
    for streams in [[&first[..], &second[..]], [&second[..], &first[..]]] {
        let process = of_threads(&streams);
        is_clean(&process);
        assert_eq!(process.totals.peak_bytes, 30);
        assert_eq!(process.totals.leaked_bytes, 30);
    }
}

#[test]
fn a_wrong_first_choice_is_taken_back() {
    // Both want 0x10 at the same time; thread 1 keeps it for good, so thread 2
    // came first. By estimate (equal counts, lower stream) thread 1 would.
    let keeps = [
        alloc(8, 0x10, 10),
        alloc(8, 0x20, 1),
        free(0x20),
        anchor(10_000),
    ];
    let returns = [
        alloc(9, 0x10, 30),
        free(0x10),
        alloc(9, 0x30, 1),
        anchor(10_000),
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
fn of_two_frees_the_one_that_its_own_allocation_follows_comes_first() {
    // Thread 3 allocates 0x10; thread 2 frees it, allocates it again; thread 1
    // frees that. By estimate thread 1's only event comes first.
    let third = [alloc(8, 0x10, 1), anchor(1_000)];
    let second = [free(0x10), alloc(9, 0x10, 2), anchor(9_000)];
    let first = [free(0x10), anchor(9_000)];
    let process = of_threads(&[&first, &second, &third]);
    is_clean(&process);
    assert_eq!(process.totals.leaked_bytes, 0);
    assert_eq!(process.ambiguous_events, 0);
}

#[test]
fn an_early_step_at_the_address_may_have_come_after_the_waiting_one() {
    // In microseconds: 0x10 is allocated at 10, freed at 40, allocated at 50, freed
    // at 70, allocated at 90 and freed at 100. That last deallocation is, by its
    // estimate, the second event: nothing is known of its thread's time from
    // 0 to 120. The last one before that at 70 was surely before it.
    let exactly =
        |at: u64, event: Event| [anchor(at * 1_000 - 500), event, anchor(at * 1_000 + 500)];
    let own = |from: u64, count: u64| (0..count).map(move |n| alloc(9, from + n * 0x10, 1));
    let mut last = vec![free(0x10)];
    last.extend(own(0x1000, 7));
    last.push(anchor(120_000));
    let mut second = vec![anchor(25_000), alloc(8, 0x10, 1)];
    second.extend(own(0x2000, 7));
    second.push(anchor(60_000));
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
    let one = [alloc(8, 0x10, 10), free(0x10), anchor(9_000)];
    let other = [alloc(9, 0x10, 30), free(0x10), anchor(9_000)];
    let process = of_threads(&[&one, &other]);
    is_clean(&process);
    assert_eq!(process.ambiguous_events, 1);
    assert_eq!(process.totals.peak_bytes, 30);
}

#[test]
fn anchors_settle_what_would_be_ambiguous() {
    let one = [alloc(8, 0x10, 10), free(0x10), anchor(9_000)];
    let other = [
        anchor(20_000),
        alloc(9, 0x10, 30),
        free(0x10),
        anchor(29_000),
    ];
    let process = of_threads(&[&other, &one]);
    is_clean(&process);
    assert_eq!(process.ambiguous_events, 0);
}

#[test]
fn a_lost_free_is_implied_once_nobody_can_have_made_it_in_time() {
    // Thread 1 allocates 0x10 twice before 10 µs; thread 2 frees it at 50 µs,
    // which is the second block.
    let one = [
        alloc(8, 0x10, 10),
        alloc(9, 0x10, 30),
        alloc(9, 0x20, 1),
        anchor(10_000),
    ];
    let other = [anchor(50_000), free(0x10), anchor(60_000)];
    let process = of_threads(&[&one, &other]);
    assert_eq!(process.lost_events, 1);
    assert_eq!(process.unmatched_deallocations, 0);
    assert_eq!(process.totals.leaked_bytes, 1);
    assert_eq!(process.totals.deallocations, 1, "the one that was seen");
    assert_eq!(process.totals.peak_bytes, 31);
}

#[test]
fn a_free_of_an_unknown_address_does_not_hold_its_stream_up() {
    let one = [free(0x99), alloc(8, 0x10, 5), free(0x10), anchor(1_000)];
    let other = [
        alloc(9, 0x20, 1),
        anchor(500),
        free(0x20),
        alloc(9, 0x99, 1),
        anchor(90_000),
    ];
    let process = of_threads(&[&one, &other]);
    // An allocation of 0x99 comes, but far too late to be what was freed: its
    // interval begins before 1 µs, so the pair is believed.
    assert_eq!(process.lost_events, 0);
    assert_eq!(process.totals.deallocations, 3);
    assert_eq!(process.unmatched_deallocations, 0);
}

#[test]
fn a_held_back_stream_does_not_let_others_run_ahead() {
    // Thread 1 waits for 0x10 from 1 µs on; only a lost event could free it.
    // Thread 2's large block at 80 µs must not be live together with thread 1's
    // at 2 µs.
    let one = [
        alloc(8, 0x10, 1),
        anchor(1_000),
        alloc(8, 0x10, 1),
        anchor(2_000),
        alloc(8, 0x20, 1_000),
        free(0x20),
        anchor(3_000),
    ];
    let other = [
        anchor(80_000),
        alloc(9, 0x30, 5_000),
        free(0x30),
        anchor(90_000),
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
        anchor(9_000),
    ];
    let other = [alloc(9, 0x10, 2), anchor(9_000)];
    let process = of_threads(&[&one, &other]);
    is_clean(&process);
    assert_eq!(process.totals.leaked_bytes, 2);
    assert_eq!(process.totals.peak_bytes, 2);
}

fn realloc_failing() -> Event {
    realloc_start(0x10)
}

#[test]
fn threads_that_follow_one_another_on_a_stream_count_for_themselves() {
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
            anchor(900),
        ],
    );
    story.events(0, 1, &[thread(3), free(0x10), anchor(950)]);
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
fn a_deallocation_at_the_wrong_place_is_no_loss() {
    // The anchors contradict the addresses: by time thread 2 allocates 0x10
    // again 10 µs before thread 1 gives it back.
    let one = [
        alloc(8, 0x10, 10),
        anchor(1_000),
        anchor(40_000),
        free(0x10),
        anchor(41_000),
    ];
    let other = [
        anchor(20_000),
        alloc(9, 0x10, 30),
        anchor(30_000),
        anchor(60_000),
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
fn a_busy_thread_that_then_waits_made_its_events_before_it_waited() {
    // Thread 1 makes a block each 50 ns, 40 of them, then wakes thread 2, which
    // takes no break of thread 1's, and marks the time again much later. Thread 2
    // gives its large block back at 3 µs, when thread 1 has been ready for 1 µs.
    let blocks = |from: u64| (from..from + 20).map(|at| alloc(8, 0x1000 + at * 16, 1));
    let mut one = vec![anchor(1)];
    one.extend(blocks(0));
    one.push(anchor(1_001));
    one.extend(blocks(20));
    one.push(anchor(90_000));
    let other = [
        anchor(1),
        alloc(9, 0x10, 100),
        anchor(3_000),
        free(0x10),
        anchor(3_100),
    ];
    let process = of_threads(&[&one, &other]);
    is_clean(&process);
    assert_eq!(process.totals.peak_allocations, 41);
    assert_eq!(process.totals.peak_bytes, 140);
}
