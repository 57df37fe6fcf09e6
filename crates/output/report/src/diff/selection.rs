//! The entries of a comparison that are shown, and their sums.

use allotrope_diff::{Diff, Entry, Kind};
use allotrope_profile::{Filter, StackSet};

/// Which entries to show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Filter: only entries with a stack that has a frame that
    /// [matches](allotrope_profile::Filter::matches).
    pub filter: Option<Filter>,
    /// Smallest difference of the entries that are shown. Sums include the
    /// hidden entries.
    pub min: u64,
    /// Show the stacks of entries that were only moved or renamed.
    pub expand: bool,
}

/// The sums of some entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of entries.
    pub entries: u64,
    /// Figures of the entries before.
    pub before: u64,
    /// Figures of the entries after.
    pub after: u64,
}

impl Sum {
    /// Returns the figures after minus those before.
    pub fn difference(&self) -> i64 {
        self.after as i64 - self.before as i64
    }

    fn add(&mut self, entry: &Entry) {
        self.entries += 1;
        self.before += entry.before;
        self.after += entry.after;
    }
}

impl Selection {
    /// The entries that match, large and small, in their order.
    pub fn matching<'a>(&self, diff: &'a Diff) -> Vec<&'a Entry> {
        let Some(filter) = &self.filter else {
            return diff.entries.iter().collect();
        };
        let wanted = diff.frames.iter().map(|frame| filter.selects(frame));
        let wanted: Vec<bool> = wanted.collect();
        let has = |frames: &[u32]| frames.iter().any(|&frame| wanted[frame as usize]);
        let in_entry = |entry: &&Entry| {
            entry
                .stacks
                .iter()
                .any(|stack| has(&stack.frames) || stack.frames_before.as_deref().is_some_and(has))
        };
        diff.entries.iter().filter(in_entry).collect()
    }

    /// The sum of the differences of the matching entries, jitter excluded.
    pub fn rise(&self, diff: &Diff) -> i64 {
        let entries = self.matching(diff).into_iter();
        entries
            .filter(|entry| entry.kind != Kind::Jitter)
            .map(|entry| entry.difference)
            .sum()
    }

    /// The sum of the figures before the change of all matching stacks, changed or not.
    /// `runs` are those before the change; 0 if none of them has the total of the diff.
    pub fn before(&self, diff: &Diff, runs: &[StackSet]) -> u64 {
        let Some(filter) = &self.filter else {
            return diff.before;
        };
        let representative = runs
            .iter()
            .find(|run| run.total(diff.metric) == diff.before);
        let Some(run) = representative else {
            return 0;
        };
        let wanted = run.frames.iter().map(|frame| filter.selects(frame));
        let wanted: Vec<bool> = wanted.collect();
        let has = |frames: &[u32]| {
            let mut frames = frames.iter();
            frames.any(|&frame| wanted.get(frame as usize) == Some(&true))
        };
        let stacks = run.stacks.iter().filter(|stack| has(&stack.frames));
        stacks
            .map(|stack| stack.figures[diff.metric as usize])
            .sum()
    }

    /// Whether an entry is large enough to be shown.
    pub(super) fn shows(&self, entry: &Entry) -> bool {
        let size = match entry.kind {
            Kind::Moved => entry.before,
            _ => entry.difference.unsigned_abs(),
        };
        size >= self.min
    }
}

/// The sums of the entries of one kind.
pub(super) fn sum_of(entries: &[&Entry], kind: Kind) -> Sum {
    sum(entries.iter().copied().filter(|entry| entry.kind == kind))
}

/// The sums of entries.
pub fn sum<'a>(entries: impl Iterator<Item = &'a Entry>) -> Sum {
    let mut sum = Sum::default();
    entries.for_each(|entry| sum.add(entry));
    sum
}
