//! Sorts sites: by allocations, the most first, then by stack, frame by frame from the
//! innermost, then by the stack's id.
//!
//! Very many sites have equal numbers of allocations and stacks with a common prefix. A
//! sort by comparison fetches both stacks from memory for each comparison and runs along
//! their common prefix. Instead the next four frames are packed into a number and the
//! numbers are sorted; only sites with equal numbers are then sorted by the four frames
//! after those. This is multikey quicksort (Bentley and Sedgewick 1997) with four
//! characters at once. On 200,000 stacks of 30 frames it takes a fifth of the time.

use std::ops::Range;

use crate::model::Site;
use crate::site::SiteFigures;
use crate::stack::Stacks;

/// Number of frames that are packed into a key.
const PACKED: usize = 4;
/// Largest number of sites that are sorted by comparison.
const FEW: usize = 8;

/// A site and its present sort key.
#[derive(Clone, Copy)]
struct Item {
    key: u128,
    /// Index into the figures and the stacks.
    site: u32,
}

/// The sites in order, and the index in `figures` of each. `stacks` are their stacks, by the
/// same index.
pub(crate) fn sites_in_order(figures: &[SiteFigures], stacks: Stacks) -> (Vec<Site>, Vec<u32>) {
    let numbered = (0..).zip(figures);
    let mut items: Vec<Item> = numbered
        .map(|(site, figures)| Item {
            key: u128::from(!figures.allocations),
            site,
        })
        .collect();
    // (range of items, depth): these items are equal up to the frame at `depth`.
    let mut equal_ranges: Vec<(Range<usize>, usize)> = Vec::new();
    sort_by_key(&mut items, 0, 0, &mut equal_ranges);
    while let Some((range, depth)) = equal_ranges.pop() {
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
        sort_by_key(items, from, depth + PACKED, &mut equal_ranges);
    }
    let order: Vec<u32> = items.into_iter().map(|item| item.site).collect();
    let stacks = stacks.into_stacks(&order);
    let sites = order.iter().zip(stacks);
    let sites = sites.map(|(&at, stack)| figures[at as usize].with_stack(stack));
    (sites.collect(), order)
}

/// Sorts items by key, and adds each range of items with equal keys to `equal_ranges`,
/// with `depth`. `from` is the index of the first item.
fn sort_by_key(
    items: &mut [Item],
    mut from: usize,
    depth: usize,
    equal_ranges: &mut Vec<(Range<usize>, usize)>,
) {
    items.sort_unstable_by_key(|item| item.key);
    for equal in items.chunk_by(|a, b| a.key == b.key) {
        if equal.len() > 1 {
            equal_ranges.push((from..from + equal.len(), depth));
        }
        from += equal.len();
    }
}

/// The first frames of the rest of a stack, as a number that sorts in the same order: a
/// rest that ends sorts before all that continue.
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
        /// Many of the stacks have a common prefix with others, or are a prefix of
        /// others.
        #[test]
        fn sites_are_sorted_by_allocations_then_stack_then_id(
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
            let (found, _) = sites_in_order(&figures, stacks);
            let found = found.iter().map(|s| (Reverse(s.allocations), s.stack.to_vec(), s.stack_id));
            let mut expected: Vec<_> = (8..).zip(sites)
                .map(|(id, (allocations, stack))| (Reverse(allocations), stack, id))
                .collect();
            expected.sort();
            prop_assert_eq!(found.collect::<Vec<_>>(), expected);
        }
    }
}
