//! Recognises a function that replaced others at many call sites: all callers
//! of `old`, or three hundred helpers of one kind, now call `new`. The names
//! need not be similar, the old functions may still have other callers, and the
//! figures may have changed. The evidence is that it happened many times.
//!
//! Each stack is hashed with one function left out: a gap. Gaps with equal
//! hashes have the same callers and callees. If one function fills many gaps of
//! one side, it has replaced the functions in the equal gaps of the other side.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::Side;
use crate::assign::main_class;
use crate::classes::{Classes, runs_of};
use crate::frames::FrameTable;
use crate::keys;
use crate::match_by_name::Match;
use crate::match_level::MatchLevel;
use crate::similarity::operator_of;

/// The number of stacks of the other side that a function must have replaced.
const MANY: usize = 8;

/// The largest confidence of such a match.
const CONFIDENCE: f64 = 0.7;

/// A stack with one function left out.
struct Gap {
    /// The hash of the functions around the gap.
    key: u128,
    /// There is at least one function around the gap.
    has_context: bool,
    /// The function that was left out, by its name at the loosest level.
    function: u32,
    match_index: u32,
}

/// All gaps of both sides that have the same functions around them.
struct CallContext {
    key: u128,
    match_indexes: [Vec<u32>; 2],
    /// For each side, the function in the gaps if it is a single one.
    functions: [Option<u32>; 2],
    evidence: usize,
}

/// Merges the stacks that lost one function with the stacks in which another
/// replaced it.
pub(crate) fn replaced_functions(classes: &Classes<'_>, matches: Vec<Match>) -> Vec<Match> {
    let gaps = gaps(classes, &matches);
    let mut contexts = contexts(classes, &gaps, &matches);
    count_evidence(&mut contexts, &gaps, &matches);
    contexts.retain(|context| context.evidence >= MANY);
    contexts.sort_unstable_by_key(|context| (std::cmp::Reverse(context.evidence), context.key));
    let mut taken = vec![false; matches.len()];
    let mut replaced = Vec::new();
    for context in contexts {
        let members = || {
            context
                .match_indexes
                .iter()
                .flatten()
                .map(|&index| index as usize)
        };
        if members().any(|index| taken[index]) {
            continue;
        }
        members().for_each(|index| taken[index] = true);
        let confidence = members()
            .map(|index| matches[index].confidence)
            .fold(CONFIDENCE, f64::min);
        let all = members().flat_map(|index| matches[index].classes.iter().copied());
        replaced.push(Match::new(classes, all.collect(), confidence));
    }
    let left = matches.into_iter().zip(taken).filter(|(_, taken)| !taken);
    replaced.extend(left.map(|(matched, _)| matched));
    replaced
}

/// The gaps in which a function may have been replaced, sorted by key. Of the
/// gaps with one key, at least one has a function that the other side lacks. Both
/// sides have all functions around the gaps.
fn gaps(classes: &Classes<'_>, matches: &[Match]) -> Vec<Gap> {
    let mut wanted = FxHashSet::default();
    each_gap(classes, matches, |gap| {
        if !classes.table.is_common(gap.function) {
            wanted.insert(gap.key);
        }
    });
    let mut gaps = Vec::new();
    if !wanted.is_empty() {
        each_gap(classes, matches, |gap| {
            if wanted.contains(&gap.key) {
                gaps.push(gap);
            }
        });
    }
    gaps.sort_unstable_by_key(|gap| (gap.key, gap.match_index));
    gaps
}

fn each_gap(classes: &Classes<'_>, matches: &[Match], mut found: impl FnMut(Gap)) {
    let (mut frames, mut names) = (Vec::new(), Vec::new());
    for (index, matched) in (0..).zip(matches) {
        if matched.only_side().is_none() || matched.stays(classes, MatchLevel::CommonOnly) {
            continue;
        }
        classes.stack(main_class(classes, matched), &mut frames);
        keys::reduce(&classes.table, &frames, MatchLevel::GlueIgnored, &mut names);
        let hashes = ContextHashes::new(&names);
        for position in gap_positions(&classes.table, &names) {
            found(Gap {
                key: hashes.key(position),
                has_context: names.len() > 1,
                function: names[position],
                match_index: index,
            });
        }
    }
}

/// The positions at which a function may have been replaced: all, if both sides
/// have every function of the stack; one, if only one side has exactly one of the
/// functions; none, if only one side has several of them.
fn gap_positions(table: &FrameTable<'_>, names: &[u32]) -> std::ops::Range<usize> {
    let mut unknown = (0..names.len()).filter(|&position| !table.is_common(names[position]));
    match (unknown.next(), unknown.next()) {
        (None, _) => 0..names.len(),
        (Some(position), None) => position..position + 1,
        _ => 0..0,
    }
}

