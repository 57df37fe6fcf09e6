//! Entry points, sizes and freeing threads of sites (`Options::site_details`).

mod story;

use allotrope_profile::{Options, Profile, SiteDetails, aggregate, aggregate_range};
use allotrope_trace::model::{EntryPoint, Event};
use story::*;

const STACK: u32 = 8;

/// Thread 1 allocates three blocks and frees one of them at once; thread 2 frees another
/// one later. The third is live at the end.
fn handed_over() -> Story {
    let aligned = Event {
        entry: EntryPoint::AlignedAlloc,
        alignment_log2: 6,
        ..alloc(STACK, 0x300, 128)
    };
    let mut story = Story::one_image();
    story.events(
        0,
        0,
        &[
            thread(1),
            timestamp(1_000),
            alloc(STACK, 0x100, 24),
            alloc(STACK, 0x200, 40),
            free(0x200),
            aligned,
            timestamp(2_000),
        ],
    );
    story.events(
        0,
        1,
        &[
            thread(2),
            timestamp(50_000_000),
            free(0x100),
            timestamp(50_000_001),
        ],
    );
    story.end(0, 60_000_000);
    story
}

fn options(temporary_threshold: u64) -> Options<'static> {
    Options {
        site_details: true,
        temporary_threshold,
        ..Options::default()
    }
}

fn details(profile: &Profile) -> &SiteDetails {
    let details = site(&profile.processes[0], STACK).details.as_deref();
    details.expect("they were requested")
}

#[test]
fn a_site_has_its_entry_points_sizes_and_freeing_threads() {
    // With a threshold the aggregation takes one event at a time, otherwise batches.
    for threshold in [0, 1] {
        let profile = aggregate(&handed_over().trace, &options(threshold)).expect("a story");
        let details = details(&profile);
        let entries = details.entries.iter();
        let entries =
            entries.map(|it| (it.entry, it.alignment, it.allocations, it.allocated_bytes));
        assert_eq!(
            entries.collect::<Vec<_>>(),
            [
                (EntryPoint::Malloc, 0, 2, 24 + 40),
                (EntryPoint::AlignedAlloc, 64, 1, 128)
            ]
        );
        assert_eq!((details.smallest_bytes, details.largest_bytes), (24, 128));
        let sizes = details.sizes.iter();
        let sizes: Vec<_> = sizes.map(|it| (it.up_to_bytes, it.allocations)).collect();
        assert_eq!(sizes, [(32, 1), (64, 1), (128, 1)]);
        let threads = &profile.processes[0].threads;
        let tid = |thread: Option<u32>| threads[thread.expect("known") as usize].tid;
        let made = details.threads.iter();
        let made: Vec<_> = made.map(|it| (tid(it.thread), it.allocations)).collect();
        assert_eq!(made, [(1_001, 3)]);
        let frees = details.frees.iter();
        let mut frees: Vec<_> = frees
            .map(|it| (tid(it.allocated_by), tid(it.freed_by), it.bytes))
            .collect();
        frees.sort_unstable();
        assert_eq!(frees, [(1_001, 1_001, 40), (1_001, 1_002, 24)]);
        let waited = details.frees.iter().map(|it| it.lifetimes.max_ns).max();
        assert!(waited.is_some_and(|ns| ns >= 49_000_000), "{waited:?}");
    }
}

#[test]
fn in_a_range_blocks_that_are_freed_later_are_not_freed() {
    let story = handed_over();
    let range = aggregate_range(&story.trace, &options(0), [0, 10_000_000]).expect("a story");
    let details = details(&range);
    assert_eq!(details.entries.len(), 2);
    assert_eq!(details.frees.len(), 1);
    assert_eq!(details.frees[0].bytes, 40);
}

#[test]
fn without_the_request_there_are_none() {
    let process = handed_over().process(60_000_000);
    assert_eq!(site(&process, STACK).details, None);
}
