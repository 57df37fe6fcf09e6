//! Sampled profiles: their estimates as the figures of a profile, and the intervals of
//! functions.

use std::cmp::Reverse;
use std::path::PathBuf;

use allotrope_profile::sampled::{Estimate, SampledFigures, SampledProcess, SampledProfile};
use allotrope_profile::{Metric, Process, Profile, Series, Site, Totals};
use allotrope_trace::model::{Exit, Origin};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::Page;
use crate::columns::Columns;
use crate::sites::PageSite;

/// Functions with intervals of their own.
const MAX_FUNCTIONS: usize = 2000;

/// An interval, rounded outwards.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Interval {
    low: u64,
    high: u64,
}

impl Interval {
    fn of(estimate: &Estimate) -> Self {
        Self {
            low: estimate.low.floor() as u64,
            high: estimate.high.ceil() as u64,
        }
    }

    /// Returns the interval of each metric of [`SampledFigures::METRICS`].
    pub fn all(figures: &SampledFigures) -> Vec<Self> {
        let estimates = SampledFigures::METRICS.map(|metric| figures.metric(metric));
        estimates.iter().flatten().map(Self::of).collect()
    }
}

/// How many samples stand behind figures: of live blocks, and of all allocations.
pub fn samples(figures: &SampledFigures) -> [u64; 2] {
    [figures.live.samples(), figures.allocated.samples()]
}

/// The sums of all samples.
#[derive(Debug, Serialize)]
pub struct Sums {
    /// Interval of each metric of [`SampledFigures::METRICS`].
    intervals: Vec<Interval>,
    samples: [u64; 2],
    freed: Freed,
}

impl Sums {
    pub fn of(figures: &SampledFigures) -> Self {
        Self {
            intervals: Interval::all(figures),
            samples: samples(figures),
            freed: Freed::of(figures),
        }
    }
}

/// What was freed: bytes, blocks, their intervals, and how many samples these are.
#[derive(Debug, Serialize)]
struct Freed {
    bytes: u64,
    blocks: u64,
    intervals: [Interval; 2],
    samples: u64,
}

impl Freed {
    fn of(figures: &SampledFigures) -> Self {
        let estimates = [figures.freed.bytes(), figures.blocks(&figures.freed)];
        let [bytes, blocks] = estimates.map(|it| it.value.round() as u64);
        Self {
            bytes,
            blocks,
            intervals: estimates.map(|it| Interval::of(&it)),
            samples: figures.freed.samples(),
        }
    }
}

/// Encodes the intervals of sites, for each of [`SampledFigures::METRICS`], and their samples.
pub fn encode(columns: &mut Columns, sites: &[PageSite]) {
    let none = [Interval { low: 0, high: 0 }; SampledFigures::METRICS.len()];
    let intervals: Vec<Vec<Interval>> = sites
        .iter()
        .map(|it| it.samples.as_ref().map_or(none.to_vec(), Interval::all))
        .collect();
    let all = || intervals.iter().flatten();
    columns.numbers("interval.low", all().map(|it| it.low));
    columns.numbers("interval.high", all().map(|it| it.high));
    let of = |it: &PageSite| it.samples.as_ref().map_or([0; 2], samples);
    columns.numbers("site.live_samples", sites.iter().map(|it| of(it)[0]));
    columns.numbers("site.samples", sites.iter().map(|it| of(it)[1]));
}

/// A function of a sampled profile.
#[derive(Debug, Serialize)]
pub struct Function {
    /// The number of one of its sites, in the page's profile.
    site: u64,
    /// Interval of each of [`SampledFigures::METRICS`]. The interval of a sum is not the sum of the
    /// intervals.
    intervals: Vec<Interval>,
    samples: [u64; 2],
}

