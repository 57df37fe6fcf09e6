//! The last matching step: pairs stacks that have no equal name on the other
//! side, because a function was renamed, inlined or inserted.
//!
//! Candidate pairs are aligned and get a likelihood; among competing pairs, an
//! assignment of the largest total likelihood is chosen (Hungarian algorithm;
//! greedy where a problem is large).

use rustc_hash::FxHashMap;

use crate::Side;
use crate::align::{Aligner, Alignment, common_ends};
use crate::candidates::{UnmatchedStack, candidates};
use crate::classes::Classes;
use crate::hungarian;
use crate::keys;
use crate::match_by_name::Match;
use crate::match_level::MatchLevel;

/// Largest number of stacks on one side for which the assignment is solved
/// exactly; larger problems are solved greedily, the likeliest pair first.
const MAX_EXACT: usize = 64;

/// Likelihoods and similarities are fixed-point numbers in 1024ths.
const CERTAIN: u32 = 1024;

struct Pair {
    before: u32,
    after: u32,
    likelihood: u32,
    /// Orders pairs of equal likelihood; exchanging the sides gives the same
    /// number.
    tie: u32,
}

impl Pair {
    /// The weight of the pair in the assignment. Sums of some hundred gains fit
    /// an `i64`.
    fn gain(&self) -> i64 {
        i64::from(self.likelihood) << 34 | i64::from(self.tie >> 2)
    }
}

/// Merges each pair of matches, each on one side only, that are likely the same stack. The
/// result may balance.
pub(crate) fn assign(classes: &Classes<'_>, matches: Vec<Match>) -> Vec<Match> {
    // A stack that is on both sides was not renamed: what it lost is a difference, and so is
    // what another one gained, although it may be as much.
    let (kept, matches): (Vec<_>, Vec<_>) = matches.into_iter().partition(|matched| {
        matched.only_side().is_none() || matched.stays(classes, MatchLevel::CommonOnly)
    });
    let (stacks, matches) = stacks(classes, matches);
    let mut aligner = Aligner::new(&classes.table);
    let pairs = likely_pairs(&stacks, &mut aligner);
    let mut taken = vec![false; matches.len()];
    let mut assigned = Vec::new();
    for pair in choose(pairs, stacks.len()) {
        let (before, after) = (pair.before as usize, pair.after as usize);
        taken[before] = true;
        taken[after] = true;
        let both = matches[before]
            .classes
            .iter()
            .chain(&matches[after].classes);
        let confidence = (f64::from(pair.likelihood) / f64::from(CERTAIN))
            .min(matches[before].confidence)
            .min(matches[after].confidence);
        assigned.push(Match::new(classes, both.copied().collect(), confidence));
    }
    let left = matches.into_iter().zip(taken).filter(|(_, taken)| !taken);
    assigned.extend(left.map(|(matched, _)| matched));
    assigned.extend(kept);
    assigned
}

/// The matches as unmatched stacks, and the matches in the same order.
fn stacks(classes: &Classes<'_>, matches: Vec<Match>) -> (Vec<UnmatchedStack>, Vec<Match>) {
    let mut frames = Vec::new();
    let mut both: Vec<(UnmatchedStack, Match)> = matches
        .into_iter()
        .map(|matched| {
            let class = main_class(classes, &matched);
            classes.stack(class, &mut frames);
            let mut names = Vec::new();
            keys::reduce(&classes.table, &frames, MatchLevel::GlueIgnored, &mut names);
            let stack = UnmatchedStack {
                key: classes.key(class),
                side: if matched.after > matched.before {
                    Side::After
                } else {
                    Side::Before
                },
                imbalance: matched.difference().unsigned_abs(),
                names,
            };
            (stack, matched)
        })
        .collect();
    both.sort_unstable_by_key(|(stack, _)| stack.key);
    both.into_iter().unzip()
}

/// The largest class of the match, which represents it where one stack is
/// needed.
pub(crate) fn main_class(classes: &Classes<'_>, matched: &Match) -> u32 {
    let size = |&class: &u32| {
        let counted = &classes.classes[class as usize];
        (counted.before.max(counted.after), classes.key(class))
    };
    matched
        .classes
        .iter()
        .copied()
        .max_by_key(size)
        .unwrap_or_default()
}

fn likely_pairs(stacks: &[UnmatchedStack], aligner: &mut Aligner<'_, '_>) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let sorted: Vec<Vec<u32>> = stacks
        .iter()
        .map(|stack| {
            let mut names = stack.names.clone();
            names.sort_unstable();
            names
        })
        .collect();
    let mut found = candidates(stacks, aligner);
    found.retain(|&(b, a)| {
        let (before, after) = (&stacks[b as usize], &stacks[a as usize]);
        let least = least_similarity(before.imbalance, after.imbalance);
        aligner.similarity_bound(&sorted[b as usize], &sorted[a as usize]) >= least
    });
    let middles = found.iter().map(|&(b, a)| {
        let [b, a] = [b, a].map(|stack| &stacks[stack as usize].names);
        let ends: usize = common_ends(b, a).iter().sum();
        [b.len() - ends, a.len() - ends]
    });
    aligner.limit(&middles.collect::<Vec<_>>());
    for (b, a) in found {
        let (before, after) = (&stacks[b as usize], &stacks[a as usize]);
        let alignment = aligner.align(&before.names, &after.names);
        let Some(likelihood) = likelihood(alignment, before.imbalance, after.imbalance) else {
            continue;
        };
        let tie = (before.key.min(after.key), before.key.max(after.key));
        let tie = [
            tie.0 as u32,
            (tie.0 >> 32) as u32,
            tie.1 as u32,
            (tie.1 >> 32) as u32,
        ];
        pairs.push(Pair {
            before: b,
            after: a,
            likelihood,
            tie: keys::hash(tie) as u32,
        });
    }
    pairs
}

