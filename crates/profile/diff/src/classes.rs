//! Groups the stacks of all runs into classes: a class has all stacks with the
//! same exact names (offsets, lines and columns are ignored).
//!
//! If a side has several runs, the run with the median total (the lower of two)
//! represents it. The figures of one run sum to its total; averages would not. The
//! other runs show how far the figures scatter.

use std::ops::Range;

use crate::error::DiffError;
use crate::frames::FrameTable;
use crate::keys;
use crate::match_level::MatchLevel;
use crate::{Side, keys::reduce};
use allotrope_profile::Metric;

/// One stack of one run.
#[derive(Clone, Copy)]
pub(crate) struct Occurrence {
    pub(crate) key: u128,
    pub(crate) run: u32,
    pub(crate) stack: u32,
}

/// The stacks with the same exact names.
#[derive(Clone, Copy)]
pub(crate) struct Class {
    first: u32,
    end: u32,
    /// The figure in the representative run before.
    pub(crate) before: u64,
    /// The figure in the representative run after.
    pub(crate) after: u64,
}

impl Class {
    pub(crate) fn is_balanced(&self) -> bool {
        self.before == self.after
    }
}

/// All classes.
pub(crate) struct Classes<'a> {
    pub(crate) table: FrameTable<'a>,
    pub(crate) metric: Metric,
    occurrences: Vec<Occurrence>,
    pub(crate) classes: Vec<Class>,
    /// The runs that represent the sides.
    pub(crate) representative_runs: [u32; 2],
    /// The total of each run, in the table's order.
    pub(crate) totals: Vec<u64>,
    /// The number of classes that all runs of a side counted the same, and of
    /// the others.
    pub(crate) deterministic: u64,
    pub(crate) jittering: u64,
    /// See [`crate::DiffOptions::sources`].
    pub(crate) has_sources: bool,
    /// By class: see [`staying`](crate::staying::staying). Empty until it is known.
    pub(crate) staying: Vec<Option<MatchLevel>>,
}

impl<'a> Classes<'a> {
    pub(crate) fn new(table: FrameTable<'a>, metric: Metric) -> Result<Self, DiffError> {
        let totals = totals(&table, metric)?;
        let occurrences = occurrences(&table, metric)?;
        let representative_runs = representative_runs(&table, metric, &totals, &occurrences);
        let mut classes = Self {
            table,
            metric,
            occurrences,
            classes: Vec::new(),
            representative_runs,
            totals,
            deterministic: 0,
            jittering: 0,
            has_sources: false,
            staying: Vec::new(),
        };
        classes.group();
        Ok(classes)
    }

    /// Whether the class has no partner of another name at a match level, because its stack
    /// is on both sides.
    pub(crate) fn stays(&self, class: u32, level: MatchLevel) -> bool {
        let stays = self.staying.get(class as usize).copied().flatten();
        stays.is_some_and(|stays| stays < level)
    }

    pub(crate) fn occurrences(&self, class: u32) -> &[Occurrence] {
        let class = &self.classes[class as usize];
        &self.occurrences[class.first as usize..class.end as usize]
    }

    /// Identifies the class; does not depend on the order of the input.
    pub(crate) fn key(&self, class: u32) -> u128 {
        self.occurrences[self.classes[class as usize].first as usize].key
    }

    /// The frames of one of its stacks. The others have the same names.
    pub(crate) fn stack(&self, class: u32, stack: &mut Vec<u32>) {
        stack.clear();
        stack.extend(self.frames_of(class));
    }

    /// The same as an iterator.
    pub(crate) fn frames_of(&self, class: u32) -> impl Iterator<Item = u32> + Clone {
        let occurrence = self.occurrences[self.classes[class as usize].first as usize];
        self.table.frames_of(occurrence.run, occurrence.stack)
    }

    pub(crate) fn value(&self, occurrence: Occurrence) -> u64 {
        value(&self.table, self.metric, occurrence)
    }

    /// The side that the occurrence's run represents, if it represents one.
    pub(crate) fn side(&self, occurrence: Occurrence) -> Option<Side> {
        let side = self.table.runs[occurrence.run as usize].side;
        (self.representative_runs[side as usize] == occurrence.run).then_some(side)
    }

    /// The sum of the classes' figures in each run, in the table's order.
    pub(crate) fn by_run(&self, classes: &[u32]) -> Vec<u64> {
        let mut counted = vec![0; self.table.runs.len()];
        for &class in classes {
            for &occurrence in self.occurrences(class) {
                counted[occurrence.run as usize] += self.value(occurrence);
            }
        }
        counted
    }

