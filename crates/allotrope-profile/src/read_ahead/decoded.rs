//! A run of events as its cursor gets it.

use std::collections::VecDeque;

use allotrope_trace::model::{Event, EventKind};

use crate::clock::Timeline;
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
    }

    /// Takes all of another run's events behind its own.
    pub(crate) fn append(&mut self, other: &mut Self) {
        self.events.append(&mut other.events);
        self.subjects.append(&mut other.subjects);
        self.replaced.append(&mut other.replaced);
    }

    pub(crate) fn clear(&mut self) {
        self.events.clear();
        self.subjects.clear();
        self.replaced.clear();
    }
    /// Gives anchors their nanoseconds.
    pub(super) fn set_times(&mut self, timeline: &Timeline) {
        for event in &mut self.events {
            if event.kind == EventKind::Anchor {
                event.address = timeline.ns(event.address);
            }
        }
    }

    /// Nothing is known of the blocks of new events.
    pub(super) fn forget_subjects(&mut self) {
        self.subjects.clear();
        self.replaced.clear();
        self.untold.clear();
    }

    /// Finds the short-lived blocks, if there is something to find them with, and
    /// the events of which the run alone does not tell the block; and gives anchors
    /// their nanoseconds in passing. Gives the number of short-lived blocks.
    pub(super) fn find_untold(
        &mut self,
        places: Option<&mut Places>,
        timeline: &Timeline,
    ) -> usize {
        self.subjects.resize(self.events.len(), Subject::NONE);
        self.list_counted(timeline);
        let Some(places) = places else { return 0 };
        let found = places.find_short_lived(&self.events, &mut self.subjects);
        if found > 0 {
            self.leave_out_told();
        }
        found
    }

    /// Lists all events but marks; these lie so far apart that what is between two
    /// of them is written at once.
    fn list_counted(&mut self, timeline: &Timeline) {
        let mut from = 0;
        loop {
            let mut coming = self.events[from..].iter();
            let mark = coming.position(|event| !event.is_counted());
            let until = mark.map_or(self.events.len(), |mark| from + mark);
            self.untold.extend(from as u32..until as u32);
            let Some(event) = self.events.get_mut(until) else {
                return;
            };
            if event.kind == EventKind::Anchor {
                event.address = timeline.ns(event.address);
            }
            from = until + 1;
        }
    }

    /// Takes those off the list whose block is told. Without a branch: which these
    /// are, is hard to foresee.
    fn leave_out_told(&mut self) {
        let mut kept = 0;
        for i in 0..self.untold.len() {
            let at = self.untold[i];
            self.untold[kept] = at;
            kept += usize::from(!self.subjects[at as usize].is_told());
        }
        self.untold.truncate(kept);
    }
}
