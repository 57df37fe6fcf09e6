//! A sampled profile as a set of stacks, for diffs and other tools' formats.

use super::{SampledFigures, SampledProfile};
use crate::run_info::{RunInfo, SamplingInfo};
use crate::stack_set::StackSet;
use allotrope_text::text_of_path;

impl SampledProfile {
    /// Its stacks with their estimates, rounded to whole numbers, and in the same order the
    /// figures of which these were made.
    pub fn stack_set(&self) -> (StackSet, Vec<SampledFigures>) {
        let mut set = StackSet::from(&self.profile);
        for stack in &mut set.stacks {
            stack.maximum = None;
        }
        set.known = SampledFigures::known();
        set.run = self.run();
        (set, self.sites().map(|(_, figures)| *figures).collect())
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
