//! Finds what differs between the runs of one case: numbers, stacks and
//! threads. A fluctuating number is a bad budget; its stacks show the cause.

use std::collections::BTreeMap;

use allotrope_attribution::{Glue, Heads};
use allotrope_profile::{Metric, MetricValues, StackFrame};
use rustc_hash::FxHashMap;

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::configuration::Protocol;

/// The largest number of stacks and threads that are listed.
const MAX_LISTED: usize = 5;

/// A number that differs between runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fluctuation {
    /// The metric.
    pub metric: Metric,
    /// Minimum and maximum of the number.
    pub range: [i64; 2],
    /// The stacks with the largest range: minimum and maximum, frames innermost
    /// first, from the user's own on.
    pub stacks: Vec<([u64; 2], Vec<StackFrame>)>,
    /// The number of fluctuating stacks that are not listed.
    pub more_stacks: usize,
    /// The minimum and maximum allocations of each fluctuating thread, by name.
    pub threads: Vec<([u64; 2], String)>,
}

/// The metrics that differ between runs.
pub fn fluctuations(case: &Case, protocol: &Protocol) -> Vec<Fluctuation> {
    let fluctuating = protocol.gate.iter().filter_map(|&metric| {
        let spread = case.spread(metric).filter(|spread| !spread.is_exact())?;
        Some((metric, [spread.least, spread.most]))
    });
    let fluctuating: Vec<_> = fluctuating.collect();
    if fluctuating.is_empty() {
        return Vec::new();
    }
    let all = AllStacks::new(&case.runs, &protocol.glue);
    fluctuating
        .into_iter()
        .map(|(metric, range)| {
            let mut stacks = all.fluctuating(metric);
            let more_stacks = stacks.len().saturating_sub(MAX_LISTED);
            stacks.truncate(MAX_LISTED);
            let mut threads = threads(&case.runs);
            threads.truncate(MAX_LISTED);
            Fluctuation {
                metric,
                range,
                stacks: stacks
                    .into_iter()
                    .map(|(range, frames)| (range, frames.into_iter().cloned().collect()))
                    .collect(),
                more_stacks,
                threads,
            }
        })
        .collect()
}

/// The stacks of all runs, from the user's own frame on.
struct AllStacks<'a> {
    runs: usize,
    /// The frames of all runs, each once.
    frames: Vec<&'a StackFrame>,
    /// Parts of each stack (indexes into `frames`), each with its run and its figures.
    stacks: FxHashMap<Vec<u32>, Vec<(usize, &'a MetricValues)>>,
}

impl<'a> AllStacks<'a> {
    fn new(case_runs: &'a [CaseRun], glue: &Glue) -> Self {
        let mut all = Self {
            runs: case_runs.len(),
            frames: Vec::new(),
            stacks: FxHashMap::default(),
        };
        // Whose code a frame is takes long to decide, and stacks share most frames.
        let mut codes = Vec::new();
        let mut numbers: FxHashMap<&StackFrame, u32> = FxHashMap::default();
        for (run, sample) in case_runs.iter().enumerate() {
            let set = &sample.stacks;
            let numbered: Vec<u32> = (set.frames.iter())
                .map(|frame| {
                    *numbers.entry(frame).or_insert_with(|| {
                        all.frames.push(frame);
                        codes.push(glue.code_of(frame));
                        all.frames.len() as u32 - 1
                    })
                })
                .collect();
            for stack in &set.stacks {
                let frames = stack.frames.iter();
                let frames = frames.filter_map(|&frame| numbered.get(frame as usize).copied());
                let mut frames: Vec<u32> = frames.collect();
                let of_stack = frames.iter().map(|&frame| codes[frame as usize]);
                frames.drain(..Heads::of(of_stack).first_shown as usize);
                let parts = all.stacks.entry(frames).or_default();
                parts.push((run, &stack.figures));
            }
        }
        all
    }