/// The intervals of functions, those with most live bytes first.
pub fn functions(sampled: &SampledProfile, page: &Page<'_>) -> Vec<Function> {
    let mut sums: FxHashMap<u32, (u64, SampledFigures)> = FxHashMap::default();
    let processes = sampled.processes.iter().zip(&page.profile.processes);
    for (from, process) in processes {
        for (samples, site) in from.sites.iter().zip(&process.sites) {
            let head = page.headlines.head(site);
            let function = head.map_or(u32::MAX, |head| page.headlines.function(head));
            match sums.get_mut(&function) {
                Some((_, sum)) => sum.merge(&samples.figures),
                None => {
                    sums.insert(function, (site.number.into(), samples.figures));
                }
            }
        }
    }
    let mut sums: Vec<_> = sums.into_values().collect();
    sums.sort_by_key(|(number, figures)| (Reverse(rounded(figures, Metric::LeakedBytes)), *number));
    sums.truncate(MAX_FUNCTIONS);
    let functions = sums.iter().map(|(number, it)| Function {
        site: *number,
        intervals: Interval::all(it),
        samples: samples(it),
    });
    functions.collect()
}

fn rounded(figures: &SampledFigures, metric: Metric) -> u64 {
    let value = |it: Estimate| it.value.round() as u64;
    figures.metric(metric).map_or(0, value)
}

/// The estimates of a sampled profile as a profile. What was live when it was saved is
/// *leaked*; what samples do not give is 0.
pub fn profile_of_samples(sampled: &SampledProfile) -> Profile {
    Profile {
        recording: sampled.recording.clone(),
        modules: sampled.modules.clone(),
        frames: sampled.frames.clone(),
        processes: sampled.processes.iter().map(process).collect(),
        ..Profile::default()
    }
}

fn process(it: &SampledProcess) -> Process {
    let totals = it.totals.as_ref();
    let total = |metric| totals.map_or(0, |figures| rounded(figures, metric));
    let site = |site: &allotrope_profile::sampled::SampledSite| Site {
        number: site.number,
        stack: site.stack.clone(),
        allocations: rounded(&site.figures, Metric::Allocations),
        allocated_bytes: rounded(&site.figures, Metric::Bytes),
        leaked_allocations: rounded(&site.figures, Metric::LeakedAllocations),
        leaked_bytes: rounded(&site.figures, Metric::LeakedBytes),
        ..Site::default()
    };
    Process {
        id: it.id,
        pid: it.pid,
        parent_pid: it.parent_pid,
        executable: it.executable.clone(),
        command: it.command.clone(),
        started_us: it.began_ns / 1000,
        duration_us: it.read_ns.saturating_sub(it.began_ns) / 1000,
        exit: it.exit.unwrap_or(Exit::Unknown),
        complete: true,
        totals: Totals {
            allocations: total(Metric::Allocations),
            allocated_bytes: total(Metric::Bytes),
            leaked_allocations: total(Metric::LeakedAllocations),
            leaked_bytes: total(Metric::LeakedBytes),
            ..Totals::default()
        },
        sites: it.sites.iter().map(site).collect(),
        ..process_without_events()
    }
}

/// A process of which nothing is known.
pub(crate) fn process_without_events() -> Process {
    Process {
        id: 0,
        pid: 0,
        parent_pid: 0,
        origin: Origin::First,
        forked_from: None,
        executable: PathBuf::new(),
        command: Vec::new(),
        started_us: 0,
        duration_us: 0,
        exit: Exit::Unknown,
        complete: true,
        lost_events: 0,
        losses: Vec::new(),
        gaps: Vec::new(),
        waits: 0,
        waited_us: 0,
        ambiguous_events: 0,
        unmatched_deallocations: 0,
        unoptimised: None,
        totals: Totals::default(),
        sites: Vec::new(),
        truncated_stacks: 0,
        stacks_without_unwind_information: 0,
        threads: Vec::new(),
        entries: Vec::new(),
        live: Series::default(),
        resident: Vec::new(),
        windows: Vec::new(),
        times: None,
        thread_times: None,
        sizes: None,
        evidence: None,
    }
}
