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
        let found = places.map_or(0, |places| {
            places.find_short_lived(&self.events, &mut self.subjects)
        });
        let events = (0..).zip(self.events.iter_mut().zip(&self.subjects));
        for (at, (event, subject)) in events {
            if event.kind == EventKind::Anchor {
                event.address = timeline.ns(event.address);
            } else if !subject.is_told() && event.is_counted() {
                self.untold.push(at);
            }
        }
        found
    }
}
