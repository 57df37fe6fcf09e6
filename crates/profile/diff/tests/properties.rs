//! Properties of every comparison.

mod support;

use allotrope_diff::{Diff, DiffOptions, EntryStack, Kind, Noise, compare};
use allotrope_profile::{Metric, StackSet};
use proptest::prelude::*;
use support::{Stacks, check_sums, named};

/// Function names that matching normalises: a few functions with compiler
/// suffixes, and rare ones that probably only one side has.
fn function() -> impl Strategy<Value = String> {
    let decorated = (0..6_u8, 0..8_u8).prop_map(|(function, decoration)| match decoration {
        0 => format!("f{function}.isra.0"),
        1 => format!("f{function}.18"),
        2 => format!("specialized f{function}"),
        3 => format!("f{function}<int>"),
        4 => format!("libx.so`f{function}"),
        _ => format!("f{function}"),
    });
    let rare = (0..400_u32).prop_map(|function| format!("rare{function}"));
    let glue = prop::sample::select(vec!["malloc", "operator new", "std::push", "start_thread"]);
    let offset = prop::option::weighted(0.3, 1..4_u8);
    (
        prop_oneof![4 => decorated, 1 => rare, 2 => glue.prop_map(str::to_owned)],
        offset,
    )
        .prop_map(|(function, offset)| match offset {
            Some(offset) => format!("{function}+0x{offset:x}"),
            None => function,
        })
}

fn stacks() -> impl Strategy<Value = Stacks> {
    let stack = (prop::collection::vec(function(), 0..7), 0..12_u64);
    prop::collection::vec(stack, 0..25).prop_map(|list| {
        let mut stacks = Stacks::default();
        stacks.add(1, &["malloc", "main"]);
        for (frames, count) in list {
            stacks.add(count, &frames);
        }
        stacks
    })
}

fn side() -> impl Strategy<Value = Vec<StackSet>> {
    prop::collection::vec(stacks().prop_map(|stacks| stacks.set), 1..4)
}

/// Two sides with most stacks in common.
fn versions() -> impl Strategy<Value = (Vec<StackSet>, Vec<StackSet>)> {
    let joined = |mut set: StackSet, other: &StackSet| {
        let first = set.frames.len() as u32;
        set.frames.extend(other.frames.iter().cloned());
        set.stacks.extend(other.stacks.iter().map(|stack| {
            let mut stack = stack.clone();
            stack.frames.iter_mut().for_each(|frame| *frame += first);
            stack
        }));
        set
    };
    (stacks(), side(), side()).prop_map(move |(common, before, after)| {
        let join = |side: Vec<StackSet>| {
            let joined = side.into_iter().map(|set| joined(set, &common.set));
            joined.collect::<Vec<_>>()
        };
        (join(before), join(after))
    })
}

fn diff(before: &[StackSet], after: &[StackSet]) -> Diff {
    compare(before, after, &DiffOptions::default()).expect("comparable")
}

/// The same stacks in another order, with their frames renumbered.
fn permuted(set: &StackSet, seed: u64) -> StackSet {
    let order = |index: usize, of: u64| {
        (index as u64 ^ seed ^ of)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    };
    let mut positions: Vec<usize> = (0..set.frames.len()).collect();
    positions.sort_by_key(|&index| order(index, 1));
    let mut numbers = vec![0; positions.len()];
    for (new, &old) in positions.iter().enumerate() {
        numbers[old] = u32::try_from(new).expect("few frames");
    }
    let mut stacks: Vec<_> = set.stacks.iter().cloned().enumerate().collect();
    stacks.sort_by_key(|&(index, _)| order(index, 2));
    StackSet {
        frames: positions
            .iter()
            .map(|&old| set.frames[old].clone())
            .collect(),
        stacks: stacks
            .into_iter()
            .map(|(_, mut stack)| {
                for frame in &mut stack.frames {
                    *frame = numbers[*frame as usize];
                }
                stack
            })
            .collect(),
        ..set.clone()
    }
}

