//! The booking of a stretch: what its events, which are one thread's, change with
//! every single one of them is held here and written into the books at its end. Nearly
//! all events of nearly all programs come this way, so that here every instruction
//! counts. It books exactly what [`Ledger::take`] would.

use allotrope_trace::model::Event;

use super::{Ledger, Level, thread};
use crate::live::{BlockId, INHERITED, LiveBlock, NO_BLOCK};

/// A stretch that is being booked.
// Its own fields are in registers, as far as these suffice, since nothing that is
// not inlined gets a reference to it.
pub(super) struct Booking<'l, 'a> {
    ledger: &'l mut Ledger<'a>,
    by: u32,
    /// The block that the thread allocated last: its number, or what stands for it
    /// as long as the stretch lasts.
    pub(super) latest: BlockId,
    level: Level,
    /// A level as high as this has to be [noted](Ledger::note_level).
    noteworthy: u64,
    /// When [`Ledger::open_bucket`] is due.
    until: u64,
    /// What the thread did, as far as it does not follow from the level.
    allocated_bytes: u64,
    temporary: u64,
}

impl<'l, 'a> Booking<'l, 'a> {
    /// Begins with the events of a thread.
    #[inline(always)]
    pub(super) fn new(ledger: &'l mut Ledger<'a>, by: u32) -> Self {
        Self {
            by,
            latest: thread(&mut ledger.threads, by).latest,
            level: ledger.level,
            noteworthy: ledger.noteworthy(),
            until: ledger.series.until(),
            allocated_bytes: 0,
            temporary: 0,
            ledger,
        }
    }

    /// Writes what was held here into the books, after so many events.
    #[inline(always)]
    pub(super) fn finish(self, events: usize) {
        let thread = thread(&mut self.ledger.threads, self.by);
        let allocations = self.level.allocated - self.ledger.level.allocated;
        thread.allocations += allocations;
        thread.allocated_bytes = thread.allocated_bytes.wrapping_add(self.allocated_bytes);
        thread.deallocations += events as u64 - allocations;
        thread.temporary += self.temporary;
        thread.latest = self.latest;
        self.ledger.level = self.level;
        if self.level.bytes >= self.noteworthy {
            self.ledger.note_level(self.level);
        }
    }

    /// Comes to the next event. As long as nothing is given back the level rises, so
    /// that only the last one before a deallocation can be a peak.
    #[inline(always)]
    pub(super) fn pass_to(&mut self, time: u64) {
        let now = self.level.now.max(time);
        if now >= self.until {
            self.ledger.open_bucket(self.level, now);
            self.until = self.ledger.series.until();
            self.noteworthy = self.ledger.noteworthy();
        }
        self.level.now = now;
    }

    /// Comes to a deallocation.
    #[inline(always)]
    pub(super) fn pass_to_deallocation(&mut self, time: u64) {
        if self.level.bytes >= self.noteworthy {
            self.ledger.note_level(self.level);
            self.noteworthy = self.ledger.noteworthy();
        }
        self.pass_to(time);
    }

    /// Books an allocation, and gives what is known of its block.
    #[inline(always)]
    pub(super) fn allocate(&mut self, event: &Event, reallocation: bool) -> LiveBlock {
        let site = self.book_allocation(event, reallocation);
        LiveBlock {
            size: event.size,
            allocated_ns: self.level.now,
            site,
            thread: self.by,
        }
    }

    /// Books a deallocation of the block that had this number.
    #[inline(always)]
    pub(super) fn deallocate(&mut self, event: &Event, block: &LiveBlock, number: BlockId) {
        self.ledger.entries[event.entry as usize].deallocations += 1;
        if block.site == INHERITED {
            self.ledger.totals.inherited_deallocations += 1;
            return;
        }
        let temporary = (block.thread == self.by) & (self.latest == number);
        self.release(block.site, block.size, block.allocated_ns, temporary);
    }

    /// Books an allocation, to the time of which it came, and the deallocation of
    /// its block that follows at once: the live blocks need not know it.
    #[inline(always)]
    pub(super) fn take_pair(&mut self, allocation: &Event, deallocation: &Event, time: u64) {
        let site = self.book_allocation(allocation, false);
        let allocated_ns = self.level.now;
        self.pass_to_deallocation(time);
        self.ledger.entries[deallocation.entry as usize].deallocations += 1;
        self.latest = NO_BLOCK;
        self.release(site, allocation.size, allocated_ns, true);
    }

    /// An allocation, in all books but that of the single blocks.
    #[inline(always)]
    fn book_allocation(&mut self, event: &Event, reallocation: bool) -> u32 {
        let size = event.size;
        let site = self.ledger.sites.of_stack(event.stack);
        self.ledger.sites.allocate(site, size, reallocation);
        let entry = &mut self.ledger.entries[event.entry as usize];
        entry.allocations += 1;
        entry.allocated_bytes = entry.allocated_bytes.wrapping_add(size);
        self.allocated_bytes = self.allocated_bytes.wrapping_add(size);
        self.level.allocated += 1;
        self.level.bytes = self.level.bytes.wrapping_add(size);
        site
    }

    #[inline(always)]
    fn release(&mut self, site: u32, size: u64, allocated_ns: u64, temporary: bool) {
        let lifetime = self.level.now - allocated_ns;
        self.temporary += u64::from(temporary);
        self.level.released += 1;
        self.level.bytes = self.level.bytes.wrapping_sub(size);
        let sites = &mut self.ledger.sites;
        sites.deallocate(site, size, lifetime, temporary);
    }
}
