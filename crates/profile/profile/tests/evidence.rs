//! Evidence for findings: who freed the blocks of a site, in which order, how they grew
//! and which pages they hold at the end. The expected numbers follow from the events.

mod story;

use allotrope_profile::{Process, SiteEvidence};
use story::*;

fn of(process: &Process, stack: u32) -> SiteEvidence {
    let at = process.sites.iter().position(|it| it.stack_id == stack);
    let evidence = process.evidence.as_ref().expect("it was asked for");
    evidence.sites[at.expect("the stack allocated")]
}

#[test]
fn blocks_that_another_thread_frees_in_order() {
    let mut story = Story::one_image();
    let mut events = vec![thread(1), timestamp(10)];
    for block in 0..4 {
        events.extend([
            timestamp(20 + block),
            alloc(8, 0x1000 + 64 * block, 8 + block),
        ]);
    }
    events.extend([thread(2), timestamp(100)]);
    // The third is freed before the second.
    for (block, at) in [(0, 101), (2, 102), (1, 103), (3, 104)] {
        events.extend([timestamp(at), free(0x1000 + 64 * block)]);
    }
    story.events(0, 0, &events);
    let process = story.process(1_000);
    let found = of(&process, 8);
    assert_eq!((found.freed, found.freed_by_others), (4, 4));
    // The third and the last come after an earlier one.
    assert_eq!(found.freed_in_order, 2);
    assert_eq!((found.smallest, found.largest), (8, 11));
    assert_eq!(found.one_size(), None);
    let tid = |at: Option<u32>| at.map(|at| process.threads[at as usize].tid);
    assert_eq!(found.handed_over.map(tid), [Some(1001), Some(1002)]);
}

#[test]
fn blocks_that_several_threads_hand_over() {
    let mut story = Story::one_image();
    let events = [
        thread(1),
        alloc(8, 0x1000, 8),
        alloc(8, 0x2000, 8),
        thread(2),
        free(0x1000),
        thread(3),
        free(0x2000),
    ];
    story.events(0, 0, &events);
    let process = story.process(1_000);
    let found = of(&process, 8);
    let tid = |at: Option<u32>| at.map(|at| process.threads[at as usize].tid);
    assert_eq!(found.handed_over.map(tid), [Some(1001), None]);
    assert_eq!(found.one_size(), Some(8));
}

#[test]
fn a_chain_of_reallocations() {
    let process = of_one_thread(&[
        alloc(8, 0x1000, 100),
        // Moved: 100 bytes are copied.
        realloc_start(0x1000),
        realloc_end(9, 0x2000, 200),
        // In place.
        realloc_start(0x2000),
        realloc_end(9, 0x2000, 400),
        // So large that the kernel may have moved it.
        realloc_start(0x2000),
        realloc_end(9, 0x3000, 200_000),
        realloc_start(0x3000),
        realloc_end(9, 0x4000, 400_000),
        // A smaller one is no growth, but the same chain.
        realloc_start(0x4000),
        realloc_end(9, 0x5000, 300_000),
        free(0x5000),
    ]);
    let first = of(&process, 8);
    assert_eq!((first.freed, first.reallocated), (0, 1));
    assert_eq!(first.reallocated_temporary, 1);
    let grown = of(&process, 9);
    assert_eq!((grown.freed, grown.reallocated), (1, 4));
    assert_eq!(grown.growth.growths, 4);
    // The block of 400 bytes moved, too.
    assert_eq!(grown.growth.copied_bytes, 100 + 400);
    assert_eq!((grown.growth.chains, grown.growth.chain_growths), (1, 4));
    assert_eq!(grown.growth.final_mean(), 300_000.0);
    assert_eq!(grown.growth.final_variation(), 0.0);
    assert_eq!((grown.smallest, grown.largest), (200, 400_000));
}

#[test]
fn a_failed_reallocation_is_no_growth() {
    let process = of_one_thread(&[
        alloc(8, 0x1000, 100),
        realloc_start(0x1000),
        realloc_failed(),
        realloc_start(0x1000),
        realloc_freed(),
    ]);
    let found = of(&process, 8);
    assert_eq!((found.reallocated, found.growth.growths), (0, 0));
}

