//! The definitions of the glossary, each tested on a short history whose figures are
//! derived in the test.

mod story;

use allotrope_profile::{Options, StackSet, blocks_of_sites};
use allotrope_trace::model::{Clock, Exit, Loss, LossReason, Record, Waits};
use story::*;

#[test]
fn counts_and_bytes_are_those_of_the_calls() {
    let process = of_one_thread(&[
        alloc(8, 0x10, 100),
        alloc(9, 0x20, 30),
        free(0x10),
        alloc(8, 0x30, 0),
    ]);
    let totals = process.totals;
    assert_eq!((totals.allocations, totals.allocated_bytes), (3, 130));
    assert_eq!(totals.deallocations, 1);
    assert_eq!((totals.leaked_allocations, totals.leaked_bytes), (2, 30));
    assert_eq!(site(&process, 8).allocations, 2);
    assert_eq!(site(&process, 8).leaked_allocations, 1);
    assert_eq!(site(&process, 9).allocated_bytes, 30);
    assert_eq!(process.threads[0].allocations, 3);
    assert_eq!(process.entries[0].allocated_bytes, 130);
}

#[test]
fn the_latest_of_equal_peaks_counts() {
    // 100 bytes live, none, then 60 + 40 of two other sites.
    let process = of_one_thread(&[
        alloc(8, 0x10, 100),
        free(0x10),
        alloc(9, 0x20, 60),
        alloc(10, 0x30, 40),
        free(0x20),
    ]);
    assert_eq!(process.totals.peak_bytes, 100);
    assert_eq!(process.totals.peak_allocations, 2);
    assert_eq!(site(&process, 8).bytes_at_peak, 0);
    assert_eq!(site(&process, 9).bytes_at_peak, 60);
    assert_eq!(site(&process, 10).allocations_at_peak, 1);
    // Without a timestamp between them, events are estimated a microsecond apart.
    assert_eq!(process.totals.peak_time_us, 3, "the fourth event");
}

#[test]
fn the_deallocation_of_a_block_of_0_bytes_is_a_later_tie_for_the_peak() {
    let process = of_one_thread(&[alloc(8, 0x10, 100), alloc(9, 0x20, 0), free(0x20)]);
    assert_eq!(process.totals.peak_bytes, 100);
    assert_eq!(process.totals.peak_allocations, 1, "after the last event");
    assert_eq!(process.totals.peak_time_us, 2, "the third event");
}

#[test]
fn a_reallocation_is_a_deallocation_and_then_an_allocation() {
    let process = of_one_thread(&[
        alloc(8, 0x10, 100),
        realloc_start(0x10),
        realloc_end(9, 0x10, 150),
    ]);
    let totals = process.totals;
    assert_eq!((totals.allocations, totals.deallocations), (2, 1));
    assert_eq!(totals.reallocations, 1);
    assert_eq!(totals.peak_bytes, 150, "never both at once");
    assert_eq!(
        totals.temporary_allocations, 1,
        "no other allocation in between"
    );
    assert_eq!(site(&process, 8).leaked_allocations, 0);
    assert_eq!(site(&process, 9).leaked_bytes, 150);
    assert_eq!(site(&process, 9).reallocations, 1);
}

#[test]
fn a_failed_reallocation_changes_nothing() {
    let with = of_one_thread(&[
        alloc(8, 0x10, 100),
        alloc(9, 0x20, 50),
        free(0x20),
        alloc(9, 0x20, 50), // the peak, tied with the first
        free(0x20),
        realloc_start(0x10),
        realloc_failed(),
    ]);
    let totals = with.totals;
    assert_eq!((totals.allocations, totals.deallocations), (3, 2));
    assert_eq!((totals.reallocations, totals.leaked_bytes), (0, 100));
    assert_eq!((totals.peak_bytes, totals.peak_allocations), (150, 2));
    assert_eq!(site(&with, 8).temporary_allocations, 0);
}

