//! Sampled profiles: the state of watched processes at one moment, with estimates.
//!
//! [`SampledProfile::read`] turns the samples of a file into the figures of processes and
//! stacks. Each keeps the sums of which its estimates and their variances are made
//! (`allotrope-sampling`), so sums over stacks and processes have the right intervals.
//!
//! The file may be hostile. Samples are added up while they are read, and there are limits
//! for their number and for the frames of all stacks.

mod read;
mod stack_set;

use std::ffi::OsString;
use std::path::PathBuf;

pub use allotrope_sampling::estimate::{Estimate, Figures};
use allotrope_sampling::{Period, estimate};
use allotrope_trace::model::{Exit, ImageId, Recording, Sampling};
use allotrope_trace::{Cut, ReadError};

use crate::metric::{Metric, MetricSet};
use crate::model::{Frame, Module};
use crate::stack::Stack;

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
    /// The watched program and the tool. Its start is the first process's.
    pub recording: Recording,
    /// Module files; frames refer to them by index.
    pub modules: Vec<Module>,
    /// Every distinct frame; stacks refer to them by index.
    pub frames: Vec<Frame>,
    /// Processes in the order of the file.
    pub processes: Vec<SampledProcess>,
}

/// A watched process.
#[derive(Debug, Clone)]
pub struct SampledProcess {
    /// Number of the process in the file.
    pub id: ImageId,
    /// Process id.
    pub pid: u32,
    /// Process id of the parent; 0 if unknown.
    pub parent_pid: u32,
    /// Path of the executable.
    pub executable: PathBuf,
    /// The command line.
    pub command: Vec<OsString>,
    /// When it began to keep samples, in nanoseconds since the first process did.
    pub began_ns: u64,
    /// When its samples were read, in nanoseconds since the first process began.
    pub read_ns: u64,
    /// How it ended; `None` if the file does not say.
    pub exit: Option<Exit>,
    /// How it was sampled, and what is missing.
    pub sampling: Sampling,
    /// All blocks. `None`: sampling was never on, so that nothing is known.
    pub totals: Option<SampledFigures>,
    /// Stacks of the process, those with most live bytes first.
    pub sites: Vec<SampledSite>,
}

/// A stack of which a block was sampled.
#[derive(Debug, Clone)]
pub struct SampledSite {
    /// Number of the site, from 1; unique in the profile.
    pub number: u32,
    /// The stack.
    pub stack: Stack,
    /// Figures of the site's blocks.
    pub figures: SampledFigures,
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

    /// The ends of the interval of a metric, rounded outwards.
    pub fn ends(&self, metric: Metric) -> Option<[u64; 2]> {
        let it = self.metric(metric)?;
        // The casts saturate.
        Some([it.low.floor() as u64, it.high.ceil() as u64])
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

    /// The longest period that was in force in any process, in bytes; 0: none.
    pub fn longest_period(&self) -> u64 {
        let periods = self.processes.iter().map(|it| it.sampling.longest_period);
        periods.max().unwrap_or(0)
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
            .map(|(number, what)| format!("{} {what}", allotrope_text::numbers::count(number)))
            .collect();
        let never = self.processes.iter().filter(|it| it.totals.is_none());
        warnings.extend(never.map(|it| {
            let pid = it.pid;
            format!("process {pid} was never sampled, so nothing is known of its blocks")
        }));
        warnings
    }
}
