//! A function replaces others at hundreds of call sites: the stacks are
//! matched and reported as moved (folded) or changed, not as hundreds of gone ones.

mod support;

use allotrope_diff::{Diff, Kind};
use support::{Stacks, blames, check, kinds, named, only};

const SITES: u64 = 301;

/// The allocations of a call site; many sites have the same number.
fn count(site: u64) -> u64 {
    10 + site * 7 % 90
}

fn total() -> u64 {
    (0..SITES).map(count).sum()
}

/// Builds the stack of a call site from its number.
type Stack = fn(u64) -> Vec<String>;

/// Compares all sites before (`was`) and after (`is`, with `growth` times the
/// allocations). The stacks in `rest` are the same on both sides.
fn compared(was: Stack, is: Stack, growth: u64, rest: &[Vec<String>]) -> Diff {
    let (mut before, mut after) = (Stacks::default(), Stacks::default());
    let mut merged = std::collections::BTreeMap::new();
    for site in 0..SITES {
        before.add(count(site), &was(site));
        *merged.entry(is(site)).or_insert(0) += growth * count(site);
    }
    for (stack, count) in &merged {
        after.add(*count, stack);
    }
    for stack in rest {
        before.add(5, stack);
        after.add(5, stack);
    }
    check(&[before], &[after])
}

fn stack(frames: &[&str]) -> Vec<String> {
    frames.iter().map(|frame| (*frame).to_owned()).collect()
}

fn own_helper(site: u64) -> Vec<String> {
    stack(&["malloc", &format!("parse_{site}"), "dispatch", "main"])
}

fn own_helper_and_caller(site: u64) -> Vec<String> {
    let (helper, caller) = (format!("parse_{site}"), format!("site_{site}"));
    stack(&["malloc", &helper, &caller, "main"])
}

fn through(function: &str, site: u64) -> Vec<String> {
    stack(&["malloc", function, &format!("site_{site}"), "main"])
}

fn check_folded(diff: &Diff, was: &str, is: &str) {
    for entry in &diff.entries {
        assert_eq!(entry.kind, Kind::Moved);
        let differs = entry.differs.expect("the function");
        assert!(named(diff, differs.before).starts_with(was));
        assert_eq!(named(diff, differs.after), is);
        assert!(entry.confidence < 0.8, "the names are unrelated");
    }
    let folded: u64 = diff.entries.iter().map(|entry| entry.before).sum();
    assert_eq!(folded, total());
}

#[test]
fn helpers_of_one_caller_merged_into_one_are_one_folded_entry() {
    let diff = compared(
        own_helper,
        |_| stack(&["malloc", "parse_any", "dispatch", "main"]),
        1,
        &[],
    );
    assert_eq!(only(&diff).stacks.len(), SITES as usize + 1);
    // Without the helper, all stacks are equal, and their sums balance.
    assert_eq!(only(&diff).kind, Kind::Moved);
}

#[test]
fn helpers_directly_below_main_merged_into_one_are_folded() {
    let diff = compared(
        |site| stack(&["malloc", &format!("parse_{site}"), "main"]),
        |_| stack(&["malloc", "parse_any", "main"]),
        1,
        &[],
    );
    check_folded(&diff, "parse_", "parse_any");
    assert_eq!(diff.entries.len(), 1);
}

#[test]
fn helpers_merged_into_one_that_allocates_more_are_one_changed_entry() {
    let diff = compared(
        own_helper,
        |_| stack(&["malloc", "parse_any", "dispatch", "main"]),
        2,
        &[],
    );
    assert_eq!(only(&diff).kind, Kind::Changed);
    assert_eq!(blames(&diff), ["parse_any"]);
    assert_eq!(only(&diff).difference, total() as i64);
}

#[test]
fn helpers_of_many_callers_replaced_by_an_existing_one_are_folded() {
    let rest = [stack(&["malloc", "shared", "setup", "main"])];
    let diff = compared(
        own_helper_and_caller,
        |site| through("shared", site),
        1,
        &rest,
    );
    check_folded(&diff, "parse_", "shared");
}

/// `old` was not renamed, because other callers still call it.
#[test]
fn call_sites_that_switched_from_a_function_still_in_use_are_folded() {
    let rest: Vec<Vec<String>> = (0..SITES)
        .map(|other| stack(&["malloc", "old", &format!("other_{other}"), "main"]))
        .collect();
    let diff = compared(
        |site| through("old", site),
        |site| through("new", site),
        1,
        &rest,
    );
    check_folded(&diff, "old", "new");
    assert_eq!(diff.entries.len(), 1);
}

#[test]
fn call_sites_that_switched_and_allocate_more_are_one_changed_entry() {
    let rest = [stack(&["malloc", "old", "setup", "main"])];
    let diff = compared(
        |site| through("old", site),
        |site| through("new", site),
        3,
        &rest,
    );
    assert_eq!(kinds(&diff), [Kind::Changed]);
    assert_eq!(blames(&diff), ["new"]);
    assert_eq!(only(&diff).difference, 2 * total() as i64);
}

/// The reverse: three hundred functions replace one.
#[test]
fn a_function_replaced_by_many_is_folded() {
    let rest = [stack(&["malloc", "shared", "setup", "main"])];
    let diff = compared(
        |site| through("shared", site),
        own_helper_and_caller,
        1,
        &rest,
    );
    for entry in &diff.entries {
        assert_eq!(entry.kind, Kind::Moved);
    }
}

/// A single site is no evidence: the new stack and the gone one may be
/// unrelated.
#[test]
fn one_site_is_no_evidence() {
    let (mut before, mut after) = (Stacks::default(), Stacks::default());
    for side in [&mut before, &mut after] {
        side.add(5, &["malloc", "old", "setup", "main"]);
    }
    before.add(10, &["malloc", "old", "site", "main"]);
    after.add(10, &["malloc", "new", "site", "main"]);
    let mut found = kinds(&check(&[before], &[after]));
    found.sort_unstable();
    assert_eq!(found, [Kind::New, Kind::Gone]);
}

/// An operator never replaces another one, at however many sites.
#[test]
fn operators_do_not_replace_each_other() {
    let diff = compared(
        |site| through("operator+", site),
        |site| through("operator+=", site),
        1,
        &[],
    );
    assert!(diff.entries.iter().all(|entry| entry.kind != Kind::Moved));
}

/// Many call sites call a new wrapper, and a few of them no longer call `log`: the
/// wrapper is one new entry, without the removed calls.
#[test]
fn a_new_wrapper_is_a_new_entry_although_a_few_calls_are_gone() {
    let (mut before, mut after) = (Stacks::default(), Stacks::default());
    for site in 0..200 {
        for side in [&mut before, &mut after] {
            side.add(4, &through("grow", site));
        }
        after.add(10 + site, &through("xcopy", site));
        if site < 5 {
            before.add(3, &through("log", site));
        }
    }
    let diff = check(&[before], &[after]);
    assert_eq!(blames(&diff)[0], "xcopy");
    assert_eq!(diff.entries[0].kind, Kind::New);
    // 200 sites, 10 each, and 0 + 1 + … + 199.
    assert_eq!(diff.entries[0].difference, 200 * 10 + 199 * 200 / 2);
}
