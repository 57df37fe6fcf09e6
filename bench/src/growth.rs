//! How the cost grows: with the depth of stacks, with threads, with distinct
//! stacks, with live blocks and with the length of the run.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::figures::{Median, count, exponent, steepest};
use crate::job::Job;
use crate::row::{ALLOCATIONS_A_ROUND, Extent};
use crate::run::{Events, Runner, Sample};
use crate::tool::Tool;
use crate::workshop::Workshop;

/// A quantity that is varied, and the job for each of its values.
pub struct Cause {
    /// The name for `--only`, and of the plot.
    pub name: &'static str,
    /// Description of the quantity for readers.
    pub what: &'static str,
    /// Values of the quantity, ascending.
    pub values: Vec<u64>,
    /// Whether it is the amount of work. Then total times are compared with it, else
    /// times per allocation.
    pub is_amount: bool,
    /// Makes the job for a value.
    pub job: fn(&Workshop, u64) -> Result<Job>,
}

/// A cause that was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Growth {
    /// Same as [`Cause::name`].
    pub name: String,
    /// Same as [`Cause::what`].
    pub what: String,
    /// Same as [`Cause::is_amount`].
    pub is_amount: bool,
    /// Costs at each value, in ascending order.
    pub points: Vec<Point>,
}

/// The costs at one value of a cause: medians.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Point {
    /// The value.
    pub value: u64,
    /// Allocations and deallocations of the recorded run.
    pub events: Events,
    /// CPU time of the plain program, nanoseconds per allocation.
    pub plain: f64,
    /// Additional CPU time of the recorded program, nanoseconds per allocation.
    pub over: Median,
    /// CPU time of the collector and the launcher, nanoseconds per allocation.
    pub collector: f64,
    /// Memory of the recorded program minus that of the plain one, MiB.
    pub target_mib: f64,
    /// Memory of the collector, MiB.
    pub collector_mib: f64,
    /// Time from the program's exit to the finished trace, seconds.
    pub finish: f64,
    /// Time of the recorded program from start to exit, seconds.
    pub wall: f64,
    /// Bytes of the trace per event.
    pub trace: f64,
    /// Time to report, nanoseconds per allocation.
    pub report: f64,
    /// Memory of the reader, MiB.
    pub report_mib: f64,
}

/// All causes. With [`Extent::Quick`] each has only its first two values, for a
/// functional check.
pub fn causes(extent: Extent) -> Vec<Cause> {
    let mut causes = vec![
        Cause {
            name: "depth",
            what: "frames below `main`, pairs",
            values: vec![1, 2, 5, 10, 20, 40, 80, 120, 160, 200],
            is_amount: false,
            job: |workshop, depth| {
                let arguments = [depth.to_string(), "64".to_owned(), "4000000".to_owned()];
                Ok(Job::new(workshop.program("pair.c")?, arguments))
            },
        },
        Cause {
            name: "threads",
            what: "threads, container churn of 8 M allocations in all",
            values: vec![1, 2, 4, 8, 16],
            is_amount: false,
            job: |workshop, threads| churn(workshop, threads, 8_000_000),
        },
        Cause {
            name: "stacks",
            what: "distinct stacks, 4 M allocations in Rust",
            values: vec![1_000, 10_000, 100_000, 300_000, 1_000_000],
            is_amount: false,
            job: |workshop, stacks| {
                let arguments = [stacks.to_string(), "4000000".to_owned()];
                Ok(Job::new(workshop.program("stacks.rs")?, arguments))
            },
        },
        Cause {
            name: "live",
            what: "live blocks, of which 4 M are replaced at random",
            values: vec![1_000, 10_000, 100_000, 1_000_000, 10_000_000],
            is_amount: false,
            job: |workshop, blocks| {
                let arguments = [blocks.to_string(), "4000000".to_owned()];
                Ok(Job::new(workshop.program("live.c")?, arguments))
            },
        },
        Cause {
            name: "events",
            what: "events in one run, container churn",
            values: vec![1_000_000, 10_000_000, 100_000_000],
            is_amount: true,
            job: |workshop, events| churn(workshop, 1, events / 2),
        },
    ];
    if extent == Extent::Quick {
        for cause in &mut causes {
            cause.values.truncate(2);
        }
    }
    causes
}

/// A run of `events` events and a short one to compare it with.
pub fn long_run(events: u64) -> Cause {
    Cause {
        name: "long",
        what: "events in one run, container churn",
        values: vec![10_000_000, events],
        is_amount: true,
        job: |workshop, events| churn(workshop, 1, events / 2),
    }
}

