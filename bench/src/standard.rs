//! The standard measurement: every row under every tool, in turn.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::figures::Median;
use crate::job::{Figure, Job};
use crate::row::{Aim, Row};
use crate::run::{Events, Report, Runner, Sample};
use crate::tool::Tool;

/// How often, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Runs of each tool, alternating.
    pub runs: usize,
    /// A tool whose runs of a row have taken so long has no further ones.
    pub a_tool: Duration,
}

/// Nanoseconds a pair that counting may add.
pub const COUNTING: f64 = 4.0;

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

impl Runs {
    /// Whether another run fits, if it takes as long as those before. After a
    /// failure it would cost as much and say no more.
    fn may_go_on(&self, effort: Effort) -> bool {
        let took = |(_, sample): &(usize, Sample)| sample.wall + sample.finish;
        let used: f64 = self.samples.iter().map(took).sum();
        let next = used / self.samples.len().max(1) as f64;
        self.failure.is_none() && used + next <= effort.a_tool.as_secs_f64()
    }
}

/// Measures one row under these tools, the last only if it is to be counted.
pub fn measure(
    runner: &Runner,
    (tools, counting): (&[Tool], Option<&Tool>),
    row: &Row,
    effort: Effort,
) -> Result<Measured> {
    let counting = counting.filter(|_| row.is_counted);
    let mut tools_runs: BTreeMap<String, Runs> = BTreeMap::new();
    let mut figure = Figure::Wall;
    for round in 0..effort.runs {
        let has_more = |runs: Option<&Runs>| runs.is_none_or(|runs| runs.may_go_on(effort));
        let turn: Vec<_> = tools
            .iter()
            .chain(counting)
            .filter(|tool| has_more(tools_runs.get(tool.name())))
            .collect();
        // Plain runs have nothing to say alone.
        if turn.iter().all(|tool| matches!(tool, Tool::Plain)) {
            break;
        }
        for tool in turn {
            let runs = tools_runs.entry(tool.name().to_owned()).or_default();
            let job = (row.job)(runner.workshop)?;
            figure = job.figure;
            one(runner, tool, &job, round, &row.name, runs);
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

    /// A figure of what reading each of a tool's traces took.
    pub fn of_reports(&self, tool: &str, figure: impl Fn(&Report) -> f64) -> Option<Median> {
        let runs = self.tools.get(tool)?;
        let reports = runs.samples.iter();
        Median::of(reports.filter_map(|(_, sample)| sample.report.as_ref().map(&figure)))
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

    /// Nanoseconds a pair that counting without stacks adds, and whether that
    /// is as little as is aimed at; of the rows that are pairs.
    pub fn counting(&self) -> Option<(Median, bool)> {
        let is_pair = self.figure == Figure::NanosecondsPrinted;
        let cost = self.cost("counts").filter(|_| is_pair)?;
        Some((cost, cost.middle <= COUNTING))
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
