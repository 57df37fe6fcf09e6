//! Live figures of each image while it is recorded, for `allotrope stat`: what it has
//! allocated and freed so far. The draining thread passes each stream's events to
//! [`Figures::take`] when it writes them.
//!
//! Numbers of calls and allocated bytes are exact. Freed bytes are those of the block that
//! was at the address, and events of different threads may arrive here in another order
//! than they happened in: within [`EARLY_GENERATIONS`] of arrivals a deallocation is matched
//! with an allocation that arrives after it. So freed bytes can differ a little from those
//! of an aggregation of the trace, which finds the order by the events' times and gives the
//! numbers at the end.

use allotrope_trace::model::{EntryPoint, Event, EventKind, ImageId, StreamId};
use rustc_hash::FxHashMap;

/// Largest number of deallocations of an image that wait for their allocations.
const MAX_EARLY: usize = 64 << 10;
/// How many times figures are taken until a deallocation without an allocation is that of a
/// block from before the recording, or an inherited one.
const EARLY_GENERATIONS: u32 = 2;

/// An image's figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) allocated_bytes: u64,
    pub(crate) deallocated_bytes: u64,
    pub(crate) allocations: u64,
    pub(crate) deallocations: u64,
}

/// The figures of all running images.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    images: FxHashMap<ImageId, ImageFigures>,
    generation: u32,
}

#[derive(Debug, Default)]
struct ImageFigures {
    sums: Sums,
    /// Size of each live block, by [`key`].
    live: FxHashMap<u64, u64>,
    /// Deallocations whose allocations have not arrived, with their generation.
    early: FxHashMap<u64, u32>,
    /// Blocks that were allocated again before their deallocation arrived, as often.
    late: FxHashMap<u64, u32>,
    /// Block of a reallocation that has started, by stream.
    open: FxHashMap<StreamId, (u64, Option<u64>)>,
}

/// The address of a block with its address space in the upper 16 bits: blocks that a
/// program reports are in spaces of their own (`docs/trace-format.md`).
fn key(event: &Event) -> u64 {
    let space = match event.entry {
        EntryPoint::Pool => 1,
        EntryPoint::Reported => 2,
        _ => 0,
    };
    event.address & ((1 << 48) - 1) | space << 48
}

impl Figures {
    /// Adds events of a stream.
    pub(crate) fn take(&mut self, image: ImageId, stream: StreamId, events: &[Event]) {
        let generation = self.generation;
        let image = self.images.entry(image).or_default();
        for event in events {
            match event.kind {
                EventKind::Allocation => image.allocate(event),
                EventKind::ReallocationEnd => {
                    image.open.remove(&stream);
                    image.allocate(event);
                }
                EventKind::Deallocation => {
                    image.free(key(event), generation);
                }
                EventKind::ReallocationStart => {
                    let size = image.free(key(event), generation);
                    image.open.insert(stream, (key(event), size));
                }
                // The block is as it was.
                EventKind::ReallocationFailed => image.undo(stream),
                EventKind::ReallocationFreed => drop(image.open.remove(&stream)),
                EventKind::Timestamp | EventKind::Thread | EventKind::Epoch => {}
            }
        }
    }

    /// The figures of an image.
    pub(crate) fn of(&self, image: ImageId) -> Sums {
        let sums = self.images.get(&image).map(|image| image.sums);
        sums.unwrap_or_default()
    }

    /// Called when the figures have been read.
    pub(crate) fn next_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        let now = self.generation;
        for image in self.images.values_mut() {
            let is_young = |seen: &u32| now.wrapping_sub(*seen) <= EARLY_GENERATIONS;
            image.early.retain(|_, seen| is_young(seen));
            image.late.clear();
        }
    }

    /// Frees the memory of an image that has ended.
    pub(crate) fn end(&mut self, image: ImageId) {
        self.images.remove(&image);
    }
}

