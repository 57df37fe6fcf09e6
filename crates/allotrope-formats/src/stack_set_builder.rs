//! Builds a `StackSet` within a memory budget: each distinct frame once, each
//! distinct stack once with the sum of its figures.

use std::collections::HashMap;

use allotrope_profile::{CountedStack, Metric, MetricSet, MetricValues, StackFrame, StackSet};
use rustc_hash::FxHashMap;

use crate::budget::{Budget, check_depth};
use crate::error::Problem;

/// Approximate bytes of a map entry besides its text.
const ENTRY: usize = 64;

/// A stack set under construction.
#[derive(Default)]
pub(crate) struct StackSetBuilder {
    pub budget: Budget,
    frames: HashMap<StackFrame, u32>,
    /// Frame indexes by source text: a look-up is faster than parsing, and most
    /// lines repeat an earlier one.
    texts: HashMap<Box<str>, u32>,
    stacks: FxHashMap<Box<[u32]>, u32>,
    figures: Vec<MetricValues>,
    totals: MetricValues,
}

impl StackSetBuilder {
    /// The index of a frame.
    pub fn frame(&mut self, frame: StackFrame) -> Result<u32, Problem> {
        if let Some(index) = self.frames.get(&frame) {
            return Ok(*index);
        }
        let text =
            frame.function.len() + frame.signature.len() + frame.module.len() + frame.file.len();
        self.budget.take(size_of::<StackFrame>() + ENTRY + text)?;
        let index = index_of(self.frames.len(), "frames")?;
        self.frames.insert(frame, index);
        Ok(index)
    }

    /// The index of the frame with this text; `parse` is called for a new one.
    pub fn frame_of_text(
        &mut self,
        text: &str,
        parse: impl FnOnce(&str) -> StackFrame,
    ) -> Result<u32, Problem> {
        if let Some(index) = self.texts.get(text) {
            return Ok(*index);
        }
        let index = self.frame(parse(text))?;
        self.budget.take(ENTRY + text.len())?;
        self.texts.insert(text.into(), index);
        Ok(index)
    }

    /// Adds figures to a stack, innermost frame first.
    pub fn add(&mut self, frames: &[u32], figures: &MetricValues) -> Result<(), Problem> {
        // The sums of single stacks cannot overflow if the totals do not.
        for (total, figure) in self.totals.iter_mut().zip(figures) {
            *total = total.checked_add(*figure).ok_or(Problem::CountsOverflow)?;
        }
        let index = self.stack(frames)?;
        for (sum, figure) in self.figures[index].iter_mut().zip(figures) {
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
        if let Some(index) = self.stacks.get(frames) {
            return Ok(*index as usize);
        }
        check_depth(frames.len())?;
        self.budget
            .take(size_of_val(frames) + size_of::<MetricValues>() + ENTRY)?;
        let index = index_of(self.figures.len(), "stacks")?;
        self.stacks.insert(frames.into(), index);
        self.figures.push(MetricValues::default());
        Ok(index as usize)
    }

    /// The finished set, with frames and stacks in the order of their first
    /// use.
    pub fn finish(self, title: String, known: MetricSet) -> StackSet {
        drop(self.texts);
        let mut frames = vec![StackFrame::default(); self.frames.len()];
        for (frame, index) in self.frames {
            frames[index as usize] = frame;
        }
        let mut stacks: Vec<CountedStack> = self
            .figures
            .into_iter()
            .map(|figures| CountedStack {
                frames: Box::default(),
                figures,
            })
            .collect();
        for (frames, index) in self.stacks {
            stacks[index as usize].frames = frames;
        }
        StackSet {
            title,
            frames,
            stacks,
            known,
        }
    }
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
        let g = builder.frame_of_text("g", named).unwrap();
        assert_eq!(builder.frame_of_text("g", |_| unreachable!()).unwrap(), g);
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
