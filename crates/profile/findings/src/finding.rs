//! A finding, and the rules by which findings are made.

use allotrope_trace::model::ImageId;

/// A rule: what it looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Blocks that one thread allocates, that wait, and that another frees in order.
    Queue,
    /// Live bytes that rise during the whole run.
    Growth,
    /// Many blocks that are freed before their thread allocates again.
    Temporaries,
    /// Blocks that are reallocated again and again to grow.
    GrowthChain,
    /// Many small blocks of one size, which the allocator rounds up.
    SmallBlocks,
    /// Blocks that are never freed although most of their like are.
    Leak,
    /// Few blocks that live on where most others were freed, and hold pages.
    Stragglers,
    /// A short rise of live bytes.
    Spike,
    /// One place that holds most of the peak.
    Peak,
    /// Inherited memory that a forked child writes to, so that it is copied.
    ForkCopies,
    /// An allocation in a signal handler.
    SignalHandler,
    /// Resident memory that stays after the blocks were freed.
    NotGivenBack,
}

impl Rule {
    /// All, in the order of the documentation.
    pub const ALL: [Self; 12] = [
        Self::Queue,
        Self::Growth,
        Self::Temporaries,
        Self::GrowthChain,
        Self::SmallBlocks,
        Self::Leak,
        Self::Stragglers,
        Self::Spike,
        Self::Peak,
        Self::ForkCopies,
        Self::SignalHandler,
        Self::NotGivenBack,
    ];

    /// Returns the rule's name on the command line, in files and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Growth => "growth",
            Self::Temporaries => "temporaries",
            Self::GrowthChain => "growth-chain",
            Self::SmallBlocks => "small-blocks",
            Self::Leak => "leak",
            Self::Stragglers => "stragglers",
            Self::Spike => "spike",
            Self::Peak => "peak",
            Self::ForkCopies => "fork-copies",
            Self::SignalHandler => "signal-handler",
            Self::NotGivenBack => "not-given-back",
        }
    }

    /// The rule with this name.
    ///
    /// `kept-burst` was a rule of its own; what it said, [`Self::Peak`] says.
    pub fn of_name(name: &str) -> Option<Self> {
        if name == "kept-burst" {
            return Some(Self::Peak);
        }
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }
}

/// How sure it is that something should be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It costs, and is hardly intended.
    Problem,
    /// It may well be intended.
    Hint,
}

impl Severity {
    /// Returns the severity's name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Hint => "hint",
        }
    }
}

/// A value, with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A number of things.
    Count(u64),
    /// Bytes.
    Bytes(u64),
    /// A duration in nanoseconds.
    Nanoseconds(u64),
    /// A share, from 0 to 1.
    Share(f64),
    /// Any other number without unit.
    Number(f64),
}

/// One of the numbers from which a finding was made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number {
    /// Name of the number in JSON, in snake case; thresholds end in `_threshold`.
    pub name: &'static str,
    /// Value of the number.
    pub value: Value,
}

/// Figures of the process if the mistake were mended.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Mended {
    /// The largest number of live bytes.
    pub peak_bytes: u64,
    /// Allocations.
    pub allocations: u64,
    /// The live bytes, summed up over time, in bytes times seconds.
    pub byte_seconds: f64,
    /// The parts of the process's peak, allocations and byte-seconds that go away, from 0 to 1.
    pub less: [f64; 3],
}

impl Mended {
    /// How much mending brings: the largest part of any of the figures.
    pub(crate) fn value(&self) -> f64 {
        self.less.iter().copied().fold(0.0, f64::max)
    }
}

/// Something that stands out in a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The rule that found it.
    pub rule: Rule,
    /// How sure it is that something should be changed.
    pub severity: Severity,
    /// What it is, in a few words without numbers: "a queue that fills at once and drains
    /// slowly".
    pub title: String,
    /// The main number, with its share: "1.1 MiB, 92 % of the peak".
    pub measure: String,
    /// The numbers behind it, in one or two sentences.
    pub text: String,
    /// What to try, in one sentence.
    pub advice: String,
    /// The process.
    pub process: ImageId,
    /// The user's line to look at: an index into
    /// [`Profile::frames`](allotrope_profile::Profile::frames).
    pub frame: Option<u32>,
    /// The numbers ([`Site::number`](allotrope_profile::Site::number)) of the sites, the
    /// largest first.
    pub sites: Vec<u32>,
    /// What the text is made of.
    pub numbers: Vec<Number>,
    /// What the process would be without the mistake; `None` if that is not known, or only the resident
    /// memory would change.
    pub mended: Option<Mended>,
    /// If it is the same in several processes: as it is in each of them, the largest first. The other
    /// fields are then those of the first one, except for the measure, the text and the sites.
    pub parts: Vec<Finding>,
}