    /// Forms the classes from the occurrences, which are sorted by key.
    fn group(&mut self) {
        let mut counted = vec![0; self.table.runs.len()];
        let repeated = self.table.runs.len() > 2;
        for range in runs_of(&self.occurrences, |a, b| a.key == b.key) {
            let (mut before, mut after) = (0, 0);
            counted.fill(0);
            for &occurrence in &self.occurrences[range.clone()] {
                let value = self.value(occurrence);
                counted[occurrence.run as usize] += value;
                match self.side(occurrence) {
                    Some(Side::Before) => before += value,
                    Some(Side::After) => after += value,
                    None => {}
                }
            }
            if repeated {
                let [b, a] = self.spreads(&counted);
                if b.start == b.end && a.start == a.end {
                    self.deterministic += 1;
                } else {
                    self.jittering += 1;
                }
            }
            self.classes.push(Class {
                first: range.start as u32,
                end: range.end as u32,
                before,
                after,
            });
        }
    }

    /// The least and the largest figure of each side's runs.
    pub(crate) fn spreads(&self, counted: &[u64]) -> [Range<u64>; 2] {
        [Side::Before, Side::After].map(|side| {
            let of_side = || {
                let runs = self.table.runs.iter().zip(counted);
                runs.filter(move |(run, _)| run.side == side)
                    .map(|(_, &value)| value)
            };
            of_side().min().unwrap_or(0)..of_side().max().unwrap_or(0)
        })
    }
}

/// The ranges of consecutive equal items.
pub(crate) fn runs_of<T>(
    items: &[T],
    same: impl Fn(&T, &T) -> bool,
) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let first = items.get(start)?;
        let length = items[start..]
            .iter()
            .take_while(|item| same(first, item))
            .count();
        // Always at least one item, also for a relation that is not reflexive.
        let range = start..start + length.max(1);
        start = range.end;
        Some(range)
    })
}

fn value(table: &FrameTable<'_>, metric: Metric, occurrence: Occurrence) -> u64 {
    let set = table.runs[occurrence.run as usize].set;
    set.stacks[occurrence.stack as usize].figures[metric as usize]
}

/// The total of each run. Checked to fit an `i64`, so that all later sums and
/// differences fit too.
fn totals(table: &FrameTable<'_>, metric: Metric) -> Result<Vec<u64>, DiffError> {
    let mut position = [0, 0];
    let mut totals = Vec::with_capacity(table.runs.len());
    for run in &table.runs {
        position[run.side as usize] += 1;
        let figures = run
            .set
            .stacks
            .iter()
            .map(|stack| stack.figures[metric as usize]);
        let total = figures
            .map(u128::from)
            .sum::<u128>()
            .try_into()
            .ok()
            .filter(|&total: &u64| i64::try_from(total).is_ok());
        totals.push(total.ok_or_else(|| DiffError::TooLarge {
            side: run.side,
            run: position[run.side as usize],
            title: run.set.title.clone(),
        })?);
    }
    Ok(totals)
}

/// Every stack with a figure above 0, sorted by key.
fn occurrences(table: &FrameTable<'_>, metric: Metric) -> Result<Vec<Occurrence>, DiffError> {
    let counts = |stack: &&allotrope_profile::CountedStack| stack.figures[metric as usize] > 0;
    let number: usize = (table.runs.iter())
        .map(|run| run.set.stacks.iter().filter(counts).count())
        .sum();
    if u32::try_from(number).is_err() {
        return Err(DiffError::TooMany);
    }
    let mut occurrences = Vec::with_capacity(number);
    let (mut frames, mut names) = (Vec::new(), Vec::new());
    for (r, run) in (0..).zip(&table.runs) {
        for (s, stack) in (0..).zip(&run.set.stacks) {
            if !counts(&stack) {
                continue;
            }
            table.stack(r, s, &mut frames);
            reduce(table, &frames, MatchLevel::Exact, &mut names);
            occurrences.push(Occurrence {
                key: keys::hash(names.iter().copied()),
                run: r,
                stack: s,
            });
        }
    }
    occurrences
        .sort_unstable_by_key(|occurrence| (occurrence.key, occurrence.run, occurrence.stack));
    Ok(occurrences)
}

/// The run with the lower median total of each side. Among runs with equal
/// totals, the contents decide, so that the order of runs does not matter.
fn representative_runs(
    table: &FrameTable<'_>,
    metric: Metric,
    totals: &[u64],
    occurrences: &[Occurrence],
) -> [u32; 2] {
    let mut contents = vec![0_u64; table.runs.len()];
    for &occurrence in occurrences {
        // Linear in the figure: a stack that is listed in two parts counts as
        // one.
        let part = (occurrence.key as u64 | 1).wrapping_mul(value(table, metric, occurrence));
        let content = &mut contents[occurrence.run as usize];
        *content = content.wrapping_add(part);
    }
    [Side::Before, Side::After].map(|side| {
        let runs = (0..).zip(&table.runs);
        let mut of_side: Vec<u32> = runs
            .filter(|(_, run)| run.side == side)
            .map(|(r, _)| r)
            .collect();
        of_side.sort_by_key(|&run| (totals[run as usize], contents[run as usize]));
        of_side[(of_side.len() - 1) / 2]
    })
}
