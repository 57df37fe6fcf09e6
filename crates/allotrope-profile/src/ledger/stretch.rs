//! The short way of events into the books: a stretch of one thread's events that
//! have one order, agree with what is live and belong to no window.

use allotrope_trace::model::{Event, EventKind};

use super::Ledger;
use super::booking::Booking;
use crate::block_key::block_key;
use crate::cursor::Stretch;
use crate::live::{LiveBlocks, NO_BLOCK};

impl Ledger<'_> {
    /// Takes the first events of the stretch, up to one that needs a closer look,
    /// and gives their number.
    pub(crate) fn take_stretch(&mut self, stretch: &Stretch<'_>, live: &mut LiveBlocks) -> usize {
        if self.sequences.is_some() {
            return 0;
        }
        let mut booking = Booking::new(self, stretch.thread);
        let mut at = 0;
        while let Some(taken) = take_next(&mut booking, stretch, at, live) {
            at += taken;
        }
        booking.finish(at);
        at
    }
}

/// Takes the event at this place in the stretch, and the next one too if that
/// answers it; `None` if a closer look is needed and at the end.
#[inline(always)]
fn take_next(
    booking: &mut Booking<'_, '_>,
    stretch: &Stretch<'_>,
    at: usize,
    live: &mut LiveBlocks,
) -> Option<usize> {
    let event = stretch.events.get(at)?;
    let spot = live.find(block_key(event));
    let known = spot.block != NO_BLOCK;
    match event.kind {
        EventKind::Allocation if !known => {
            booking.pass_to(stretch.time(at));
            let next = stretch.events.get(at + 1);
            if let Some(next) = next.filter(|next| gives_back(next, event)) {
                booking.take_pair(event, next, stretch.time(at + 1));
                return Some(2);
            }
            let block = booking.allocate(event, false);
            booking.latest = live.fill(spot, block);
            Some(1)
        }
        EventKind::Deallocation if known => {
            booking.pass_to_deallocation(stretch.time(at));
            booking.deallocate(event, &live.remove(spot), spot.block);
            Some(1)
        }
        EventKind::ReallocationStart if known && stretch.moves => {
            let end = stretch.events.get(at + 1).filter(|next| answers(next))?;
            let place = block_key(end);
            if place != block_key(event) && live.contains(place) {
                return None;
            }
            booking.pass_to_deallocation(stretch.time(at));
            booking.deallocate(event, &live.remove(spot), spot.block);
            booking.pass_to(stretch.time(at + 1));
            let block = booking.allocate(end, true);
            booking.latest = live.fill(live.find(place), block);
            Some(2)
        }
        _ => None,
    }
}

/// Whether the event gives back the block that the one before it handed out.
#[inline]
fn gives_back(event: &Event, allocation: &Event) -> bool {
    event.kind == EventKind::Deallocation && block_key(event) == block_key(allocation)
}

/// Whether the event tells where the block came to lie that the one before it
/// began to reallocate.
#[inline]
fn answers(event: &Event) -> bool {
    event.kind == EventKind::ReallocationEnd
}
