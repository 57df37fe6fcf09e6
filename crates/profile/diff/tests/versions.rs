//! Two versions of one program, the second with a planted regression. The
//! regression must rank first and no unrelated entry may exceed 1 % of it,
//! whatever else changed in the names.

mod support;

use allotrope_diff::{Diff, Kind};
use support::{Stacks, blames, check, named, only};

/// The planted regression, in allocations.
const PLANTED: u64 = 100_000;

/// Pseudo-random numbers, the same in every run of the test.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

type Program = Vec<(Vec<String>, u64)>;

/// A program of 2,000 stacks in layers of functions; many stacks share the
/// outer ones. The counts resemble real programs: a few large, many small, many
/// equal.
fn program() -> Program {
    let mut numbers = Numbers(7);
    let mut stacks = Program::new();
    for _ in 0..2000 {
        let mut stack = vec!["main".to_owned()];
        let depth = 3 + numbers.below(9);
        let mut node = numbers.below(6);
        for layer in 0..depth {
            stack.push(format!("Layer{layer}::handle_{node}<int>"));
            // Each function has three callees.
            node = (node * 3 + numbers.below(3)) % (10 + 15 * layer);
        }
        stack.push("std::vector<int>::push_back".to_owned());
        stack.push("operator new".to_owned());
        stack.push("malloc".to_owned());
        stack.reverse();
        let count = match numbers.below(10) {
            0 => 1000 * (1 + numbers.below(5)),
            1..4 => 10 * (1 + numbers.below(90)),
            _ => 1 + numbers.below(9),
        };
        stacks.push((stack, count));
    }
    stacks
}

fn stacks(program: &Program) -> Stacks {
    let mut stacks = Stacks::default();
    let mut merged = std::collections::BTreeMap::new();
    for (stack, count) in program {
        *merged.entry(stack).or_insert(0) += count;
    }
    for (stack, count) in merged {
        stacks.add(count, stack);
    }
    stacks
}

/// Compares the program with a second version: `change` is applied to each stack,
/// and the regression is added to `Planted::grow`, whose stack resembles hundreds
/// of others.
fn compared(change: impl Fn(usize, &mut Vec<String>)) -> Diff {
    let mut before = program();
    let path = before[100].0.clone();
    let mut planted = vec!["malloc".to_owned(), "Planted::grow".to_owned()];
    planted.extend(path.into_iter().skip(4));
    before.push((planted.clone(), 3000));
    let mut after = before.clone();
    if let Some(last) = after.last_mut() {
        last.1 += PLANTED;
    }
    for (index, (stack, _)) in after.iter_mut().enumerate() {
        change(index, stack);
    }
    check(&[stacks(&before)], &[stacks(&after)])
}

fn check_planted(diff: &Diff) {
    assert_eq!(diff.difference, PLANTED as i64);
    assert!(blames(diff)[0].starts_with("Planted::grow"));
    assert_eq!(diff.entries[0].kind, Kind::Changed);
    assert_eq!(diff.entries[0].difference, PLANTED as i64);
    for entry in &diff.entries[1..] {
        let unrelated = entry.difference.unsigned_abs();
        assert!(unrelated <= PLANTED / 100, "{entry:?}");
    }
}

/// The sum of the sizes of all differences but the largest.
fn unmatched(diff: &Diff) -> u64 {
    diff.entries[1..]
        .iter()
        .map(|entry| entry.difference.unsigned_abs())
        .sum()
}

fn replace(stack: &mut [String], from: &str, to: &str) {
    for frame in stack {
        if frame.contains(from) {
            *frame = frame.replace(from, to);
        }
    }
}

#[test]
fn with_nothing_else_changed() {
    let diff = compared(|_, _| {});
    check_planted(&diff);
    assert_eq!(only(&diff).difference, PLANTED as i64);
}

#[test]
fn with_a_renamed_function() {
    let diff = compared(|_, stack| replace(stack, "Layer1::handle_4", "Layer1::process_events"));
    check_planted(&diff);
    assert_eq!(unmatched(&diff), 0);
    // All its stacks are folded into one entry with the renamed frame.
    let folded: Vec<_> = diff
        .entries
        .iter()
        .filter(|e| e.kind == Kind::Moved)
        .collect();
    assert_eq!(folded.len(), 1);
    let differs = folded[0].differs.expect("the function");
    assert!(named(&diff, differs.before).starts_with("Layer1::handle_4"));
    assert!(named(&diff, differs.after).starts_with("Layer1::process_events"));
}

