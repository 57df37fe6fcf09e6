//! The figures, stacks and threads of one run of a case, read from a recording.

use std::collections::BTreeMap;

use allotrope_profile::{CountedStack, StackFrame, StackSet};
use allotrope_profile::{Process, Profile, Totals};
use rustc_hash::FxHashMap;

use crate::paths::Project;
use allotrope_profile::Metric;

/// The figures of a run, by `metric as usize`; `None` for a metric that the run did not
/// record.
pub type RunValues = [Option<i64>; Metric::COUNT];

/// One run of a case.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CaseRun {
    /// Figures of the run.
    pub figures: RunValues,
    /// Iterations in the run, if the program reported them.
    pub iterations: Option<u64>,
    /// Stacks of the run with machine-independent names, each once. Empty if recorded without
    /// stacks.
    pub stacks: StackSet,
    /// Allocations by thread name.
    pub threads: BTreeMap<String, u64>,
    /// The files that the leaked file descriptors refer to.
    pub leaked_descriptors: Vec<String>,
}

impl CaseRun {
    /// The figure of a metric.
    pub fn figure(&self, metric: Metric) -> Option<i64> {
        self.figures[metric as usize]
    }

    /// The figures of all process images together. The peak is the largest of
    /// any one image.
    pub fn of_whole_run(profile: &Profile, project: &Project) -> Self {
        let totals = profile.processes.iter().map(|process| &process.totals);
        let mut threads = BTreeMap::new();
        for process in &profile.processes {
            count_threads(process, &mut threads);
        }
        let mut figures = figures(totals);
        let mut stacks = StackSet::default();
        if profile.is_counts_only() {
            clear_uncounted(&mut figures);
        } else {
            stacks = normalise_stacks(&with_one_peak(profile), project);
        }
        Self {
            figures,
            iterations: None,
            stacks,
            threads,
            leaked_descriptors: Vec::new(),
        }
    }
}

/// The stacks of all images. Only those of the image with the largest peak have their
/// figures at the peak, because only its peak is that of the run.
fn with_one_peak(profile: &Profile) -> StackSet {
    let mut set = StackSet::from(profile);
    let images = profile.processes.iter().enumerate();
    let highest = images
        .rev()
        .max_by_key(|(_, image)| image.totals.peak_bytes);
    let highest = highest.map(|(index, _)| index);
    let images = profile.processes.iter().enumerate();
    let of_image = images.flat_map(|(index, image)| image.sites.iter().map(move |_| index));
    for (stack, image) in set.stacks.iter_mut().zip(of_image) {
        if Some(image) != highest {
            stack.figures[Metric::PeakAllocations as usize] = 0;
            stack.figures[Metric::PeakBytes as usize] = 0;
        }
    }
    set
}

/// Adds the allocations of a process's threads to `threads`, by name. The first
/// thread is named as such, because its own name is that of the program.
pub fn count_threads(process: &Process, threads: &mut BTreeMap<String, u64>) {
    for thread in &process.threads {
        let name = match &thread.name {
            _ if thread.tid == process.pid => "the main thread",
            name if name.is_empty() => "threads without a name",
            name => name,
        };
        if thread.allocations > 0 {
            *threads.entry(name.to_owned()).or_default() += thread.allocations;
        }
    }
}

/// Clears the figures that a recording without stacks does not have.
pub fn clear_uncounted(figures: &mut RunValues) {
    for metric in Metric::OF_RUNS {
        if !metric.is_counted() {
            figures[metric as usize] = None;
        }
    }
}

