//! What changed between two sets of stacks, and which stack it was.
//!
//! [`compare`] matches the stacks of two versions of a program although
//! functions were renamed, inlined, cloned or recompiled in between, and says
//! what is left: stacks that are new, gone or changed, grouped by what caused
//! them. The differences of all entries sum to the difference of the totals, to
//! the last allocation.
//!
//! It works on the figures of one [`Metric`] at a time. It knows nothing of
//! thresholds, which apply when printing, nor of how entries are shown.
//!
//! How it goes, one file a step: frames of both sides are numbered and named at
//! several match levels (`frames`, `names`); stacks of one spelling form classes
//! (`classes`); level by level, classes that balance are taken off
//! (`keys`, `peel`); the rest is assigned to each other by what it has in common
//! (`candidates`, `align`, `assign`), after functions that took the place of
//! others at many call sites (`replaced`), and what one became in parts is set
//! off against it (`net`); what the runs of a side differ by among
//! themselves is set apart (`noise`); what is left is grouped (`blame`, `calls`)
//! and written down (`differs`, `entries`). Nothing depends on the order of the
//! input, and exchanging the sides exchanges the result.

mod align;
mod assign;
mod blame;
mod calls;
mod candidates;
mod classes;
mod differs;
mod entries;
mod error;
mod frames;
mod glue;
mod hungarian;
mod keys;
mod match_by_name;
mod names;
mod net;
mod noise;
mod replaced;

use std::fmt;

pub use error::DiffError;

pub use crate::glue::Glue;
use allotrope_profile::{Metric, StackFrame, StackSet};

/// What to compare, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct DiffOptions {
    /// The figure that is compared.
    pub metric: Metric,
    /// The number of iterations that figures are also given per.
    pub per: Option<f64>,
    /// Frames that are not the user's own.
    pub glue: Glue,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self {
            metric: Metric::Allocations,
            per: None,
            glue: Glue::default(),
        }
    }
}

/// One of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub enum Side {
    /// Before the change.
    Before = 0,
    /// After it.
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

/// What changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// The figure that was compared.
    pub metric: Metric,
    /// Its total before. With several runs that of the run with the median
    /// total (the lower of two), whose figures all entries are made of.
    pub before: u64,
    /// Its total after.
    pub after: u64,
    /// After minus before: the sum of the differences of the entries.
    pub difference: i64,
    /// The number of iterations that figures are also given per.
    pub per: Option<f64>,
    /// What is known of chance.
    pub noise: Noise,
    /// The frames that entries refer to by index, each once.
    pub frames: Vec<StackFrame>,
    /// The largest differences first; folded ones ([`Kind::Moved`]) last.
    pub entries: Vec<Entry>,
}

impl Diff {
    /// A figure or difference per iteration, if a number of iterations is known.
    pub fn normalised(&self, figure: i64) -> Option<f64> {
        self.per.map(|per| figure as f64 / per)
    }
}

/// What several runs say about chance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noise {
    /// One run a side: nothing is known, and no difference is called jitter.
    Unknown,
    /// At least one side has several runs.
    Measured {
        /// The totals of the runs before, the least first.
        before: Vec<u64>,
        /// The totals of the runs after, the least first.
        after: Vec<u64>,
        /// Stacks that all runs of either side counted same.
        deterministic: u64,
        /// Stacks that they did not.
        jittering: u64,
    },
}

/// What became of the stacks of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Not there before.
    New,
    /// Not there after.
    Gone,
    /// Another figure; possibly moved or renamed as well, which the confidence
    /// tells.
    Changed,
    /// The same figure under another name, at another place or inlined
    /// elsewhere; its difference is 0.
    Moved,
    /// Different by no more than the runs of one side are among themselves.
    Jitter,
}

/// A difference with one cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// What became of its stacks.
    pub kind: Kind,
    /// Their figure before.
    pub before: u64,
    /// Their figure after.
    pub after: u64,
    /// After minus before.
    pub difference: i64,
    /// From 0 to 1: how sure it is that what was matched is the same.
    pub confidence: f64,
    /// Index of the frame that answers for it: the first of the user's own, or
    /// the function that explains all the stacks; of a moved entry the frame
    /// that differs; of jitter the outermost frame of the thread.
    pub blame: u32,
    /// Of a moved entry the one frame that differs.
    pub differs: Option<Differs>,
    /// Its stacks, those that differ most first.
    pub stacks: Vec<EntryStack>,
}

/// The one frame that differs between two stacks that are otherwise same:
/// indexes into [`Diff::frames`]. One is missing where a frame was inserted or
/// went; both are where only the spelling of something else differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Differs {
    /// As it was.
    pub before: Option<u32>,
    /// As it is.
    pub after: Option<u32>,
}

/// A stack of an entry and its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryStack {
    /// Its figure before.
    pub before: u64,
    /// Its figure after.
    pub after: u64,
    /// Indexes into [`Diff::frames`], innermost first: as they are after, if it
    /// is there after.
    pub frames: Box<[u32]>,
    /// The stack before where it is the same but for offsets, lines or columns.
    pub frames_before: Option<Box<[u32]>>,
}

/// Compares the runs of two sides.
///
/// Several runs of a side tell what is chance. The order of runs, stacks and
/// frames does not matter; two stacks with the same frames are one.
///
/// # Errors
/// A side without runs, a run that does not give the metric or whose figures do
/// not fit a signed 64-bit sum, a stack that refers to a frame that is not
/// there, more than 2³² stacks, iterations that are not a number above 0.
pub fn compare(
    before: &[StackSet],
    after: &[StackSet],
    options: &DiffOptions,
) -> Result<Diff, DiffError> {
    check(before, after, options)?;
    let nothing = StackFrame {
        function: "[no stack]".to_owned(),
        ..StackFrame::default()
    };
    let table = frames::FrameTable::new(before, after, &nothing, &options.glue)?;
    let classes = classes::Classes::new(table, options.metric)?;
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
    let (changed, jitter) = noise::split(&classes, unbalanced);
    let changed = blame::group(&classes, changed);
    let (frames, entries) = entries::entries(&classes, changed, jitter, moved);
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
        frames,
        entries,
    })
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
