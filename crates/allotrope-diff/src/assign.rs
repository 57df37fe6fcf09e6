//! The last pass of matching: of the stacks that nothing looks like, which are
//! most likely one stack that was renamed, inlined or given a frame more? An
//! assignment of the largest total likelihood, in which equal figures count.

use rustc_hash::FxHashMap;

use crate::Side;
use crate::align::{Aligner, Alignment};
use crate::candidates::{UnmatchedStack, candidates};
use crate::classes::Classes;
use crate::hungarian;
use crate::keys::{self, MatchLevel};
use crate::match_by_name::Match;

/// Largest problem that is solved exactly; the pairs of a larger one are taken
/// in order of likelihood.
const LARGEST_EXACT: usize = 64;

/// Likelihoods are in 1024ths.
const CERTAIN: u32 = 1024;

struct Pair {
    before: u32,
    after: u32,
    likelihood: u32,
    /// Orders pairs of one likelihood, the same from both sides.
    tie: u32,
}

impl Pair {
    /// What the pair is worth; sums of some hundred fit.
    fn gain(&self) -> i64 {
        i64::from(self.likelihood) << 34 | i64::from(self.tie >> 2)
    }
}

/// Makes one matched of each two that are likely to be one. Some balance then.
pub(crate) fn assign(classes: &Classes<'_>, matches: Vec<Match>) -> Vec<Match> {
    let (stacks, matches) = stacks(classes, matches);
    let aligner = Aligner::new(&classes.table);
    let pairs = likely_pairs(&stacks, &aligner);
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
    assigned
}

/// What looks for another half, with the matches in the same order.
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
                on_both: matched.only_side().is_none(),
                names,
            };
            (stack, matched)
        })
        .collect();
    both.sort_unstable_by_key(|(stack, _)| stack.key);
    both.into_iter().unzip()
}

/// The class that stands for the matched: its largest.
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

fn likely_pairs(stacks: &[UnmatchedStack], aligner: &Aligner<'_, '_>) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let sorted: Vec<Vec<u32>> = stacks
        .iter()
        .map(|stack| {
            let mut names = stack.names.clone();
            names.sort_unstable();
            names
        })
        .collect();
    for (b, a) in candidates(stacks, aligner) {
        let (before, after) = (&stacks[b as usize], &stacks[a as usize]);
        let balances = before.imbalance == after.imbalance;
        let on_both = u32::from(before.on_both) + u32::from(after.on_both);
        if on_both > 1 || (on_both == 1 && !balances) {
            continue;
        }
        let least = least_similarity(before.imbalance, after.imbalance);
        if aligner.similarity_bound(&sorted[b as usize], &sorted[a as usize]) < least {
            continue;
        }
        let alignment = aligner.align(&before.names, &after.names);
        let Some(likelihood) = likelihood(alignment, before.imbalance, after.imbalance) else {
            continue;
        };
        if on_both == 1 && alignment.similarity < CERTAIN * 3 / 4 {
            continue;
        }
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

/// How similar two stacks must be to be taken for one, in 1024ths. Equal
/// figures are strong evidence: little else has to fit. MetricValues that differ are
/// none, and nearly everything has to.
fn least_similarity(before: u64, after: u64) -> u32 {
    if before == after {
        CERTAIN * 2 / 5
    } else if are_near(before, after) {
        CERTAIN / 2
    } else {
        CERTAIN * 3 / 4
    }
}

/// Within 2 % of each other.
fn are_near(before: u64, after: u64) -> bool {
    before.abs_diff(after) <= before.max(after) / 50
}

/// How likely the two are one stack, in 1024ths; `None` if that is not to be
/// believed.
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
    // Never certain: what is was found by looks, not by name.
    Some((similarity * 3 / 4 + ratio / 4).min(CERTAIN - 1))
}

/// The pairs to believe, each stack in one at most.
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

/// Solves one component: pairs that compete with each other.
fn solve(component: Vec<Pair>) -> Vec<Pair> {
    let distinct = |of: fn(&Pair) -> u32| {
        let mut indexes: Vec<u32> = component.iter().map(of).collect();
        indexes.sort_unstable();
        indexes.dedup();
        indexes
    };
    let (rows, columns) = (distinct(|pair| pair.before), distinct(|pair| pair.after));
    if rows.len().max(columns.len()) > LARGEST_EXACT {
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

/// Which stacks hang together.
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
