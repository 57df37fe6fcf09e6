//! Compares two sets of stacks: which stacks allocate more or less, and why.
//!
//! [`compare`] matches the stacks of two versions of a program although
//! functions were renamed, inlined, cloned or recompiled in between. It returns
//! what differs: stacks that are new, gone or changed, grouped by cause. The
//! differences of all entries sum exactly to the difference of the totals.
//!
//! It compares one [`Metric`] at a time. Thresholds and presentation belong to
//! the callers.
//!
//! The steps, one file each:
//!
//! 1. `frames`: number the frames of both sides, and normalise their names at several
//!    match levels.
//! 2. `classes`: group stacks with the same exact names.
//! 3. `staying`: find the stacks that are on both sides whatever the metric says.
//! 4. `keys`, `match_by_name`: match classes with equal names, level by level.
//! 5. `net`: merge matches that rose with matches that fell if their functions are
//!    the same and a compiler only inlined them differently.
//! 6. `replaced`: match functions that replaced others at many call sites.
//! 7. `candidates`, `align`, `similarity`, `assign`, `hungarian`: match the rest by
//!    similarity.
//! 8. `noise`: separate the differences that runs of one side have too.
//! 9. `blame`, `call_changes`: group the remaining differences by cause.
//! 10. `entries`, `differing_frame`: build the result.
//!
//! `leading` says which metrics differ at all, and which of them to compare first.
//!
//! The result does not depend on the order of the input, and exchanging the
//! sides exchanges the result.
#![forbid(unsafe_code)]

mod align;
mod assign;
mod blame;
mod call_changes;
mod candidates;
pub mod chance;
mod classes;
mod differing_frame;
mod entries;
mod error;
mod frames;
mod hungarian;
mod keys;
mod leading;
mod match_by_name;
mod match_level;
mod net;
mod noise;
mod replaced;
mod similarity;
mod staying;

use std::fmt;

pub use error::DiffError;
pub use leading::{MetricChange, leading_metric, metric_changes};

pub use crate::chance::Interval;
use allotrope_attribution::{FrameText, Glue, Matcher, Origin, Rule, Suppressions};
use allotrope_profile::{Metric, StackFrame, StackSet};

/// Options of [`compare`].
#[derive(Debug, Clone, PartialEq)]
pub struct DiffOptions {
    /// The metric to compare.
    pub metric: Metric,
    /// The number of iterations by which figures are also divided.
    pub per: Option<f64>,
    /// The frames that are not the user's own.
    pub glue: Glue,
    /// The leaks that are expected. Entries of the metrics of leaks are marked with the
    /// rule that suppresses them; nothing is left out.
    pub suppressions: Suppressions,
    /// The totals are known to differ by more than the random variation of the runs, so
    /// the stacks that moved most are named, although each alone may only jitter.
    pub totals_differ: bool,
    /// Stacks name those of the sets that they were made of ([`EntryStack::sources`]).
    pub sources: bool,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self {
            metric: Metric::Allocations,
            per: None,
            glue: Glue::default(),
            suppressions: Suppressions::default(),
            totals_differ: false,
            sources: false,
        }
    }
}

/// A side of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub enum Side {
    /// Before the change.
    Before = 0,
    /// After the change.
    After = 1,
}

impl fmt::Display for Side {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Before => "before",
            Self::After => "after",
        })
    }
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// The metric that was compared.
    pub metric: Metric,
    /// The total before. With several runs: that of the run with the median
    /// total (the lower of two), from which the figures of all entries are
    /// taken.
    pub before: u64,
    /// The total after.
    pub after: u64,
    /// After minus before: the sum of the differences of the entries.
    pub difference: i64,
    /// The number of iterations by which figures are also divided.
    pub per: Option<f64>,
    /// The random variation among the runs of a side.
    pub noise: Noise,
    /// The 95 % interval of the difference, if a side is a sampled profile: see [`chance`].
    pub interval: Option<Interval>,
    /// The frames that entries refer to by index, each once.
    pub frames: Vec<StackFrame>,
    /// Whose code each of the frames is.
    pub origins: Vec<Origin>,
    /// Whether the files of the repository under test were known, so that a frame outside
    /// it is known to be outside.
    pub knows_repository: bool,
    /// Sorted by the size of the difference; those of [`Kind::Moved`], whose
    /// difference is 0, come last.
    pub entries: Vec<Entry>,
}