fn figures<'a>(totals: impl Iterator<Item = &'a Totals> + Clone) -> RunValues {
    let sum = |field: fn(&Totals) -> u64| -> i64 {
        let sum = totals
            .clone()
            .fold(0u64, |sum, totals| sum.saturating_add(field(totals)));
        i64::try_from(sum).unwrap_or(i64::MAX)
    };
    let peak = totals.clone().map(|totals| totals.peak_bytes).max();
    let mut figures: RunValues = [None; Metric::COUNT];
    let mut set = |metric: Metric, figure: i64| figures[metric as usize] = Some(figure);
    let allocations = sum(|totals| totals.allocations);
    set(Metric::Allocations, allocations);
    set(Metric::Bytes, sum(|totals| totals.allocated_bytes));
    set(Metric::Remaining, sum(|totals| totals.leaked_allocations));
    set(
        Metric::Net,
        allocations.saturating_sub(sum(|totals| totals.deallocations)),
    );
    set(
        Metric::PeakBytes,
        i64::try_from(peak.unwrap_or(0)).unwrap_or(i64::MAX),
    );
    set(
        Metric::Temporary,
        sum(|totals| totals.temporary_allocations),
    );
    set(Metric::Reallocations, sum(|totals| totals.reallocations));
    figures
}

/// The stacks with machine-independent names; equal stacks are summed.
pub fn normalise_stacks(set: &StackSet, project: &Project) -> StackSet {
    let mut numbers: FxHashMap<StackFrame, u32> = FxHashMap::default();
    let mut frames: Vec<StackFrame> = Vec::new();
    let renumbered: Vec<u32> = set
        .frames
        .iter()
        .map(|frame| {
            let frame = project.frame(frame);
            *numbers.entry(frame).or_insert_with_key(|frame| {
                frames.push(frame.clone());
                u32::try_from(frames.len() - 1).unwrap_or(u32::MAX)
            })
        })
        .collect();
    let mut indexes: FxHashMap<Box<[u32]>, usize> = FxHashMap::default();
    let mut stacks: Vec<CountedStack> = Vec::new();
    for stack in &set.stacks {
        let number = |index: &u32| renumbered.get(*index as usize).copied();
        let key: Box<[u32]> = stack.frames.iter().filter_map(number).collect();
        let index = *indexes.entry(key).or_insert_with_key(|key| {
            stacks.push(CountedStack {
                frames: key.clone(),
                ..CountedStack::default()
            });
            stacks.len() - 1
        });
        for (sum, figure) in stacks[index].figures.iter_mut().zip(&stack.figures) {
            *sum = sum.saturating_add(*figure);
        }
    }
    StackSet {
        title: set.title.clone(),
        frames,
        stacks,
        known: set.known,
        ..StackSet::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allotrope_profile::{Metric, MetricSet};
    use std::path::Path;

    #[test]
    fn equal_stacks_are_summed() {
        let frame = |offset| StackFrame {
            function: "f".into(),
            offset: Some(offset),
            ..StackFrame::default()
        };
        let stack = |index: u32, allocations| {
            let mut stack = CountedStack {
                frames: Box::new([index]),
                ..CountedStack::default()
            };
            stack.figures[Metric::Allocations as usize] = allocations;
            stack
        };
        let set = StackSet {
            frames: vec![frame(1), frame(2)],
            stacks: vec![stack(0, 3), stack(1, 4)],
            known: MetricSet::OF_STACKS,
            ..StackSet::default()
        };
        let merged = normalise_stacks(&set, &Project::containing(Path::new("/")));
        assert_eq!((merged.frames.len(), merged.stacks.len()), (1, 1));
        assert_eq!(merged.total(Metric::Allocations), 3 + 4);
    }

    #[test]
    fn images_are_summed_and_the_largest_peak_counts() {
        let image = |allocations, deallocations, peak_bytes| Totals {
            allocations,
            deallocations,
            peak_bytes,
            ..Totals::default()
        };
        let both = [image(5, 3, 100), image(2, 2, 70)];
        let figures = figures(both.iter());
        assert_eq!(figures[Metric::Allocations as usize], Some(5 + 2));
        assert_eq!(figures[Metric::Net as usize], Some(5 + 2 - 3 - 2));
        assert_eq!(figures[Metric::PeakBytes as usize], Some(100));
        assert_eq!(figures[Metric::LeakedFds as usize], None);
    }
}
