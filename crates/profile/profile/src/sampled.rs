//! Sampled profiles: the state of watched processes at one moment, with estimates.
//!
//! [`SampledProfile::read`] turns the samples of a file, and [`SampledProfile::of_records`] those of
//! records in memory, into the figures of processes and stacks. Each keeps the sums of which its estimates and their variances are made
//! (`allotrope-sampling`), so sums over stacks and processes have the right intervals.
//!
//! The file may be hostile. Samples are added up while they are read, and there are limits
//! for their number and for the frames of all stacks.

mod read;
mod stack_set;

pub use allotrope_sampling::estimate::{Estimate, Figures};
use allotrope_sampling::{Period, estimate};
use allotrope_text::numbers::{bytes, count, duration, moment};
use allotrope_trace::model::{ImageId, Sampling};
use allotrope_trace::{Cut, ReadError};

use crate::metric::{Metric, MetricSet};
use crate::model::{Process, Profile, Site};

/// Largest number of samples and totals of a file.
pub const MAX_SAMPLES: u64 = 1 << 22;

/// Why a sampled profile cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SampledError {
    /// The file could not be read, or is damaged.
    #[error(transparent)]
    Read(#[from] crate::AggregateError),
    /// The file ends too early. What is left would give wrong estimates.
    #[error(
        "the sampled profile is not whole ({0}), and a part of it would give wrong estimates; save it again"
    )]
    NotWhole(Cut),
    /// There are more samples than processes can have.
    #[error(
        "the sampled profile has more than {MAX_SAMPLES} samples, more than watched processes keep; it is damaged"
    )]
    TooMany,
}

impl From<ReadError> for SampledError {
    fn from(error: ReadError) -> Self {
        Self::Read(error.into())
    }
}

/// The contents of a sampled profile.
#[derive(Debug, Clone)]
pub struct SampledProfile {
    /// The watched processes with their stacks, as a recording has them. Its figures are estimates,
    /// rounded to whole numbers: what was live when the samples were read is *leaked*, and what
    /// samples do not give (see [`SampledFigures::known`]) is 0. The recording's start is the first
    /// process's.
    pub profile: Profile,
    /// The samples of each process, in the order of the profile's.
    pub processes: Vec<SampledProcess>,
}

/// The samples of a watched process.
#[derive(Debug, Clone)]
pub struct SampledProcess {
    /// How it was sampled, and what is missing.
    pub sampling: Sampling,
    /// When sampling was on; `None`: an older version has saved it.
    pub on: Option<SampledTime>,
    /// All blocks. `None`: sampling was never on, so that nothing is known.
    pub totals: Option<SampledFigures>,
    /// The blocks of each site, in the order of the process's sites: those with most live bytes
    /// first.
    pub sites: Vec<SampledFigures>,
}

/// When sampling was on in a process. Times are in microseconds, as those of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledTime {
    /// Since when it was on without a break, or was until [`Self::until_us`]. `None`: it was never on.
    pub since_us: Option<u64>,
    /// Since when it was off again.
    pub until_us: Option<u64>,
    /// It was never off: otherwise nothing is known of some blocks.
    pub is_complete: bool,
}

/// The samples behind the figures of a set of stacks.
#[derive(Debug, Clone)]
pub struct SampledStacks {
    /// Those of each stack, in the order of the set.
    pub stacks: Vec<SampledFigures>,
    /// All of them together.
    pub total: SampledFigures,
    /// A stack of which no block was sampled.
    pub none: SampledFigures,
}

/// What samples say about the blocks of a stack, of a process, or of several.
#[derive(Debug, Clone, Copy)]
pub struct SampledFigures {
    /// The blocks that were live.
    pub live: Figures,
    /// All blocks that were allocated while sampling was on.
    pub allocated: Figures,
    /// The blocks that were freed; nothing is known of those of one stack.
    pub freed: Figures,
    /// The smallest size that its blocks can have; it bounds their number.
    smallest: Smallest,
}

