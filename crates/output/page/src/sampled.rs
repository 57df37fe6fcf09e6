//! Sampled profiles: the intervals of sums, sites and functions.

use std::cmp::Reverse;

use allotrope_profile::Metric;
use allotrope_profile::sampled::{Estimate, SampledFigures, SampledProfile};
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
        let Estimate { low, high, .. } = estimate.rounded();
        Self {
            low: low as u64,
            high: high as u64,
        }
    }

    /// Returns the interval of each metric of [`SampledFigures::METRICS`].
    pub fn all(figures: &SampledFigures) -> Vec<Self> {
        // A sentence of the page says that others may be missing.
        let figures = figures.of_known_blocks();
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
    for (site, figures) in sampled.sites() {
        let head = page.headlines.head(site);
        let function = head.map_or(u32::MAX, |head| page.headlines.function(head));
        sums.entry(function)
            .and_modify(|(_, sum)| sum.merge(figures))
            .or_insert((site.number.into(), *figures));
    }
    let mut sums: Vec<_> = sums.into_values().collect();
    sums.sort_by_key(|(number, figures)| (Reverse(figures.rounded(Metric::LeakedBytes)), *number));
    sums.truncate(MAX_FUNCTIONS);
    let functions = sums.iter().map(|(number, it)| Function {
        site: *number,
        intervals: Interval::all(it),
        samples: samples(it),
    });
    functions.collect()
}
