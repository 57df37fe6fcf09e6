//! Which stacks are worth aligning: those that share something rare. Every
//! stack meets a bounded number of others, so that the whole takes about as
//! long as there are stacks.

use crate::Side;
use crate::align::Aligner;
use crate::keys;

/// How many others a stack meets for each matched it shares with them.
const NEIGHBOURS: usize = 6;

/// By how many of its rarest functions a stack is looked for.
const RAREST: usize = 3;

/// A stack that looks for its other half.
pub(crate) struct UnmatchedStack {
    /// What tells it from others.
    pub(crate) key: u128,
    /// The side that has too much of it.
    pub(crate) side: Side,
    /// How much too much.
    pub(crate) imbalance: u64,
    /// It is on both sides: only what balances it exactly can be its other half.
    pub(crate) on_both: bool,
    /// Its loosest names, glue left out.
    pub(crate) names: Vec<u32>,
}

/// Pairs of indexes (before, after), in order, each once. `stacks` are in order
/// of key.
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

/// Where a stack looks: under the functions that both sides have, in order
/// (those of a stack in which one was renamed, inserted or inlined are the
/// same); under each of its rarest ones; and there again with its imbalance.
fn terms(stack: &UnmatchedStack, aligner: &Aligner<'_, '_>) -> Vec<u64> {
    let mut common: Vec<u32> = stack.names.clone();
    common.retain(|&name| aligner.is_common(name));
    let mut terms = Vec::with_capacity(2 * RAREST + 1);
    if !stack.on_both {
        terms.push(keys::hash(common.iter().copied()) as u64);
    }
    common.sort_unstable_by_key(|&name| (std::cmp::Reverse(aligner.weight(name)), name));
    common.dedup();
    for &name in common.iter().take(RAREST) {
        let (low, high) = (stack.imbalance as u32, (stack.imbalance >> 32) as u32);
        terms.push(keys::hash([name, low, high, u32::MAX]) as u64);
        if !stack.on_both {
            terms.push(keys::hash([name, u32::MAX]) as u64);
        }
    }
    terms
}

/// Lets each stack of a term meet those of the other side that are nearest to
/// it in imbalance. `postings` are in order of imbalance.
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
    // From both sides, so that it does not matter which side is which.
    nearest(&gone, &new, imbalance, |g, n| pairs.push((g, n)));
    nearest(&new, &gone, imbalance, |n, g| pairs.push((g, n)));
}

/// Calls `met` for each of `from` with its neighbours in `to`; both are in order
/// of imbalance.
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
        // Among equals the one of the same rank first: two lists that were
        // renamed as a whole are paired in step.
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
