//! The figures of windows: which events belong to a window, and how they are counted.

mod story;

use allotrope_profile::{
    AggregateError, Options, Process, Profile, StackSet, WindowFigures, WindowKey,
    aggregate_windows,
};
use allotrope_trace::model::{Descriptors, Event, LeftOpen, QuietWait, Record, Window, WindowEnd};
use story::*;

/// A trace with these windows (opened, closed), all named `w`, and with these streams of
/// threads 1, 2, ….
fn story(windows: &[(u64, Option<u64>)], streams: &[&[Event]]) -> Story {
    let mut story = Story::one_image();
    for &(opened, closed) in windows {
        story.push(Record::Window(window("w", opened)));
        if let Some(closed) = closed {
            story.push(Record::WindowEnd(window_end(opened, closed)));
        }
    }
    for (number, events) in (0_u32..).zip(streams) {
        let mut all = vec![thread(number + 1)];
        all.extend_from_slice(events);
        story.events(0, number, &all);
    }
    story
}

fn figures(process: &Process) -> Vec<WindowFigures> {
    process.windows.iter().map(|run| run.figures).collect()
}

fn stacks_of(story: &Story, opened: &[u64]) -> Profile {
    let wanted: Vec<WindowKey> = opened
        .iter()
        .map(|&opened| WindowKey { image: 0, opened })
        .collect();
    aggregate_windows(&story.trace, &Options::default(), &wanted).expect("the windows are there")
}

#[test]
fn events_between_opening_and_close_are_counted() {
    let events = [
        alloc(8, 0x10, 1),
        epoch(1),
        alloc(8, 0x20, 100), // temporary
        free(0x20),
        free(0x10), // not allocated in it
        alloc(9, 0x30, 10),
        realloc_start(0x30),
        realloc_end(9, 0x40, 30),
        alloc(8, 0x50, 5), // remains
        epoch(2),
        alloc(8, 0x60, 7),
        free(0x50),
        timestamp(1000),
    ];
    let process = story(&[(1, Some(2))], &[&events]).process(1000);
    let expected = WindowFigures {
        allocations: 4,
        allocated_bytes: 100 + 10 + 30 + 5,
        deallocations: 3,
        reallocations: 1,
        // 0x20, and 0x30, which was reallocated at once. Not 0x10, which was not allocated
        // in the window.
        temporary_allocations: 2,
        remaining_allocations: 2,
        remaining_bytes: 30 + 5,
        peak_bytes: 100,
        peak_allocations: 1,
    };
    assert_eq!(figures(&process), [expected]);
    assert_eq!(expected.net(), 1);
    let run = &process.windows[0];
    assert!(run.closed && run.measured);
    assert_eq!((run.occurrence, run.thread), (1, None));
}

#[test]
fn a_window_counts_by_the_threads_epochs_whatever_the_times() {
    // By its timestamps thread 2 has epoch 1 long before thread 1, which opened the
    // window. Its events belong to the window nevertheless.
    let opener = [
        timestamp(900_000),
        epoch(1),
        alloc(8, 0x10, 1),
        timestamp(950_000),
    ];
    let other = [
        alloc(9, 0x20, 2),
        epoch(1),
        alloc(9, 0x30, 4),
        epoch(2),
        alloc(9, 0x40, 8),
        timestamp(10),
    ];
    for streams in [[&opener[..], &other[..]], [&other[..], &opener[..]]] {
        let process = story(&[(1, Some(2))], &streams).process(1_000_000);
        let [window] = figures(&process)[..] else {
            panic!()
        };
        assert_eq!((window.allocations, window.allocated_bytes), (2, 1 + 4));
        assert_eq!(window.remaining_allocations, 2);
    }
}

#[test]
fn nested_and_overlapping_windows_are_counted_independently() {
    // 1 to 6 contains 2 to 3, and overlaps 4 to 8.
    let windows = [(1, Some(6)), (2, Some(3)), (4, Some(8))];
    let events: Vec<Event> = (0..9_u64)
        .flat_map(|at| [epoch(at), alloc(8, 0x100 + at * 16, 1 << at)])
        .chain([timestamp(1000)])
        .collect();
    let story = story(&windows, &[&events]);
    let bytes = |from: u64, to: u64| (from..to).map(|at| 1 << at).sum::<u64>();
    let profile = story.profile();
    let found: Vec<u64> = figures(&profile.processes[0])
        .iter()
        .map(|figures| figures.allocated_bytes)
        .collect();
    assert_eq!(found, [bytes(1, 6), bytes(2, 3), bytes(4, 8)]);
    let stacks = stacks_of(&story, &[4, 1]);
    let totals = |at: usize| stacks.processes[at].totals.allocated_bytes;
    assert_eq!([totals(0), totals(1)], [bytes(4, 8), bytes(1, 6)]);
}