#[test]
fn with_the_planted_function_itself_renamed() {
    let diff = compared(|_, stack| replace(stack, "Planted::grow", "Planted::enlarge"));
    assert_eq!(blames(&diff)[0], "Planted::enlarge");
    assert_eq!(diff.entries[0].difference, PLANTED as i64);
    assert_eq!(only(&diff).kind, Kind::Changed);
    assert!(only(&diff).confidence < 1.0);
}

#[test]
fn with_moved_lines() {
    let diff = compared(|index, stack| {
        for frame in stack {
            frame.push_str(&format!("+0x{:x}", index % 50));
        }
    });
    check_planted(&diff);
    assert_eq!(diff.entries.len(), 1);
}

#[test]
fn with_other_template_arguments() {
    let diff = compared(|_, stack| replace(stack, "<int>", "<long, std::allocator<long> >"));
    check_planted(&diff);
    assert_eq!(unmatched(&diff), 0);
}

#[test]
fn with_deeper_recursion() {
    let diff = compared(|_, stack| {
        if let Some(at) = stack.iter().position(|frame| frame.starts_with("Layer2")) {
            let again = stack[at].clone();
            stack.insert(at, again.clone());
            stack.insert(at, again);
        }
    });
    check_planted(&diff);
    assert_eq!(unmatched(&diff), 0);
}

#[test]
fn with_clones_and_parts() {
    let diff = compared(|index, stack| {
        for (depth, frame) in stack.iter_mut().enumerate() {
            match (index + depth) % 4 {
                0 => frame.push_str(".isra.0"),
                1 => frame.push_str(".constprop.3.cold"),
                _ => {}
            }
        }
    });
    check_planted(&diff);
    assert_eq!(unmatched(&diff), 0);
}

/// Another compiler inlines other functions, does not write that to the debug
/// information, and has another runtime library.
#[test]
fn with_another_compiler() {
    let diff = compared(|_, stack| {
        stack.retain(|frame| {
            let vanished = ["handle_1<", "handle_7<", "handle_12<", "std::vector"];
            !vanished.iter().any(|name| frame.contains(name))
        });
        replace(stack, "operator new", "__libcpp_allocate");
    });
    check_planted(&diff);
}

/// A function was split in two, one of which is new.
#[test]
fn with_an_inserted_frame() {
    let diff = compared(|_, stack| {
        if let Some(at) = stack.iter().position(|frame| frame.starts_with("Layer1")) {
            stack.insert(at, "Layer1::dispatch".to_owned());
        }
    });
    check_planted(&diff);
    assert_eq!(unmatched(&diff), 0);
}

#[test]
fn spread_over_the_call_sites_of_a_new_wrapper() {
    let mut before = program();
    let mut after = before.clone();
    for site in 0..200 {
        let caller = format!("site_{site}");
        let unrelated = format!("Layer1::handle_{}<int>", site % 5);
        before.push((strings(&["malloc", &caller, &unrelated, "main"]), 4));
        after.push((strings(&["malloc", &caller, &unrelated, "main"]), 4));
        after.push((
            strings(&["malloc", "xcopy", &caller, &unrelated, "main"]),
            10 + site,
        ));
    }
    let diff = check(&[stacks(&before)], &[stacks(&after)]);
    assert_eq!(blames(&diff), ["xcopy"]);
    assert_eq!(only(&diff).kind, Kind::New);
    // 200 sites, 10 each, and 0 + 1 + … + 199.
    assert_eq!(only(&diff).difference, 200 * 10 + 199 * 200 / 2);
    assert_eq!(only(&diff).stacks.len(), 200);
}

#[test]
fn spread_over_call_sites_that_are_new_themselves() {
    let mut after = Stacks::default();
    let mut before = Stacks::default();
    before.add(5, &["malloc", "setup", "main"]);
    after.add(5, &["malloc", "setup", "main"]);
    for site in 0..200 {
        let caller = format!("site_{site}");
        after.add(10, &["malloc", "xcopy", caller.as_str(), "main"]);
    }
    let diff = check(&[before], &[after]);
    assert_eq!(blames(&diff), ["xcopy"]);
    assert_eq!(only(&diff).difference, 2000);
}

/// Two callers of a function that a thousand functions call.
#[test]
fn callers_of_a_widely_used_function_are_separate_entries() {
    let mut before = Stacks::default();
    let mut after = Stacks::default();
    for site in 0..1000 {
        let caller = format!("caller_{site}");
        let stack = ["malloc", "xmalloc", caller.as_str(), "main"];
        before.add(10, &stack);
        after.add(if site % 500 == 7 { 1000 + site } else { 10 }, &stack);
    }
    let diff = check(&[before], &[after]);
    // caller_7: 1007 - 10, caller_507: 1507 - 10.
    let differences: Vec<i64> = diff.entries.iter().map(|entry| entry.difference).collect();
    assert_eq!(differences, [1497, 997]);
}