/// The least similarity that two stacks need to be taken for the same one, in
/// 1024ths. Equal figures are strong evidence, so a low similarity is enough;
/// figures that differ need a high one.
fn least_similarity(before: u64, after: u64) -> u32 {
    if before == after {
        CERTAIN * 2 / 5
    } else if are_near(before, after) {
        CERTAIN / 2
    } else {
        CERTAIN * 3 / 4
    }
}

/// The two differ by at most 2 %.
fn are_near(before: u64, after: u64) -> bool {
    before.abs_diff(after) <= before.max(after) / 50
}

/// The likelihood that the two are the same stack, in 1024ths; `None` if they
/// are too different.
fn likelihood(alignment: Alignment, before: u64, after: u64) -> Option<u32> {
    let Alignment {
        similarity,
        common,
        edits,
        replaced,
    } = alignment;
    let few_edits = if before == after {
        edits <= common + 1
    } else if are_near(before, after) {
        edits <= common
    } else {
        edits * 3 <= common
    };
    if replaced || common == 0 || !few_edits || similarity < least_similarity(before, after) {
        return None;
    }
    let (less, more) = (before.min(after), before.max(after));
    let ratio = (u128::from(less) * u128::from(CERTAIN) / u128::from(more.max(1))) as u32;
    // Never certain, because the names differ.
    Some((similarity * 3 / 4 + ratio / 4).min(CERTAIN - 1))
}

/// Chooses pairs so that each stack is in one at most. Pairs that share no
/// stack, directly or through others, are solved separately.
fn choose(pairs: Vec<Pair>, stacks: usize) -> Vec<Pair> {
    let mut components: FxHashMap<u32, Vec<Pair>> = FxHashMap::default();
    let mut sets = DisjointSets::new(stacks);
    for pair in &pairs {
        sets.join(pair.before, pair.after);
    }
    for pair in pairs {
        components
            .entry(sets.find(pair.before))
            .or_default()
            .push(pair);
    }
    let mut components: Vec<Vec<Pair>> = components.into_values().collect();
    components
        .sort_unstable_by_key(|component| component.iter().map(|p| (p.before, p.after)).min());
    components.into_iter().flat_map(solve).collect()
}

/// Solves one connected component of competing pairs.
fn solve(component: Vec<Pair>) -> Vec<Pair> {
    let distinct = |of: fn(&Pair) -> u32| {
        let mut indexes: Vec<u32> = component.iter().map(of).collect();
        indexes.sort_unstable();
        indexes.dedup();
        indexes
    };
    let (rows, columns) = (distinct(|pair| pair.before), distinct(|pair| pair.after));
    if rows.len().max(columns.len()) > MAX_EXACT {
        return solve_greedily(component);
    }
    let mut gain = vec![0; rows.len() * columns.len()];
    let cell = |pair: &Pair| {
        let row = rows.partition_point(|&row| row < pair.before);
        let column = columns.partition_point(|&column| column < pair.after);
        (row, column)
    };
    for pair in &component {
        let (row, column) = cell(pair);
        gain[row * columns.len() + column] = pair.gain();
    }
    let chosen = hungarian::assign(&gain, rows.len(), columns.len());
    let is_chosen = |pair: &Pair| {
        let (row, column) = cell(pair);
        chosen[row] == Some(column)
    };
    let mut component = component;
    let mut index = 0;
    let keep: Vec<bool> = component.iter().map(is_chosen).collect();
    component.retain(|_| {
        index += 1;
        keep[index - 1]
    });
    component
}

fn solve_greedily(mut component: Vec<Pair>) -> Vec<Pair> {
    component.sort_by_key(|pair| std::cmp::Reverse(pair.gain()));
    let mut taken = rustc_hash::FxHashSet::default();
    component.retain(|pair| {
        let free = !taken.contains(&pair.before) && !taken.contains(&pair.after);
        if free {
            taken.insert(pair.before);
            taken.insert(pair.after);
        }
        free
    });
    component
}

/// Disjoint-set forest (union-find) over the indexes of stacks, with path
/// halving. The representative of a set is its smallest index.
struct DisjointSets(Vec<u32>);

impl DisjointSets {
    fn new(number: usize) -> Self {
        Self((0..number as u32).collect())
    }

    fn find(&mut self, mut index: u32) -> u32 {
        while self.0[index as usize] != index {
            let next = self.0[self.0[index as usize] as usize];
            self.0[index as usize] = next;
            index = next;
        }
        index
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}
