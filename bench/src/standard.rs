//! The standard measurement: every row under every tool, in turn.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::figures::Median;
use crate::job::{Figure, Job};
use crate::row::{Aim, Row};
use crate::run::{Events, Runner, Sample};
use crate::tool::Tool;

/// How often, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Runs of each tool, alternating.
    pub runs: usize,
    /// A tool that has used so much of a row has no further runs of it.
    pub a_tool: Duration,
}

/// A row that was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// As in [`Row`].
    pub name: String,
    /// As in [`Row`].
    pub what: String,
    /// As in [`Row`].
    pub aim: Option<Aim>,
    /// As in [`Row`].
    pub threads: u32,
    /// As in [`Row`].
    pub is_cpp: bool,
    /// What the samples' figure is.
    pub figure: Figure,
    /// By the tool's name.
    pub tools: BTreeMap<String, Runs>,
}

/// One tool's runs of a row.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Runs {
    /// Those that succeeded, with the round that each was in.
    pub samples: Vec<(usize, Sample)>,
    /// Why one did not.
    pub failure: Option<String>,
}

/// Measures one row.
pub fn measure(runner: &Runner, tools: &[Tool], row: &Row, effort: Effort) -> Result<Measured> {
    let mut tools_runs: BTreeMap<String, Runs> = BTreeMap::new();
    let mut spent: BTreeMap<&str, Duration> = BTreeMap::new();
    let mut figure = Figure::Wall;
    for round in 0..effort.runs {
        for tool in tools {
            let runs = tools_runs.entry(tool.name().to_owned()).or_default();
            let used = spent.entry(tool.name()).or_default();
            // After a failure the next run costs as much and says no more.
            let next = used.checked_div(round as u32).unwrap_or_default();
            if runs.failure.is_some() || *used + next > effort.a_tool {
                continue;
            }
            let start = Instant::now();
            let job = (row.job)(runner.workshop)?;
            figure = job.figure;
            one(runner, tool, &job, round, &row.name, runs);
            *used += start.elapsed();
        }
    }
    Ok(Measured {
        name: row.name.clone(),
        what: row.what.clone(),
        aim: row.aim,
        threads: row.threads,
        is_cpp: row.is_cpp,
        figure,
        tools: tools_runs,
    })
}

fn one(runner: &Runner, tool: &Tool, job: &Job, round: usize, name: &str, runs: &mut Runs) {
    match runner.run(tool, job, is_read(runs)) {
        Ok(sample) => {
            eprintln!(
                "{name} {}: {:.3} in {:.2} s, {:.2} s to the trace{}",
                tool.name(),
                sample.figure,
                sample.wall,
                sample.finish,
                sample
                    .report
                    .as_ref()
                    .map_or(String::new(), |report| format!(
                        ", {:.2} s to read it",
                        report.wall
                    )),
            );
            runs.samples.push((round, sample));
        }
        Err(error) => {
            eprintln!("{name} {}: failed: {error:#}", tool.name());
            runs.failure = Some(format!("{error:#}"));
        }
    }
}

/// Reading may take longer than recording: where it does it is measured once.
fn is_read(runs: &Runs) -> bool {
    let last = runs.samples.last().map(|(_, sample)| sample);
    let took = last.and_then(|sample| Some((sample.report.as_ref()?.wall, sample.wall)));
    match took {
        None => runs.samples.is_empty(),
        Some((reading, recording)) => reading < recording,
    }
}

impl Measured {
    /// A figure of each of a tool's runs.
    pub fn median(&self, tool: &str, figure: impl Fn(&Sample) -> f64) -> Option<Median> {
        let runs = self.tools.get(tool)?;
        Median::of(runs.samples.iter().map(|(_, sample)| figure(sample)))
    }

    /// A figure of a tool's runs against that of the plain runs of the same
    /// rounds.
    pub fn against_plain(
        &self,
        tool: &str,
        figure: impl Fn(&Sample, &Sample) -> f64,
    ) -> Option<Median> {
        let plain = &self.tools.get("plain")?.samples;
        let pairs = self
            .tools
            .get(tool)?
            .samples
            .iter()
            .filter_map(|(round, sample)| {
                let (_, plain) = plain.iter().find(|(other, _)| other == round)?;
                Some(figure(sample, plain))
            });
        Median::of(pairs)
    }

    /// What the trace of this row holds, by our own report.
    pub fn events(&self) -> Option<Events> {
        let samples = &self.tools.get("allotrope")?.samples;
        samples
            .iter()
            .find_map(|(_, sample)| sample.report.as_ref()?.events)
    }

    /// What the aim is about: nanoseconds over plain, times, or part.
    pub fn cost(&self, tool: &str) -> Option<Median> {
        match self.figure {
            Figure::NanosecondsPrinted => {
                self.against_plain(tool, |ours, plain| ours.figure - plain.figure)
            }
            Figure::Wall | Figure::Requests => self.times(tool),
        }
    }

    /// The figure as a multiple of plain.
    pub fn times(&self, tool: &str) -> Option<Median> {
        self.against_plain(tool, |ours, plain| ours.figure / plain.figure)
    }

    /// Whether the aim is reached; `None` without an aim or a figure.
    pub fn is_reached(&self) -> Option<bool> {
        let cost = self.cost("allotrope")?.middle;
        Some(match self.aim? {
            Aim::Over(most) | Aim::Times(most) => cost <= most,
            Aim::Part(least) => cost >= least,
        })
    }
}