/// See [`Figures::blocks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Smallest {
    /// Blocks of any stacks: [`estimate::MIN`].
    OfAllocators,
    /// Blocks of one stack: the smallest that was sampled.
    OfSamples,
}

impl SampledFigures {
    /// Returns the figures of all blocks, without samples yet.
    fn total(longest: Period) -> Self {
        Self {
            live: Figures::new(longest),
            allocated: Figures::new(longest),
            freed: Figures::new(longest),
            smallest: Smallest::OfAllocators,
        }
    }

    /// Returns the figures of one stack, without samples yet.
    pub fn of_site(longest: Period) -> Self {
        Self {
            smallest: Smallest::OfSamples,
            ..Self::total(longest)
        }
    }

    /// Blocks may be live that were allocated while sampling was off.
    fn open_upwards(&mut self) {
        self.live.open_upwards();
    }

    /// The figures of the blocks that were allocated while sampling was on.
    pub fn of_known_blocks(mut self) -> Self {
        self.live = self.live.of_known_blocks();
        self
    }

    /// Adds the samples of others, which have no block in common with these.
    pub fn merge(&mut self, other: &Self) {
        self.live.merge(&other.live);
        self.allocated.merge(&other.allocated);
        self.freed.merge(&other.freed);
    }

    /// The number of blocks of one of the three sets.
    pub fn blocks(&self, figures: &Figures) -> Estimate {
        figures.blocks(match self.smallest {
            Smallest::OfAllocators => estimate::MIN,
            Smallest::OfSamples => self.smallest_for(figures),
        })
    }

    /// The smallest size of the samples of a set; of the other sets if that has none.
    fn smallest_for(&self, figures: &Figures) -> u64 {
        let of_set = figures.smallest_of_samples();
        let all = [&self.live, &self.allocated, &self.freed];
        let of_all = all.into_iter().filter_map(Figures::smallest_of_samples);
        of_set.or(of_all.min()).unwrap_or(estimate::MIN)
    }

    /// A metric. `None`: samples do not give it.
    pub fn metric(&self, metric: Metric) -> Option<Estimate> {
        match metric {
            Metric::Allocations => Some(self.blocks(&self.allocated)),
            Metric::Bytes => Some(self.allocated.bytes()),
            Metric::LeakedAllocations => Some(self.blocks(&self.live)),
            Metric::LeakedBytes => Some(self.live.bytes()),
            _ => None,
        }
    }

    /// The estimate of a metric as a whole number; 0 if samples do not give it.
    pub fn rounded(&self, metric: Metric) -> u64 {
        // The cast saturates.
        self.metric(metric).map_or(0, |it| it.value.round() as u64)
    }

    /// The ends of the interval of a metric, rounded outwards; the upper one may not be known.
    pub fn ends(&self, metric: Metric) -> Option<(u64, Option<u64>)> {
        let it = self.metric(metric)?.rounded();
        // The casts saturate.
        Some((it.low as u64, it.known_high().map(|it| it as u64)))
    }

    /// The metrics that samples give, in the order in which the page and tables have them.
    pub const METRICS: [Metric; 4] = [
        Metric::Allocations,
        Metric::Bytes,
        Metric::LeakedAllocations,
        Metric::LeakedBytes,
    ];

    /// Returns [`Self::METRICS`] as a set.
    pub fn known() -> MetricSet {
        MetricSet::of(&Self::METRICS)
    }
}

impl SampledProfile {
    /// All processes together. `None`: none of them was ever sampled.
    pub fn totals(&self) -> Option<SampledFigures> {
        let all = self.processes.iter().filter_map(|process| process.totals);
        all.reduce(|mut sum, other| {
            sum.merge(&other);
            sum
        })
    }

    /// Each process with its samples.
    pub fn sampled_processes(&self) -> impl Iterator<Item = (&Process, &SampledProcess)> {
        self.profile.processes.iter().zip(&self.processes)
    }

