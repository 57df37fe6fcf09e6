//! Weighted edit distance (Wagner and Fischer 1974) between the reduced names
//! of two stacks. An edit inserts, removes or renames a frame. It costs more if
//! the function is rare among all stacks (inverse document frequency).

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use crate::Side;
use crate::frames::FrameTable;
use crate::similarity::{bigram_similarity, operator_of};

/// Weights are in sixteenths of a bit of information: integers, so that sums
/// are exact.
const WEIGHT_UNIT: f64 = 16.0;

/// Longest middle part, after the common head and tail, that is aligned frame
/// by frame. Two longer parts count as having nothing in common.
const MAX_ALIGNED: usize = 256;

/// Most pairs of frames that are compared for all pairs of stacks together: some seconds. If there
/// would be more, only shorter middle parts are aligned.
const MAX_CELLS: u64 = 1 << 30;

/// Aligns reduced stacks. Caches the cost of each renaming.
pub(crate) struct Aligner<'t, 'a> {
    table: &'t FrameTable<'a>,
    /// Longest middle part that is aligned.
    longest: usize,
    weights: Vec<u32>,
    renames: RefCell<FxHashMap<(u32, u32), Option<u32>>>,
}

/// The result of aligning two stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Alignment {
    /// From 0, nothing in common, to 1024, equality.
    pub(crate) similarity: u32,
    /// The number of frames that both have.
    pub(crate) common: u32,
    /// The number of frames inserted, removed or renamed.
    pub(crate) edits: u32,
    /// The middle parts share no frame, and frames were both removed and
    /// inserted there, not only renamed: the program takes another path.
    pub(crate) replaced: bool,
}

/// Cost, number of edits, number of renamings. The minimum in this order is
/// unique in all three, so exchanging the two stacks gives the same result.
type EditCost = (u32, u32, u32);

impl<'t, 'a> Aligner<'t, 'a> {
    pub(crate) fn new(table: &'t FrameTable<'a>) -> Self {
        let count = |name| {
            let sides = [Side::Before, Side::After];
            sides
                .map(|side| table.occurrences(name, side))
                .iter()
                .sum::<u64>()
        };
        let counts: Vec<u64> = (0..table.names() as u32).map(count).collect();
        let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
        let weigh = |&count: &u64| {
            let rarity = most / (count.max(1) as f64);
            ((1.0 + rarity).log2() * WEIGHT_UNIT).round() as u32
        };
        Self {
            table,
            longest: MAX_ALIGNED,
            weights: counts.iter().map(weigh).collect(),
            renames: RefCell::default(),
        }
    }

    /// The weight of a name at the loosest level.
    pub(crate) fn weight(&self, name: u32) -> u32 {
        self.weights[name as usize]
    }

    /// Whether both sides of the diff have the function.
    pub(crate) fn is_common(&self, name: u32) -> bool {
        self.table.is_common(name)
    }

    /// Upper bound of the similarity of two stacks, from their sorted names. A
    /// function that both sides of the diff have but only one of the two stacks
    /// is never renamed, so it costs its weight. Much faster than an alignment.
    pub(crate) fn similarity_bound(&self, a: &[u32], b: &[u32]) -> u32 {
        let mut cost = 0_u64;
        let (mut i, mut j) = (0, 0);
        let mut left_over = |name: u32| {
            if self.table.is_common(name) {
                cost += u64::from(self.weight(name));
            }
        };
        while i < a.len() && j < b.len() {
            match a[i].cmp(&b[j]) {
                std::cmp::Ordering::Less => {
                    left_over(a[i]);
                    i += 1;
                }
                std::cmp::Ordering::Greater => {
                    left_over(b[j]);
                    j += 1;
                }
                std::cmp::Ordering::Equal => {
                    i += 1;
                    j += 1;
                }
            }
        }
        a[i..]
            .iter()
            .chain(&b[j..])
            .for_each(|&name| left_over(name));
        similarity(cost, u64::from(self.sum(a)) + u64::from(self.sum(b)))
    }

    /// Shortens the longest middle part that is aligned until the alignments of these pairs, given
    /// by the lengths of their middle parts, are done in a bounded time.
    pub(crate) fn limit(&mut self, middles: &[[usize; 2]]) {
        let cells = |longest: usize| -> u64 {
            let aligned = middles
                .iter()
                .filter(|it| it.iter().all(|&it| it <= longest));
            aligned.map(|[a, b]| (a * b) as u64).sum()
        };
        while self.longest > 1 && cells(self.longest) > MAX_CELLS {
            self.longest /= 2;
        }
    }