impl Diff {
    /// A figure or difference per iteration, if the number of iterations is
    /// known. A peak has none.
    pub fn normalised(&self, figure: i64) -> Option<f64> {
        let per = self.per.filter(|_| !self.metric.is_level());
        per.map(|per| figure as f64 / per)
    }
}

/// Random variation among the runs of a side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noise {
    /// Each side has a single run, so no difference can be recognised as jitter.
    Unknown,
    /// At least one side has several runs.
    Measured {
        /// The totals of the runs before, sorted.
        before: Vec<u64>,
        /// The totals of the runs after, sorted.
        after: Vec<u64>,
        /// The number of stacks with the same figure in all runs of a side.
        deterministic: u64,
        /// The number of the other stacks.
        jittering: u64,
    },
}

/// How the stacks of an entry changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// They did not exist before.
    New,
    /// They no longer exist after.
    Gone,
    /// Their figure changed. A confidence below 1 means that they were also
    /// moved or renamed.
    Changed,
    /// Same figure, but renamed, called from elsewhere or inlined differently.
    /// The difference is 0.
    Moved,
    /// The difference is no larger than those among the runs of one side.
    Jitter,
}

/// A difference with one cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// How its stacks changed.
    pub kind: Kind,
    /// Their figure before.
    pub before: u64,
    /// Their figure after.
    pub after: u64,
    /// After minus before.
    pub difference: i64,
    /// From 0 to 1: how certain the matching of its stacks is.
    pub confidence: f64,
    /// Index of the frame that caused the difference: the first of the user's
    /// own, or the function that explains all the stacks. For a moved entry it
    /// is the frame that differs; for jitter, the outermost own frame of the
    /// thread.
    pub blame: u32,
    /// Index of the frame of the outermost library function that the blamed frame calls on
    /// the way to the allocation, in the stack with the largest difference. `None` if
    /// there is none, and for moved entries and jitter.
    pub through: Option<u32>,
    /// For a moved entry, the frame that differs.
    pub differs: Option<DifferingFrame>,
    /// The rule that suppresses the largest of its stacks, if rules suppress all of them.
    /// `None` if the metric does not count leaks.
    pub suppressed: Option<Rule>,
    /// The 95 % interval of its difference, if a side is a sampled profile: see [`chance`].
    pub interval: Option<Interval>,
    /// Its stacks, the largest differences first.
    pub stacks: Vec<EntryStack>,
}

/// The one frame that differs between two stacks, as indexes into
/// [`Diff::frames`]. One is `None` if a frame was inserted or removed; both are
/// `None` if the stacks differ only in offsets and lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DifferingFrame {
    /// The frame before.
    pub before: Option<u32>,
    /// The frame after.
    pub after: Option<u32>,
}

/// A stack of an entry, and its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryStack {
    /// Its figure before.
    pub before: u64,
    /// Its figure after.
    pub after: u64,
    /// Indexes into [`Diff::frames`], innermost first; of the stack after if it
    /// exists after.
    pub frames: Box<[u32]>,
    /// The stack before, if it differs from the one after in offsets, lines or
    /// columns only.
    pub frames_before: Option<Box<[u32]>>,
    /// With [`DiffOptions::sources`], the indexes of its stacks in the sets before and after;
    /// else empty.
    pub sources: [Vec<u32>; 2],
}