    /// The stacks whose metric differs between runs, with its range; the largest range
    /// first.
    fn fluctuating(&self, metric: Metric) -> Vec<([u64; 2], Vec<&'a StackFrame>)> {
        let Some(metric) = metric.of_stacks() else {
            return Vec::new();
        };
        let differing = self.stacks.iter().filter_map(|(stack, parts)| {
            let mut figures = vec![0; self.runs];
            for (run, values) in parts {
                figures[*run] += values[metric as usize];
            }
            let range = range_of(&figures)?;
            let frames = stack.iter().map(|&frame| self.frames[frame as usize]);
            Some((range, frames.collect()))
        });
        sorted(differing.collect())
    }
}

fn threads(case_runs: &[CaseRun]) -> Vec<([u64; 2], String)> {
    let mut by_name: BTreeMap<&String, Vec<u64>> = BTreeMap::new();
    for (run, sample) in case_runs.iter().enumerate() {
        for (name, allocations) in &sample.threads {
            by_name
                .entry(name)
                .or_insert_with(|| vec![0; case_runs.len()])[run] += allocations;
        }
    }
    let differing = by_name
        .into_iter()
        .filter_map(|(name, figures)| Some((range_of(&figures)?, name.clone())));
    sorted(differing.collect())
}

/// The least and the most of the figures of all runs; `None` if they are equal.
fn range_of(figures: &[u64]) -> Option<[u64; 2]> {
    let range = [*figures.iter().min()?, *figures.iter().max()?];
    (range[0] < range[1]).then_some(range)
}

/// Sorts by range, the largest first.
fn sorted<T: Ord>(mut ranges: Vec<([u64; 2], T)>) -> Vec<([u64; 2], T)> {
    ranges.sort_by(|(a, x), (b, y)| (b[1] - b[0]).cmp(&(a[1] - a[0])).then_with(|| x.cmp(y)));
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use allotrope_profile::{CountedStack, StackSet};

    fn sample(stacks: &[(&str, u64)]) -> CaseRun {
        let mut set = StackSet::default();
        for (index, (name, allocations)) in stacks.iter().enumerate() {
            set.frames.push(StackFrame {
                function: (*name).into(),
                ..StackFrame::default()
            });
            let mut figures = MetricValues::default();
            figures[Metric::Allocations as usize] = *allocations;
            let frames = Box::new([index as u32]);
            set.stacks.push(CountedStack {
                frames,
                figures,
                maximum: None,
            });
        }
        let mut sample = CaseRun {
            stacks: set,
            threads: [("worker".to_owned(), stacks.iter().map(|s| s.1).sum())].into(),
            ..CaseRun::default()
        };
        let all: u64 = stacks.iter().map(|stack| stack.1).sum();
        sample.figures[Metric::Allocations as usize] = Some(all as i64);
        sample.figures[Metric::Bytes as usize] = Some(7);
        sample
    }

    #[test]
    fn the_stacks_and_threads_that_fluctuate_are_named() {
        let case = Case {
            name: "x".into(),
            runs: vec![
                sample(&[("steady", 10), ("sometimes", 3), ("often", 1)]),
                sample(&[("often", 9), ("steady", 10)]),
            ],
        };
        let protocol = Protocol {
            gate: vec![Metric::Bytes, Metric::Allocations],
            ..Protocol::default()
        };
        let [found] = &fluctuations(&case, &protocol)[..] else {
            panic!("only the allocations fluctuate");
        };
        assert_eq!((found.metric, found.range), (Metric::Allocations, [14, 19]));
        let stacks: Vec<_> = found
            .stacks
            .iter()
            .map(|(range, frames)| (*range, &*frames[0].function))
            .collect();
        assert_eq!(stacks, [([1, 9], "often"), ([0, 3], "sometimes")]);
        assert_eq!(found.threads, [([14, 19], "worker".to_owned())]);
    }
}
