//! One function in the place of others, at many call sites: all that called
//! `old`, or three hundred helpers of one kind, now call `new`. No two of the
//! names are alike, the old functions may still be there for others, and the
//! figures may have changed; that it happened again and again is the evidence.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::Side;
use crate::assign::main_class;
use crate::classes::{Classes, runs_of};
use crate::frames::FrameTable;
use crate::keys::{self, MatchLevel};
use crate::match_by_name::Match;
use crate::names;

/// How many stacks a function must have taken the place of to be believed.
const MANY: usize = 8;

/// How sure it is, at best.
const CONFIDENCE: f64 = 0.7;

/// A stack with one function left out.
struct Gap {
    /// What is around the gap.
    key: u128,
    /// There is something around it.
    framed: bool,
    /// The function that was left out, by its loosest name.
    function: u32,
    match_index: u32,
}

/// Gaps with the same around them.
struct Site {
    key: u128,
    match_indexes: [Vec<u32>; 2],
    /// Of each side the function, if it is one only.
    pivots: [Option<u32>; 2],
    evidence: usize,
}

/// Makes one matched of the stacks that one function left and the stacks in which
/// another took its place.
pub(crate) fn replaced_functions(classes: &Classes<'_>, matches: Vec<Match>) -> Vec<Match> {
    let gaps = gaps(classes, &matches);
    let mut sites = sites(classes, &gaps, &matches);
    weigh(&mut sites, &gaps, &matches);
    sites.retain(|site| site.evidence >= MANY);
    sites.sort_unstable_by_key(|site| (std::cmp::Reverse(site.evidence), site.key));
    let mut taken = vec![false; matches.len()];
    let mut replaced = Vec::new();
    for site in sites {
        let members = || {
            site.match_indexes
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

/// The gaps that something may be replaced in, in order of what is around them.
/// The function of at least one side is unknown to the other, and everything
/// around it is known to both.
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
        if matched.only_side().is_none() {
            continue;
        }
        classes.stack(main_class(classes, matched), &mut frames);
        keys::reduce(&classes.table, &frames, MatchLevel::GlueIgnored, &mut names);
        let around = Around::new(&names);
        for place in places(&classes.table, &names) {
            found(Gap {
                key: around.key(place),
                framed: names.len() > 1,
                function: names[place],
                match_index: index,
            });
        }
    }
}

/// Where a function may have been replaced: anywhere if both sides have all of
/// them; else in place of the one that only one side has; nowhere if there are
/// several of these.
fn places(table: &FrameTable<'_>, names: &[u32]) -> std::ops::Range<usize> {
    let mut unknown = (0..names.len()).filter(|&place| !table.is_common(names[place]));
    match (unknown.next(), unknown.next()) {
        (None, _) => 0..names.len(),
        (Some(place), None) => place..place + 1,
        _ => 0..0,
    }
}

/// Hashes of what is inside and outside each place of a stack, so that each gap
/// costs the same however deep the stack is.
struct Around {
    inside: Vec<u64>,
    outside: Vec<u64>,
}

impl Around {
    fn new(names: &[u32]) -> Self {
        // A polynomial with an odd factor, the golden ratio's.
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

    fn key(&self, place: usize) -> u128 {
        let halves = |hash: u64| [hash as u32, (hash >> 32) as u32];
        let [a, b] = halves(self.inside[place]);
        let [c, d] = halves(self.outside[place]);
        keys::hash([a, b, c, d])
    }
}

/// Where stacks of both sides meet, and one function stands on one of them.
fn sites(classes: &Classes<'_>, gaps: &[Gap], matches: &[Match]) -> Vec<Site> {
    let mut sites = Vec::new();
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
        let stands = here[0].framed || sum(&gone) + sum(&new) == 0;
        let single = |functions: &[u32]| match functions {
            [one] => Some(*one),
            _ => None,
        };
        let pivots = [single(&were), single(&are)];
        if !gone.is_empty() && !new.is_empty() && stands && may_replace(classes, &were, &are) {
            sites.push(Site {
                key: here[0].key,
                match_indexes: [gone, new],
                pivots,
                evidence: 0,
            });
        }
    }
    sites
}

/// Different operators are different functions, and nothing replaces itself.
fn may_replace(classes: &Classes<'_>, were: &[u32], are: &[u32]) -> bool {
    let operator = |&name: &u32| names::operator_of(classes.table.spelling(name));
    let Some(first) = were.first() else {
        return false;
    };
    let all = || were.iter().chain(are);
    all().all(|name| operator(name) == operator(first))
        && were.iter().all(|name| !are.contains(name))
}

/// Says how many stacks the function of a site took the place of, or left to
/// others, at all sites; none if most of its stacks have no such other half.
fn weigh(sites: &mut [Site], gaps: &[Gap], matches: &[Match]) {
    let mut replaced: FxHashMap<(usize, u32), [usize; 2]> = FxHashMap::default();
    for site in &*sites {
        for (side, pivot) in site.pivots.iter().enumerate() {
            if let Some(pivot) = pivot {
                let counts = replaced.entry((side, *pivot)).or_default();
                counts[0] += site.match_indexes[side].len();
                counts[1] += site.match_indexes[1 - side].len();
            }
        }
    }
    let mut stacks: FxHashMap<(usize, u32), usize> = FxHashMap::default();
    for gap in gaps {
        if let Some(side) = matches[gap.match_index as usize].only_side() {
            *stacks.entry((side as usize, gap.function)).or_default() += 1;
        }
    }
    for site in sites {
        let evidence = site.pivots.iter().enumerate().map(|(side, pivot)| {
            let key = (side, (*pivot)?);
            let [own, others] = replaced.get(&key).copied()?;
            (2 * own >= stacks.get(&key).copied()?).then_some(others)
        });
        site.evidence = evidence.flatten().max().unwrap_or(0);
    }
}
