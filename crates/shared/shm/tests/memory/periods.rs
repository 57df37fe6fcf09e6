//! When a process has sampled, and at which periods: what threads notice is what a reader finds.

use std::sync::atomic::Ordering::Relaxed;

use allotrope_sampling::Period;
use allotrope_sampling::estimate::Figures;
use allotrope_shm::samples::layout::CHANGES;
use allotrope_shm::samples::reader::{Change, Periods};

use crate::support::TestProcess;

/// The process of the tests begins at 1, with the usual period.
const BEGAN: u64 = 1;

/// A watcher sets a period, and at this time a thread looks.
fn set(watched: &TestProcess, time: u64, period: u64) -> Periods {
    watched.pages.now.store(time, Relaxed);
    watched.memory().control.0.period.store(period, Relaxed);
    watched.writer().setting();
    watched.state().periods
}

fn change(time: u64, period: u64) -> Change {
    Change {
        time,
        period: Period::new(period),
    }
}

fn high(figures: Option<Figures>) -> f64 {
    figures.expect("it was on").bytes().high
}

fn without_samples(period: u64) -> std::ops::Range<f64> {
    3.68 * period as f64..3.70 * period as f64
}

#[test]
fn a_process_that_was_always_sampled_knows_all_of_its_blocks() {
    let watched = TestProcess::new();
    let usual = Period::DEFAULT.bytes();
    let periods = watched.state().periods;
    assert!(periods.is_complete());
    assert_eq!(periods.changes, [change(BEGAN, usual)]);
    // A shorter period leaves older blocks with the longer one.
    let periods = set(&watched, 10, 4096);
    assert!(periods.is_complete() && periods.off_since.is_none());
    assert_eq!(periods.on_since, Some(BEGAN));
    assert_eq!(periods.changes, [change(BEGAN, usual), change(10, 4096)]);
    assert!(without_samples(usual).contains(&high(periods.none())));
    assert!(without_samples(usual).contains(&high(periods.none_since(9))));
    assert!(without_samples(4096).contains(&high(periods.none_since(10))));
    assert!(without_samples(4096).contains(&high(periods.none_since(11))));
    // A longer one counts for all that came since it was set, and since before.
    let periods = set(&watched, 20, 1 << 25);
    assert!(without_samples(1 << 25).contains(&high(periods.none_since(15))));
    assert_eq!(periods.longest, Period::new(1 << 25));
}

#[test]
fn what_was_allocated_while_sampling_was_off_may_be_any_amount() {
    let watched = TestProcess::new();
    let periods = set(&watched, 10, 0);
    assert_eq!(periods.off_since, Some(10));
    assert!(!periods.is_complete() && high(periods.none()).is_infinite());
    // From the switch on nothing is missed again.
    let periods = set(&watched, 20, 4096);
    assert_eq!((periods.on_since, periods.off_since), (Some(20), None));
    assert!(!periods.is_complete() && high(periods.none()).is_infinite());
    assert!(high(periods.none_since(19)).is_infinite());
    assert!(without_samples(4096).contains(&high(periods.none_since(20))));
    // Whatever the clock says: a switch is no start.
    let periods = set(&watched, 0, 0);
    assert!(periods.off_since.is_some_and(|it| it > BEGAN));
    let periods = set(&watched, 0, 4096);
    assert!(periods.on_since.is_some_and(|it| it > BEGAN) && !periods.is_complete());
}

#[test]
fn the_latest_changes_are_kept() {
    let watched = TestProcess::new();
    let number = 3 * CHANGES as u64 + 7;
    for time in 2..=number {
        set(&watched, time, 4096 + time);
    }
    let periods = watched.state().periods;
    assert_eq!(periods.changes.len(), CHANGES);
    assert_eq!(periods.forgotten, number - CHANGES as u64);
    assert_eq!(periods.changes.last(), Some(&change(number, 4096 + number)));
    // Before the first one that is known, the longest one of all counts.
    assert!(without_samples(512 << 10).contains(&high(periods.none_since(2))));
    assert!(without_samples(4096 + number).contains(&high(periods.none_since(number))));
}

/// Threads look at the same time, while the period changes.
#[test]
fn a_change_is_noticed_once() {
    let watched = TestProcess::new();
    for round in 1..50u64 {
        watched.memory().control.0.period.store(round, Relaxed);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| watched.writer().setting());
            }
        });
        let periods = watched.state().periods;
        assert_eq!(periods.changes.len() as u64, 1 + round);
        let last = periods.changes.last().map(|it| it.period);
        assert_eq!(last, Some(Period::new(round)));
    }
}

#[test]
fn the_period_of_standby_is_marked() {
    assert_eq!(TestProcess::new().state().standby, None);
    let sparse = TestProcess::in_standby().state();
    assert_eq!(
        (sparse.period, sparse.standby),
        (Some(Period::SPARSE), Some(Period::SPARSE))
    );
    assert!(sparse.periods.is_complete());
}
