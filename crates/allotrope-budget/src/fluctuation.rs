//! Finds what differs between the runs of one case: numbers, stacks and
//! threads. A fluctuating number is a bad budget; its stacks show the cause.

use std::collections::BTreeMap;

use allotrope_profile::StackFrame;
use rustc_hash::FxHashMap;

use crate::configuration::Protocol;
use crate::measure::Case;
use crate::sample::Sample;
use allotrope_diff::Glue;
use allotrope_profile::Metric;

/// The largest number of stacks and threads that are listed.
const MAX_LISTED: usize = 5;

/// A number that differs between runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fluctuation {
    /// The metric.
    pub metric: Metric,
    /// Its minimum and maximum.
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
    fluctuating
        .map(|(metric, range)| {
            let mut stacks = stacks(&case.samples, metric, &protocol.glue);
            let more_stacks = stacks.len().saturating_sub(MAX_LISTED);
            stacks.truncate(MAX_LISTED);
            let mut threads = threads(&case.samples);
            threads.truncate(MAX_LISTED);
            Fluctuation {
                metric,
                range,
                stacks,
                more_stacks,
                threads,
            }
        })
        .collect()
}

fn stacks(samples: &[Sample], metric: Metric, glue: &Glue) -> Vec<([u64; 2], Vec<StackFrame>)> {
    let Some(of_stacks) = metric.of_stacks() else {
        return Vec::new();
    };
    let mut by_stack: FxHashMap<Vec<&StackFrame>, Vec<u64>> = FxHashMap::default();
    for (run, sample) in samples.iter().enumerate() {
        let set = &sample.stacks;
        for stack in &set.stacks {
            let frames = stack.frames.iter();
            let frames = frames.filter_map(|frame| set.frames.get(*frame as usize));
            let mut frames: Vec<&StackFrame> = frames.collect();
            frames.drain(..glue.headline(&frames));
            let figures = by_stack
                .entry(frames)
                .or_insert_with(|| vec![0; samples.len()]);
            figures[run] += stack.figures[of_stacks as usize];
        }
    }
    let owned = |frames: Vec<&StackFrame>| frames.into_iter().cloned().collect::<Vec<_>>();
    let all = by_stack.into_iter();
    sorted(all.map(|(frames, figures)| (figures, frames)).collect())
        .into_iter()
        .map(|(range, frames)| (range, owned(frames)))
        .collect()
}

fn threads(samples: &[Sample]) -> Vec<([u64; 2], String)> {
    let mut by_name: BTreeMap<&String, Vec<u64>> = BTreeMap::new();
    for (run, sample) in samples.iter().enumerate() {
        for (name, allocations) in &sample.threads {
            by_name
                .entry(name)
                .or_insert_with(|| vec![0; samples.len()])[run] += allocations;
        }
    }
    let all = by_name.into_iter();
    sorted(all.map(|(name, figures)| (figures, name)).collect())
        .into_iter()
        .map(|(range, name)| (range, name.clone()))
        .collect()
}

/// The items whose figures differ between runs, with their range; the largest
/// range first.
fn sorted<T: Ord>(all: Vec<(Vec<u64>, T)>) -> Vec<([u64; 2], T)> {
    let mut ranges: Vec<([u64; 2], T)> = all
        .into_iter()
        .filter_map(|(figures, what)| {
            let range = [*figures.iter().min()?, *figures.iter().max()?];
            (range[0] < range[1]).then_some((range, what))
        })
        .collect();
    ranges.sort_by(|(a, x), (b, y)| (b[1] - b[0]).cmp(&(a[1] - a[0])).then_with(|| x.cmp(y)));
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use allotrope_profile::{CountedStack, MetricValues, StackSet};

    fn sample(stacks: &[(&str, u64)]) -> Sample {
        let mut set = StackSet::default();
        for (index, (name, allocations)) in stacks.iter().enumerate() {
            set.frames.push(StackFrame {
                function: (*name).into(),
                ..StackFrame::default()
            });
            let mut figures = MetricValues::default();
            figures[Metric::Allocations as usize] = *allocations;
            let frames = Box::new([index as u32]);
            set.stacks.push(CountedStack { frames, figures });
        }
        let mut sample = Sample {
            stacks: set,
            threads: [("worker".to_owned(), stacks.iter().map(|s| s.1).sum())].into(),
            ..Sample::default()
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
            samples: vec![
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
            .map(|(range, frames)| (*range, frames[0].function.as_str()))
            .collect();
        assert_eq!(stacks, [([1, 9], "often"), ([0, 3], "sometimes")]);
        assert_eq!(found.threads, [([14, 19], "worker".to_owned())]);
    }
}
