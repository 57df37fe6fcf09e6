//! The short way of events into the books: a stretch of one thread's events that
//! have one order, agree with what is live and belong to no window. Nearly all
//! events of nearly all programs come this way, so that here every instruction
//! counts. It books exactly what [`Ledger::take`] would.

use allotrope_trace::model::{Event, EventKind};

use super::{Ledger, thread};
use crate::cursor::Stretch;
use crate::live::{BlockNumber, INHERITED, LiveBlock, LiveBlocks, NO_BLOCK, Spot};
use crate::place::place_of;

impl Ledger<'_> {
    /// Takes the first events of the stretch, up to one that needs a closer look,
    /// and gives their number.
    pub(crate) fn take_stretch(&mut self, stretch: &Stretch<'_>, live: &mut LiveBlocks) -> usize {
        if self.sequences.is_some() {
            return 0;
        }
        thread(&mut self.threads, stretch.thread);
        let events = stretch.events;
        let mut at = 0;
        while let Some(event) = events.get(at) {
            let spot = live.find(place_of(event));
            let known = spot.block != NO_BLOCK;
            match event.kind {
                EventKind::Allocation if !known => {
                    self.pass_to(stretch.time(at));
                    let next = events.get(at + 1);
                    if let Some(next) = next.filter(|next| gives_back(next, event)) {
                        self.take_pair(stretch, (event, next), at);
                        at += 2;
                        continue;
                    }
                    self.take_allocation(stretch.thread, event, spot, live, false);
                }
                EventKind::Deallocation if known => {
                    self.pass_to(stretch.time(at));
                    self.take_deallocation(stretch.thread, event, spot, live);
                }
                EventKind::ReallocationStart if known && stretch.moves => {
                    let Some(end) = events.get(at + 1).filter(|next| answers(next)) else {
                        break;
                    };
                    let place = place_of(end);
                    if place != place_of(event) && live.contains(place) {
                        break;
                    }
                    self.pass_to(stretch.time(at));
                    self.take_deallocation(stretch.thread, event, spot, live);
                    self.note_level();
                    self.pass_to(stretch.time(at + 1));
                    self.take_allocation(stretch.thread, end, live.find(place), live, true);
                    at += 1;
                }
                _ => break,
            }
            self.note_level();
            at += 1;
        }
        at
    }

    #[inline]
    pub(super) fn pass_to(&mut self, time: u64) {
        self.now = self.now.max(time);
        if self.series.outgrown(self.now) {
            self.series.advance(self.now, self.live());
        }
    }

    #[inline]
    fn take_allocation(
        &mut self,
        by: u32,
        event: &Event,
        spot: Spot,
        live: &mut LiveBlocks,
        reallocation: bool,
    ) {
        let block = self.block_of(by, event);
        self.threads[by as usize].latest = live.fill(spot, block);
        self.book_allocation(by, event, block.site, reallocation);
    }

    /// What is known of the block that is handed out now.
    #[inline(always)]
    pub(super) fn block_of(&mut self, by: u32, event: &Event) -> LiveBlock {
        LiveBlock {
            place: place_of(event),
            size: event.size,
            allocated_ns: self.now,
            site: self.sites.of_stack(event.stack),
            thread: by,
        }
    }

    #[inline]
    fn take_deallocation(&mut self, by: u32, event: &Event, spot: Spot, live: &mut LiveBlocks) {
        let block = live.remove(spot);
        self.book_deallocation(by, event, &block, spot.block);
    }

    /// A deallocation of the block that had this number, in all books but that of
    /// the single blocks.
    #[inline]
    pub(super) fn book_deallocation(
        &mut self,
        by: u32,
        event: &Event,
        block: &LiveBlock,
        number: BlockNumber,
    ) {
        self.entries[event.entry as usize].deallocations += 1;
        let thread = &mut self.threads[by as usize];
        thread.deallocations += 1;
        if block.site == INHERITED {
            self.totals.inherited_deallocations += 1;
            return;
        }
        let temporary = block.thread == by && thread.latest == number;
        thread.temporary += u64::from(temporary);
        self.live_allocations -= 1;
        self.live_bytes = self.live_bytes.wrapping_sub(block.size);
        let lifetime = self.now - block.allocated_ns;
        self.sites
            .deallocate(block.site, block.size, lifetime, temporary);
    }

    /// A block that is given back at once, which the live blocks need not know.
    #[inline]
    pub(super) fn take_pair(
        &mut self,
        stretch: &Stretch<'_>,
        (allocation, deallocation): (&Event, &Event),
        at: usize,
    ) {
        let (by, size) = (stretch.thread, allocation.size);
        let site = self.sites.of_stack(allocation.stack);
        self.book_allocation(by, allocation, site, false);
        self.note_level();
        let allocated = self.now;
        self.pass_to(stretch.time(at + 1));
        self.entries[deallocation.entry as usize].deallocations += 1;
        let thread = &mut self.threads[by as usize];
        thread.latest = NO_BLOCK;
        thread.deallocations += 1;
        thread.temporary += 1;
        self.live_allocations -= 1;
        self.live_bytes = self.live_bytes.wrapping_sub(size);
        self.sites
            .deallocate(site, size, self.now - allocated, true);
        self.note_level();
    }

    /// An allocation, in all books but that of the single blocks.
    #[inline]
    pub(super) fn book_allocation(
        &mut self,
        by: u32,
        event: &Event,
        site: u32,
        reallocation: bool,
    ) {
        let thread = &mut self.threads[by as usize];
        thread.allocations += 1;
        thread.allocated_bytes = thread.allocated_bytes.wrapping_add(event.size);
        let entry = &mut self.entries[event.entry as usize];
        entry.allocations += 1;
        entry.allocated_bytes = entry.allocated_bytes.wrapping_add(event.size);
        self.totals.allocations += 1;
        self.live_allocations += 1;
        self.live_bytes = self.live_bytes.wrapping_add(event.size);
        self.sites.allocate(site, event.size, reallocation);
    }
}

/// Whether the event gives back the block that the one before it handed out.
#[inline]
pub(super) fn gives_back(event: &Event, allocation: &Event) -> bool {
    event.kind == EventKind::Deallocation && place_of(event) == place_of(allocation)
}

/// Whether the event tells where the block came to lie that the one before it
/// began to reallocate.
#[inline]
pub(super) fn answers(event: &Event) -> bool {
    event.kind == EventKind::ReallocationEnd
}
