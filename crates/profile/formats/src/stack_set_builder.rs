//! Builds a `StackSet` within a memory budget: each distinct frame once, each
//! distinct stack once with the sum of its figures.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

use allotrope_demangle::Demangler;
use allotrope_profile::{CountedStack, Metric, MetricSet, MetricValues, StackFrame, StackSet};
use hashbrown::HashTable;

use crate::budget::{Budget, check_depth};
use crate::error::Problem;

/// Approximate bytes of a frame or a stack in the tables, besides its own memory.
const ENTRY: usize = 48;

/// A stack set under construction.
///
/// Frames and stacks are stored once, in the lists of the finished set. The hash tables
/// contain only indexes into these lists, because a file may have millions of distinct
/// frames. The hashes are keyed at random: no file can be made to collide.
#[derive(Default)]
pub(crate) struct StackSetBuilder {
    pub budget: Budget,
    frames: Vec<StackFrame>,
    frame_indexes: HashTable<Entry>,
    /// Frames by source text, where it is the frame's function, as most are: a look-up is
    /// faster than parsing, and most lines repeat an earlier one.
    functions: HashTable<Entry>,
    /// Frames by other source texts.
    texts: HashMap<Box<str>, u32>,
    stacks: Vec<CountedStack>,
    stack_indexes: HashTable<Entry>,
    totals: MetricValues,
    hasher: RandomState,
}

/// Half a hash. An entry stores it, so that a table that grows does not read all
/// frames again.
#[derive(Clone, Copy, PartialEq, Eq)]
struct HalfHash(u32);

impl HalfHash {
    fn of(hasher: &RandomState, value: &(impl Hash + ?Sized)) -> Self {
        Self((hasher.hash_one(value) >> 32) as u32)
    }

    /// The hash that the tables use: they take the position from its low bits and a tag
    /// from its high ones. (Fibonacci hashing.)
    fn spread(self) -> u64 {
        u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// A frame or a stack, by its index.
struct Entry {
    hash: HalfHash,
    index: u32,
}

impl StackSetBuilder {
    /// An empty set that takes from this budget.
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            ..Self::default()
        }
    }

    /// The index of a frame.
    pub fn frame(&mut self, frame: StackFrame) -> Result<u32, Problem> {
        let text =
            frame.function.len() + frame.signature.len() + frame.module.len() + frame.file.len();
        // In some formats a few bytes refer to a long text.
        self.budget.take_text(text)?;
        let hash = HalfHash::of(&self.hasher, &frame);
        let is_this =
            |entry: &Entry| entry.hash == hash && self.frames[entry.index as usize] == frame;
        if let Some(entry) = self.frame_indexes.find(hash.spread(), is_this) {
            return Ok(entry.index);
        }
        self.budget.take(size_of::<StackFrame>() + ENTRY + text)?;
        let index = index_of(self.frames.len(), "frames")?;
        self.frames.push(frame);
        insert(&mut self.frame_indexes, Entry { hash, index });
        Ok(index)
    }

    /// The index of the frame with this text; `parse` is called for a new one.
    pub fn frame_of_text(
        &mut self,
        text: &str,
        parse: impl FnOnce(&Demangler, &str) -> StackFrame,
    ) -> Result<u32, Problem> {
        let hash = HalfHash::of(&self.hasher, text);
        let is_this = |entry: &Entry| {
            entry.hash == hash && &*self.frames[entry.index as usize].function == text
        };
        if let Some(entry) = self.functions.find(hash.spread(), is_this) {
            return Ok(entry.index);
        }
        if let Some(index) = self.texts.get(text) {
            return Ok(*index);
        }
        let index = self.frame(parse(self.budget.names(), text))?;
        if &*self.frames[index as usize].function == text {
            self.budget.take(ENTRY)?;
            insert(&mut self.functions, Entry { hash, index });
        } else {
            self.budget.take(ENTRY + text.len())?;
            self.texts.insert(text.into(), index);
        }
        Ok(index)
    }

