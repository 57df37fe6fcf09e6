//! Reads the windows of a recording as runs of cases.

use std::collections::BTreeMap;

use allotrope_profile::{
    Options, Profile, QuietWait, StackSet, WindowKey, WindowRun, aggregate_windows,
};
use allotrope_trace::TraceReader;

use allotrope_text::Shown;

use crate::case_run::RunValues;
use crate::case_run::{CaseRun, clear_uncounted, count_threads, normalise_stacks};
use crate::paths::Project;
use crate::problem::Problem;
use allotrope_profile::Metric;

/// One run of a window.
#[derive(Debug, Clone)]
pub struct WindowCaseRun {
    /// The window's name.
    pub name: String,
    /// Figures and stacks of the run.
    pub sample: CaseRun,
    /// Other threads were still allocating when it was opened or closed.
    other_threads_busy: bool,
}

/// The windows of a recording.
#[derive(Debug, Default)]
pub struct Windows {
    /// Process by process, in the order of their opening.
    pub runs: Vec<WindowCaseRun>,
    /// The profile with their stacks, which lists the modules.
    pub profile: Option<Profile>,
}

impl Windows {
    /// Reads all windows of a recording.
    ///
    /// # Errors
    /// A window that was not closed or not measured; a recording that cannot be
    /// read.
    pub fn of(reader: &TraceReader, profile: &Profile, project: &Project) -> Result<Self, Problem> {
        let runs = || {
            profile
                .processes
                .iter()
                .flat_map(|process| &process.windows)
        };
        if let Some(open) = runs().find(|run| !run.closed) {
            return Err(Problem::LeftOpen(open.name.clone()));
        }
        if let Some(unmeasured) = runs().find(|run| !run.measured) {
            return Err(Problem::NotMeasured(unmeasured.name.clone()));
        }
        let keys: Vec<WindowKey> = runs().map(|run| run.key).collect();
        if keys.is_empty() {
            return Ok(Self::default());
        }
        let stacks = aggregate_windows(reader, &Options::default(), &keys)
            .map_err(|error| Problem::Unreadable(error.to_string()))?;
        let numbered = runs().enumerate();
        Ok(Self {
            runs: numbered
                .map(|(index, run)| WindowCaseRun {
                    name: run.name.clone(),
                    sample: sample(&stacks, index, run, project),
                    other_threads_busy: run.quiet.contains(&QuietWait::TimedOut),
                })
                .collect(),
            profile: Some(stacks),
        })
    }
}

impl WindowCaseRun {
    /// A note if the numbers may include allocations of other threads.
    pub fn note(&self) -> Option<String> {
        self.other_threads_busy.then(|| {
            format!(
                "other threads were still allocating when window {} was opened or closed: their allocations may be in it",
                self.name.shown()
            )
        })
    }
}

fn sample(stacks: &Profile, index: usize, run: &WindowRun, project: &Project) -> CaseRun {
    let mut threads = BTreeMap::new();
    if let Some(process) = stacks.processes.get(index) {
        count_threads(process, &mut threads);
    }
    let descriptors = run.descriptors.as_ref();
    let left = descriptors
        .into_iter()
        .flat_map(|descriptors| &descriptors.left);
    let mut figures = figures(run);
    let mut of_stacks = StackSet::default();
    if stacks.is_counts_only() {
        clear_uncounted(&mut figures);
    } else {
        of_stacks = normalise_stacks(&StackSet::of_process(stacks, index), project);
    }
    CaseRun {
        figures,
        iterations: Some(run.iterations).filter(|&iterations| iterations > 0),
        stacks: of_stacks,
        threads,
        leaked_descriptors: left
            .map(|open| match open.count {
                1 => open.name.clone(),
                count => format!("{} ({count} times)", open.name),
            })
            .collect(),
    }
}

fn figures(run: &WindowRun) -> RunValues {
    let counted = &run.figures;
    let mut figures: RunValues = [None; Metric::COUNT];
    for (metric, figure) in [
        (Metric::Allocations, counted.allocations),
        (Metric::Bytes, counted.allocated_bytes),
        (Metric::Remaining, counted.remaining_allocations),
        (Metric::PeakBytes, counted.peak_bytes),
        (Metric::Temporary, counted.temporary_allocations),
        (Metric::Reallocations, counted.reallocations),
    ] {
        figures[metric as usize] = Some(i64::try_from(figure).unwrap_or(i64::MAX));
    }
    figures[Metric::Net as usize] = Some(counted.net());
    let leaked = run
        .descriptors
        .as_ref()
        .map(|descriptors| descriptors.leaked());
    let leaked = leaked.map(|leaked| i64::try_from(leaked).unwrap_or(i64::MAX));
    figures[Metric::LeakedFds as usize] = leaked;
    figures
}
