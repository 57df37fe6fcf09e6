//! Where the blocks of sites are freed (`SiteDetails::free_stacks`).

mod story;

use allotrope_profile::{
    Block, FreePlace, Options, Profile, SiteDetails, aggregate, aggregate_range, blocks_of_sites,
};
use allotrope_trace::model::Event;
use story::*;

const STACK: u32 = 8;
/// Stacks that free.
const FIRST: u32 = 10;
const SECOND: u32 = 11;
/// The trace has no such node.
const MISSING: u32 = 4_000_000_000;

/// Thread 1 allocates eight blocks and frees four: two at `FIRST`, one at a stack that the
/// trace does not have, one without a stack. Thread 2 frees one at `SECOND`; one is
/// replaced by a realloc at `FIRST`; those of 50 and 70 bytes are live at the end.
fn freed_everywhere() -> Story {
    let moved = Event {
        stack: FIRST,
        ..realloc_start(0x600)
    };
    let mut story = Story::one_image().with_free_stacks();
    let mut events = vec![thread(1), timestamp(1_000)];
    events.extend((1..8).map(|number| alloc(STACK, number * 0x100, 10 * number)));
    events.extend([
        free_at(FIRST, 0x100),
        free_at(MISSING, 0x300),
        free(0x400),
        moved,
        realloc_end(STACK + 1, 0x800, 5),
        timestamp(2_000),
        alloc(STACK, 0x900, 1),
        free_at(FIRST, 0x900),
        timestamp(3_000),
    ]);
    story.events(0, 0, &events);
    let other = [
        thread(2),
        timestamp(50_000_000),
        free_at(SECOND, 0x200),
        timestamp(50_000_001),
    ];
    story.events(0, 1, &other);
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

/// Stack, whether it was a reallocation, blocks and bytes, in order of the stacks.
fn table(profile: &Profile) -> Vec<(Option<u32>, bool, u64, u64)> {
    let elements = details(profile).free_stacks.iter();
    let mut all: Vec<_> = elements
        .map(|it| match &it.place {
            FreePlace::Stack {
                id, reallocation, ..
            } => (Some(*id), *reallocation, it.lifetimes.blocks, it.bytes),
            FreePlace::Others | FreePlace::Unknown => (None, false, it.lifetimes.blocks, it.bytes),
        })
        .collect();
    all.sort();
    all
}

const EXPECTED: [(Option<u32>, bool, u64, u64); 5] = [
    (None, false, 1, 40),
    (Some(FIRST), false, 2, 10 + 1),
    (Some(FIRST), true, 1, 60),
    (Some(SECOND), false, 1, 20),
    (Some(MISSING), false, 1, 30),
];

#[test]
fn a_site_says_where_its_blocks_are_freed() {
    // With a threshold the aggregation takes one event at a time, otherwise batches.
    for threshold in [0, 1] {
        let profile = aggregate(&freed_everywhere().trace, &options(threshold)).expect("a story");
        assert_eq!(table(&profile), EXPECTED);
        let details = details(&profile);
        let freed: u64 = details.frees.iter().map(|pair| pair.lifetimes.blocks).sum();
        let of_stacks = details.free_stacks.iter();
        assert_eq!(of_stacks.map(|it| it.lifetimes.blocks).sum::<u64>(), freed);
        for element in &details.free_stacks {
            let frames = element.place.frames();
            let expected = match &element.place {
                // Every stack of a story has one frame.
                FreePlace::Stack { id, .. } => usize::from(*id != MISSING),
                FreePlace::Others | FreePlace::Unknown => 0,
            };
            assert_eq!(frames.len(), expected, "{element:?}");
            assert!(
                frames
                    .iter()
                    .all(|&frame| (frame as usize) < profile.frames.len())
            );
            let by = element.threads[0].thread.expect("known") as usize;
            let expected = match &element.place {
                FreePlace::Stack { id: SECOND, .. } => Some(2),
                _ => Some(1),
            };
            assert_eq!(profile.processes[0].threads[by].thread, expected);
        }
    }
}

#[test]
fn a_range_of_time_has_its_own() {
    let trace = freed_everywhere().trace;
    let profile = aggregate_range(&trace, &options(0), [0, 10_000_000]).expect("a story");
    let expected: Vec<_> = EXPECTED
        .iter()
        .filter(|it| it.0 != Some(SECOND))
        .copied()
        .collect();
    assert_eq!(table(&profile), expected);
}

#[test]
fn single_blocks_say_where_they_are_freed() {
    let mut freed: Vec<(u64, u32)> = Vec::new();
    let mut add = |block: &Block| freed.push((block.size, block.freed_at));
    let trace = freed_everywhere().trace;
    blocks_of_sites(&trace, &Options::default(), &[(0, STACK)], &mut add).expect("a story");
    freed.sort();
    let none = 0;
    let live = |size: u64| (size, allotrope_trace::model::stack_end::NOT_RECORDED);
    let expected = [
        (1, FIRST),
        (10, FIRST),
        (20, SECOND),
        (30, MISSING),
        (40, none),
        live(50),
        (60, FIRST),
        live(70),
    ];
    assert_eq!(freed, expected);
}

#[test]
fn a_recording_without_these_stacks_has_none() {
    let mut story = Story::one_image();
    story.events(0, 0, &[thread(1), alloc(STACK, 0x100, 8), free(0x100)]);
    story.end(0, 1_000);
    let profile = aggregate(&story.trace, &options(0)).expect("a story");
    assert!(details(&profile).free_stacks.is_empty());
}