    /// Each site with its samples.
    pub fn sites(&self) -> impl Iterator<Item = (&Site, &SampledFigures)> {
        self.sampled_processes()
            .flat_map(|(process, samples)| process.sites.iter().zip(&samples.sites))
    }

    /// Keeps only the process image with this id.
    pub fn keep_process(&mut self, id: ImageId) {
        let mut kept = self.profile.processes.iter().map(|it| it.id == id);
        self.processes.retain(|_| kept.next() == Some(true));
        self.profile.processes.retain(|it| it.id == id);
    }

    /// The longest period that was in force in any process, in bytes; 0: none.
    pub fn longest_period(&self) -> u64 {
        let periods = self.processes.iter().map(|it| it.sampling.longest_period);
        periods.max().unwrap_or(0)
    }

    /// What its figures are, in one sentence.
    pub fn note(&self) -> String {
        format!(
            "the figures are estimates from samples ({}), and from–to are their 95 % intervals",
            self.periods()
        )
    }

    /// At which periods the processes were sampled, in words.
    pub fn periods(&self) -> String {
        let on = self.processes.iter().map(|it| it.sampling);
        let mut periods: Vec<u64> = on
            .flat_map(|it| [it.period, it.longest_period])
            .filter(|&period| period > 0)
            .collect();
        periods.sort_unstable();
        let hit = |size: String| format!("one byte of {size} is a hit");
        match (periods.first(), periods.last()) {
            (Some(one), Some(other)) if one == other => hit(bytes(*one)),
            (Some(least), Some(most)) => hit(format!("{} to {}", bytes(*least), bytes(*most))),
            _ => "sampling was never on".to_owned(),
        }
    }

    /// Sentences that limit what the figures mean, the most serious first.
    pub fn warnings(&self) -> Vec<String> {
        let sum = |of: fn(&Sampling) -> u64| {
            let all = self.processes.iter().map(|it| of(&it.sampling));
            all.fold(0, u64::saturating_add)
        };
        let losses = [
            (
                sum(|it| it.lost_samples),
                "samples had no place, so live blocks are underestimated",
            ),
            (
                sum(|it| it.lost_totals),
                "samples are in no total, so allocated and freed blocks are underestimated",
            ),
            (
                sum(|it| it.lost_stacks),
                "samples lost their stack; they count in the totals, and in a site without frames",
            ),
            (
                sum(|it| it.unreadable),
                "parts of the process's memory could not be read and are missing",
            ),
        ];
        let losses = losses.into_iter().filter(|(number, _)| *number > 0);
        let mut warnings: Vec<String> = losses
            .map(|(number, what)| format!("{} {what}", count(number)))
            .collect();
        let never = self.sampled_processes().filter(|it| it.1.totals.is_none());
        warnings.extend(never.map(|(process, _)| {
            let pid = process.pid;
            format!("process {pid} was never sampled, so nothing is known of its blocks")
        }));
        let processes = self.sampled_processes();
        warnings.extend(processes.filter_map(|(process, samples)| self.gap(process, samples.on?)));
        warnings
    }

    /// Since when a process was sampled, if that is not its start, and that blocks from other times are
    /// missing.
    fn gap(&self, process: &Process, on: SampledTime) -> Option<String> {
        let since = on.since_us.filter(|_| !on.is_complete)?;
        let start = self.profile.recording.started_unix_ns;
        let at = |us: u64| moment(start.saturating_add(us.saturating_mul(1000)));
        let late = since.saturating_sub(process.started_us);
        let since = match late > 0 {
            true => format!(
                "since {}, {} after its start",
                at(since),
                duration(late as f64)
            ),
            false => "from its start".to_owned(),
        };
        let until = on.until_us;
        let until = until.map_or_else(String::new, |it| format!(" until {}", at(it)));
        Some(format!(
            "process {} was sampled {since}{until}; nothing is known of blocks from other times, so the intervals of live ones have no upper end",
            process.pid
        ))
    }
}
