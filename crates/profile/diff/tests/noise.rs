//! With several runs a side, random variation is reported as jitter, in one entry
//! for each thread, and never as a regression.

mod support;

use allotrope_diff::{DiffOptions, Kind, Noise, compare};
use support::{Stacks, blames, check, check_sums, functions, kinds, only};

/// A run with one deterministic stack and two stacks of a pool thread; the
/// arguments are their allocations.
fn run(deterministic: u64, polls: u64, wakeups: u64) -> Stacks {
    let mut stacks = Stacks::default();
    stacks.add(deterministic, &["malloc", "parse", "main"]);
    let pool = ["pool_worker", "libc.so.6`start_thread", "libc.so.6`clone3"];
    for (function, count) in [("poll", polls), ("wake", wakeups)] {
        let stack: Vec<&str> = ["malloc", function].into_iter().chain(pool).collect();
        stacks.add(count, &stack);
    }
    stacks
}

#[test]
fn jitter_is_one_entry_with_the_thread_it_came_from() {
    let before = [run(1000, 50, 7), run(1000, 53, 9), run(1000, 49, 8)];
    let after = [run(1000, 52, 8), run(1000, 54, 6), run(1000, 51, 9)];
    let diff = check(&before, &after);
    assert_eq!(kinds(&diff), [Kind::Jitter]);
    assert_eq!(blames(&diff), ["pool_worker"]);
    // The runs with the median totals: 1057 and 1060.
    assert_eq!((diff.before, diff.after), (1057, 1060));
    let Noise::Measured {
        before,
        after,
        deterministic,
        jittering,
    } = &diff.noise
    else {
        panic!("{:?}", diff.noise);
    };
    assert_eq!(before, &[1057, 1057, 1062]);
    assert_eq!(after, &[1060, 1060, 1060]);
    assert_eq!((*deterministic, *jittering), (1, 2));
}

#[test]
fn a_regression_is_not_reported_as_jitter() {
    let before = [run(1000, 50, 7), run(1000, 53, 9), run(1000, 49, 8)];
    let after = [run(1001, 52, 8), run(1001, 54, 6), run(1001, 51, 11)];
    let diff = check(&before, &after);
    let found: Vec<_> = diff
        .entries
        .iter()
        .filter(|e| e.kind != Kind::Jitter)
        .collect();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].before, found[0].after), (1000, 1001));
    assert_eq!(functions(&diff, &found[0].stacks[0].frames)[1], "parse");
}

#[test]
fn a_difference_outside_of_the_measured_range_is_a_change() {
    let before = [run(1000, 50, 7), run(1000, 53, 7), run(1000, 49, 7)];
    let after = [run(1000, 152, 7), run(1000, 154, 7), run(1000, 151, 7)];
    let diff = check(&before, &after);
    assert_eq!(kinds(&diff), [Kind::Changed]);
    assert_eq!(blames(&diff), ["poll"]);
}

#[test]
fn a_stack_of_only_some_runs_is_jitter() {
    let mut once = run(1000, 50, 7);
    once.add(3, &["malloc", "retry", "main"]);
    let before = [run(1000, 50, 7), run(1000, 50, 7), run(1000, 50, 7)];
    let after = [once.clone(), once, run(1000, 50, 7)];
    let diff = check(&before, &after);
    assert_eq!(kinds(&diff), [Kind::Jitter]);
    assert_eq!(only(&diff).difference, 3);
    assert_eq!(blames(&diff), ["main"]);
}

#[test]
fn each_thread_has_its_own_entry_of_jitter() {
    let side = |a: u64, b: u64| {
        let mut stacks = Stacks::default();
        stacks.add(100 + a, &["malloc", "poll", "reader", "start_thread"]);
        stacks.add(100 + b, &["malloc", "poll", "writer", "start_thread"]);
        stacks
    };
    let diff = check(
        &[side(0, 3), side(4, 0), side(2, 1)],
        &[side(5, 1), side(3, 6), side(4, 4)],
    );
    let mut threads = blames(&diff);
    threads.sort_unstable();
    assert_eq!(threads, ["reader", "writer"]);
    assert!(diff.entries.iter().all(|entry| entry.kind == Kind::Jitter));
}

#[test]
fn renamed_functions_jitter_too() {
    let side = |function: &str, count: u64| {
        let mut stacks = Stacks::default();
        stacks.add(
            count,
            &["malloc", function, "queue", "pool", "start_thread"],
        );
        stacks.add(500, &["malloc", "queue", "pool", "start_thread"]);
        stacks
    };
    let before = [side("poll.isra.0", 100), side("poll.isra.0", 107)];
    let after = [side("poll.isra.1", 104), side("poll.isra.1", 103)];
    let diff = check(&before, &after);
    assert!(diff.entries.iter().all(|entry| entry.kind == Kind::Jitter));
}

#[test]
fn with_one_run_a_side_noise_is_unknown() {
    let diff = check(&[run(1000, 50, 7)], &[run(1000, 51, 7)]);
    assert_eq!(diff.noise, Noise::Unknown);
    assert_eq!(kinds(&diff), [Kind::Changed]);
}

/// Totals of 100 to 140 before and of 200 to 240 after: all of it is in stacks that alone
/// overlap. `poll` moves from 50 to 70 up to 90 to 130, `wake` by less.
#[test]
fn stacks_that_moved_most_are_named_if_the_totals_are_known_to_differ() {
    let runs = |polls: [u64; 3], wakeups: [u64; 3]| -> Vec<Stacks> {
        let both = polls.into_iter().zip(wakeups);
        both.map(|(polls, wakeups)| run(0, polls, wakeups))
            .collect()
    };
    let before = runs([50, 60, 70], [50, 60, 65]);
    let after = runs([90, 110, 130], [70, 75, 90]);
    let sets = |side: &[Stacks]| side.iter().map(|it| it.set.clone()).collect::<Vec<_>>();
    let diff = |totals_differ| {
        let options = DiffOptions {
            totals_differ,
            ..DiffOptions::default()
        };
        let diff = compare(&sets(&before), &sets(&after), &options).expect("comparable");
        check_sums(&diff);
        diff
    };
    assert!(kinds(&diff(false)).iter().all(|kind| *kind == Kind::Jitter));
    let named = diff(true);
    // Of the 65 between the medians of the totals, `poll` explains 50.
    assert_eq!(kinds(&named), [Kind::Changed, Kind::Jitter]);
    assert_eq!((named.entries[0].before, named.entries[0].after), (60, 110));
    assert_eq!(blames(&named)[0], "poll");
}
