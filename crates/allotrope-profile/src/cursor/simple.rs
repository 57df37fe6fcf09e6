//! Hands out allocations and deallocations that are no part of a reallocation: all up
//! to the next timestamp at once, without a [`Step`] for each of them.

use allotrope_trace::model::{Event, EventKind};

use super::{Cursor, Step, TimeInterpolation};
use crate::live::LiveBlocks;
use crate::source::TraceSource;

/// The next events of a stream, up to the next timestamp at most.
pub(crate) struct SimpleEvents<'a> {
    /// Only those before the first one that is not [simple](is_simple) are meant.
    pub events: &'a [Event],
    pub times: TimeInterpolation,
    /// The step that the first one is, without what is in the event itself; those
    /// that follow differ from it by ordinal and time.
    pub first: Step,
}

/// Whether the event is an allocation or a deallocation, and no half of a
/// reallocation.
#[inline]
pub(crate) fn is_simple(event: &Event) -> bool {
    (event.kind as u8) <= EventKind::Deallocation as u8
}

impl<S: TraceSource> Cursor<'_, S> {
    /// The next events, those before the stream's `until`th; the next one must be simple
    /// by [`Self::time_of_simple`].
    #[inline]
    pub(crate) fn simple(&mut self, until: u64, live: &LiveBlocks) -> SimpleEvents<'_> {
        if live.is_large() {
            self.prefetch(live);
        }
        let mut events = &self.buffer[self.position..self.segment.end];
        if live.is_large() {
            events = &events[..events.len().min(self.looked_at - self.position)];
        }
        let most = usize::try_from(until.saturating_sub(self.ordinal)).unwrap_or(usize::MAX);
        let times = self.segment.times();
        SimpleEvents {
            events: &events[..events.len().min(most)],
            times,
            first: Step {
                time: times.time(0),
                lower: self.segment.lower,
                upper: self.segment.upper,
                ordinal: self.ordinal,
                thread: self.thread.unwrap_or_default(),
                rank: self.rank,
                opted_out: self.opted_out,
                ..Step::NONE
            },
        }
    }
}
