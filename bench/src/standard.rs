//! The standard measurement: runs every row under every tool, alternating.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::figures::Median;
use crate::job::{Figure, Job};
use crate::row::{Aim, Row};
use crate::run::{Events, Report, Runner, Sample};
use crate::tool::Tool;

/// The number of runs and their time limit.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Runs of each tool, alternating.
    pub runs: usize,
    /// A tool gets no further runs of a row once its runs have taken this long.
    pub a_tool: Duration,
}

/// The aim for `--counts-only`: additional nanoseconds per pair.
pub const COUNTING: f64 = 4.0;

/// A row that was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// Same as [`Row::name`].
    pub name: String,
    /// Same as [`Row::what`].
    pub what: String,
    /// Same as [`Row::aim`].
    pub aim: Option<Aim>,
    /// Same as [`Row::threads`].
    pub threads: u32,
    /// Same as [`Row::is_cpp`].
    pub is_cpp: bool,
    /// The kind of the samples' figure.
    pub figure: Figure,
    /// The runs by the tool's name.
    pub tools: BTreeMap<String, Runs>,
}

/// One tool's runs of a row.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Runs {
    /// The runs that succeeded, each with its round.
    pub samples: Vec<(usize, Sample)>,
    /// Why a run failed.
    pub failure: Option<String>,
}

impl Runs {
    /// Whether there is time for another run, if it takes as long as the mean of those
    /// before. There is no other run after a failure: it would fail, too.
    fn has_time_left(&self, effort: Effort) -> bool {
        let took = |(_, sample): &(usize, Sample)| sample.wall + sample.finish;
        let used: f64 = self.samples.iter().map(took).sum();
        let next = used / self.samples.len().max(1) as f64;
        self.failure.is_none() && used + next <= effort.a_tool.as_secs_f64()
    }
}

/// Measures one row under these tools, and under those in `options`, the command with
/// another option each, that the row asks for.
pub fn measure(
    runner: &Runner,
    (tools, options): (&[Tool], &[Tool]),
    row: &Row,
    effort: Effort,
) -> Result<Measured> {
    let is_wanted = |tool: &&Tool| match tool {
        Tool::Counts(_) => row.is_counted,
        Tool::FreeStacks(_) => row.has_free_stacks,
        _ => true,
    };
    let mut tools_runs: BTreeMap<String, Runs> = BTreeMap::new();
    let mut figure = Figure::Wall;
    for round in 0..effort.runs {
        let has_more = |runs: Option<&Runs>| runs.is_none_or(|runs| runs.has_time_left(effort));
        let due: Vec<_> = tools
            .iter()
            .chain(options)
            .filter(is_wanted)
            .filter(|tool| has_more(tools_runs.get(tool.name())))
            .collect();
        // Plain runs alone have nothing to be compared with.
        if due.iter().all(|tool| matches!(tool, Tool::Plain)) {
            break;
        }
        for tool in due {
            let runs = tools_runs.entry(tool.name().to_owned()).or_default();
            let job = (row.job)(runner.workshop)?;
            figure = job.figure;
            run_once(runner, tool, &job, round, &row.name, runs);
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

fn run_once(runner: &Runner, tool: &Tool, job: &Job, round: usize, name: &str, runs: &mut Runs) {
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

/// Whether to measure reading in this run: always in the first one, later only while
/// reading takes less time than recording.
fn is_read(runs: &Runs) -> bool {
    let last = runs.samples.last().map(|(_, sample)| sample);
    let took = last.and_then(|sample| Some((sample.report.as_ref()?.wall, sample.wall)));
    match took {
        None => runs.samples.is_empty(),
        Some((reading, recording)) => reading < recording,
    }
}

impl Measured {
    /// The median of a figure over a tool's runs.
    pub fn median(&self, tool: &str, figure: impl Fn(&Sample) -> f64) -> Option<Median> {
        let runs = self.tools.get(tool)?;
        Median::of(runs.samples.iter().map(|(_, sample)| figure(sample)))
    }

    /// The median of a figure over the readings of a tool's traces.
    pub fn of_reports(&self, tool: &str, figure: impl Fn(&Report) -> f64) -> Option<Median> {
        let runs = self.tools.get(tool)?;
        let reports = runs.samples.iter();
        Median::of(reports.filter_map(|(_, sample)| sample.report.as_ref().map(&figure)))
    }

    /// The median of a figure that compares each of a tool's runs with the plain run of
    /// the same round.
    pub fn against_plain(
        &self,
        tool: &str,
        figure: impl Fn(&Sample, &Sample) -> f64,
    ) -> Option<Median> {
        self.against("plain", tool, figure)
    }

    /// Same as [`Self::against_plain`], but compares with the runs of the tool `base`.
    pub fn against(
        &self,
        base: &str,
        tool: &str,
        figure: impl Fn(&Sample, &Sample) -> f64,
    ) -> Option<Median> {
        let plain = &self.tools.get(base)?.samples;
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

    /// The number of events of this row, from Allotrope's report.
    pub fn events(&self) -> Option<Events> {
        let samples = &self.tools.get("allotrope")?.samples;
        samples
            .iter()
            .find_map(|(_, sample)| sample.report.as_ref()?.events)
    }

    /// The cost that the aim limits: additional nanoseconds, multiple or fraction.
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

    /// Returns, for rows with pairs, additional nanoseconds per pair of `--counts-only`, and
    /// whether they reach the aim.
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