#[test]
fn a_failed_reallocation_of_the_only_block_is_no_later_peak() {
    let process = of_one_thread(&[alloc(8, 0x10, 100), realloc_start(0x10), realloc_failed()]);
    // The time of the allocation, which is the first event.
    assert_eq!(process.totals.peak_time_us, 0);
    assert_eq!(process.totals.temporary_allocations, 0);
    assert_eq!(process.totals.leaked_allocations, 1);
}

#[test]
fn a_reallocation_to_0_bytes_is_a_deallocation() {
    let process = of_one_thread(&[alloc(8, 0x10, 100), realloc_start(0x10), realloc_freed()]);
    assert_eq!(process.totals.deallocations, 1);
    assert_eq!(process.totals.reallocations, 0);
    assert_eq!(process.totals.leaked_allocations, 0);
}

#[test]
fn a_reallocation_that_never_returned_changes_nothing() {
    let process = of_one_thread(&[alloc(8, 0x10, 100), realloc_start(0x10)]);
    assert_eq!(process.totals.deallocations, 0);
    assert_eq!(process.totals.leaked_bytes, 100);
}

#[test]
fn reallocations_nest_in_signal_handlers() {
    let process = of_one_thread(&[
        alloc(8, 0x10, 1),
        alloc(8, 0x20, 2),
        realloc_start(0x10),
        realloc_start(0x20),
        realloc_failed(), // of 0x20
        realloc_end(9, 0x30, 4),
    ]);
    assert_eq!(process.totals.leaked_bytes, 2 + 4);
    assert_eq!(process.totals.reallocations, 1);
}

#[test]
fn the_result_of_a_reallocation_counts_even_if_it_comes_late() {
    let mut events = vec![alloc(8, 0x10, 7), realloc_start(0x10)];
    for n in 0..500 {
        events.push(alloc(9, 0x1000 + n, 1));
    }
    events.push(realloc_end(10, 0x20, 9));
    let process = of_one_thread(&events);
    assert_eq!(process.totals.deallocations, 1);
    assert_eq!(process.totals.leaked_bytes, 500 + 9);
    assert_eq!(site(&process, 8).leaked_allocations, 0);
    assert_eq!(process.totals.reallocations, 1);
    assert_eq!(process.lost_events, 0);
}

#[test]
fn the_result_of_a_reallocation_is_found_in_the_next_chunk() {
    let mut story = Story::one_image();
    story.events(0, 0, &[thread(1), alloc(8, 0x10, 7), realloc_start(0x10)]);
    story.events(0, 0, &[realloc_failed(), alloc(8, 0x20, 1)]);
    story.events(0, 0, &[realloc_start(0x20)]);
    story.events(0, 0, &[realloc_end(8, 0x20, 3), timestamp(900)]);
    let process = story.process(1_000);
    assert_eq!(process.totals.leaked_bytes, 7 + 3);
    assert_eq!(process.totals.deallocations, 1);
}

#[test]
fn a_block_is_temporary_if_its_thread_frees_it_before_its_next_allocation() {
    let mut story = Story::one_image();
    story.events(
        0,
        0,
        &[
            thread(1),
            alloc(8, 0x10, 1),
            free(0x10), // temporary
            alloc(9, 0x10, 1),
            alloc(10, 0x20, 1),
            free(0x10), // one allocation later
            free(0x20), // temporary
            alloc(11, 0x30, 1),
            thread(2),
            free(0x30), // by another thread
            timestamp(1_000),
        ],
    );
    story.end(0, 1_000);
    let strict = story.profile().processes.remove(0);
    assert_eq!(strict.totals.temporary_allocations, 2);
    assert_eq!(site(&strict, 9).temporary_allocations, 0);
    assert_eq!(site(&strict, 11).temporary_allocations, 0);
    assert_eq!(strict.threads[0].temporary_allocations, 2);
    assert_eq!(strict.threads[1].deallocations, 1);
    let within_one = story.profile_with(1).processes.remove(0);
    assert_eq!(within_one.totals.temporary_allocations, 3);
}

