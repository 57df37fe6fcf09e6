//! The windows of an image, and which of them are open at which epoch (see
//! [`allotrope_trace::model::Window`]). Epochs of events are turned into their
//! *rank* once, where a stream notes a new one: the number of openings and
//! closings up to it. Between two of those no window differs.

use std::collections::BTreeMap;

use allotrope_trace::model::{Window, WindowEnd};

use crate::index::Threads;

/// Windows that are told apart where more are open at one epoch: each costs
/// every event that happens in it.
pub(crate) const MOST_OPEN: usize = 64;

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
    /// Only events of this thread (its dense number) belong to it.
    pub thread: Option<u32>,
    /// Not too many others were open when it opened.
    pub measured: bool,
}

/// The windows of one image.
#[derive(Debug, Default)]
pub(crate) struct WindowTable {
    /// By the epoch of the opening.
    opened: BTreeMap<u64, Window>,
    ends: BTreeMap<u64, WindowEnd>,
    spans: Vec<Span>,
    /// The epochs at which something opened or closed, ascending.
    bounds: Vec<u64>,
    /// For each rank where its windows begin in `open`; one more for the end.
    starts: Vec<u32>,
    open: Vec<u32>,
}

impl WindowTable {
    /// Takes a window's record. No two have the same opening; in a damaged
    /// file the first counts.
    pub(crate) fn add(&mut self, window: Window) {
        self.opened.entry(window.opened).or_insert(window);
    }

    /// Takes the record of a closing. Of several the one that came first
    /// counts, whichever of the closing threads is heard of first.
    pub(crate) fn add_end(&mut self, end: WindowEnd) {
        if end.closed <= end.opened {
            return;
        }
        let first = self.ends.get(&end.opened).map(|other| other.closed);
        if first.is_none_or(|first| end.closed < first) {
            self.ends.insert(end.opened, end);
        }
    }

    /// Puts the records together when all are there.
    pub(crate) fn settle(&mut self, threads: &mut Threads) {
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

    /// Makes the lists of what is open at each rank.
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
                if open.len() < MOST_OPEN {
                    span.measured = true;
                    open.push(next as u32);
                }
                next += 1;
            }
            self.open.extend_from_slice(&open);
        }
        self.starts.push(self.open.len() as u32);
    }

    /// In order of opening.
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

#[cfg(test)]
mod tests {
    use allotrope_trace::model::Quiet;

    use super::*;

    fn window(opened: u64) -> Window {
        Window {
            image: 0,
            opened,
            thread: None,
            this_thread_only: false,
            name: String::new(),
            iterations: 0,
            quiet: Quiet::NotAsked,
            tick: 0,
        }
    }

    fn end(opened: u64, closed: u64) -> WindowEnd {
        WindowEnd {
            image: 0,
            opened,
            closed,
            quiet: Quiet::NotAsked,
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
        table.settle(&mut Threads::default());
        table
    }

    #[test]
    fn an_epoch_is_in_the_windows_that_opened_and_have_not_closed() {
        // Overlapping: 1 to 4, 2 to 5, 7 to the end.
        let table = table(&[(1, &[4]), (2, &[5]), (7, &[])]);
        let open = |epoch| table.open_at(table.rank(epoch)).to_vec();
        assert_eq!(open(0), []);
        assert_eq!(open(1), [0]);
        assert_eq!(open(2), [0, 1]);
        assert_eq!(open(3), [0, 1]);
        assert_eq!(open(4), [1]);
        assert_eq!(open(6), []);
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
    fn what_opens_among_too_many_is_not_measured() {
        let many: Vec<(u64, &[u64])> = (1..=MOST_OPEN as u64 + 2).map(|n| (n, &[][..])).collect();
        let table = table(&many);
        let measured = table.spans().iter().filter(|span| span.measured).count();
        assert_eq!(measured, MOST_OPEN);
        assert_eq!(table.open_at(table.rank(1000)).len(), MOST_OPEN);
    }

    #[test]
    fn a_closing_without_a_window_is_nothing() {
        let mut table = WindowTable::default();
        table.add_end(end(1, 2));
        table.settle(&mut Threads::default());
        assert!(table.spans().is_empty());
        assert_eq!(table.rank(5), 0);
        assert!(table.open_at(0).is_empty());
    }
}