fn churn(workshop: &Workshop, threads: u64, allocations: u64) -> Result<Job> {
    let rounds = allocations / ALLOCATIONS_A_ROUND / threads;
    let arguments = [threads.to_string(), rounds.to_string()];
    Ok(Job::new(workshop.program("churn.cc")?, arguments))
}

/// Measures a cause at all its values, plain and recorded alternately.
pub fn measure(runner: &Runner, allotrope: &Tool, cause: &Cause, runs: usize) -> Result<Growth> {
    let points = cause
        .values
        .iter()
        .map(|value| {
            let job = (cause.job)(runner.workshop, *value)?;
            point(runner, allotrope, &job, *value, runs)
                .with_context(|| format!("{} = {}", cause.name, count(*value)))
        })
        .collect::<Result<_>>()?;
    Ok(Growth {
        name: cause.name.to_owned(),
        what: cause.what.to_owned(),
        is_amount: cause.is_amount,
        points,
    })
}

fn point(runner: &Runner, allotrope: &Tool, job: &Job, value: u64, runs: usize) -> Result<Point> {
    let mut samples: BTreeMap<bool, Vec<Sample>> = BTreeMap::new();
    for round in 0..runs {
        for tool in [&Tool::Plain, allotrope] {
            let is_plain = matches!(tool, Tool::Plain);
            let sample = runner.run(tool, job, round == 0)?;
            samples.entry(is_plain).or_default().push(sample);
        }
    }
    let (plain, ours) = (&samples[&true], &samples[&false]);
    let middle = |samples: &[Sample], of: &dyn Fn(&Sample) -> f64| {
        Median::of(samples.iter().map(of)).map_or(0.0, |median| median.middle)
    };
    let report = ours.iter().find_map(|sample| sample.report.as_ref());
    let report = report.context("the trace was not read")?;
    let events = report.events.context("the report has no sums")?;
    let each = 1e9 / events.allocations as f64;
    let over = ours
        .iter()
        .zip(plain)
        .map(|(ours, plain)| (ours.target_cpu - plain.target_cpu) * each);
    let mib = |kib: f64| kib / 1024.0;
    let point = Point {
        value,
        events,
        plain: middle(plain, &|sample| sample.target_cpu * each),
        over: Median::of(over).context("nothing was run")?,
        collector: middle(ours, &|sample| sample.tool_cpu * each),
        target_mib: mib(middle(ours, &|sample| sample.target_peak_kib as f64)
            - middle(plain, &|sample| sample.target_peak_kib as f64)),
        collector_mib: mib(middle(ours, &|sample| sample.tool_peak_kib as f64)),
        finish: middle(ours, &|sample| sample.finish),
        wall: middle(ours, &|sample| sample.wall),
        trace: middle(ours, &|sample| sample.trace_bytes as f64) / events.all() as f64,
        report: report.wall * each,
        report_mib: mib(report.peak_kib as f64),
    };
    eprintln!(
        "{value}: {:.1} ns an allocation over {:.1}, collector {:.1} ns and {:.0} MiB, {:.2} bytes an event",
        point.over.middle, point.plain, point.collector, point.collector_mib, point.trace
    );
    Ok(point)
}

/// The power of the cause with which a cost grows.
pub struct Power {
    /// The cost.
    pub what: &'static str,
    /// Exponent over all values; `None` if it cannot be determined.
    pub over_all: Option<f64>,
    /// The largest power between two neighbouring values, and these two values.
    pub steepest: Option<(f64, f64, f64)>,
}

impl Growth {
    /// The power of the cause with which each cost grows. Times are totals if the cause
    /// is the amount of work.
    pub fn powers(&self) -> Vec<Power> {
        let each = |point: &Point| point.events.allocations as f64;
        let amount = |point: &Point| if self.is_amount { each(point) } else { 1.0 };
        let power = |what, cost: &dyn Fn(&Point) -> f64| {
            let points = self
                .points
                .iter()
                .map(|point| (point.value as f64, cost(point)));
            let points: Vec<_> = points.collect();
            Power {
                what,
                over_all: exponent(&points),
                steepest: steepest(&points),
            }
        };
        vec![
            power("time of the program", &|point| {
                point.over.middle * amount(point)
            }),
            power("time of the collector", &|point| {
                point.collector * amount(point)
            }),
            power("memory of the collector", &|point| point.collector_mib),
            power("time to report", &|point| point.report * amount(point)),
            power("memory to report", &|point| point.report_mib),
        ]
    }
}
