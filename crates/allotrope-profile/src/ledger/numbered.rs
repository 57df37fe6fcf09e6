//! The short way of events into the books, as in [`super::stretch`], of an image
//! with a single stream: the block of which an event speaks is known before.

use allotrope_trace::model::{Event, EventKind};

use super::Ledger;
use super::booking::Booking;
use super::stretch::answers;
use crate::cursor::{Stretch, TOGETHER};
use crate::live::{AHEAD, NumberedBlocks};
use crate::place::place_of;
use crate::subject::{Subject, number_of, record_of};

/// A few events of a stretch, their times, and the blocks of which they speak.
struct Few<'a> {
    events: &'a [Event],
    subjects: &'a [Subject],
    times: &'a [u64; TOGETHER],
    /// Whether more of the stretch lie behind them.
    more: bool,
    moves: bool,
}

impl Ledger<'_> {
    /// Takes the first events of the stretch, up to one that needs a closer look,
    /// and gives their number.
    pub(crate) fn take_numbered(
        &mut self,
        stretch: &Stretch<'_>,
        blocks: &mut NumberedBlocks,
    ) -> usize {
        if self.sequences.is_some() {
            return 0;
        }
        let mut booking = Booking::new(self, stretch.thread);
        booking.latest = record_of(booking.latest);
        let large = blocks.is_large();
        let mut times = [0; TOGETHER];
        let mut taken = 0;
        loop {
            let few = Few::of(stretch, taken, &mut times);
            if large {
                // As many as are taken here, so that each is asked for once.
                let coming = stretch.subjects.get(taken + AHEAD..).unwrap_or_default();
                blocks.bring_near(&coming[..coming.len().min(few.events.len())]);
            }
            let of_these = take(&mut booking, &few, blocks);
            taken += of_these;
            if of_these == 0 || !few.more {
                break;
            }
        }
        booking.latest = number_of(booking.latest);
        booking.finish(taken);
        taken
    }
}

impl<'a> Few<'a> {
    /// From this place in the stretch on.
    #[inline(always)]
    fn of(stretch: &Stretch<'a>, place: usize, times: &'a mut [u64; TOGETHER]) -> Self {
        let events = &stretch.events[place..];
        let count = events.len().min(TOGETHER);
        stretch.pace.estimate_all(place, count, times);
        Self {
            events: &events[..count],
            subjects: &stretch.subjects[place..][..count],
            times,
            more: count < events.len(),
            moves: stretch.moves,
        }
    }
}

/// Takes the first of these events, up to one that needs a closer look, and gives
/// their number.
#[inline(always)]
fn take(booking: &mut Booking<'_, '_>, few: &Few<'_>, blocks: &mut NumberedBlocks) -> usize {
    // One that the next event may answer is taken together with that.
    let end = few.events.len() - usize::from(few.more);
    let mut at = 0;
    while at < end
        && let Some(taken) = take_next(booking, few, at, blocks)
    {
        at += taken;
    }
    at
}

/// Takes the event at this place, and the next one too if that answers it; `None`
/// if a closer look is needed.
#[inline(always)]
fn take_next(
    booking: &mut Booking<'_, '_>,
    few: &Few<'_>,
    at: usize,
    blocks: &mut NumberedBlocks,
) -> Option<usize> {
    let (event, subject, time) = (
        few.events.get(at)?,
        *few.subjects.get(at)?,
        *few.times.get(at)?,
    );
    match event.kind {
        EventKind::Allocation => {
            if subject == Subject::NONE {
                return None;
            }
            booking.pass_to(time);
            // The same number, so that it is the block that was just handed out.
            if few.subjects.get(at + 1) == Some(&subject)
                && let (Some(next), Some(&time)) = (few.events.get(at + 1), few.times.get(at + 1))
                && next.kind == EventKind::Deallocation
            {
                booking.take_pair(event, next, time);
                return Some(2);
            }
            begin(booking, event, subject, blocks, false);
            Some(1)
        }
        EventKind::Deallocation => {
            let block = blocks.give_back(subject.record(), place_of(event))?;
            booking.pass_to_deallocation(time);
            booking.deallocate(event, &block, subject.record());
            Some(1)
        }
        EventKind::ReallocationStart if few.moves => {
            let (end, &time_of_end) = (few.events.get(at + 1)?, few.times.get(at + 1)?);
            let moved = *few.subjects.get(at + 1)?;
            if !answers(end) || moved == Subject::NONE {
                return None;
            }
            let block = blocks.give_back(subject.record(), place_of(event))?;
            booking.pass_to_deallocation(time);
            booking.deallocate(event, &block, subject.record());
            booking.pass_to(time_of_end);
            begin(booking, end, moved, blocks, true);
            Some(2)
        }
        _ => None,
    }
}

/// Begins the life of an event's block.
#[inline(always)]
fn begin(
    booking: &mut Booking<'_, '_>,
    event: &Event,
    subject: Subject,
    blocks: &mut NumberedBlocks,
    reallocation: bool,
) {
    blocks.begin(subject.record(), booking.allocate(event, reallocation));
    booking.latest = subject.record();
}
