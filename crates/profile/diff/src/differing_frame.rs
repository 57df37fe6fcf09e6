//! Finds the one frame in which the two stacks of a moved pair differ.

use rustc_hash::FxHashSet;

use crate::DifferingFrame;
use crate::align::Aligner;
use crate::blame::shown_stack;
use crate::classes::Classes;
use crate::frames::FrameTable;
use crate::match_by_name::Match;
use crate::match_level::MatchLevel;

/// Compares at the loosest level first: a difference that remains there is the
/// one that matters to the reader.
pub(crate) fn differing(
    classes: &Classes<'_>,
    aligner: &Aligner<'_, '_>,
    matched: &Match,
) -> DifferingFrame {
    let surplus = |&class: &u32| {
        let counted = &classes.classes[class as usize];
        (
            counted.before as i64 - counted.after as i64,
            classes.key(class),
        )
    };
    let members = || matched.classes.iter().copied();
    let most_gone = members().max_by_key(surplus).unwrap_or_default();
    let most_new = members()
        .min_by_key(|class| {
            let (surplus, key) = surplus(class);
            (surplus, std::cmp::Reverse(key))
        })
        .unwrap_or_default();
    let before = shown_stack(classes, most_gone);
    let after = shown_stack(classes, most_new);
    let table = &classes.table;
    let own = |stack: &[u32]| -> Vec<u32> {
        let frames = stack.iter().copied();
        frames.filter(|&frame| !table.is_glue(frame)).collect()
    };
    for (before, after) in [(own(&before), own(&after)), (before, after)] {
        for level in MatchLevel::BY_NAME[..4].iter().rev() {
            let found = between(table, aligner, *level, &before, &after);
            if found.before.is_some() || found.after.is_some() {
                return found;
            }
        }
    }
    DifferingFrame {
        before: None,
        after: None,
    }
}

fn between(
    table: &FrameTable<'_>,
    aligner: &Aligner<'_, '_>,
    level: MatchLevel,
    before: &[u32],
    after: &[u32],
) -> DifferingFrame {
    let same = |a: &u32, b: &u32| table.name(*a, level) == table.name(*b, level);
    let head = before
        .iter()
        .zip(after)
        .take_while(|(a, b)| same(a, b))
        .count();
    let (before, after) = (&before[head..], &after[head..]);
    let tail = (before.iter().rev().zip(after.iter().rev()))
        .take_while(|(a, b)| same(a, b))
        .count();
    let before = &before[..before.len() - tail];
    let after = &after[..after.len() - tail];
    let rarest = |frames: &[u32], others: &[u32]| {
        let names = others.iter().map(|&other| table.name(other, level));
        let names: FxHashSet<u32> = names.collect();
        let unmatched = |frame: &&u32| !names.contains(&table.name(**frame, level));
        // Of equally rare frames, the innermost.
        let weigh = |frame: &&u32| std::cmp::Reverse(aligner.weight(table.loosest(**frame)));
        let own = frames.iter().filter(unmatched).min_by_key(weigh);
        own.copied()
    };
    let found = DifferingFrame {
        before: rarest(before, after),
        after: rarest(after, before),
    };
    if found.before.is_none() && found.after.is_none() {
        // The functions are the same; some occur more often or in another
        // order.
        return DifferingFrame {
            before: before.first().copied(),
            after: after.first().copied(),
        };
    }
    found
}
