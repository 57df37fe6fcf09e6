//! Input that is refused, and unusual input that is accepted.

mod support;

use allotrope_diff::{DiffError, DiffOptions, Kind, Side, compare};
use allotrope_profile::{CountedStack, Metric, MetricSet, StackSet};
use support::{Stacks, blames, check, kinds, only};

fn one(count: u64) -> StackSet {
    let mut stacks = Stacks::default();
    stacks.add(count, &["malloc", "f", "main"]);
    stacks.set
}

fn refusal(before: &[StackSet], after: &[StackSet], options: &DiffOptions) -> DiffError {
    compare(before, after, options).expect_err("not comparable")
}

#[test]
fn a_side_without_runs() {
    let error = refusal(&[one(1)], &[], &DiffOptions::default());
    assert_eq!(error, DiffError::NoRuns { side: Side::After });
}

#[test]
fn a_metric_that_a_side_does_not_have() {
    let mut counts_only = one(1);
    counts_only.known = MetricSet::of(&[Metric::Allocations]);
    "old.txt".clone_into(&mut counts_only.title);
    let options = DiffOptions {
        metric: Metric::LeakedBytes,
        ..DiffOptions::default()
    };
    let error = refusal(&[one(1), counts_only], &[one(1)], &options).to_string();
    assert!(
        error.starts_with("run 2 before (old.txt) does not give leaked bytes"),
        "{error}"
    );
}

#[test]
fn a_frame_that_is_not_there() {
    let mut set = one(1);
    set.stacks[0].frames = Box::new([0, 3]);
    let error = refusal(&[one(1)], &[set], &DiffOptions::default()).to_string();
    assert!(
        error.contains("stack 0 of run 1 after refers to frame 3"),
        "{error}"
    );
}

#[test]
fn figures_that_do_not_fit() {
    let mut set = one(1);
    set.stacks[0].figures[0] = u64::MAX;
    set.stacks.push(set.stacks[0].clone());
    let error = refusal(&[set], &[one(1)], &DiffOptions::default());
    assert!(matches!(
        error,
        DiffError::TooLarge {
            side: Side::Before,
            run: 1,
            ..
        }
    ));
}

#[test]
fn the_largest_figures_fit() {
    let mut most = one(1);
    most.stacks[0].figures[0] = i64::MAX as u64;
    let diff = compare(&[one(0)], &[most], &DiffOptions::default()).expect("fits");
    assert_eq!(diff.difference, i64::MAX);
}

#[test]
fn invalid_numbers_of_iterations() {
    for per in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let options = DiffOptions {
            per: Some(per),
            ..DiffOptions::default()
        };
        assert!(matches!(
            refusal(&[one(1)], &[one(1)], &options),
            DiffError::Per { .. }
        ));
    }
}

#[test]
fn figures_per_iteration() {
    let options = DiffOptions {
        per: Some(1000.0),
        ..DiffOptions::default()
    };
    let diff = compare(&[one(1000)], &[one(22_000)], &options).expect("comparable");
    assert_eq!(diff.normalised(diff.entries[0].difference), Some(21.0));
    let diff = compare(&[one(1)], &[one(2)], &DiffOptions::default()).expect("comparable");
    assert_eq!(diff.normalised(1), None);
}

#[test]
fn a_stack_without_frames_counts() {
    let mut set = one(3);
    set.stacks.push(CountedStack {
        frames: Box::default(),
        figures: [5; Metric::OF_STACKS.len()],
        maximum: None,
    });
    let diff = compare(&[one(3)], &[set], &DiffOptions::default()).expect("comparable");
    assert_eq!(only(&diff).difference, 5);
    assert_eq!(blames(&diff), ["[no stack]"]);
}

#[test]
fn nothing_at_all() {
    let mut empty = Stacks::default();
    empty.set.known = MetricSet::OF_STACKS;
    assert!(check(&[empty.clone()], &[empty.clone()]).entries.is_empty());
    let mut some = Stacks::default();
    some.add(3, &["malloc", "f", "main"]);
    assert_eq!(kinds(&check(&[empty], &[some])), [Kind::New]);
}

#[test]
fn glue_patterns_can_be_added() {
    let mut before = Stacks::default();
    before.add(10, &["malloc", "obtain", "f", "main"]);
    let mut after = Stacks::default();
    after.add(20, &["malloc", "obtain", "f", "main"]);
    let mut options = DiffOptions::default();
    let diff = compare(&[before.set.clone()], &[after.set.clone()], &options).expect("comparable");
    assert_eq!(blames(&diff), ["obtain"]);
    options.glue.add("obtain").expect("a pattern");
    let diff = compare(&[before.set], &[after.set], &options).expect("comparable");
    assert_eq!(blames(&diff), ["f"]);
}

#[test]
fn stacks_of_glue_alone_are_distinct() {
    let mut before = Stacks::default();
    before.add(10, &["malloc", "std::locale::init", "_start"]);
    let mut after = Stacks::default();
    after.add(10, &["malloc", "std::locale::init", "_start"]);
    after.add(4, &["malloc", "std::ios::init", "_start"]);
    let diff = check(&[before], &[after]);
    assert_eq!(kinds(&diff), [Kind::New]);
    assert_eq!(only(&diff).difference, 4);
}
