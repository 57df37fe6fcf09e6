//! A run of events as its cursor gets it.

use std::collections::VecDeque;

use allotrope_trace::model::{Event, EventKind};

use crate::clock::{Timeline, Walk};
use crate::resolve::Replaced;
use crate::short_lived::Places;
use crate::subject::Subject;

/// A run of events.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    pub events: Vec<Event>,
    /// Of a single stream, the block of which each event speaks; else empty.
    pub subjects: Vec<Subject>,
    /// Of the allocations without one, in their order.
    pub replaced: VecDeque<Replaced>,
    /// Positions of the events whose block the run alone does not tell.
    pub untold: Vec<u32>,
    /// Positions of the marks, which are the events that are not counted.
    pub marks: VecDeque<u32>,
}

impl Decoded {
    /// The block of which the event at a position speaks, if that is known.
    #[inline]
    pub(crate) fn subject(&self, position: usize) -> Subject {
        self.subjects
            .get(position)
            .copied()
            .unwrap_or(Subject::NONE)
    }

    /// Takes so many events away at the front.
    pub(crate) fn pass(&mut self, events: usize) {
        self.events.drain(..events);
        self.subjects.drain(..events.min(self.subjects.len()));
        self.pass_marks(events);
        for mark in &mut self.marks {
            *mark -= events as u32;
        }
    }

    /// Forgets the marks before a position.
    #[inline]
    pub(crate) fn pass_marks(&mut self, before: usize) {
        let passed = |mark: &u32| (*mark as usize) < before;
        while self.marks.front().is_some_and(passed) {
            self.marks.pop_front();
        }
    }

    /// Takes all of another run's events behind its own.
    pub(crate) fn append(&mut self, other: &mut Self) {
        let behind = self.events.len() as u32;
        self.marks
            .extend(other.marks.drain(..).map(|at| behind + at));
        self.events.append(&mut other.events);
        self.subjects.append(&mut other.subjects);
        self.replaced.append(&mut other.replaced);
    }

    pub(crate) fn clear(&mut self) {
        self.events.clear();
        self.subjects.clear();
        self.replaced.clear();
        self.marks.clear();
    }

    /// Lists the marks, and gives anchors their nanoseconds.
    pub(super) fn list_marks(&mut self, timeline: &Timeline) {
        let mut times = timeline.walk();
        for (at, event) in (0..).zip(&mut self.events) {
            if !event.is_counted() {
                self.marks.push_back(at);
                set_time(event, &mut times);
            }
        }
    }

    /// Nothing is known of new events.
    pub(super) fn forget(&mut self) {
        self.subjects.clear();
        self.replaced.clear();
        self.untold.clear();
        self.marks.clear();
    }

    /// Finds the short-lived blocks, if there is something to find them with, and
    /// the events of which the run alone does not tell the block; and, in passing, does
    /// what [`Self::list_marks`] does. Gives the number of short-lived blocks.
    pub(super) fn find_untold(
        &mut self,
        places: Option<&mut Places>,
        timeline: &Timeline,
    ) -> usize {
        self.subjects.resize(self.events.len(), Subject::NONE);
        let found = places.map_or(0, |places| {
            places.find_short_lived(&self.events, &mut self.subjects)
        });
        // Marks lie so far apart that what is between two of them is listed at once.
        let mut from = 0;
        let mut times = timeline.walk();
        loop {
            let mut coming = self.events[from..].iter();
            let mark = coming.position(|event| !event.is_counted());
            let until = mark.map_or(self.events.len(), |mark| from + mark);
            self.list_untold(from, until, found > 0);
            let Some(event) = self.events.get_mut(until) else {
                return found;
            };
            self.marks.push_back(until as u32);
            set_time(event, &mut times);
            from = until + 1;
        }
    }

    /// Lists the events between two positions, but, if there may be some, for those
    /// whose block is told: without a branch, for which these are, is hard to foresee.
    #[inline]
    fn list_untold(&mut self, from: usize, until: usize, some_told: bool) {
        let positions = from as u32..until as u32;
        if !some_told {
            self.untold.extend(positions);
            return;
        }
        let listed = self.untold.len();
        self.untold.resize(listed + positions.len(), 0);
        let room = &mut self.untold[listed..];
        let mut untold = 0;
        for (at, subject) in positions.zip(&self.subjects[from..until]) {
            room[untold] = at;
            untold += usize::from(!subject.is_told());
        }
        self.untold.truncate(listed + untold);
    }
}

/// Gives an anchor its nanoseconds.
fn set_time(mark: &mut Event, times: &mut Walk<'_>) {
    if mark.kind == EventKind::Timestamp {
        mark.address = times.ns(mark.address);
    }
}