#[test]
fn everything_below_a_new_call_is_one_entry() {
    let mut before = Stacks::default();
    let mut after = Stacks::default();
    for side in [&mut before, &mut after] {
        side.add(50, &["malloc", "helper", "load", "main"]);
    }
    after.add(10, &["malloc", "helper", "render", "main"]);
    after.add(20, &["malloc", "glyphs", "text", "render", "main"]);
    after.add(30, &["malloc", "paint", "render", "main"]);
    let diff = check(&[before], &[after]);
    assert_eq!(blames(&diff), ["render"]);
    assert_eq!(only(&diff).difference, 60);
    assert_eq!(only(&diff).stacks.len(), 3);
}

/// A function that was inlined in the second version is not a regression of its
/// own beside the planted one.
#[test]
fn newly_inlined_stacks_are_netted_with_their_callers() {
    let mut before = Stacks::default();
    let mut after = Stacks::default();
    before.add(5000, &["malloc", "put", "each", "main"]);
    before.add(3000, &["malloc", "put", "each", "each", "main"]);
    before.add(100, &["malloc", "std::map::insert", "each", "main"]);
    // 8000 as before, 20000 planted.
    after.add(6000, &["malloc", "each", "main"]);
    after.add(
        22_000,
        &["malloc", "std::map::insert", "each", "each", "main"],
    );
    after.add(100, &["malloc", "std::map::insert", "each", "main"]);
    let diff = check(&[before], &[after]);
    assert_eq!(only(&diff).kind, Kind::Changed);
    assert_eq!((only(&diff).before, only(&diff).after), (8000, 28_000));
}

/// Recursion that is unrolled differently: the same allocations at other
/// depths.
#[test]
fn recursion_depths_are_netted() {
    let mut before = Stacks::default();
    let mut after = Stacks::default();
    before.add(6, &["malloc", "walk", "main"]);
    before.add(8740, &["malloc", "walk", "walk", "walk", "main"]);
    after.add(6500, &["malloc", "walk", "main"]);
    after.add(2237, &["malloc", "walk", "walk", "walk", "main"]);
    let diff = check(&[before], &[after]);
    assert_eq!((only(&diff).before, only(&diff).after), (8746, 8737));
}

#[test]
fn a_call_made_twice_as_often_is_one_entry() {
    let mut before = Stacks::default();
    let mut after = Stacks::default();
    for (stack, count) in [
        (&["malloc", "helper", "render", "main"][..], 10),
        (&["malloc", "glyphs", "text", "render", "main"], 20),
        (&["malloc", "paint", "render", "main"], 30),
    ] {
        before.add(count, stack);
        after.add(2 * count, stack);
    }
    for side in [&mut before, &mut after] {
        side.add(50, &["malloc", "helper", "load", "main"]);
        side.add(50, &["malloc", "paint", "load", "main"]);
    }
    let diff = check(&[before], &[after]);
    assert_eq!(blames(&diff), ["render"]);
    assert_eq!((only(&diff).before, only(&diff).after), (60, 120));
}

/// A function uses several containers, at many depths of recursion; one container
/// allocates more.
#[test]
fn one_container_of_a_function_is_one_entry() {
    let mut before = Stacks::default();
    let mut after = Stacks::default();
    for depth in 1..30 {
        let outer = ["put", "visit", "each"]
            .into_iter()
            .chain(vec!["each"; depth])
            .chain(["main"]);
        for (way, was, is) in [
            ("std::map::insert", 5, 5),
            ("std::set::insert", 5, 5),
            ("std::vector::vector", 0, 9),
        ] {
            let stack: Vec<&str> = ["malloc", way].into_iter().chain(outer.clone()).collect();
            before.add(was, &stack);
            after.add(is, &stack);
        }
    }
    let diff = check(&[before], &[after]);
    assert_eq!(blames(&diff), ["put"]);
    assert_eq!(
        (only(&diff).difference, only(&diff).stacks.len()),
        (9 * 29, 29)
    );
}

#[test]
fn two_causes_are_two_entries() {
    let mut before = Stacks::default();
    let mut after = Stacks::default();
    for (function, was, is) in [("parse", 10, 40), ("render", 10, 30), ("load", 10, 10)] {
        before.add(was, &["malloc", function, "main"]);
        after.add(is, &["malloc", function, "main"]);
    }
    let diff = check(&[before], &[after]);
    assert_eq!(blames(&diff), ["parse", "render"]);
}

fn strings(stack: &[&str]) -> Vec<String> {
    stack.iter().map(|frame| (*frame).to_owned()).collect()
}
