//! How a trace is aggregated.

use std::thread;

use allotrope_trace::model::{ImageId, StackId};

use crate::peak::Peak;

/// How a trace is aggregated.
#[derive(Default, Clone, Copy)]
pub struct Options<'a> {
    /// A block is temporary if its thread made at most this many allocations
    /// between its allocation and its deallocation.
    pub temporary_threshold: u64,
    /// Called now and then with the number of events aggregated so far and of all events.
    pub progress: Option<&'a dyn Fn(u64, u64)>,
    /// Whether other threads decode events. The profile is the same.
    pub helpers: Helpers,
    /// Makes a [`TimeTable`](crate::TimeTable) for each process, which is exact at these
    /// times, in nanoseconds since the start of the recording; where windows open and
    /// close; and where children are forked.
    pub time_table: Option<&'a [u64]>,
    /// Makes the time tables exact just after the peak of each process, too: what is live
    /// there is what was live at the peak. The [`peaks`](crate::peaks) of the same trace.
    pub peaks: &'a [Peak],
    /// Makes, with a time table, another one by the threads that allocate.
    pub thread_times: bool,
    /// Collects [`Evidence`](crate::Evidence) for findings in each process.
    pub evidence: bool,
    /// Gathers the [details](crate::SiteDetails) of each site.
    pub site_details: bool,
    /// Stacks of which [`Process::stacks`](crate::Process::stacks) has the frames: those that
    /// single blocks name ([`Block::freed_at`](crate::Block::freed_at)).
    pub stacks: &'a [(ImageId, StackId)],
}

/// When an aggregation uses helper threads.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Helpers {
    /// They are used when there are enough events for them to pay, and more than one processor.
    #[default]
    WhereWorthIt,
    /// Always as many as allowed, however small the trace; for tests.
    Always,
    /// Never.
    Never,
}

impl Helpers {
    /// The number of helper threads for a task, at most `most`.
    pub(crate) fn number(self, is_worth_it: bool, most: usize) -> usize {
        match self {
            Self::WhereWorthIt if is_worth_it => {
                let processors = thread::available_parallelism().map_or(1, |n| n.get());
                (processors - 1).min(most)
            }
            Self::WhereWorthIt | Self::Never => 0,
            Self::Always => most,
        }
    }
}