#[test]
fn a_container_that_allocates_copies_and_frees() {
    let process = of_one_thread(&[
        alloc(8, 0x1000, 16),
        alloc(8, 0x2000, 32),
        free(0x1000),
        alloc(8, 0x3000, 64),
        free(0x2000),
        alloc(8, 0x4000, 128),
        free(0x3000),
        // Live at the end: the chain ends there.
    ]);
    let growth = of(&process, 8).growth;
    assert_eq!((growth.growths, growth.copied_bytes), (3, 16 + 32 + 64));
    assert_eq!((growth.chains, growth.chain_growths), (1, 3));
    assert_eq!((growth.final_bytes, growth.final_largest), (128, 128));
}

#[test]
fn blocks_of_other_sizes_other_sites_or_other_threads_do_not_grow() {
    let grown = |events: &[_]| {
        let process = of_one_thread(events);
        let evidence = process.evidence.expect("it was asked for");
        evidence
            .sites
            .iter()
            .map(|it| it.growth.growths)
            .sum::<u64>()
    };
    assert_eq!(
        grown(&[alloc(8, 0x1000, 16), alloc(8, 0x2000, 48), free(0x1000)]),
        0
    );
    assert_eq!(
        grown(&[alloc(8, 0x1000, 16), alloc(8, 0x2000, 16), free(0x1000)]),
        0
    );
    assert_eq!(
        grown(&[alloc(8, 0x1000, 16), alloc(9, 0x2000, 32), free(0x1000)]),
        0
    );
    let others = [
        alloc(8, 0x1000, 16),
        thread(2),
        alloc(8, 0x2000, 32),
        free(0x1000),
    ];
    assert_eq!(grown(&others), 0);
    // The larger one is gone when the smaller one is freed.
    let gone = [
        alloc(8, 0x1000, 16),
        alloc(8, 0x2000, 32),
        free(0x2000),
        free(0x1000),
    ];
    assert_eq!(grown(&gone), 0);
}

#[test]
fn inherited_blocks_that_a_child_frees() {
    let mut story = Story::one_image();
    let made = [
        thread(1),
        timestamp(10),
        alloc(8, 0x10_000, 100),
        alloc(8, 0x10_100, 50),
    ];
    story.events(0, 0, &made);
    story.events(0, 0, &[alloc(8, 0x20_000, 7), timestamp(20)]);
    story.image(1, Some(0), &[(0, 3)]);
    story.events(
        1,
        1,
        &[thread(9), timestamp(30), free(0x10_000), free(0x10_100)],
    );
    story.end(1, 1_000);
    story.end(0, 1_000);
    let profile = story.profile();
    let evidence = profile.processes[1]
        .evidence
        .as_ref()
        .expect("it was asked for");
    assert_eq!(evidence.inherited_freed_bytes, 150);
    // Both begin in one page.
    assert_eq!(evidence.inherited_pages, 1);
}

#[test]
fn pages_that_the_last_blocks_hold() {
    let blocks = 0..40_u64;
    let mut events: Vec<_> = blocks
        .clone()
        .map(|at| alloc(8, 0x10_000 + at * 2048, 2000))
        .collect();
    events.push(alloc(9, 0x10_000 + 7 * 2048 + 2016, 8));
    // Every eighth lives on; the one of the other site is in a page with one of them.
    events.extend(
        blocks
            .filter(|at| at % 8 != 7)
            .map(|at| free(0x10_000 + at * 2048)),
    );
    let process = of_one_thread(&events);
    assert_eq!(
        process
            .evidence
            .as_ref()
            .expect("it was asked for")
            .held_pages,
        5
    );
    assert_eq!(of(&process, 8).held_pages, 4);
    assert_eq!(of(&process, 9).held_pages, 0);
    // The fifth page is shared by both.
    assert_eq!(of(&process, 8).shared_pages, 0.5);
    assert_eq!(of(&process, 9).shared_pages, 0.5);
}
