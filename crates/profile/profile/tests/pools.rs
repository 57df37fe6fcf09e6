//! Blocks that a program reports itself. A pool's block may have the address of the block
//! from which the pool carved it, and both are live.

mod story;

use allotrope_profile::{Process, blocks_of_sites};
use allotrope_trace::model::{EntryPoint, Event};
use story::*;

/// The address of both the block that the pool got from `malloc` (its arena) and the
/// pool's first block.
const SHARED: u64 = 0x1000;

fn pool(event: Event) -> Event {
    Event {
        entry: EntryPoint::Pool,
        ..event
    }
}

fn reported(event: Event) -> Event {
    Event {
        entry: EntryPoint::Reported,
        ..event
    }
}

#[track_caller]
fn is_clean(process: &Process) {
    assert_eq!(process.lost_events, 0, "lost");
    assert_eq!(process.unmatched_deallocations, 0, "unmatched");
    assert_eq!(process.ambiguous_events, 0, "ambiguous");
}

fn of_entry(process: &Process, entry: EntryPoint) -> (u64, u64, u64) {
    let found = process.entries.iter().find(|found| found.entry == entry);
    let found = found.expect("the entry point was used");
    (
        found.allocations,
        found.allocated_bytes,
        found.deallocations,
    )
}

#[test]
fn a_pools_first_block_does_not_end_its_arena() {
    let process = of_one_thread(&[
        alloc(8, SHARED, 4096),
        pool(alloc(9, SHARED, 100)),
        pool(alloc(9, SHARED + 100, 50)),
        pool(free(SHARED)),
        pool(alloc(9, SHARED, 30)),
        pool(free(SHARED + 100)),
        free(SHARED),
    ]);
    is_clean(&process);
    // The arena and two blocks; then the block of 30 bytes outlives the arena.
    assert_eq!(process.totals.peak_bytes, 4096 + 100 + 50);
    assert_eq!(process.totals.leaked_allocations, 1);
    assert_eq!(process.totals.leaked_bytes, 30);
    assert_eq!(site(&process, 8).leaked_allocations, 0);
    assert_eq!(of_entry(&process, EntryPoint::Malloc), (1, 4096, 0));
    assert_eq!(of_entry(&process, EntryPoint::Free), (0, 0, 1));
    assert_eq!(of_entry(&process, EntryPoint::Pool), (3, 180, 2));
}

#[test]
fn an_allocator_a_pool_and_the_heap_have_separate_addresses() {
    let process = of_one_thread(&[
        alloc(8, SHARED, 1000),
        reported(alloc(9, SHARED, 100)),
        pool(alloc(10, SHARED, 10)),
        reported(free(SHARED)),
        free(SHARED),
    ]);
    is_clean(&process);
    assert_eq!(process.totals.peak_bytes, 1110);
    assert_eq!(process.totals.leaked_bytes, 10);
}

#[test]
fn blocks_are_shown_by_address_and_not_by_key() {
    let mut story = Story::one_image();
    let events = [thread(1), alloc(8, SHARED, 9), pool(alloc(9, SHARED, 5))];
    story.events(0, 0, &events).end(0, 100);
    let mut shown = Vec::new();
    let sites = [(0, 8), (0, 9)];
    blocks_of_sites(&story.trace, &Default::default(), &sites, &mut |block| {
        shown.push((block.address, block.size));
    })
    .expect("a story can be aggregated");
    assert_eq!(shown, [(SHARED, 9), (SHARED, 5)]);
}

#[test]
fn a_pools_reallocation_is_paired_with_its_own_start() {
    // The first reallocation of the pool's block reallocates the arena, which moves. The
    // second fails, as does the arena's, and changes nothing.
    let process = of_one_thread(&[
        alloc(8, SHARED, 4096),
        pool(alloc(9, SHARED, 100)),
        pool(realloc_start(SHARED)),
        realloc_start(SHARED),
        realloc_end(8, 0x9000, 8192),
        pool(realloc_end(9, 0x9000, 200)),
        pool(realloc_start(0x9000)),
        realloc_start(0x9000),
        realloc_failed(),
        realloc_failed(),
    ]);
    is_clean(&process);
    assert_eq!(process.totals.reallocations, 2);
    assert_eq!(process.totals.leaked_allocations, 2);
    assert_eq!(process.totals.leaked_bytes, 8192 + 200);
    assert_eq!(of_entry(&process, EntryPoint::Pool), (2, 300, 1));
}

/// Thread 1 allocates and frees a block again and again, and thread 2 a pool's block at
/// the same address: whatever the order across the threads, no event counts as lost.
#[test]
fn threads_that_use_one_address_in_two_spaces_do_not_wait_for_each_other() {
    let mut heap = vec![thread(1)];
    let mut pools = vec![thread(2)];
    for round in 0..200_u64 {
        heap.extend([alloc(8, SHARED, 64), free(SHARED)]);
        pools.extend([pool(alloc(9, SHARED, 8)), pool(free(SHARED))]);
        if round % 10 == 9 {
            heap.push(timestamp(round * 50));
            pools.push(timestamp(round * 50 + 7));
        }
    }
    let mut story = Story::one_image();
    story.events(0, 0, &heap).events(0, 1, &pools);
    let process = story.process(100_000);
    is_clean(&process);
    assert_eq!(process.totals.allocations, 400);
    assert_eq!(process.totals.leaked_allocations, 0);
    assert!((64..=72).contains(&process.totals.peak_bytes));
}

#[test]
fn a_child_inherits_the_arena_and_the_pools_block() {
    let mut story = Story::one_image();
    let parent = [
        thread(1),
        alloc(8, SHARED, 4096),
        pool(alloc(9, SHARED, 100)),
        timestamp(50),
    ];
    story.events(0, 0, &parent).end(0, 1000);
    story.image(1, Some(0), &[(0, 2)]);
    let child = [thread(9), pool(free(SHARED)), timestamp(500)];
    story.events(1, 1, &child).end(1, 1000);
    let child = story.profile().processes.remove(1);
    is_clean(&child);
    assert_eq!(child.totals.inherited_allocations, 2);
    assert_eq!(child.totals.inherited_bytes, 4196);
    assert_eq!(child.totals.inherited_deallocations, 1);
}