/// Compares the runs of two sides.
///
/// With several runs a side, random variation is recognised. The order of runs,
/// stacks and frames does not matter; two stacks with the same frames count as
/// one.
///
/// # Errors
/// Fails if a side has no runs; a run lacks the metric, has a total above
/// `i64::MAX` or refers to a frame that does not exist; there are more than 2³²
/// stacks; or the number of iterations is not above 0.
pub fn compare(
    before: &[StackSet],
    after: &[StackSet],
    options: &DiffOptions,
) -> Result<Diff, DiffError> {
    check(before, after, options)?;
    let nothing = StackFrame {
        function: "[no stack]".into(),
        ..StackFrame::default()
    };
    let table = frames::FrameTable::new(before, after, &nothing, &options.glue)?;
    let mut classes = classes::Classes::new(table, options.metric)?;
    classes.has_sources = options.sources;
    classes.staying = staying::staying(&classes);
    let match_by_name::NameMatches {
        mut moved,
        unbalanced,
    } = match_by_name::match_by_name(&classes);
    let unbalanced = net::same_functions(&classes, unbalanced);
    let unbalanced = assign::assign(&classes, replaced::replaced_functions(&classes, unbalanced));
    let unbalanced = net::inlined_functions(&classes, unbalanced);
    let (balanced, unbalanced) = unbalanced
        .into_iter()
        .partition(|matched| matched.difference() == 0);
    moved.extend::<Vec<_>>(balanced);
    let (changed, jitter) = match options.totals_differ {
        true => noise::split_of_different_totals(&classes, unbalanced),
        false => noise::split(&classes, unbalanced),
    };
    let changed = blame::group(&classes, changed);
    let (frames, mut entries) = entries::entries(&classes, changed, jitter, moved);
    let origins = frames.iter().map(|frame| options.glue.origin_of(frame));
    let origins: Vec<Origin> = origins.collect();
    for entry in &mut entries {
        entry.through = library_called(entry, &frames, &origins, &options.glue);
    }
    if matches!(
        options.metric,
        Metric::LeakedAllocations | Metric::LeakedBytes
    ) {
        mark_suppressed(&mut entries, &frames, &origins, &options.suppressions);
    }
    let [before, after] = classes
        .representative_runs
        .map(|run| classes.totals[run as usize]);
    Ok(Diff {
        metric: options.metric,
        before,
        after,
        difference: after as i64 - before as i64,
        per: options.per,
        noise: noise(&classes),
        interval: None,
        knows_repository: options.glue.knows_repository(),
        origins,
        frames,
        entries,
    })
}

/// The outermost library function below the blamed frame of an entry.
fn library_called(
    entry: &Entry,
    frames: &[StackFrame],
    origins: &[Origin],
    glue: &Glue,
) -> Option<u32> {
    if matches!(entry.kind, Kind::Moved | Kind::Jitter) {
        return None;
    }
    let caller = *origins.get(entry.blame as usize)?;
    let callees = entry.stacks.iter().find_map(|stack| {
        let blamed = stack.frames.iter().position(|&it| it == entry.blame)?;
        stack.frames.get(..blamed)
    })?;
    let mut outermost_first = callees.iter().rev().copied();
    outermost_first.find(|&index| {
        let (frame, origin) = (frames.get(index as usize), origins.get(index as usize));
        let known = frame.zip(origin);
        known.is_some_and(|(frame, &origin)| glue.is_library(frame, origin, caller))
    })
}

/// Marks the entries all of whose stacks are suppressed.
fn mark_suppressed(
    entries: &mut [Entry],
    frames: &[StackFrame],
    origins: &[Origin],
    suppressions: &Suppressions,
) {
    let mut matcher = Matcher::new(suppressions, |index| {
        let frame = frames.get(index as usize)?;
        let origin = *origins.get(index as usize)?;
        Some(FrameText::new(frame, (&*frame.module).into(), origin))
    });
    for entry in entries {
        let stacks = entry.stacks.iter();
        let all = stacks.flat_map(|stack| [Some(&stack.frames), stack.frames_before.as_ref()]);
        let rules: Option<Vec<&Rule>> = all.flatten().map(|stack| matcher.rule(stack)).collect();
        entry.suppressed = rules.and_then(|rules| rules.first().copied().cloned());
    }
}

fn check(before: &[StackSet], after: &[StackSet], options: &DiffOptions) -> Result<(), DiffError> {
    if let Some(per) = options.per
        && !(per.is_finite() && per > 0.0)
    {
        return Err(DiffError::Per { per });
    }
    for (side, runs) in [(Side::Before, before), (Side::After, after)] {
        if runs.is_empty() {
            return Err(DiffError::NoRuns { side });
        }
        let unknown = runs.iter().position(|run| !run.known.has(options.metric));
        if let Some(index) = unknown {
            return Err(DiffError::UnknownMetric {
                metric: options.metric,
                side,
                run: index + 1,
                title: runs[index].title.clone(),
            });
        }
    }
    Ok(())
}

fn noise(classes: &classes::Classes<'_>) -> Noise {
    if classes.totals.len() <= 2 {
        return Noise::Unknown;
    }
    let totals = |side| {
        let runs = classes.table.runs.iter().zip(&classes.totals);
        let of_side = runs.filter(|(run, _)| run.side == side);
        let mut totals: Vec<u64> = of_side.map(|(_, &total)| total).collect();
        totals.sort_unstable();
        totals
    };
    Noise::Measured {
        before: totals(Side::Before),
        after: totals(Side::After),
        deterministic: classes.deterministic,
        jittering: classes.jittering,
    }
}
