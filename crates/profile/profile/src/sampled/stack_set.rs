//! A sampled profile as a set of stacks, for diffs and other tools' formats.

use super::{SampledFigures, SampledProfile};
use crate::metric::{Metric, MetricValues};
use crate::model::{command_text, file_name};
use crate::run_info::{RunInfo, SamplingInfo};
use crate::stack_set::{CountedStack, StackFrame, StackSet};
use allotrope_text::text_of_path;

impl SampledProfile {
    /// Returns the stacks with their estimates, rounded to whole numbers, and in the same order the
    /// figures of which these were made.
    pub fn stack_set(&self) -> (StackSet, Vec<SampledFigures>) {
        let frames = self.frames.iter().map(|frame| StackFrame {
            function: frame.function.clone(),
            signature: frame.signature.clone(),
            module: match self.modules.get(frame.module as usize) {
                Some(module) => module.name().into_owned(),
                None => String::new(),
            },
            file: frame.file.clone(),
            line: frame.line,
            column: frame.column,
            offset: Some(frame.offset),
            inlined: frame.inlined,
            generated: frame.generated,
        });
        let sites = || self.processes.iter().flat_map(|process| &process.sites);
        let stacks = sites().map(|site| CountedStack {
            frames: (*site.stack).into(),
            figures: rounded(&site.figures),
            maximum: None,
        });
        let set = StackSet {
            title: command_text(&self.recording.command),
            frames: frames.collect(),
            stacks: stacks.collect(),
            known: SampledFigures::known(),
            run: self.run(),
        };
        (set, sites().map(|site| site.figures).collect())
    }

    fn run(&self) -> RunInfo {
        let all = self.processes.iter();
        let first = self.processes.first();
        let pid = first.map(|it| it.pid);
        let began = all.clone().map(|it| it.began_ns).min();
        let read = all.clone().map(|it| it.read_ns).max();
        let started = self.recording.started_unix_ns;
        RunInfo {
            images: self.processes.len(),
            pid: pid.filter(|&pid| all.clone().all(|it| it.pid == pid)),
            started_unix_ns: (started != 0).then_some(started),
            duration_us: began
                .zip(read)
                .map(|(began, read)| read.saturating_sub(began) / 1000),
            peak_time_us: None,
            executable: first
                .map_or_else(String::new, |it| text_of_path(&it.executable).into_owned()),
            sampling: Some(SamplingInfo {
                period: self.longest_period(),
                notes: Vec::new(),
            }),
            modules: self.modules.clone(),
        }
    }

    /// The name of the program: the file name of the first process's executable.
    pub fn program(&self) -> String {
        let first = self.processes.first();
        let path = first.map(|it| text_of_path(&it.executable).into_owned());
        path.map_or_else(String::new, |path| file_name(&path).to_owned())
    }
}

fn rounded(figures: &SampledFigures) -> MetricValues {
    // The cast saturates.
    Metric::OF_STACKS.map(|metric| {
        figures
            .metric(metric)
            .map_or(0, |it| it.value.round() as u64)
    })
}
