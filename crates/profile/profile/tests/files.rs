//! The profile of a trace file equals the profile of its records, and a file that is cut
//! anywhere has a profile of the part before the cut.

mod story;

use allotrope_profile::{Options, Profile, TraceSource, aggregate};
use allotrope_trace::{TraceReader, TraceWriter};
use story::*;

/// Two processes, two threads, several chunks in each stream.
fn story() -> Story {
    let mut story = Story::one_image();
    for round in 0..20_u64 {
        let at = 0x1000 + round * 0x100;
        let tick = 1_000 + round * 1_000;
        story.events(
            0,
            0,
            &[thread(1), alloc(8, at, 100 + round), timestamp(tick)],
        );
        story.events(
            0,
            1,
            &[
                thread(2),
                alloc(9, at + 8, 7),
                free(at),
                timestamp(tick + 500),
            ],
        );
    }
    story.end(0, 50_000);
    story.image(1, Some(0), &[(0, 10), (1, 20)]);
    story.events(1, 2, &[thread(9), free(0x1008), realloc_start(0x1108)]);
    story.events(1, 2, &[realloc_end(10, 0x1108, 9), timestamp(30_000)]);
    story.end(1, 60_000);
    story
}

fn file_of(story: &Story) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new()).expect("memory takes everything");
    for record in &story.trace.records {
        writer.write(record).expect("memory takes everything");
    }
    writer.finish().expect("memory takes everything")
}

fn profile_of(source: &impl TraceSource) -> Profile {
    let options = Options {
        evidence: true,
        ..Options::default()
    };
    aggregate(source, &options).expect("the trace can be aggregated")
}

#[test]
fn the_profile_of_a_file_is_that_of_its_records() {
    let story = story();
    let file = file_of(&story);
    let reader = TraceReader::new(&file[..]).expect("is a trace");
    let profile = profile_of(&reader);
    assert_eq!(profile, story.profile());
    assert!(profile.is_complete());
    // The parent leaks 20 blocks of stack 9. The child inherits the first 10 and frees
    // two of them, one by a reallocation.
    assert_eq!(profile.processes[0].totals.leaked_allocations, 20);
    assert_eq!(profile.processes[1].totals.inherited_allocations, 10);
    assert_eq!(profile.processes[1].totals.inherited_deallocations, 2);
    assert_eq!(profile.processes[1].unmatched_deallocations, 0);
}

#[test]
fn a_file_cut_anywhere_has_a_profile_of_the_part_before() {
    let file = file_of(&story());
    let whole = profile_of(&TraceReader::new(&file[..]).expect("is a trace"));
    let allocations =
        |profile: &Profile| -> u64 { profile.processes.iter().map(|p| p.totals.allocations).sum() };
    let mut before = 0;
    for length in 0..file.len() {
        let Ok(reader) = TraceReader::new(&file[..length]) else {
            assert_eq!(before, 0, "readable before, but not with {length} bytes");
            continue;
        };
        let profile = profile_of(&reader);
        assert!(
            profile.cut.is_some() && !profile.is_complete(),
            "{length} bytes"
        );
        let now = allocations(&profile);
        assert!(
            now >= before && now <= allocations(&whole),
            "{length} bytes"
        );
        before = now;
    }
    assert_eq!(
        before,
        allocations(&whole),
        "only the closing chunk was missing"
    );
}

#[test]
fn progress_ends_with_all_events() {
    let story = story();
    let last = std::cell::Cell::new((0, 0));
    let progress = |done, all| last.set((done, all));
    let options = Options {
        progress: Some(&progress),
        ..Options::default()
    };
    aggregate(&story.trace, &options).expect("the story can be aggregated");
    // 20 × (1 + 2) events of the parent, 3 of the child.
    assert_eq!(last.get(), (63, 63));
}
