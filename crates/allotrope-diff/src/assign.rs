//! The last pass of matching: of the stacks that nothing looks like, which are
//! most likely one stack that was renamed, inlined or given a frame more? An
//! assignment of the largest total likelihood, in which equal figures count.

use rustc_hash::FxHashMap;

use crate::Side;
use crate::align::{Aligner, Alignment};
use crate::candidates::{Seeker, candidates};
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
    let (seekers, matches) = seekers(classes, matches);
    let aligner = Aligner::new(&classes.table);
    let pairs = likely_pairs(&seekers, &aligner);
    let mut taken = vec![false; matches.len()];
    let mut assigned = Vec::new();
    for pair in choose(pairs, seekers.len()) {
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
fn seekers(classes: &Classes<'_>, matches: Vec<Match>) -> (Vec<Seeker>, Vec<Match>) {
    let mut frames = Vec::new();
    let mut both: Vec<(Seeker, Match)> = matches
        .into_iter()
        .map(|matched| {
            let class = main_class(classes, &matched);
            classes.stack(class, &mut frames);
            let mut names = Vec::new();
            keys::reduce(&classes.table, &frames, MatchLevel::GlueIgnored, &mut names);
            let seeker = Seeker {
                key: classes.key(class),
                side: if matched.after > matched.before {
                    Side::After
                } else {
                    Side::Before
                },
                amount: matched.difference().unsigned_abs(),
                on_both: matched.only_side().is_none(),
                names,
            };
            (seeker, matched)
        })
        .collect();
    both.sort_unstable_by_key(|(seeker, _)| seeker.key);
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

fn likely_pairs(seekers: &[Seeker], aligner: &Aligner<'_, '_>) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let sorted: Vec<Vec<u32>> = seekers
        .iter()
        .map(|seeker| {
            let mut names = seeker.names.clone();
            names.sort_unstable();
            names
        })
        .collect();
    for (b, a) in candidates(seekers, aligner) {
        let (before, after) = (&seekers[b as usize], &seekers[a as usize]);
        let balances = before.amount == after.amount;
        let on_both = u32::from(before.on_both) + u32::from(after.on_both);
        if on_both > 1 || (on_both == 1 && !balances) {
            continue;
        }
        let least = least_similarity(before.amount, after.amount);
        if aligner.most_similar(&sorted[b as usize], &sorted[a as usize]) < least {
            continue;
        }
        let alignment = aligner.align(&before.names, &after.names);
        let Some(likelihood) = likelihood(alignment, before.amount, after.amount) else {
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
fn choose(pairs: Vec<Pair>, seekers: usize) -> Vec<Pair> {
    let mut parts: FxHashMap<u32, Vec<Pair>> = FxHashMap::default();
    let mut roots = Roots::new(seekers);
    for pair in &pairs {
        roots.join(pair.before, pair.after);
    }
    for pair in pairs {
        parts.entry(roots.find(pair.before)).or_default().push(pair);
    }
    let mut parts: Vec<Vec<Pair>> = parts.into_values().collect();
    parts.sort_unstable_by_key(|part| part.iter().map(|p| (p.before, p.after)).min());
    parts.into_iter().flat_map(solve).collect()
}

/// Solves one part: pairs that compete with each other.
fn solve(part: Vec<Pair>) -> Vec<Pair> {
    let distinct = |of: fn(&Pair) -> u32| {
        let mut indexes: Vec<u32> = part.iter().map(of).collect();
        indexes.sort_unstable();
        indexes.dedup();
        indexes
    };
    let (rows, columns) = (distinct(|pair| pair.before), distinct(|pair| pair.after));
    if rows.len().max(columns.len()) > LARGEST_EXACT {
        return greedily(part);
    }
    let mut gain = vec![0; rows.len() * columns.len()];
    let place = |pair: &Pair| {
        let row = rows.partition_point(|&row| row < pair.before);
        let column = columns.partition_point(|&column| column < pair.after);
        (row, column)
    };
    for pair in &part {
        let (row, column) = place(pair);
        gain[row * columns.len() + column] = pair.gain();
    }
    let chosen = hungarian::assign(&gain, rows.len(), columns.len());
    let is_chosen = |pair: &Pair| {
        let (row, column) = place(pair);
        chosen[row] == Some(column)
    };
    let mut part = part;
    let mut index = 0;
    let keep: Vec<bool> = part.iter().map(is_chosen).collect();
    part.retain(|_| {
        index += 1;
        keep[index - 1]
    });
    part
}

fn greedily(mut part: Vec<Pair>) -> Vec<Pair> {
    part.sort_by_key(|pair| std::cmp::Reverse(pair.gain()));
    let mut taken = rustc_hash::FxHashSet::default();
    part.retain(|pair| {
        let free = !taken.contains(&pair.before) && !taken.contains(&pair.after);
        if free {
            taken.insert(pair.before);
            taken.insert(pair.after);
        }
        free
    });
    part
}

/// Which stacks hang together.
struct Roots(Vec<u32>);

impl Roots {
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
