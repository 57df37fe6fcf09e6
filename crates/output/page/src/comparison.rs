//! The comparison of two recordings as the columns of a page: the entries of
//! `allotrope-diff` as they are, with their stacks, for each metric that was compared; the
//! stacks that are the same, for the flame graph; and the curves of both sides. The page
//! matches nothing itself. `docs/page-data.md` describes the columns; whoever changes them
//! raises the version there.

mod curves;
mod frames;
mod meta;

use allotrope_attribution::Glue;
use allotrope_diff::{Diff, Entry, EntryStack, Kind};
use allotrope_profile::{CountedStack, Filter, Profile, Stack, StackSet};
use allotrope_report::diff::flame::{compared_run, unchanged_stacks};
use allotrope_report::diff::{Selection, Sum, sentences, sum};
use rustc_hash::FxHashMap;

use crate::columns::Columns;
use crate::fit::fit_with;
use crate::names::Names;
use crate::stacks::Trie;
use frames::Frames;

/// What a page of a comparison is made of.
pub struct Comparison<'a> {
    /// The comparisons of the same sides by one or more metrics. The page opens with the
    /// first one.
    pub diffs: &'a [Diff],
    /// What was before, and what is after.
    pub sides: [ComparedSide<'a>; 2],
    /// Which frames are not the user's own.
    pub glue: &'a Glue,
    /// Filter of the entries: only those that match it are on the page.
    pub filter: Option<&'a Filter>,
    /// What limits the figures, a sentence each.
    pub notes: &'a [String],
}

/// A side of a comparison.
pub struct ComparedSide<'a> {
    /// The names of its files.
    pub titles: &'a [String],
    /// The stacks of its runs, as they were compared.
    pub sets: &'a [StackSet],
    /// The recording whose curve is shown, if there is one.
    pub profile: Option<&'a Profile>,
}

/// What is compressed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Sentences, totals, curves.
    Comparison,
    /// Names and frames.
    Names,
    /// The trie of stacks.
    Stacks,
    /// Entries and their stacks.
    Entries,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Comparison => "comparison",
            Self::Names => "names",
            Self::Stacks => "stacks",
            Self::Entries => "entries",
        }
    }
}

/// How much of each comparison is encoded.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Entries, the first ones.
    entries: usize,
    /// Stacks of these entries, the first ones.
    stacks: usize,
    /// Stacks that are the same, the heaviest.
    same: usize,
    /// Characters of a name.
    characters: usize,
}

/// Number of characters below which names are not cut while there are stacks to leave out.
const SHORT_NAME: usize = 200;
/// Names are not cut below this.
const MIN_NAME: usize = 40;
/// Entries and stacks that stay in any case.
const MIN: usize = 100;

impl Limits {
    /// Limits of what a browser can be expected to show.
    const FIRST: Self = Self {
        entries: 100_000,
        stacks: 200_000,
        same: 20_000,
        characters: 10_000,
    };

    /// Halves what there may be of a part; false: there cannot be less.
    fn halve(&mut self, part: Part) -> bool {
        let (limit, least) = match part {
            Part::Comparison => return false,
            Part::Names if self.characters > SHORT_NAME => (&mut self.characters, SHORT_NAME),
            _ if self.same > MIN && self.same * 4 > self.stacks => (&mut self.same, MIN),
            _ if self.stacks > MIN => (&mut self.stacks, MIN),
            Part::Entries if self.entries > MIN => (&mut self.entries, MIN),
            _ if self.characters > MIN_NAME => (&mut self.characters, MIN_NAME),
            _ => (&mut self.entries, MIN),
        };
        let can = *limit > least;
        *limit = (*limit / 2).max(least);
        can
    }
}

/// The parts in base64 with their names, together at most so many bytes.
pub fn parts(comparison: &Comparison<'_>, most: usize) -> Vec<(&'static str, String)> {
    let selected: Vec<Selected<'_>> = comparison
        .diffs
        .iter()
        .map(|diff| Selected::of(comparison, diff))
        .collect();
    let parts = fit_with(
        Limits::FIRST,
        |limits| encode(comparison, &selected, limits),
        Limits::halve,
        most,
    );
    let named = parts.into_iter().map(|(part, data)| (part.name(), data));
    named.collect()
}

