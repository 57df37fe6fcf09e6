//! Finds the pairs of stacks that are worth aligning: those that share a rare
//! function or the sequence of their common functions.
//!
//! An inverted index maps each term (the hash of a function, of a sequence of
//! functions, or of a function and an imbalance) to the stacks that have it,
//! its posting list. Each stack is paired with at most [`NEIGHBOURS`] stacks of
//! each list, so the time grows linearly with the number of stacks.

use crate::Side;
use crate::align::Aligner;
use crate::keys;

/// The largest number of stacks that a stack is paired with for each term.
const NEIGHBOURS: usize = 6;

/// A stack is indexed under this many of its rarest functions.
const RAREST: usize = 3;

/// A stack whose figures before and after are not equal yet.
pub(crate) struct UnmatchedStack {
    /// Identifies the stack; does not depend on the order of the input.
    pub(crate) key: u128,
    /// The side with the larger figure.
    pub(crate) side: Side,
    /// By how much that figure is larger.
    pub(crate) imbalance: u64,
    /// Its names at [`MatchLevel::GlueIgnored`](keys::MatchLevel::GlueIgnored),
    /// innermost first.
    pub(crate) names: Vec<u32>,
}

/// The pairs of indexes (before, after), sorted and without duplicates.
/// `stacks` are sorted by key.
pub(crate) fn candidates(stacks: &[UnmatchedStack], aligner: &Aligner<'_, '_>) -> Vec<(u32, u32)> {
    let mut postings = Vec::new();
    for (index, stack) in (0..).zip(stacks) {
        for term in terms(stack, aligner) {
            postings.push((term, stack.imbalance, index));
        }
    }
    postings.sort_unstable();
    let mut pairs = Vec::new();
    for range in crate::classes::runs_of(&postings, |a, b| a.0 == b.0) {
        pair_postings(&postings[range], stacks, &mut pairs);
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// The terms of a stack: the sequence of the functions that both sides have,
/// which does not change where one function was renamed, inserted or inlined;
/// each of its rarest functions; each of these together with the imbalance.
fn terms(stack: &UnmatchedStack, aligner: &Aligner<'_, '_>) -> Vec<u64> {
    let mut common: Vec<u32> = stack.names.clone();
    common.retain(|&name| aligner.is_common(name));
    let mut terms = Vec::with_capacity(2 * RAREST + 1);
    terms.push(keys::hash(common.iter().copied()) as u64);
    common.sort_unstable_by_key(|&name| (std::cmp::Reverse(aligner.weight(name)), name));
    common.dedup();
    for &name in common.iter().take(RAREST) {
        let (low, high) = (stack.imbalance as u32, (stack.imbalance >> 32) as u32);
        terms.push(keys::hash([name, low, high, u32::MAX]) as u64);
        terms.push(keys::hash([name, u32::MAX]) as u64);
    }
    terms
}

/// Pairs each stack of a posting list with the stacks of the other side whose
/// imbalance is nearest. `postings` are sorted by imbalance.
fn pair_postings(
    postings: &[(u64, u64, u32)],
    stacks: &[UnmatchedStack],
    pairs: &mut Vec<(u32, u32)>,
) {
    let of = |side| {
        let postings = postings.iter().map(|&(_, _, index)| index);
        let of_side = postings.filter(move |&index| stacks[index as usize].side == side);
        of_side.collect::<Vec<u32>>()
    };
    let (gone, new) = (of(Side::Before), of(Side::After));
    let imbalance = |index: u32| stacks[index as usize].imbalance;
    // In both directions, so that exchanging the sides gives the same pairs.
    nearest(&gone, &new, imbalance, |g, n| pairs.push((g, n)));
    nearest(&new, &gone, imbalance, |n, g| pairs.push((g, n)));
}

/// Calls `pair` for each item of `from` with its nearest items in `to`; both
/// are sorted by imbalance.
fn nearest(
    from: &[u32],
    to: &[u32],
    imbalance: impl Fn(u32) -> u64,
    mut pair: impl FnMut(u32, u32),
) {
    if to.is_empty() {
        return;
    }
    for (rank, &index) in from.iter().enumerate() {
        let wanted = imbalance(index);
        // Equal imbalances are paired by rank: two lists that were renamed as a
        // whole are then paired item by item.
        let first = to.partition_point(|&other| imbalance(other) < wanted);
        let end = to.partition_point(|&other| imbalance(other) <= wanted);
        let rank = rank - from.partition_point(|&other| imbalance(other) < wanted);
        let middle = if end > first {
            (first + rank).min(end - 1)
        } else {
            first
        };
        let start = middle.saturating_sub(NEIGHBOURS / 2);
        for &other in &to[start..(start + NEIGHBOURS).min(to.len())] {
            pair(index, other);
        }
    }
}
