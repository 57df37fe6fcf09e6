//! A stack that is on both sides is no partner for one of another name, whatever metric is
//! compared.

mod support;

use allotrope_diff::{Diff, DiffOptions, Kind, compare};
use allotrope_profile::{Metric, StackSet};
use support::{Stacks, blames, check_sums, kinds};

/// A stack's allocations, and how many of them are temporary and leaked.
fn add(stacks: &mut Stacks, frames: &[&str], [allocations, temporary, leaked]: [u64; 3]) {
    stacks.add(allocations, frames);
    let stack = stacks.set.stacks.last_mut().expect("just added");
    stack.figures[Metric::Bytes as usize] = 64 * allocations;
    stack.figures[Metric::Temporary as usize] = temporary;
    stack.figures[Metric::LeakedAllocations as usize] = leaked;
    stack.figures[Metric::LeakedBytes as usize] = 64 * leaked;
    stack.figures[Metric::PeakAllocations as usize] = leaked;
    stack.figures[Metric::PeakBytes as usize] = 64 * leaked;
    stack.figures[Metric::Reallocations as usize] = 0;
}

type Side<'a> = &'a [(&'a [&'a str], [u64; 3])];

fn by(metric: Metric, before: Side<'_>, after: Side<'_>) -> Diff {
    let set = |side: Side<'_>| -> [StackSet; 1] {
        let mut stacks = Stacks::default();
        add(&mut stacks, &["malloc", "main"], [5, 5, 0]);
        for (frames, figures) in side {
            add(&mut stacks, frames, *figures);
        }
        [stacks.set]
    };
    let options = DiffOptions {
        metric,
        ..DiffOptions::default()
    };
    let diff = compare(&set(before), &set(after), &options).expect("comparable");
    check_sums(&diff);
    let mirrored = compare(&set(after), &set(before), &options).expect("comparable");
    assert_eq!(kinds(&diff).len(), kinds(&mirrored).len());
    diff
}

fn check_new_and_gone(diff: &Diff, new: &str, gone: &str) {
    let mut found: Vec<_> = kinds(diff).into_iter().zip(blames(diff)).collect();
    found.sort_unstable();
    assert_eq!(found, [(Kind::New, new), (Kind::Gone, gone)], "{diff:#?}");
}

const READ: &[&str] = &["malloc", "read_line", "serve", "run", "main"];
/// The culprit is called by the function that lost as much.
const DEBUG: &[&str] = &["malloc", "debug_print", "read_line", "serve", "run", "main"];

/// Reported: a new function with 1,000 temporary blocks was "moved", because another one
/// stopped to free its 1,000 at once.
#[test]
fn a_stack_that_lost_its_temporaries_is_no_partner_for_a_culprit() {
    let before: Side<'_> = &[(READ, [1000, 1000, 0])];
    let after: Side<'_> = &[(READ, [1000, 0, 0]), (DEBUG, [1000, 1000, 0])];
    let diff = by(Metric::Temporary, before, after);
    check_new_and_gone(&diff, "debug_print", "read_line");
    assert_eq!(kinds(&by(Metric::Allocations, before, after)), [Kind::New]);
}

#[test]
fn nor_if_it_lost_a_part_of_them() {
    let before: Side<'_> = &[(READ, [1000, 1000, 0])];
    let after: Side<'_> = &[(READ, [1000, 400, 0]), (DEBUG, [600, 600, 0])];
    let diff = by(Metric::Temporary, before, after);
    let mut found: Vec<_> = kinds(&diff).into_iter().zip(blames(&diff)).collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [(Kind::New, "debug_print"), (Kind::Changed, "read_line")]
    );
}

#[test]
fn every_metric_of_what_became_of_the_blocks_is_alike() {
    for metric in [
        Metric::LeakedAllocations,
        Metric::LeakedBytes,
        Metric::PeakAllocations,
        Metric::PeakBytes,
    ] {
        let diff = by(
            metric,
            &[(READ, [1000, 0, 1000])],
            &[(READ, [1000, 0, 0]), (DEBUG, [1000, 0, 1000])],
        );
        check_new_and_gone(&diff, "debug_print", "read_line");
    }
}

#[test]
fn the_number_of_a_clone_does_not_make_it_another_stack() {
    let read = |clone: &'static str| ["malloc", clone, "serve", "run", "main"];
    let (was, is) = (read("read_line.33"), read("read_line.18"));
    let debug = [
        "malloc",
        "debug_print",
        "read_line.18",
        "serve",
        "run",
        "main",
    ];
    let diff = by(
        Metric::Temporary,
        &[(&was, [1000, 1000, 0])],
        &[(&is, [1000, 0, 0]), (&debug, [1000, 1000, 0])],
    );
    check_new_and_gone(&diff, "debug_print", "read_line.33");
}

#[test]
fn another_closure_of_one_function_is_another_stack() {
    let closure = |name: &'static str| ["malloc", name, "main"];
    let first = closure("closure #1 in serve()");
    let second = closure("closure #2 in serve()");
    let diff = by(
        Metric::Temporary,
        &[(&first, [1000, 1000, 0])],
        &[(&first, [1000, 0, 0]), (&second, [1000, 1000, 0])],
    );
    check_new_and_gone(&diff, "closure #2 in serve()", "closure #1 in serve()");
}

#[test]
fn a_renamed_function_is_folded_by_every_metric() {
    let renamed: &[&str] = &["malloc", "read_a_line", "serve", "run", "main"];
    for metric in [Metric::Temporary, Metric::LeakedBytes, Metric::Allocations] {
        let diff = by(
            metric,
            &[(READ, [1000, 900, 100])],
            &[(renamed, [1000, 900, 100])],
        );
        assert_eq!(kinds(&diff), [Kind::Moved]);
    }
}

/// Calls that the compiler newly inlined, because `read_line` got a copy for them.
#[test]
fn calls_that_a_compiler_distributed_otherwise_are_folded_by_every_metric() {
    let inlined: &[&str] = &["malloc", "read_line.part.0", "serve", "run", "main"];
    for metric in [Metric::Temporary, Metric::LeakedBytes, Metric::Allocations] {
        let before: Side<'_> = &[(READ, [1000, 500, 500])];
        let after: Side<'_> = &[(READ, [400, 200, 200]), (inlined, [600, 300, 300])];
        assert_eq!(kinds(&by(metric, before, after)), [Kind::Moved], "{metric}");
    }
}

/// By allocations, too: what the stack lost, one of a similar name gained.
#[test]
fn a_part_of_its_allocations_is_no_partner_either() {
    let read = |name: &'static str| ["malloc", "grow", name, "serve", "poll", "run", "main"];
    let (line, header) = (read("read_line"), read("read_header"));
    let diff = by(
        Metric::Allocations,
        &[(&line, [1000, 0, 0])],
        &[(&line, [400, 0, 0]), (&header, [600, 0, 0])],
    );
    // The larger figure is first.
    assert_eq!(kinds(&diff), [Kind::Changed, Kind::New]);
}