/// What an entry shows, independent of the side: kind, figures, blame,
/// confidence, stacks.
type EntryContents = (
    Kind,
    u64,
    u64,
    String,
    u64,
    Vec<(u64, u64, Vec<String>, Vec<String>)>,
);

fn contents(diff: &Diff, mirrored: bool) -> Vec<EntryContents> {
    let spelled = |frames: &[u32]| -> Vec<String> {
        let frames = frames
            .iter()
            .map(|&frame| format!("{:?}", diff.frames[frame as usize]));
        frames.collect()
    };
    let stack = |stack: &EntryStack| {
        let after = spelled(&stack.frames);
        let before = stack
            .frames_before
            .as_deref()
            .map_or_else(|| after.clone(), spelled);
        if mirrored {
            (stack.after, stack.before, after, before)
        } else {
            (stack.before, stack.after, before, after)
        }
    };
    diff.entries
        .iter()
        .map(|entry| {
            let (before, after) = if mirrored {
                (entry.after, entry.before)
            } else {
                (entry.before, entry.after)
            };
            let kind = match entry.kind {
                Kind::New if mirrored => Kind::Gone,
                Kind::Gone if mirrored => Kind::New,
                kind => kind,
            };
            // The blamed frame of a moved entry is from one side only.
            let blame = match entry.differs {
                Some(differs) if mirrored => [differs.after, differs.before],
                Some(differs) => [differs.before, differs.after],
                None => [Some(entry.blame), None],
            };
            let blame = blame.map(|frame| frame.map(|frame| named(diff, Some(frame))));
            let mut stacks: Vec<_> = entry.stacks.iter().map(stack).collect();
            stacks.sort_unstable();
            let confidence = entry.confidence.to_bits();
            (
                kind,
                before,
                after,
                format!("{blame:?}"),
                confidence,
                stacks,
            )
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn differences_sum_to_the_total((before, after) in versions()) {
        for metric in Metric::OF_STACKS {
            let options = DiffOptions { metric, ..DiffOptions::default() };
            let diff = compare(&before, &after, &options).expect("comparable");
            check_sums(&diff);
            let totals = |side: &[StackSet]| side.iter().map(|set| set.total(metric)).collect::<Vec<_>>();
            prop_assert!(totals(&before).contains(&diff.before));
            prop_assert!(totals(&after).contains(&diff.after));
        }
    }

    #[test]
    fn every_stack_that_changed_is_in_one_entry((before, after) in versions()) {
        let diff = diff(&before[..1], &after[..1]);
        let mut seen = std::collections::HashSet::new();
        for stack in diff.entries.iter().flat_map(|entry| &entry.stacks) {
            prop_assert!(seen.insert(stack.frames.clone()));
            if let Some(frames) = &stack.frames_before {
                prop_assert!(seen.insert(frames.clone()));
            }
        }
    }

    #[test]
    fn exchanging_the_sides_exchanges_the_result((before, after) in versions()) {
        let there = diff(&before, &after);
        let back = diff(&after, &before);
        prop_assert_eq!(there.difference, -back.difference);
        prop_assert_eq!((there.before, there.after), (back.after, back.before));
        prop_assert_eq!(contents(&there, false), contents(&back, true));
    }

    #[test]
    fn nothing_differs_from_itself(side in side()) {
        prop_assert!(diff(&side, &side).entries.is_empty());
    }

    #[test]
    fn the_order_of_the_input_does_not_matter((before, after) in versions(), seed: u64) {
        let shuffled = |side: &[StackSet]| {
            let permuted = side.iter().rev().map(|set| permuted(set, seed));
            permuted.collect::<Vec<_>>()
        };
        prop_assert_eq!(diff(&before, &after), diff(&shuffled(&before), &shuffled(&after)));
    }

    #[test]
    fn one_run_a_side_has_no_jitter((before, after) in versions()) {
        let diff = diff(&before[..1], &after[..1]);
        prop_assert_eq!(&diff.noise, &Noise::Unknown);
        prop_assert!(diff.entries.iter().all(|entry| entry.kind != Kind::Jitter));
    }
}