impl ImageFigures {
    fn allocate(&mut self, event: &Event) {
        let (key, size) = (key(event), event.size);
        self.sums.allocations += 1;
        self.sums.allocated_bytes = self.sums.allocated_bytes.wrapping_add(size);
        if !self.early.is_empty() && self.early.remove(&key).is_some() {
            self.release(size);
            return;
        }
        if let Some(old) = self.live.insert(key, size) {
            // Its deallocation, by another thread, is still to arrive.
            self.release(old);
            *self.late.entry(key).or_default() += 1;
        }
    }

    /// Counts a deallocation; returns the size of its block, if that is known.
    fn free(&mut self, key: u64, generation: u32) -> Option<u64> {
        self.sums.deallocations += 1;
        if !self.late.is_empty()
            && let Some(count) = self.late.get_mut(&key)
        {
            *count -= 1;
            if *count == 0 {
                self.late.remove(&key);
            }
            return None;
        }
        let size = self.live.remove(&key);
        match size {
            Some(size) => self.release(size),
            None if self.early.len() < MAX_EARLY => drop(self.early.insert(key, generation)),
            None => {}
        }
        size
    }

    fn undo(&mut self, stream: StreamId) {
        let Some((key, size)) = self.open.remove(&stream) else {
            return;
        };
        self.sums.deallocations -= 1;
        match size {
            Some(size) => {
                self.sums.deallocated_bytes = self.sums.deallocated_bytes.wrapping_sub(size);
                self.live.insert(key, size);
            }
            None => drop(self.early.remove(&key)),
        }
    }

    fn release(&mut self, size: u64) {
        self.sums.deallocated_bytes = self.sums.deallocated_bytes.wrapping_add(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, address: u64, size: u64) -> Event {
        Event {
            kind,
            entry: EntryPoint::Malloc,
            alignment_log2: 0,
            stack: 0,
            address,
            size,
        }
    }

    fn allocated(address: u64, size: u64) -> Event {
        event(EventKind::Allocation, address, size)
    }

    fn freed(address: u64) -> Event {
        event(EventKind::Deallocation, address, 0)
    }

    fn sums(figures: &Figures) -> [u64; 4] {
        let it = figures.of(0);
        [
            it.allocated_bytes,
            it.deallocated_bytes,
            it.allocations,
            it.deallocations,
        ]
    }

    #[test]
    fn a_reallocation_frees_and_allocates_and_a_failed_one_does_nothing() {
        let mut figures = Figures::default();
        let start = event(EventKind::ReallocationStart, 0x10, 0);
        let events = [
            allocated(0x10, 100),
            start,
            event(EventKind::ReallocationFailed, 0, 0),
        ];
        figures.take(0, 1, &events);
        assert_eq!(sums(&figures), [100, 0, 1, 0]);
        figures.take(0, 1, &[start, event(EventKind::ReallocationEnd, 0x20, 300)]);
        assert_eq!(sums(&figures), [400, 100, 2, 1]);
        figures.take(0, 1, &[freed(0x20)]);
        assert_eq!(sums(&figures), [400, 400, 2, 2]);
        assert_eq!(figures.of(7), Sums::default());
    }

    #[test]
    fn threads_may_arrive_in_another_order() {
        let mut figures = Figures::default();
        // The deallocation first; then a block whose predecessor is freed later.
        figures.take(0, 1, &[freed(0x10)]);
        figures.take(0, 2, &[allocated(0x10, 100), allocated(0x20, 50)]);
        figures.take(0, 1, &[allocated(0x20, 7)]);
        figures.take(0, 2, &[freed(0x20)]);
        assert_eq!(sums(&figures), [157, 150, 3, 2]);
        figures.take(0, 1, &[freed(0x20)]);
        assert_eq!(sums(&figures), [157, 157, 3, 3]);
    }

    #[test]
    fn a_block_from_before_is_forgotten() {
        let mut figures = Figures::default();
        figures.take(0, 1, &[freed(0x10)]);
        for _ in 0..=EARLY_GENERATIONS {
            figures.next_generation();
        }
        figures.take(0, 1, &[allocated(0x10, 100)]);
        assert_eq!(sums(&figures), [100, 0, 1, 1]);
    }
}
