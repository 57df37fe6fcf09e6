//! The windows of an image, and which of them are open at which epoch (see
//! [`allotrope_trace::model::Window`]).
//!
//! The *rank* of an epoch is the number of openings and closings up to it. The same
//! windows are open at all epochs of a rank. The cursor looks up the rank once for each
//! epoch of a stream; the window accumulator finds the open windows of each event by its
//! rank, in a table.

use std::collections::BTreeMap;

use allotrope_trace::model::{Window, WindowCounts, WindowEnd, WindowSums};

use crate::threads::Threads;
use crate::windows::WindowFigures;

/// Largest number of windows that are measured while open at the same time: each costs time
/// at every event that belongs to it.
pub(crate) const MAX_OPEN: usize = 64;

/// The rank of an event's epoch.
pub(crate) type Rank = u32;

/// One window of an image.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub window: Window,
    pub end: Option<WindowEnd>,
    pub opened: Rank,
    /// `Rank::MAX` if it never closed.
    pub closed: Rank,
    /// Dense number of the only thread whose events belong to the window, if set.
    pub thread: Option<u32>,
    /// Fewer than [`MAX_OPEN`] others were open when it opened.
    pub measured: bool,
}

/// The windows of one image.
#[derive(Debug, Default)]
pub(crate) struct WindowTable {
    /// Openings by the epoch that they began; `ends` has the same keys. Both are empty after
    /// [`Self::build`].
    opened: BTreeMap<u64, Window>,
    ends: BTreeMap<u64, WindowEnd>,
    /// Counts by the epoch that the opening or closing began.
    counts: BTreeMap<u64, WindowCounts>,
    /// Spans in order of opening.
    spans: Vec<Span>,
    /// The epochs at which a window opened or closed, ascending.
    bounds: Vec<u64>,
    /// Where the windows of each rank begin in `open`; one more entry for the end.
    starts: Vec<u32>,
    /// Indexes into `spans` of the windows that are open at each rank.
    open: Vec<u32>,
}

impl WindowTable {
    /// Adds the record of an opening. No two have the same epoch, except in a damaged
    /// file; then the first counts.
    pub(crate) fn add(&mut self, window: Window) {
        self.opened.entry(window.opened).or_insert(window);
    }

    /// Adds the record of a closing. If several threads closed the window, the earliest
    /// epoch counts, whatever the order of the records.
    pub(crate) fn add_end(&mut self, end: WindowEnd) {
        if end.closed <= end.opened {
            return;
        }
        let first = self.ends.get(&end.opened).map(|other| other.closed);
        if first.is_none_or(|first| end.closed < first) {
            self.ends.insert(end.opened, end);
        }
    }

    /// Adds the counters read at an opening or a closing.
    pub(crate) fn add_counts(&mut self, counts: WindowCounts) {
        self.counts.entry(counts.epoch).or_insert(counts);
    }

    /// The figures of a window where calls were only counted: the differences of the
    /// counters at its closing and its opening. `None` if either is not known.
    pub(crate) fn counted(&self, span: &Span) -> Option<WindowFigures> {
        let opened = self.counts.get(&span.window.opened)?;
        let closed = self.counts.get(&span.end.as_ref()?.closed)?;
        if !span.window.this_thread_only {
            return difference(opened.all, closed.all);
        }
        let same_thread = opened.thread.is_some() && opened.thread == closed.thread;
        same_thread
            .then(|| difference(opened.of_thread, closed.of_thread))
            .flatten()
    }

    /// Makes the spans and the table of open windows, after all records have been added.
    pub(crate) fn build(&mut self, threads: &mut Threads) {
        let mut ends = std::mem::take(&mut self.ends);
        for (opened, window) in std::mem::take(&mut self.opened) {
            let end = ends.remove(&opened);
            let thread = window.this_thread_only.then(|| match window.thread {
                Some(thread) => threads.number(thread),
                None => threads.unknown(),
            });
            self.bounds.push(opened);
            self.bounds.extend(end.as_ref().map(|end| end.closed));
            self.spans.push(Span {
                window,
                end,
                opened: 0,
                closed: Rank::MAX,
                thread,
                measured: false,
            });
        }
        self.bounds.sort_unstable();
        self.bounds.dedup();
        for at in 0..self.spans.len() {
            let span = &self.spans[at];
            let opened = self.rank(span.window.opened);
            let closed = span.end.as_ref().map(|end| self.rank(end.closed));
            self.spans[at].opened = opened;
            self.spans[at].closed = closed.unwrap_or(Rank::MAX);
        }
        self.list_open();
    }

    /// Lists the open windows of each rank.
    fn list_open(&mut self) {
        let ranks = self.bounds.len() as Rank + 1;
        let mut open: Vec<u32> = Vec::new();
        let mut next = 0;
        for rank in 0..ranks {
            self.starts.push(self.open.len() as u32);
            open.retain(|&at| self.spans[at as usize].closed > rank);
            while let Some(span) = self.spans.get_mut(next)
                && span.opened == rank
            {
                if open.len() < MAX_OPEN {
                    span.measured = true;
                    open.push(next as u32);
                }
                next += 1;
            }
            self.open.extend_from_slice(&open);
        }
        self.starts.push(self.open.len() as u32);
    }

    /// The windows, in order of opening.
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// How many openings and closings there were up to this epoch.
    pub(crate) fn rank(&self, epoch: u64) -> Rank {
        self.bounds.partition_point(|&bound| bound <= epoch) as Rank
    }

