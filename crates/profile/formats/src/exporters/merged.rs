//! Merges stacks that are equal in the target format. A format with less
//! information in its frames would otherwise contain a stack several times,
//! which DHAT's viewer refuses.

use std::hash::BuildHasher;

use allotrope_profile::{CountedStack, StackFrame, StackSet};
use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashMap};

/// The distinct texts, and the stacks of indexes into them, in the order of the
/// set.
pub(super) struct Merged {
    pub texts: Vec<String>,
    /// Stacks whose frames are indexes into `texts`.
    pub stacks: Vec<CountedStack>,
}

impl Merged {
    /// Merges stacks by the text that `text` returns for each frame.
    pub fn by(set: &StackSet, text: impl Fn(&StackFrame) -> String) -> Self {
        let mut texts = Texts::default();
        let indexes: Vec<u32> = set
            .frames
            .iter()
            .map(|frame| texts.index(text(frame)))
            .collect();
        let stacks = set.stacks.iter().map(|stack| {
            let frames = stack.frames.iter().map(|frame| indexes[*frame as usize]);
            with_frames(stack, frames.collect())
        });
        let stacks = merge(stacks);
        Self {
            texts: texts.list,
            stacks,
        }
    }
}

/// The stack with other frames.
pub(super) fn with_frames(stack: &CountedStack, frames: Box<[u32]>) -> CountedStack {
    CountedStack {
        frames,
        figures: stack.figures,
        maximum: stack.maximum,
    }
}

/// Sums the figures of equal stacks.
pub(super) fn merge(stacks: impl Iterator<Item = CountedStack>) -> Vec<CountedStack> {
    let mut indexes: FxHashMap<Box<[u32]>, usize> = FxHashMap::default();
    let mut merged: Vec<CountedStack> = Vec::new();
    for mut stack in stacks {
        let frames = std::mem::take(&mut stack.frames);
        let index = *indexes.entry(frames).or_insert(merged.len());
        match merged.get_mut(index) {
            None => merged.push(stack),
            Some(sum) => {
                for (sum, figure) in sum.figures.iter_mut().zip(stack.figures) {
                    *sum = sum.saturating_add(figure);
                }
                sum.maximum = None;
            }
        }
    }
    for (frames, index) in indexes {
        merged[index].frames = frames;
    }
    merged
}

/// Distinct texts, each with an index: a list, and a hash table of indexes into it.
#[derive(Default)]
pub(super) struct Texts {
    indexes: HashTable<u32>,
    pub list: Vec<String>,
}

impl Texts {
    /// The index of a text.
    pub fn index(&mut self, text: String) -> u32 {
        let hash = |text: &str| FxBuildHasher.hash_one(text);
        let is_this = |index: &u32| self.list[*index as usize] == text;
        if let Some(index) = self.indexes.find(hash(&text), is_this) {
            return *index;
        }
        let index =
            u32::try_from(self.list.len()).expect("as many texts as frames, which u32 counts");
        let new = hash(&text);
        self.list.push(text);
        self.indexes
            .insert_unique(new, index, |index| hash(&self.list[*index as usize]));
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allotrope_profile::{Maximum, MetricValues};

    #[test]
    fn stacks_with_equal_texts_are_merged() {
        let frame = |function: &str, line| StackFrame {
            function: function.into(),
            line,
            ..StackFrame::default()
        };
        let stack = |frames: &[u32], count| {
            let mut figures = MetricValues::default();
            figures[0] = count;
            CountedStack {
                frames: frames.into(),
                figures,
                maximum: Some(Maximum::default()),
            }
        };
        let set = StackSet {
            frames: vec![frame("f", 1), frame("g", 1), frame("f", 2)],
            stacks: vec![stack(&[0, 1], 3), stack(&[1], 5), stack(&[2, 1], 4)],
            ..StackSet::default()
        };
        let merged = Merged::by(&set, |frame| frame.function.to_string());
        assert_eq!(merged.texts, ["f", "g"]);
        let counts = merged.stacks.iter().map(|s| (&*s.frames, s.figures[0]));
        let counts: Vec<_> = counts.collect();
        assert_eq!(counts, [(&[0, 1][..], 3 + 4), (&[1][..], 5)]);
        // Each of two has its maximum at a time of its own.
        let known = merged.stacks.iter().map(|stack| stack.maximum.is_some());
        assert_eq!(known.collect::<Vec<_>>(), [false, true]);
    }
}