    /// Adds figures to a stack, innermost frame first.
    pub fn add(&mut self, frames: &[u32], figures: &MetricValues) -> Result<(), Problem> {
        // The sums of single stacks cannot overflow if the totals do not.
        for (total, figure) in self.totals.iter_mut().zip(figures) {
            *total = total.checked_add(*figure).ok_or(Problem::CountsOverflow)?;
        }
        self.budget.take_frames(frames.len())?;
        let index = self.stack(frames)?;
        for (sum, figure) in self.stacks[index].figures.iter_mut().zip(figures) {
            *sum += figure;
        }
        Ok(())
    }

    /// Adds one figure to a stack.
    pub fn add_one(&mut self, frames: &[u32], metric: Metric, figure: u64) -> Result<(), Problem> {
        let mut figures = MetricValues::default();
        figures[metric as usize] = figure;
        self.add(frames, &figures)
    }

    fn stack(&mut self, frames: &[u32]) -> Result<usize, Problem> {
        let hash = HalfHash::of(&self.hasher, frames);
        let is_this = |entry: &Entry| {
            entry.hash == hash && *self.stacks[entry.index as usize].frames == *frames
        };
        if let Some(entry) = self.stack_indexes.find(hash.spread(), is_this) {
            return Ok(entry.index as usize);
        }
        check_depth(frames.len())?;
        self.budget
            .take(size_of_val(frames) + size_of::<CountedStack>() + ENTRY)?;
        let index = index_of(self.stacks.len(), "stacks")?;
        self.stacks.push(CountedStack {
            frames: frames.into(),
            figures: MetricValues::default(),
            maximum: None,
        });
        insert(&mut self.stack_indexes, Entry { hash, index });
        Ok(index as usize)
    }

    /// The finished set, with frames and stacks in the order of their first
    /// use.
    pub fn finish(self, title: String, known: MetricSet) -> StackSet {
        StackSet {
            title,
            frames: self.frames,
            stacks: self.stacks,
            known,
            ..StackSet::default()
        }
    }
}

fn insert(table: &mut HashTable<Entry>, entry: Entry) {
    table.insert_unique(entry.hash.spread(), entry, |entry| entry.hash.spread());
}

fn index_of(length: usize, what: &'static str) -> Result<u32, Problem> {
    u32::try_from(length).map_err(|_| Problem::TooMuch {
        what,
        limit: u64::from(u32::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(function: &str) -> StackFrame {
        StackFrame {
            function: function.into(),
            ..StackFrame::default()
        }
    }

    #[test]
    fn frames_and_stacks_are_stored_once() {
        let mut builder = StackSetBuilder::default();
        let f = builder.frame(named("f")).unwrap();
        let g = builder.frame_of_text("g", |_, text| named(text)).unwrap();
        assert_eq!(
            builder.frame_of_text("g", |_, _| unreachable!()).unwrap(),
            g
        );
        assert_eq!(builder.frame(named("f")).unwrap(), f);
        for (stack, count) in [(vec![f, g], 3), (vec![g], 5), (vec![f, g], 4)] {
            builder.add_one(&stack, Metric::Allocations, count).unwrap();
        }
        let set = builder.finish(String::new(), MetricSet::default());
        assert_eq!(set.frames, [named("f"), named("g")]);
        let counts: Vec<_> = set
            .stacks
            .iter()
            .map(|s| (&*s.frames, s.figures[0]))
            .collect();
        assert_eq!(counts, [(&[f, g][..], 3 + 4), (&[g][..], 5)]);
    }

    #[test]
    fn sums_beyond_64_bits_are_refused() {
        let mut builder = StackSetBuilder::default();
        builder.add_one(&[], Metric::Allocations, u64::MAX).unwrap();
        assert!(matches!(
            builder.add_one(&[0], Metric::Allocations, 1),
            Err(Problem::CountsOverflow)
        ));
    }
}