    /// Indexes of the windows that are open at a rank.
    #[inline]
    pub(crate) fn open_at(&self, rank: Rank) -> &[u32] {
        let at = rank as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(&from), Some(&to)) => &self.open[from as usize..to as usize],
            _ => &[],
        }
    }
}

/// The differences of the counters; `None` if one decreased, as only in a damaged file.
fn difference(opened: WindowSums, closed: WindowSums) -> Option<WindowFigures> {
    Some(WindowFigures {
        allocations: closed.allocations.checked_sub(opened.allocations)?,
        allocated_bytes: closed.allocated_bytes.checked_sub(opened.allocated_bytes)?,
        deallocations: closed.deallocations.checked_sub(opened.deallocations)?,
        reallocations: closed.reallocations.checked_sub(opened.reallocations)?,
        ..WindowFigures::default()
    })
}

#[cfg(test)]
mod tests {
    use allotrope_trace::model::QuietWait;

    use super::*;

    fn window(opened: u64) -> Window {
        Window {
            image: 0,
            opened,
            thread: None,
            this_thread_only: false,
            name: String::new(),
            iterations: 0,
            quiet: QuietWait::NotRequested,
            tick: 0,
        }
    }

    fn end(opened: u64, closed: u64) -> WindowEnd {
        WindowEnd {
            image: 0,
            opened,
            closed,
            quiet: QuietWait::NotRequested,
            tick: 0,
            descriptors: None,
        }
    }

    fn table(windows: &[(u64, &[u64])]) -> WindowTable {
        let mut table = WindowTable::default();
        for &(opened, closings) in windows {
            table.add(window(opened));
            closings
                .iter()
                .for_each(|&closed| table.add_end(end(opened, closed)));
        }
        table.build(&mut Threads::default());
        table
    }

    #[test]
    fn an_epoch_is_in_the_windows_that_opened_and_have_not_closed() {
        // Overlapping: 1 to 4, 2 to 5, 7 to the end.
        let table = table(&[(1, &[4]), (2, &[5]), (7, &[])]);
        let open = |epoch| table.open_at(table.rank(epoch)).to_vec();
        assert!(open(0).is_empty());
        assert_eq!(open(1), [0]);
        assert_eq!(open(2), [0, 1]);
        assert_eq!(open(3), [0, 1]);
        assert_eq!(open(4), [1]);
        assert!(open(6).is_empty());
        assert_eq!(open(u64::MAX), [2]);
        assert_eq!(table.spans()[2].closed, Rank::MAX);
    }

    #[test]
    fn the_earliest_closing_counts_and_an_impossible_one_does_not() {
        let table = table(&[(3, &[9, 2, 6, 3])]);
        let closed = table.spans()[0].end.as_ref().map(|end| end.closed);
        assert_eq!(closed, Some(6));
    }

    #[test]
    fn windows_beyond_the_limit_are_not_measured() {
        let many: Vec<(u64, &[u64])> = (1..=MAX_OPEN as u64 + 2).map(|n| (n, &[][..])).collect();
        let table = table(&many);
        let measured = table.spans().iter().filter(|span| span.measured).count();
        assert_eq!(measured, MAX_OPEN);
        assert_eq!(table.open_at(table.rank(1000)).len(), MAX_OPEN);
    }

    fn counted(epoch: u64, thread: u32, all: u64, of_thread: u64) -> WindowCounts {
        let sums = |allocations| WindowSums {
            allocations,
            ..WindowSums::default()
        };
        WindowCounts {
            image: 0,
            epoch,
            thread: Some(thread),
            all: sums(all),
            of_thread: sums(of_thread),
        }
    }

    #[test]
    fn counts_of_a_window_are_the_differences_between_its_closing_and_opening() {
        let mut table = WindowTable::default();
        let only = |opened| Window {
            this_thread_only: true,
            ..window(opened)
        };
        let windows = [
            window(1),
            only(2),
            only(3),
            window(4),
            window(5),
            window(11),
        ];
        windows.into_iter().for_each(|window| table.add(window));
        for (opened, closed) in [(1, 6), (2, 7), (3, 8), (4, 9), (5, 10)] {
            table.add_end(end(opened, closed));
        }
        let counts = [
            (1, 0, 10, 1),
            (2, 0, 11, 2),
            (3, 0, 12, 3),
            (4, 0, 20, 4),
            (6, 0, 15, 5),
            (7, 0, 30, 9),
            // Another thread closed it.
            (8, 1, 30, 9),
            // A counter that decreased.
            (9, 0, 19, 9),
            (10, 0, 40, 9),
            (11, 0, 40, 9),
        ];
        for (epoch, thread, all, of_thread) in counts {
            table.add_counts(counted(epoch, thread, all, of_thread));
        }
        table.build(&mut Threads::default());
        let spans = table.spans().iter();
        let found: Vec<Option<u64>> = spans
            .map(|span| table.counted(span).map(|it| it.allocations))
            .collect();
        // The third was closed by another thread, the fourth has a counter that
        // decreased, the fifth has no counts for its opening, the last is open.
        let expected = [Some(15 - 10), Some(9 - 2), None, None, None, None];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_closing_without_an_opening_is_ignored() {
        let mut table = WindowTable::default();
        table.add_end(end(1, 2));
        table.build(&mut Threads::default());
        assert!(table.spans().is_empty());
        assert_eq!(table.rank(5), 0);
        assert!(table.open_at(0).is_empty());
    }
}