/// What the page shows of one comparison.
struct Selected<'a> {
    diff: &'a Diff,
    /// Entries in the order of the comparison.
    entries: Vec<&'a Entry>,
    /// The run that has the stacks that are the same, and those, the heaviest first.
    run: Option<&'a StackSet>,
    same: Vec<&'a CountedStack>,
    /// Totals of the entries with a filter, else of the sides.
    before: u64,
    after: u64,
}

impl<'a> Selected<'a> {
    fn of(comparison: &Comparison<'a>, diff: &'a Diff) -> Self {
        let selection = Selection {
            filter: comparison.filter.cloned(),
            ..Selection::default()
        };
        let entries = selection.matching(diff);
        let [_, after] = &comparison.sides;
        let run = compared_run(after.sets, diff.metric, diff.after);
        let same = run.map(|run| unchanged_stacks(diff, run, comparison.filter));
        let mut same = same.unwrap_or_default();
        same.sort_by_key(|it| std::cmp::Reverse(it.figures[diff.metric as usize]));
        let (before, after) = match comparison.filter {
            None => (diff.before, diff.after),
            Some(_) => {
                let sum = sum(entries.iter().copied());
                (sum.before, sum.after)
            }
        };
        Self {
            diff,
            entries,
            run,
            same,
            before,
            after,
        }
    }
}

/// What the page does not have of one comparison.
#[derive(Default, serde::Serialize)]
struct LeftOut {
    /// Entries that are not in it, and their sums.
    entries: u64,
    before: u64,
    after: u64,
    /// Stacks of its entries that are not in it.
    stacks: u64,
    /// Stacks that are the same and not in it.
    same: u64,
}