#[test]
fn another_threads_allocation_does_not_matter_for_temporary_blocks() {
    let mut story = Story::one_image();
    story.events(
        0,
        0,
        &[
            thread(1),
            alloc(8, 0x10, 1),
            thread(2),
            alloc(9, 0x20, 1),
            thread(1),
            free(0x10),
            timestamp(1_000),
        ],
    );
    assert_eq!(story.process(1_000).totals.temporary_allocations, 1);
}

#[test]
fn lifetimes_run_to_the_deallocation_or_the_end() {
    // Three events between 0 and 3 µs are estimated at 0, 1 and 2 µs; the image ends at
    // 10 µs.
    let mut story = Story::one_image();
    story.events(
        0,
        0,
        &[
            thread(1),
            alloc(8, 0x10, 1),
            alloc(8, 0x20, 1),
            free(0x10),
            timestamp(3_000),
        ],
    );
    let process = story.process(10_000);
    let lifetimes = &site(&process, 8).lifetimes;
    assert_eq!((lifetimes.min_ns, lifetimes.max_ns), (2_000, 9_000));
    assert_eq!(lifetimes.mean_us(), 5.5);
    assert_eq!(process.duration_us, 10);
}

#[test]
fn times_follow_the_clock_records() {
    let mut story = Story::one_image();
    for (tick, monotonic_ns) in [(0, 500_000), (3_000, 1_500_000)] {
        story.push(Record::Clock(Clock { tick, monotonic_ns }));
    }
    let events = [
        thread(1),
        alloc(8, 0x10, 1),
        timestamp(1_500),
        free(0x10),
        timestamp(3_000),
    ];
    story.events(0, 0, &events);
    let process = story.process(3_000);
    assert_eq!(process.duration_us, 1_000);
    // Events at the start and in the middle of 1 ms: three ticks are a microsecond.
    let lived = site(&process, 8).lifetimes.mean_us();
    assert!((lived - 500.0).abs() < 0.1, "{lived}");
}

#[test]
fn waits_are_summed_by_thread() {
    let mut story = Story::one_image();
    // Three ticks are a microsecond.
    story.push(Record::Clock(Clock {
        tick: 0,
        monotonic_ns: 0,
    }));
    story.push(Record::Clock(Clock {
        tick: 3_000,
        monotonic_ns: 1_000_000,
    }));
    let other = [thread(2), alloc(8, 0x20, 10)];
    story.events(0, 0, &[thread(1), alloc(8, 0x10, 10), timestamp(900)]);
    story.events(0, 1, &other);
    for (thread, waits, waited_ticks) in [
        (Some(1), 2, 300),
        (Some(2), 1, 30),
        (Some(1), 1, 600),
        (None, 1, 3),
    ] {
        story.push(Record::Waits(Waits {
            image: 0,
            thread,
            tick: 1_000,
            waits,
            waited_ticks,
        }));
    }
    let process = story.process(3_000);
    let by_thread = |id| {
        let mut threads = process.threads.iter();
        let found = threads.find(|thread| thread.thread == Some(id));
        found.map(|thread| (thread.waits, thread.waited_us))
    };
    let us = |ticks: u64| ticks * 1_000 / 3_000;
    assert_eq!(by_thread(1), Some((3, us(900))));
    assert_eq!(by_thread(2), Some((1, us(30))));
    assert_eq!((process.waits, process.waited_us), (5, us(933)));
}

#[test]
fn implied_losses_are_among_the_reported_ones() {
    let mut story = Story::one_image();
    story.push(Record::Loss(Loss {
        image: 0,
        reason: LossReason::RingFull,
        events: 5,
        tick: 1,
    }));
    story.events(
        0,
        0,
        &[
            thread(1),
            alloc(8, 0x10, 10),
            alloc(9, 0x10, 20),
            free(0x99),
            timestamp(900),
        ],
    );
    let process = story.process(1_000);
    assert_eq!(
        process.lost_events, 5,
        "the implied one is among the reported"
    );
    assert_eq!(process.losses, [(LossReason::RingFull, 5)]);
    assert_eq!(process.unmatched_deallocations, 1);
    assert_eq!(
        process.totals.deallocations, 1,
        "the unmatched one; the lost one is not counted"
    );
    assert_eq!(process.totals.leaked_bytes, 20);
    assert_eq!(
        process.totals.peak_bytes, 20,
        "the old block was freed first"
    );
    assert_eq!(site(&process, 8).leaked_allocations, 0);
    assert_eq!(
        site(&process, 8).temporary_allocations,
        0,
        "the thread that freed it is unknown"
    );
}

