//! Stacks with their figures, free of where they came from: what foreign
//! formats are read into, what a diff compares, what exporters write.
//!
//! A [`StackSet`] has no time, no processes and no single blocks; a
//! [`Profile`] that has them turns into one.

use crate::model::{Process, Profile, Site, command_text};

/// A figure that a stack can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Metric {
    /// Allocations.
    Allocations = 0,
    /// Requested bytes of all allocations.
    AllocatedBytes = 1,
    /// Temporary allocations.
    TemporaryAllocations = 2,
    /// Allocations live at the end.
    LeakedAllocations = 3,
    /// Their bytes.
    LeakedBytes = 4,
    /// Allocations live at the peak.
    AllocationsAtPeak = 5,
    /// Bytes live at the peak.
    BytesAtPeak = 6,
    /// Lifetimes of all blocks, summed, in microseconds.
    LifetimeMicroseconds = 7,
}

impl Metric {
    /// Every metric, by its number.
    pub const ALL: [Self; 8] = [
        Self::Allocations,
        Self::AllocatedBytes,
        Self::TemporaryAllocations,
        Self::LeakedAllocations,
        Self::LeakedBytes,
        Self::AllocationsAtPeak,
        Self::BytesAtPeak,
        Self::LifetimeMicroseconds,
    ];
}

/// Figures of one stack, by [`Metric`].
pub type Figures = [u64; Metric::ALL.len()];

/// Which metrics a source knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Known(u16);

impl Known {
    /// All of them.
    pub const ALL: Self = Self((1 << Metric::ALL.len()) - 1);

    /// These.
    pub fn of(metrics: &[Metric]) -> Self {
        Self(
            metrics
                .iter()
                .fold(0, |known, metric| known | 1 << *metric as u16),
        )
    }

    /// Whether `metric` is known.
    pub fn has(self, metric: Metric) -> bool {
        self.0 & 1 << metric as u16 != 0
    }

    /// What both know.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// A frame, with everything that its source says of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StackFrame {
    /// Qualified name without parameters, or the source's own spelling where
    /// nothing better can be made of it.
    pub function: String,
    /// The full form; empty if the source has none.
    pub signature: String,
    /// File name of the module, without its folders; empty if unknown.
    pub module: String,
    /// Source file; empty if unknown.
    pub file: String,
    /// Line from 1; 0 if unknown.
    pub line: u32,
    /// Column from 1; 0 if unknown.
    pub column: u32,
    /// Bytes from the start of the function; `None` if unknown.
    pub offset: Option<u64>,
    /// Inlined into the next frame.
    pub inlined: bool,
}

/// A stack and its figures.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CountedStack {
    /// Indexes into [`StackSet::frames`], innermost first.
    pub frames: Box<[u32]>,
    /// Its figures; 0 where the metric is not known.
    pub figures: Figures,
}

/// Stacks with their figures.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StackSet {
    /// What they are of, for people: a command, a file's title. May be empty.
    pub title: String,
    /// Frames, each once.
    pub frames: Vec<StackFrame>,
    /// The stacks. Two may have the same frames.
    pub stacks: Vec<CountedStack>,
    /// The metrics that the figures give.
    pub known: Known,
}

impl StackSet {
    /// The sum of a metric over all stacks.
    pub fn total(&self, metric: Metric) -> u64 {
        self.stacks
            .iter()
            .map(|stack| stack.figures[metric as usize])
            .sum()
    }
}

impl From<&Profile> for StackSet {
    /// All processes of a profile together. Peaks are each image's own, so
    /// that with several images their sum is no moment of the whole.
    fn from(profile: &Profile) -> Self {
        Self::of_processes(profile, &profile.processes)
    }
}

impl StackSet {
    /// One process of a profile, by its place in the profile's list; without
    /// stacks if there is none. A window's figures have its remaining blocks
    /// for leaked ones.
    pub fn of_process(profile: &Profile, index: usize) -> Self {
        let one = profile.processes.get(index).map(std::slice::from_ref);
        Self::of_processes(profile, one.unwrap_or_default())
    }

    fn of_processes(profile: &Profile, processes: &[Process]) -> Self {
        let frames = profile
            .frames
            .iter()
            .map(|frame| StackFrame {
                function: frame.function.clone(),
                signature: frame.signature.clone(),
                module: profile.module_name(frame).into_owned(),
                file: frame.file.clone(),
                line: frame.line,
                column: frame.column,
                offset: Some(frame.offset),
                inlined: frame.inlined,
            })
            .collect();
        let sites = processes.iter().flat_map(|process| &process.sites);
        Self {
            title: command_text(&profile.recording.command),
            frames,
            stacks: sites.map(counted).collect(),
            known: Known::ALL,
        }
    }
}

fn counted(site: &Site) -> CountedStack {
    CountedStack {
        frames: (*site.stack).into(),
        figures: [
            site.allocations,
            site.allocated_bytes,
            site.temporary_allocations,
            site.leaked_allocations,
            site.leaked_bytes,
            site.allocations_at_peak,
            site.bytes_at_peak,
            u64::try_from(site.lifetimes.total_ns() / 1000).unwrap_or(u64::MAX),
        ],
    }
}
