//! A sampled profile as a set of stacks, for diffs and other tools' formats.

use super::{SampledFigures, SampledProfile, SampledStacks};
use crate::filter::Filter;
use crate::run_info::{RunInfo, SamplingInfo};
use crate::stack_set::StackSet;
use allotrope_sampling::Period;
use allotrope_text::text_of_path;

impl SampledProfile {
    /// Its stacks with their estimates, rounded to whole numbers, and the samples of which these were
    /// made; `None`: sampling was never on, so that nothing is known.
    pub fn stack_set(&self) -> (StackSet, Option<SampledStacks>) {
        let mut set = StackSet::from(&self.profile);
        for stack in &mut set.stacks {
            stack.maximum = None;
        }
        set.known = SampledFigures::known();
        set.run = self.run();
        let period = Period::new(self.longest_period());
        let samples = self.totals().zip(period);
        let samples = samples.map(|(total, period)| SampledStacks {
            stacks: self.sites().map(|(_, figures)| *figures).collect(),
            total,
            none: self.none(period),
        });
        (set, samples)
    }

    /// The figures of a stack without samples in any of the processes.
    fn none(&self, longest: Period) -> SampledFigures {
        let mut none = SampledFigures::of_site(longest);
        let on = self.processes.iter().filter_map(|it| it.on);
        if on.into_iter().any(|it| !it.is_complete) {
            none.open_upwards();
        }
        none
    }

    fn run(&self) -> RunInfo {
        let all = self.profile.processes.iter();
        let first = self.profile.processes.first();
        let pid = first.map(|it| it.pid);
        let began = all.clone().map(|it| it.started_us).min();
        let read = all.clone().map(|it| it.started_us + it.duration_us).max();
        let started = self.profile.recording.started_unix_ns;
        RunInfo {
            images: self.processes.len(),
            pid: pid.filter(|&pid| all.clone().all(|it| it.pid == pid)),
            started_unix_ns: (started != 0).then_some(started),
            duration_us: began
                .zip(read)
                .map(|(began, read)| read.saturating_sub(began)),
            peak_time_us: None,
            executable: first
                .map_or_else(String::new, |it| text_of_path(&it.executable).into_owned()),
            sampling: Some(SamplingInfo {
                period: self.longest_period(),
                notes: Vec::new(),
            }),
            modules: self.profile.modules.clone(),
        }
    }
}

impl SampledStacks {
    /// Keeps only the stacks of the set that [`StackSet::filter`] keeps, which has them all still.
    pub fn filter(&mut self, set: &StackSet, filter: &Filter) {
        let matching = set.frames.iter().map(|frame| filter.selects(frame));
        let matching: Vec<bool> = matching.collect();
        let is_wanted = |&frame: &u32| matching.get(frame as usize) == Some(&true);
        let mut stacks = set.stacks.iter();
        self.stacks.retain(|_| {
            let stack = stacks.next();
            stack.is_some_and(|stack| stack.frames.iter().any(is_wanted))
        });
        self.total = self.none;
        for figures in &self.stacks {
            self.total.merge(figures);
        }
    }
}