#[test]
fn an_image_without_an_end_is_running_and_not_complete() {
    let mut story = Story::one_image();
    story.events(0, 0, &[thread(1), alloc(8, 0x10, 10), timestamp(5_000)]);
    let profile = story.profile();
    let process = &profile.processes[0];
    assert_eq!(process.exit, Exit::Running);
    assert!(!process.complete && !profile.is_complete());
    assert_eq!(process.totals.leaked_bytes, 10);
}

#[test]
fn inherited_blocks_are_counted_separately() {
    let mut story = Story::one_image();
    story.events(
        0,
        0,
        &[
            thread(1),
            alloc(8, 0x10, 10),
            alloc(8, 0x20, 20),
            free(0x20),
            alloc(8, 0x30, 30),
            // The fork is here, after 4 counted events.
            alloc(8, 0x40, 40),
            free(0x10),
            timestamp(900),
        ],
    );
    story.end(0, 1_000);
    story.image(1, Some(0), &[(0, 4)]);
    story.events(
        1,
        1,
        &[
            thread(9),
            alloc(9, 0x40, 1),
            free(0x10),
            free(0x20),
            timestamp(1_900),
        ],
    );
    story.end(1, 2_000);
    let profile = story.profile();
    let child = &profile.processes[1];
    let totals = child.totals;
    assert_eq!(
        (totals.inherited_allocations, totals.inherited_bytes),
        (2, 40)
    );
    assert_eq!(totals.inherited_deallocations, 1);
    assert_eq!(
        child.unmatched_deallocations, 1,
        "0x20 was not live at the fork"
    );
    assert_eq!(
        (totals.allocations, totals.peak_bytes, totals.leaked_bytes),
        (1, 1, 1)
    );
    assert_eq!(totals.deallocations, 2, "every call counts");
    assert_eq!(profile.processes[0].totals.leaked_bytes, 30 + 40);
}

#[test]
fn a_fork_of_a_fork_inherits_from_both() {
    let mut story = Story::one_image();
    story.events(0, 0, &[thread(1), alloc(8, 0x10, 10), timestamp(90)]);
    story.end(0, 1_000);
    story.image(1, Some(0), &[(0, 1)]);
    story.events(
        1,
        1,
        &[
            thread(9),
            alloc(8, 0x20, 5),
            alloc(8, 0x30, 7),
            timestamp(900),
        ],
    );
    story.end(1, 1_000);
    story.image(2, Some(1), &[(1, 1)]);
    story.end(2, 1_000);
    story.image(3, Some(0), &[(0, 0)]);
    story.end(3, 1_000);
    let inherited: Vec<u64> = story
        .profile()
        .processes
        .iter()
        .map(|process| process.totals.inherited_bytes)
        .collect();
    assert_eq!(inherited, [0, 10, 10 + 5, 0]);
}

#[test]
fn a_long_chain_of_forks_is_followed_to_its_end() {
    let mut story = Story::one_image();
    story.events(0, 0, &[thread(1), alloc(8, 0x10, 10), timestamp(90)]);
    story.end(0, 1_000);
    for child in 1..200 {
        story.image(child, Some(child - 1), &[(child - 1, 1)]);
        story.events(
            child,
            child,
            &[thread(1), alloc(8, 0x100 + u64::from(child), 1)],
        );
        story.end(child, 1_000);
    }
    let profile = story.profile();
    assert_eq!(profile.processes.len(), 200);
    assert_eq!(profile.processes[199].totals.inherited_bytes, 10 + 198);
}

