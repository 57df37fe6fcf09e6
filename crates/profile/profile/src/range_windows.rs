//! A range of time as the only window, to which events belong by their time.

use allotrope_trace::model::{QuietWait, Window, WindowEnd};

use crate::threads::Threads;
use crate::window_table::{Rank, WindowTable};

/// The ranks during the range and after it, by which a [`WindowTable`] knows when its
/// window is open.
const DURING: Rank = 1;

const AFTER: Rank = 2;

/// A range of time, in nanoseconds since the start of the recording. It includes its start
/// and not its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeRange {
    pub from_ns: u64,
    pub to_ns: u64,
}

impl TimeRange {
    /// The rank of an event at this time.
    #[inline]
    pub(crate) fn rank(self, now: u64) -> Rank {
        match now {
            now if now < self.from_ns => 0,
            now if now < self.to_ns => DURING,
            _ => AFTER,
        }
    }

    /// A table with the range as its only window.
    pub(crate) fn table() -> WindowTable {
        let mut table = WindowTable::default();
        table.add(Window {
            image: 0,
            opened: DURING.into(),
            thread: None,
            this_thread_only: false,
            name: String::new(),
            iterations: 0,
            quiet: QuietWait::NotRequested,
            tick: 0,
        });
        table.add_end(WindowEnd {
            image: 0,
            opened: DURING.into(),
            closed: AFTER.into(),
            quiet: QuietWait::NotRequested,
            tick: 0,
            descriptors: None,
        });
        table.build(&mut Threads::default());
        table
    }
}