fn encode(
    comparison: &Comparison<'_>,
    selected: &[Selected<'_>],
    limits: &Limits,
) -> Vec<(Part, Columns)> {
    let mut names = Names::with_at_most(limits.characters);
    let mut frames = Frames::new(comparison.glue);
    let mut stacks = Stacks::default();
    let mut entries = EntryColumns::default();
    let mut left_out = Vec::new();
    for one in selected {
        left_out.push(entries.add(one, limits, &mut frames, &mut stacks, &mut names));
    }
    let mut trie_columns = Columns::default();
    let trie = Trie::new(&stacks.list.iter().collect::<Vec<_>>());
    trie_columns.numbers("node.frame", trie.frames.iter().map(|&it| it.into()));
    trie_columns.numbers("node.up", trie.up.iter().copied());
    trie_columns.differences("stack.node", trie.nodes.iter().map(|&it| it.into()));
    let shown: Vec<[u64; 2]> = (stacks.list.iter().map(|it| frames.shown(it))).collect();
    trie_columns.numbers("stack.headline", shown.iter().map(|it| it[0]));
    trie_columns.numbers("stack.first_shown", shown.iter().map(|it| it[1]));
    let mut name_columns = Columns::default();
    frames.encode(&mut name_columns, &mut names);
    let mut comparison_columns = Columns::default();
    curves::encode(&mut comparison_columns, &comparison.sides);
    let text = meta::meta(comparison, selected, left_out, names.cut());
    comparison_columns.bytes("meta", text.into_bytes());
    name_columns.bytes("names", names.into_bytes());
    vec![
        (Part::Comparison, comparison_columns),
        (Part::Names, name_columns),
        (Part::Stacks, trie_columns),
        (Part::Entries, entries.columns()),
    ]
}

/// The stacks of the page, each once. Several comparisons share them.
#[derive(Default)]
struct Stacks {
    numbers: FxHashMap<Vec<u32>, u64>,
    list: Vec<Stack>,
}

impl Stacks {
    /// The number of a stack of the page's frames, innermost first.
    fn number(&mut self, frames: Vec<u32>) -> u64 {
        let next = self.list.len() as u64;
        if let Some(&number) = self.numbers.get(&frames) {
            return number;
        }
        self.list.push(Stack::from(frames.clone()));
        self.numbers.insert(frames, next);
        next
    }
}

/// The columns of entries, and of their stacks, of all comparisons one after the other.
#[derive(Default)]
struct EntryColumns {
    columns: std::collections::BTreeMap<&'static str, Vec<u64>>,
}

impl EntryColumns {
    fn push(&mut self, column: &'static str, value: u64) {
        self.columns.entry(column).or_default().push(value);
    }

    /// Adds a comparison; returns what of it there is no room for.
    fn add<'a>(
        &mut self,
        one: &Selected<'a>,
        limits: &Limits,
        frames: &mut Frames<'a>,
        stacks: &mut Stacks,
        names: &mut Names,
    ) -> LeftOut {
        let diff = one.diff;
        let mut of_diff = frames.of(&diff.frames);
        let mut left_out = LeftOut::default();
        let (shown, rest) = one.entries.split_at(limits.entries.min(one.entries.len()));
        let Sum {
            entries,
            before,
            after,
        } = sum(rest.iter().copied());
        (left_out.entries, left_out.before, left_out.after) = (entries, before, after);
        let mut room = limits.stacks;
        self.push("comparison.entries", shown.len() as u64);
        for entry in shown {
            self.push("entry.kind", kind_number(entry.kind));
            self.push("entry.before", entry.before);
            self.push("entry.after", entry.after);
            // To a millionth, which is more than anybody can be certain of.
            let confidence = (entry.confidence.clamp(0.0, 1.0) * 1e6).round();
            self.push("entry.confidence", confidence as u64);
            self.push("entry.blame", of_diff.number(frames, entry.blame));
            let differs = entry.differs.map(|it| [it.before, it.after]);
            let columns = ["entry.was", "entry.is"];
            for (column, frame) in columns.into_iter().zip(differs.unwrap_or_default()) {
                let number = frame.map_or(0, |frame| of_diff.number(frames, frame) + 1);
                self.push(column, number);
            }
            let sentences = sentences(diff, entry);
            self.push("entry.sentences", sentences.len() as u64);
            for sentence in &sentences {
                self.push("sentence.text", names.number(sentence));
            }
            let kept = entry.stacks.len().min(room);
            room -= kept;
            left_out.stacks += (entry.stacks.len() - kept) as u64;
            self.push("entry.all_stacks", entry.stacks.len() as u64);
            self.push("entry.stacks", kept as u64);
            for stack in &entry.stacks[..kept] {
                let mut number =
                    |of: &[u32]| stacks.number(of_diff.stack(frames, of.iter().copied()));
                self.add_stack(stack, &mut number);
            }
        }
        let same = &one.same[..limits.same.min(one.same.len())];
        left_out.same = (one.same.len() - same.len()) as u64;
        let mut of_run = frames.of(one.run.map_or(&[], |run| &run.frames));
        self.push("comparison.same", same.len() as u64);
        for stack in same {
            let of_page = of_run.stack(frames, stack.frames.iter().copied());
            self.push("same.stack", stacks.number(of_page));
            self.push("same.figure", stack.figures[diff.metric as usize]);
        }
        left_out
    }

    fn add_stack(&mut self, stack: &EntryStack, number: &mut dyn FnMut(&[u32]) -> u64) {
        self.push("part.before", stack.before);
        self.push("part.after", stack.after);
        self.push("part.stack", number(&stack.frames));
        let before = stack.frames_before.as_ref();
        self.push("part.was", before.map_or(0, |frames| number(frames) + 1));
    }

    fn columns(self) -> Columns {
        let mut columns = Columns::default();
        for (name, values) in self.columns {
            columns.numbers(name, values);
        }
        columns
    }
}

fn kind_number(kind: Kind) -> u64 {
    match kind {
        Kind::New => 0,
        Kind::Gone => 1,
        Kind::Changed => 2,
        Kind::Moved => 3,
        Kind::Jitter => 4,
    }
}

#[cfg(test)]
mod tests;