#[test]
fn a_window_of_one_thread_counts_no_other_threads() {
    let mut story = Story::one_image();
    story.push(Record::Window(Window {
        thread: Some(2),
        this_thread_only: true,
        iterations: 1000,
        ..window("mine", 1)
    }));
    story.push(Record::WindowEnd(window_end(1, 2)));
    let own = [
        thread(2),
        epoch(1),
        alloc(8, 0x10, 10),
        alloc(8, 0x20, 20),
        epoch(2),
        timestamp(900),
    ];
    let other = [
        thread(1),
        epoch(1),
        timestamp(500),
        alloc(9, 0x30, 1),
        free(0x10), // not a deallocation of the window, but its block is no longer live
        epoch(2),
        free(0x20),
        timestamp(900),
    ];
    story.events(0, 0, &other).events(0, 1, &own);
    let process = story.process(1000);
    let run = &process.windows[0];
    assert_eq!(process.threads[run.thread.unwrap() as usize].tid, 1002);
    assert_eq!(run.iterations, 1000);
    let expected = WindowFigures {
        allocations: 2,
        allocated_bytes: 30,
        remaining_allocations: 1,
        remaining_bytes: 20,
        peak_bytes: 30,
        peak_allocations: 2,
        ..WindowFigures::default()
    };
    assert_eq!(run.figures, expected);
}

#[test]
fn a_thread_that_opted_out_is_recorded_but_belongs_to_no_window() {
    let events = [
        epoch(1),
        alloc(8, 0x10, 10),
        epoch_change(1, true),
        alloc(8, 0x20, 20),
        free(0x10), // not a deallocation of the window, but its block is no longer live
        epoch_change(1, false),
        free(0x20),
        epoch_change(2, true),
        alloc(8, 0x30, 40),
        timestamp(1000),
    ];
    let process = story(&[(1, Some(2))], &[&events]).process(1000);
    let [window] = figures(&process)[..] else {
        panic!()
    };
    assert_eq!((window.allocations, window.deallocations), (1, 1));
    assert_eq!((window.remaining_allocations, window.peak_bytes), (0, 10));
    assert_eq!(process.totals.allocations, 3);
}

#[test]
fn a_block_that_an_opted_out_thread_frees_after_the_close_was_remaining() {
    let events = [
        epoch(1),
        alloc(8, 0x10, 10),
        epoch_change(2, true),
        free(0x10),
        timestamp(1000),
    ];
    let process = story(&[(1, Some(2))], &[&events]).process(1000);
    assert_eq!(figures(&process)[0].remaining_bytes, 10);
}

#[test]
fn a_reallocation_whose_result_is_far_away_counts_where_it_began() {
    // There are more events between start and result than the cursor looks ahead.
    let mut events = vec![alloc(8, 0x10, 10), epoch(1), realloc_start(0x10), epoch(2)];
    events.extend((0..300).flat_map(|_| [alloc(8, 0x100, 1), free(0x100)]));
    events.extend([realloc_end(8, 0x20, 20), timestamp(1_000_000)]);
    let process = story(&[(1, Some(2))], &[&events]).process(1_000_000);
    let window = figures(&process)[0];
    assert_eq!((window.allocations, window.deallocations), (0, 1));
}

#[test]
fn a_window_that_never_closes_lasts_to_the_end() {
    let events = [epoch(1), alloc(8, 0x10, 10), timestamp(1000)];
    let process = story(&[(1, None)], &[&events]).process(5_000_000);
    let run = &process.windows[0];
    assert!(!run.closed);
    assert_eq!(run.figures.allocations, 1);
    assert_eq!((run.opened_us, run.duration_us), (0, 5_000));
}

