//! In what order sites are shown: by allocations, the most first, then by stack,
//! frame by frame from the innermost, then by the stack's id.
//!
//! Very many sites have as many allocations as others, and stacks that begin alike.
//! To compare two of those fetches two stacks from memory and runs along what they
//! share. Instead the next four frames are packed into a number, the numbers are
//! sorted, and only sites with equal numbers are sorted by the four frames after
//! those: a multikey quicksort (Bentley and Sedgewick 1997) of four characters at
//! once. On 200,000 stacks of 30 frames that takes a fifth of the time.

use std::ops::Range;

use crate::model::Site;
use crate::site::SiteFigures;
use crate::stack::Stacks;

/// Frames that are packed into a key.
const PACKED: usize = 4;
/// So few sites are compared two at a time.
const FEW: usize = 8;

/// A site and what it is sorted by at the moment.
#[derive(Clone, Copy)]
struct Item {
    key: u128,
    site: u32,
}

/// The sites in order; these are their stacks.
pub(crate) fn sites_in_order(figures: &[SiteFigures], stacks: Stacks) -> Vec<Site> {
    let numbered = (0..).zip(figures);
    let mut items: Vec<Item> = numbered
        .map(|(site, figures)| Item {
            key: u128::from(!figures.allocations),
            site,
        })
        .collect();
    // Items that are alike but for what follows the first `depth` frames.
    let mut alike: Vec<(Range<usize>, usize)> = Vec::new();
    sort_by_key(&mut items, 0, 0, &mut alike);
    while let Some((range, depth)) = alike.pop() {
        let from = range.start;
        let items = &mut items[range];
        let rest = |item: &Item| stacks.get(item.site as usize).get(depth..).unwrap_or(&[]);
        let id = |item: &Item| figures[item.site as usize].stack_id;
        if items.len() <= FEW || items.iter().all(|item| rest(item).is_empty()) {
            items.sort_unstable_by(|a, b| (rest(a), id(a)).cmp(&(rest(b), id(b))));
            continue;
        }
        for item in &mut *items {
            item.key = packed(rest(item));
        }
        sort_by_key(items, from, depth + PACKED, &mut alike);
    }
    let order: Vec<u32> = items.into_iter().map(|item| item.site).collect();
    let stacks = stacks.give(&order);
    let sites = order.iter().zip(stacks);
    let sites = sites.map(|(&at, stack)| figures[at as usize].with_stack(stack));
    sites.collect()
}

/// Sorts items by key, and lists those with equal keys. The first one is item `from`.
fn sort_by_key(
    items: &mut [Item],
    mut from: usize,
    depth: usize,
    alike: &mut Vec<(Range<usize>, usize)>,
) {
    items.sort_unstable_by_key(|item| item.key);
    for equal in items.chunk_by(|a, b| a.key == b.key) {
        if equal.len() > 1 {
            alike.push((from..from + equal.len(), depth));
        }
        from += equal.len();
    }
}

/// The first frames of what is left of a stack, in a number that is in the same order:
/// a stack that has ended comes before all that go on.
fn packed(rest: &[u32]) -> u128 {
    let frame = |at: usize| rest.get(at).map_or(0, |&frame| u128::from(frame) + 1);
    // There are fewer than 2^32 - 1 frames: each takes memory.
    (0..PACKED).fold(0, |key, at| key << u32::BITS | frame(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Reverse;

    use proptest::prelude::*;

    proptest! {
        /// Of stacks many of which begin alike, or are a part of another.
        #[test]
        fn sites_come_by_allocations_then_stack_then_id(
            sites in prop::collection::vec((1..4_u64, prop::collection::vec(0..3_u32, 0..9)), 0..200),
        ) {
            let mut stacks = Stacks::default();
            let figures = (8..).zip(&sites).map(|(stack_id, (allocations, stack))| {
                let outermost_first: Vec<u32> = stack.iter().rev().copied().collect();
                stacks.add(&outermost_first);
                let mut figures = SiteFigures::default();
                (figures.stack_id, figures.allocations) = (stack_id, *allocations);
                figures
            });
            let figures: Vec<_> = figures.collect();
            let found = sites_in_order(&figures, stacks);
            let found = found.iter().map(|s| (Reverse(s.allocations), s.stack.to_vec(), s.stack_id));
            let mut expected: Vec<_> = (8..).zip(sites)
                .map(|(id, (allocations, stack))| (Reverse(allocations), stack, id))
                .collect();
            expected.sort();
            prop_assert_eq!(found.collect::<Vec<_>>(), expected);
        }
    }
}