    /// Aligns two sequences of names at the loosest level.
    pub(crate) fn align(&self, a: &[u32], b: &[u32]) -> Alignment {
        let [head, tail] = common_ends(a, b);
        let a_middle = &a[head..a.len() - tail];
        let b_middle = &b[head..b.len() - tail];
        let (cost, edits, renamed) = self.edit_cost(a_middle, b_middle);
        let one_sided = edits - renamed;
        let common_middle = (a_middle.len() + b_middle.len()) as u32 - one_sided - 2 * renamed;
        let removed = a_middle.len() as u32 - common_middle / 2 - renamed;
        let inserted = b_middle.len() as u32 - common_middle / 2 - renamed;
        let whole = u64::from(self.sum(a)) + u64::from(self.sum(b));
        Alignment {
            similarity: similarity(u64::from(cost), whole),
            common: (head + tail) as u32 + common_middle / 2,
            edits,
            replaced: common_middle == 0 && removed > 0 && inserted > 0,
        }
    }

    fn sum(&self, names: &[u32]) -> u32 {
        names
            .iter()
            .map(|&name| self.weight(name))
            .fold(0, u32::saturating_add)
    }

    fn edit_cost(&self, a: &[u32], b: &[u32]) -> EditCost {
        if a.is_empty() || b.is_empty() || a.len() > self.longest || b.len() > self.longest {
            let cost = self.sum(a).saturating_add(self.sum(b));
            return (cost, (a.len() + b.len()) as u32, 0);
        }
        let mut row: Vec<EditCost> = Vec::with_capacity(b.len() + 1);
        row.push((0, 0, 0));
        for (j, &y) in b.iter().enumerate() {
            row.push(add(row[j], (self.weight(y), 1, 0)));
        }
        for &x in a {
            let remove = (self.weight(x), 1, 0);
            let mut diagonal = row[0];
            row[0] = add(row[0], remove);
            for (j, &y) in b.iter().enumerate() {
                let insert = (self.weight(y), 1, 0);
                let mut best = add(row[j + 1], remove).min(add(row[j], insert));
                if x == y {
                    best = best.min(diagonal);
                } else if let Some(cost) = self.rename_cost(x, y) {
                    best = best.min(add(diagonal, (cost, 1, 1)));
                }
                diagonal = row[j + 1];
                row[j + 1] = best;
            }
        }
        row[b.len()]
    }

    /// The cost of renaming one function to the other; `None` if that is
    /// excluded: one of them exists on both sides, or they are different
    /// operators.
    fn rename_cost(&self, x: u32, y: u32) -> Option<u32> {
        if self.is_common(x) || self.is_common(y) {
            return None;
        }
        let pair = (x.min(y), x.max(y));
        *self.renames.borrow_mut().entry(pair).or_insert_with(|| {
            let (x, y) = (self.table.spelling(pair.0), self.table.spelling(pair.1));
            if operator_of(x) != operator_of(y) {
                return None;
            }
            let both = self.weight(pair.0) + self.weight(pair.1);
            // Half of what removing one and inserting the other costs; an
            // eighth if the names are nearly the same.
            let dissimilarity = 256 - bigram_similarity(x, y).min(192);
            Some((u64::from(both) * u64::from(dissimilarity) / 512) as u32)
        })
    }
}

/// The lengths of the head and of the tail that two sequences have in common.
pub(crate) fn common_ends(a: &[u32], b: &[u32]) -> [usize; 2] {
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[head..], &b[head..]);
    let tail = (a.iter().rev().zip(b.iter().rev()))
        .take_while(|(x, y)| x == y)
        .count();
    [head, tail]
}

/// The share of `whole` that remains after `cost`, in 1024ths.
fn similarity(cost: u64, whole: u64) -> u32 {
    let left = (whole - cost.min(whole)) * 1024;
    left.checked_div(whole).unwrap_or(1024) as u32
}

fn add(a: EditCost, b: EditCost) -> EditCost {
    (a.0.saturating_add(b.0), a.1 + b.1, a.2 + b.2)
}