#[test]
fn runs_of_a_name_are_numbered_and_have_the_values_of_their_records() {
    let mut story = Story::one_image();
    let left = LeftOpen {
        name: "/a".into(),
        count: 2,
    };
    let descriptors = Some(Descriptors {
        before: 3,
        after: 6,
        left: vec![left],
        more: 1,
    });
    for (name, opened) in [("a", 1), ("b", 3), ("a", 5)] {
        story.push(Record::Window(Window {
            quiet: QuietWait::TimedOut,
            tick: opened * 1000,
            ..window(name, opened)
        }));
        story.push(Record::WindowEnd(WindowEnd {
            quiet: QuietWait::Reached,
            tick: opened * 1000 + 500_000,
            descriptors: descriptors.clone(),
            ..window_end(opened, opened + 1)
        }));
    }
    let process = story.process(1_000_000);
    let listed: Vec<(&str, u32)> = process
        .windows
        .iter()
        .map(|run| (&*run.name, run.occurrence))
        .collect();
    assert_eq!(listed, [("a", 1), ("b", 1), ("a", 2)]);
    let last = &process.windows[2];
    assert_eq!(last.quiet, [QuietWait::TimedOut, QuietWait::Reached]);
    assert_eq!((last.opened_us, last.duration_us), (5, 500));
    assert_eq!(last.descriptors.as_ref().map(Descriptors::leaked), Some(3));
}

#[test]
fn the_stacks_of_one_window_are_a_profile_of_its_own() {
    let events = [
        alloc(8, 0x10, 1),
        epoch(1),
        alloc(8, 0x20, 100),
        free(0x20),
        alloc(9, 0x30, 40),
        alloc(9, 0x40, 40),
        epoch(2),
        free(0x40),
        alloc(10, 0x50, 7),
        timestamp(1000),
    ];
    let mut story = story(&[(1, Some(2)), (3, None)], &[&events]);
    story.end(0, 1000);
    let profile = stacks_of(&story, &[1, 3]);
    let window = &profile.processes[0];
    let [eight, nine] = [site(window, 8), site(window, 9)];
    assert_eq!(window.sites.len(), 2);
    assert_eq!((eight.allocations, eight.leaked_allocations), (1, 0));
    assert_eq!((nine.allocations, nine.leaked_allocations), (2, 2));
    assert_eq!(
        nine.lifetimes.blocks, 2,
        "the one freed after the close, and the one never freed"
    );
    assert_eq!((eight.bytes_at_peak, nine.bytes_at_peak), (100, 0));
    assert_eq!(window.totals.leaked_bytes, 80);
    assert_eq!(window.threads[0].allocations, 3);
    assert_eq!(window.windows[0].figures.allocations, 3);
    assert!(profile.processes[1].sites.is_empty());
    let set = StackSet::of_process(&profile, 0);
    assert_eq!(set.total(allotrope_profile::Metric::LeakedBytes), 80);
    assert!(StackSet::of_process(&profile, 2).stacks.is_empty());
    let missing = aggregate_windows(
        &story.trace,
        &Options::default(),
        &[WindowKey {
            image: 0,
            opened: 2,
        }],
    );
    assert!(matches!(
        missing,
        Err(AggregateError::NoSuchWindow { opened: 2, .. })
    ));
}

#[test]
fn a_whole_image_has_the_figures_of_one_window() {
    let process = of_one_thread(&[alloc(8, 0x10, 10), alloc(8, 0x20, 20), free(0x10)]);
    let whole = process.whole();
    let expected = WindowFigures {
        allocations: 2,
        allocated_bytes: 30,
        deallocations: 1,
        remaining_allocations: 1,
        remaining_bytes: 20,
        peak_bytes: 30,
        peak_allocations: 2,
        ..WindowFigures::default()
    };
    assert_eq!(whole.figures, expected);
    assert!(whole.closed && process.windows.is_empty());
}

#[test]
fn inherited_blocks_belong_to_no_window_of_the_child() {
    let mut story = Story::one_image();
    story.push(Record::Window(window("parent", 1)));
    let before = [thread(1), epoch(1), alloc(8, 0x10, 10), timestamp(100)];
    story.events(0, 0, &before);
    story.image(1, Some(0), &[(0, 1)]);
    story.push(Record::Window(Window {
        image: 1,
        ..window("child", 2)
    }));
    // The child's epochs continue from its parent's.
    let child = [
        thread(9),
        epoch(2),
        free(0x10),
        alloc(8, 0x20, 5),
        timestamp(200),
    ];
    story.events(1, 1, &child);
    story.end(1, 300).end(0, 300);
    let profile = story.profile();
    let parent = profile.processes[0].windows[0].figures;
    assert_eq!((parent.allocations, parent.remaining_bytes), (1, 10));
    assert_eq!(parent.deallocations, 0);
    let run = &profile.processes[1].windows[0];
    assert_eq!(run.name, "child");
    assert_eq!((run.figures.allocations, run.figures.deallocations), (1, 1));
    assert_eq!(run.figures.remaining_bytes, 5);
}
