//! The operations of a process: which call is about which block.

mod story;

use allotrope_profile::operations::{
    Operation, OperationKind, OperationOptions, operations, recorded_processes,
};
use allotrope_profile::{AggregateError, Helpers};
use allotrope_trace::model::{EntryPoint, ImageId, Loss, LossReason, Record, ThreadEnd};
use story::*;

use OperationKind::*;

/// Kind, block, size and thread of each operation.
fn all(story: &Story, image: ImageId) -> Vec<(OperationKind, u32, u64, u32)> {
    let short = |it: &Operation| (it.kind, it.block, it.size, it.thread);
    let mut all = Vec::new();
    let options = OperationOptions {
        helpers: Helpers::Never,
        ..OperationOptions::default()
    };
    operations(&story.trace, image, &options, &mut |it| all.push(short(it)))
        .expect("a story can be read");
    all
}

fn of_one_thread_in_order(
    events: &[allotrope_trace::model::Event],
) -> Vec<(OperationKind, u32, u64, u32)> {
    let mut story = Story::one_image();
    let mut stream = vec![thread(1)];
    stream.extend_from_slice(events);
    stream.push(timestamp(1_000_000));
    story.events(0, 0, &stream);
    story.end(0, 1_000_000);
    all(&story, 0)
}

const NONE: u32 = u32::MAX;

#[test]
fn a_reallocation_is_one_operation_and_its_block_keeps_its_number() {
    let seen = of_one_thread_in_order(&[
        alloc(8, 0x1000, 10),
        alloc(8, 0x2000, 20),
        realloc_start(0x1000),
        realloc_end(9, 0x3000, 30),
        // The old address is another block's now.
        alloc(8, 0x1000, 40),
        realloc_start(0x3000),
        realloc_failed(),
        free(0x3000),
        free(0x2000),
    ]);
    let expected = [
        (Allocate, 0, 10, 0),
        (Allocate, 1, 20, 0),
        (Reallocate, 0, 30, 0),
        (Allocate, 2, 40, 0),
        (Free, 0, 0, 0),
        (Free, 1, 0, 0),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn numbers_are_used_again() {
    let seen = of_one_thread_in_order(&[
        alloc(8, 0x1000, 1),
        free(0x1000),
        alloc(8, 0x2000, 2),
        realloc_start(0x2000),
        realloc_freed(),
        alloc(8, 0x3000, 3),
    ]);
    let expected = [
        (Allocate, 0, 1, 0),
        (Free, 0, 0, 0),
        (Allocate, 0, 2, 0),
        (ReallocateToNothing, 0, 0, 0),
        (Allocate, 0, 3, 0),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn unknown_blocks_are_foreign_and_a_missing_deallocation_is_added() {
    let seen = of_one_thread_in_order(&[
        free(0x9000),
        realloc_start(0x8000),
        realloc_end(8, 0x7000, 70),
        alloc(8, 0x1000, 1),
        alloc(8, 0x1000, 2),
        free(0x1000),
        free(0x7000),
    ]);
    let expected = [
        (FreeForeign, NONE, 0, 0),
        (ReallocateForeign, 0, 70, 0),
        (Allocate, 1, 1, 0),
        (FreeLost, 1, 0, 0),
        (Allocate, 1, 2, 0),
        (Free, 1, 0, 0),
        (Free, 0, 0, 0),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_pools_blocks_are_left_out_and_a_reported_allocators_are_not() {
    let of = |entry, mut event: allotrope_trace::model::Event| {
        event.entry = entry;
        event
    };
    let seen = of_one_thread_in_order(&[
        alloc(8, 0x1000, 4096),
        of(EntryPoint::Pool, alloc(9, 0x1000, 100)),
        of(EntryPoint::Pool, free(0x1000)),
        of(EntryPoint::Reported, alloc(9, 0x5000, 50)),
        of(EntryPoint::Reported, free(0x5000)),
        free(0x1000),
    ]);
    let expected = [
        (Allocate, 0, 4096, 0),
        (Allocate, 1, 50, 0),
        (Free, 1, 0, 0),
        (Free, 0, 0, 0),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn threads_are_merged_and_times_never_decrease() {
    let mut story = Story::one_image();
    story.events(
        0,
        0,
        &[
            thread(1),
            timestamp(100),
            alloc(8, 0x1000, 1),
            timestamp(200),
            alloc(8, 0x2000, 2),
            timestamp(300),
        ],
    );
    story.events(
        0,
        1,
        &[
            thread(2),
            timestamp(120),
            free(0x1000),
            timestamp(250),
            free(0x2000),
            timestamp(260),
        ],
    );
    story.push(Record::ThreadEnd(ThreadEnd {
        thread: 2,
        tick: 270,
    }));
    story.end(0, 1_000);
    let kinds: Vec<_> = all(&story, 0)
        .iter()
        .map(|&(kind, block, _, thread)| (kind, block, thread))
        .collect();
    let expected = [
        (Allocate, 0, 0),
        (Free, 0, 1),
        (Allocate, 0, 0),
        (Free, 0, 1),
    ];
    assert_eq!(kinds, expected);
    let mut last = 0;
    operations(&story.trace, 0, &OperationOptions::default(), &mut |it| {
        assert!(it.time_ns >= last);
        last = it.time_ns;
    })
    .unwrap();
    let processes = recorded_processes(&story.trace).unwrap();
    assert_eq!(processes.processes[0].thread_ends, [(1, 270)]);
}

#[test]
fn a_forked_process_frees_its_parents_blocks_as_foreign_ones() {
    let mut story = Story::one_image();
    story.events(
        0,
        0,
        &[
            thread(1),
            alloc(8, 0x1000, 1),
            alloc(8, 0x2000, 2),
            free(0x1000),
            timestamp(1_000),
        ],
    );
    story.image(1, Some(0), &[(0, 2)]);
    // The parent freed 0x1000 after the fork: the child has it, and allocates elsewhere.
    story.events(
        1,
        1,
        &[
            thread(9),
            free(0x1000),
            alloc(8, 0x1000, 7),
            free(0x1000),
            timestamp(1_000),
        ],
    );
    story.end(0, 2_000).end(1, 2_000);
    let kinds: Vec<_> = all(&story, 1).iter().map(|it| (it.0, it.1)).collect();
    assert_eq!(kinds, [(FreeForeign, NONE), (Allocate, 0), (Free, 0)]);
    assert_eq!(all(&story, 0).len(), 3);
}

#[test]
fn losses_are_told_and_an_unknown_process_is_an_error() {
    let mut story = Story::one_image();
    story.events(0, 0, &[thread(1), alloc(8, 0x1000, 1)]);
    story.push(Record::Loss(Loss {
        image: 0,
        reason: LossReason::RingFull,
        events: 12,
        tick: 5,
    }));
    story.end(0, 1_000);
    let processes = recorded_processes(&story.trace).unwrap();
    assert_eq!(processes.processes[0].lost_events, 12);
    assert_eq!(processes.processes[0].events, 1);
    let error = operations(&story.trace, 7, &OperationOptions::default(), &mut |_| {});
    assert!(matches!(error, Err(AggregateError::NoSuchProcess(7))));
}