#[test]
fn an_inherited_block_that_was_not_live_is_ambiguous_and_not_a_loss() {
    let mut story = Story::one_image();
    story.events(0, 0, &[thread(1), alloc(8, 0x10, 10), timestamp(90)]);
    story.end(0, 1_000);
    story.image(1, Some(0), &[(0, 1)]);
    story.events(1, 1, &[thread(9), alloc(8, 0x10, 5), timestamp(900)]);
    story.end(1, 1_000);
    let profile = story.profile();
    let child = &profile.processes[1];
    assert_eq!((child.ambiguous_events, child.lost_events), (1, 0));
    assert_eq!(child.totals.leaked_bytes, 5);
    assert_eq!(child.totals.deallocations, 0);
}

#[test]
fn a_child_inherits_from_all_threads_what_was_live_at_the_fork() {
    // By estimated time most events of thread 2 come before those of thread 1, but the
    // fork points decide which events come before the fork.
    let mut story = Story::one_image();
    story.events(
        0,
        0,
        &[
            thread(1),
            alloc(8, 0x10, 1),
            alloc(8, 0x20, 2),
            timestamp(900),
        ],
    );
    story.events(
        0,
        1,
        &[
            thread(2),
            alloc(9, 0x30, 4),
            free(0x30),
            alloc(9, 0x40, 8),
            timestamp(400),
        ],
    );
    story.end(0, 1_000);
    story.image(1, Some(0), &[(0, 1), (1, 1)]);
    story.end(1, 1_000);
    story.image(2, Some(0), &[(0, 1), (1, 3)]);
    story.end(2, 1_000);
    let profile = story.profile();
    assert_eq!(profile.processes[1].totals.inherited_bytes, 1 + 4);
    assert_eq!(profile.processes[2].totals.inherited_bytes, 1 + 8);
}

#[test]
fn single_blocks_of_a_site_are_shown_with_their_lifetimes() {
    let mut story = Story::one_image();
    story.events(
        0,
        0,
        &[
            thread(1),
            alloc(8, 0x10, 1),
            alloc(9, 0x20, 2),
            free(0x10),
            alloc(8, 0x30, 3),
            timestamp(4_000),
        ],
    );
    story.end(0, 10_000);
    let mut seen = Vec::new();
    blocks_of_sites(&story.trace, &Options::default(), &[(0, 8)], &mut |block| {
        seen.push((block.size, block.allocated_ns, block.lifetime_ns));
    })
    .expect("the story can be aggregated");
    assert_eq!(seen, [(1, 0, Some(2_000)), (3, 3_000, None)]);
}

/// The peak of 100 bytes begins after the first of the two timestamps.
fn one_allocating_image() -> Story {
    let mut story = Story::one_image();
    let events = [
        thread(1),
        alloc(8, 0x10, 30),
        timestamp(400_000),
        alloc(8, 0x20, 70),
        timestamp(400_000),
        free(0x20),
        timestamp(1_000_000),
    ];
    story.events(0, 0, &events);
    story.end(0, 1_000_000);
    story
}

#[test]
fn a_stack_set_has_the_times_of_the_only_image_that_allocated() {
    let mut story = one_allocating_image();
    story.image(1, None, &[]);
    story.end(1, 3_000_000);
    let run = StackSet::from(&story.profile()).run;
    assert_eq!((run.images, run.pid), (1, Some(100)));
    assert_eq!(run.duration_us, Some(1_000));
    assert_eq!(run.peak_time_us, Some(400));
    assert_eq!(run.executable, "/bin/story");
}

#[test]
fn several_images_have_no_common_peak() {
    let mut story = one_allocating_image();
    story.image(1, None, &[]);
    story.events(1, 1, &[thread(9), alloc(8, 0x10, 5), timestamp(3_000_000)]);
    story.end(1, 3_000_000);
    let run = StackSet::from(&story.profile()).run;
    assert_eq!((run.images, run.pid), (2, None));
    assert_eq!(run.duration_us, Some(3_000));
    assert_eq!(run.peak_time_us, None);
}
