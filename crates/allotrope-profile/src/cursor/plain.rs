//! What a cursor gives of allocations and deallocations that are nothing else: all
//! up to the next mark at once, without a step for each of them.

use allotrope_trace::model::{Event, EventKind};

use super::{Cursor, Pace, Step};
use crate::live::LiveBlocks;
use crate::source::TraceSource;

/// Events that come next in a stream, up to the next mark at most.
pub(crate) struct Plain<'a> {
    /// Only those before the first one that is not [plain](is_plain) are meant.
    pub events: &'a [Event],
    pub pace: Pace,
    /// The step that the first one is, without what is in the event itself; those
    /// that follow differ from it by ordinal and time.
    pub first: Step,
}

/// Whether the event is an allocation or a deallocation, and no half of a
/// reallocation.
#[inline]
pub(crate) fn is_plain(event: &Event) -> bool {
    (event.kind as u8) <= EventKind::Deallocation as u8
}

impl<S: TraceSource> Cursor<'_, S> {
    /// The events from the next one on, those before the stream's `until`th, after
    /// [`Self::time_of_plain`] said that the next one is plain.
    #[inline]
    pub(crate) fn plain(&mut self, until: u64, live: &LiveBlocks) -> Plain<'_> {
        if live.is_large() {
            self.prefetch(live);
        }
        let mut events = &self.buffer[self.position..self.segment.end];
        if live.is_large() {
            events = &events[..events.len().min(self.looked_at - self.position)];
        }
        let most = usize::try_from(until.saturating_sub(self.ordinal)).unwrap_or(usize::MAX);
        let pace = self.segment.pace();
        Plain {
            events: &events[..events.len().min(most)],
            pace,
            first: Step {
                time: pace.time(0),
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