/// Hashes of the functions inside and outside of each position of a stack, so
/// that hashing a gap takes constant time.
struct ContextHashes {
    inside: Vec<u64>,
    outside: Vec<u64>,
}

impl ContextHashes {
    fn new(names: &[u32]) -> Self {
        // A multiplicative hash; the odd factor is derived from the golden
        // ratio.
        let next = |hash: &mut u64, &name: &u32| {
            let before = *hash;
            *hash = (before ^ u64::from(name))
                .wrapping_add(1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(23);
            Some(before)
        };
        let inside = names.iter().scan(1, next).collect();
        let mut outside: Vec<u64> = names.iter().rev().scan(2, next).collect();
        outside.reverse();
        Self { inside, outside }
    }

    fn key(&self, position: usize) -> u128 {
        let halves = |hash: u64| [hash as u32, (hash >> 32) as u32];
        let [a, b] = halves(self.inside[position]);
        let [c, d] = halves(self.outside[position]);
        keys::hash([a, b, c, d])
    }
}

/// The contexts that occur on both sides.
fn contexts(classes: &Classes<'_>, gaps: &[Gap], matches: &[Match]) -> Vec<CallContext> {
    let mut contexts = Vec::new();
    for range in runs_of(gaps, |a, b| a.key == b.key) {
        let here = &gaps[range];
        let of = |side| {
            let of_side = here
                .iter()
                .filter(move |gap| matches[gap.match_index as usize].only_side() == Some(side));
            let mut members: Vec<u32> = of_side.clone().map(|gap| gap.match_index).collect();
            members.dedup();
            let mut functions: Vec<u32> = of_side.map(|gap| gap.function).collect();
            functions.sort_unstable();
            functions.dedup();
            (members, functions)
        };
        let ((gone, were), (new, are)) = (of(Side::Before), of(Side::After));
        let sum = |side: &[u32]| -> i128 {
            let differences = side
                .iter()
                .map(|&index| matches[index as usize].difference());
            differences.map(i128::from).sum()
        };
        let is_plausible = here[0].has_context || sum(&gone) + sum(&new) == 0;
        let single = |functions: &[u32]| match functions {
            [one] => Some(*one),
            _ => None,
        };
        let functions = [single(&were), single(&are)];
        if !gone.is_empty() && !new.is_empty() && is_plausible && may_replace(classes, &were, &are)
        {
            contexts.push(CallContext {
                key: here[0].key,
                match_indexes: [gone, new],
                functions,
                evidence: 0,
            });
        }
    }
    contexts
}

/// Whether the functions `were` may have been replaced by the functions `are`:
/// all are the same operator or none is an operator, and no function is in both
/// lists, which are sorted.
fn may_replace(classes: &Classes<'_>, were: &[u32], are: &[u32]) -> bool {
    let operator = |&name: &u32| operator_of(classes.table.spelling(name));
    let Some(first) = were.first() else {
        return false;
    };
    let all = || were.iter().chain(are);
    all().all(|name| operator(name) == operator(first))
        && were.iter().all(|name| are.binary_search(name).is_err())
}

/// Sets the evidence of each context: the number of stacks of the other side, in
/// all contexts, in which its function replaced others or was replaced. 0 if less
/// than half of the function's stacks are in such contexts.
fn count_evidence(contexts: &mut [CallContext], gaps: &[Gap], matches: &[Match]) {
    let mut replaced: FxHashMap<(usize, u32), [usize; 2]> = FxHashMap::default();
    for context in &*contexts {
        for (side, function) in context.functions.iter().enumerate() {
            if let Some(function) = function {
                let counts = replaced.entry((side, *function)).or_default();
                counts[0] += context.match_indexes[side].len();
                counts[1] += context.match_indexes[1 - side].len();
            }
        }
    }
    let mut stacks: FxHashMap<(usize, u32), usize> = FxHashMap::default();
    for gap in gaps {
        if let Some(side) = matches[gap.match_index as usize].only_side() {
            *stacks.entry((side as usize, gap.function)).or_default() += 1;
        }
    }
    for context in contexts {
        let evidence = context
            .functions
            .iter()
            .enumerate()
            .map(|(side, function)| {
                let key = (side, (*function)?);
                let [own, others] = replaced.get(&key).copied()?;
                (2 * own >= stacks.get(&key).copied()?).then_some(others)
            });
        context.evidence = evidence.flatten().max().unwrap_or(0);
    }
}
