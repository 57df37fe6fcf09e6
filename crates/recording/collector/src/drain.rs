//! Reads the rings: copies words out of the shared memory, releases the space, and
//! passes the words to `stream`, which decodes them. Every position in a ring's
//! header is checked before it is used.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;
use std::time::Duration;

use allotrope_shm::layout::{IMAGES, MAX_EVENT_WORDS, MAX_POSITION, RINGS};
use allotrope_shm::ring::{ArenaRing, Reader};

use crate::counts;
use crate::image::Slot;
use crate::recording::Recording;
use crate::ring_state::RingState;
use crate::stream::Stream;

/// Words that are copied at once: few enough to stay in the cache until they are
/// decoded, but at least the longest event.
const PIECE_WORDS: usize = 4096;
const _: () = assert!(PIECE_WORDS >= MAX_EVENT_WORDS);

/// Age at which pending events are written even if they fill no chunk, so that few are
/// missing if the collector is killed.
const OLD: Duration = Duration::from_millis(250);
/// Largest number of pending events of all streams together: about 100 MiB.
const MAX_PENDING: usize = 4 << 20;
/// Largest number of stack nodes of an image that are not in the trace yet.
const MAX_NEW_NODES: usize = 256 << 10;

impl Recording {
    /// Reads all rings once; returns the number of words.
    pub(crate) fn drain(&mut self) -> u64 {
        let mut found = 0_u64;
        for ring in 0..RINGS {
            // The positions of a ring that was overwritten may be any.
            found = found.saturating_add(self.drain_ring(ring));
        }
        if self.context.pending_events > MAX_PENDING {
            self.write_all_events();
        }
        found
    }

    /// Reads one ring up to its published position; returns the number of words.
    pub(crate) fn drain_ring(&mut self, ring: usize) -> u64 {
        let shared = &self.arena.rings()[ring];
        let Some(slot) = owner_slot(shared.owner.load(Acquire)) else {
            return 0;
        };
        let written = shared.published();
        let words = written.wrapping_sub(self.rings[ring].reader.cursor());
        if words == 0 {
            return 0;
        }
        match &mut self.slots[slot] {
            Slot::Empty => return 0,
            Slot::Refused => self.skip(ring, written),
            Slot::Image(image) => {
                image.last_event = self.now;
                let claim = shared.claims.load(Relaxed);
                self.open_stream(ring, slot, claim);
                if !self.rings[ring].discards {
                    self.read_words(ring, slot, written);
                } else {
                    self.skip(ring, written);
                }
            }
        }
        words
    }

    /// Opens a stream for this claim of the ring, unless it is open.
    pub(crate) fn open_stream(&mut self, ring: usize, slot: usize, claim: u32) {
        let known = self.rings[ring].stream.as_ref();
        if known.is_some_and(|stream| stream.slot == slot && stream.claim == claim) {
            return;
        }
        // Only the collector frees rings, and then it closes their streams. A new owner
        // while a stream is open is an attack or a bug; the events before it are
        // written.
        self.close_stream(ring);
        let id = self.context.next_stream;
        self.context.next_stream += 1;
        if let Some(image) = self.slots[slot].image_mut() {
            image.streams.insert(ring as u32, id);
        }
        let state = &mut self.rings[ring];
        state.discards = false;
        state.stream = Some(Box::new(Stream::new(id, slot, claim)));
    }

    /// Releases the ring's words up to `written` without reading them.
    fn skip(&mut self, ring: usize, written: u64) {
        self.arena
            .release(ring, &mut self.rings[ring].reader, written);
    }

    /// Passes the ring's words up to `written` to its stream.
    fn read_words(&mut self, ring: usize, slot: usize, written: u64) {
        let state = &mut self.rings[ring];
        let Slot::Image(image) = &mut self.slots[slot] else {
            return;
        };
        let Some(stream) = &mut state.stream else {
            return;
        };
        let mut is_sound = state.reader.unread::<ArenaRing>(written).is_some();
        while is_sound && state.reader.cursor() != written {
            self.words.clear();
            let words = &mut self.words;
            let copied = self
                .arena
                .copy_words(ring, &state.reader, written, PIECE_WORDS, words);
            let Ok(starts_below) = copied else {
                // The address space has no space for one more mapping.
                is_sound = false;
                break;
            };
            let taken = stream.take(&self.words, starts_below, image, &mut self.context);
            // An event that is longer than a copied piece is malformed.
            let taken = taken.unwrap_or(0) as u64;
            is_sound = taken > 0;
            if is_sound {
                let to = state.reader.cursor().wrapping_add(taken);
                self.arena.release(ring, &mut state.reader, to);
            }
            if stream.has_full_chunk() || image.stacks.new_nodes() > MAX_NEW_NODES {
                stream.write(image, &mut self.context);
            }
        }
        if !is_sound {
            image.write_corrupt(&mut self.context.trace);
            state.discards = true;
            self.skip(ring, written);
        }
    }

    fn write_stream(&mut self, ring: usize) {
        if let Some(stream) = &mut self.rings[ring].stream
            && let Slot::Image(image) = &mut self.slots[stream.slot]
        {
            stream.write(image, &mut self.context);
        }
    }

    /// Writes the pending events of the ring's stream and ends the stream.
    pub(crate) fn close_stream(&mut self, ring: usize) {
        self.write_stream(ring);
        if let Some(mut stream) = self.rings[ring].stream.take() {
            stream.release(&mut self.context);
        }
    }

    /// Frees a ring of an image that has ended.
    pub(crate) fn free_ring(&mut self, ring: usize) {
        // The ring's next owner continues at this position. It is limited because a
        // hostile program may have set any.
        let cursor = self.rings[ring].reader.cursor() % MAX_POSITION;
        self.arena.free_ring(ring, cursor);
        self.rings[ring] = RingState {
            reader: Reader::at(cursor),
            ..RingState::default()
        };
    }

    pub(crate) fn write_all_events(&mut self) {
        for ring in 0..RINGS {
            self.write_stream(ring);
        }
    }

    /// Writes the growth of the ring's counters since the last call.
    pub(crate) fn read_counters(&mut self, ring: usize) {
        if self.rings[ring].stream.is_none() {
            return;
        }
        let Ok(counters) = self.arena.counters(ring) else {
            // The address space has no space for one more mapping; `read_words` reports
            // that.
            return;
        };
        let now = counts::read(counters);
        // A thread that takes over the ring writes a `Counts` event before it
        // counts: draining attributes the counts before that event to its
        // predecessor, and the rest to the thread itself.
        fence(Acquire);
        self.drain_ring(ring);
        if let Some(stream) = &mut self.rings[ring].stream
            && let Slot::Image(image) = &mut self.slots[stream.slot]
        {
            stream.write_counts(now, image, &mut self.context);
        }
    }

    /// Writes the growth of every ring's counters since the last call.
    pub(crate) fn read_all_counters(&mut self) {
        for ring in 0..RINGS {
            self.read_counters(ring);
        }
    }

    /// Writes the events of streams whose oldest pending event is old.
    pub(crate) fn write_old_events(&mut self) {
        for ring in 0..RINGS {
            let oldest = self.rings[ring].stream.as_ref().and_then(|it| it.oldest());
            if oldest.is_some_and(|oldest| self.now.saturating_duration_since(oldest) >= OLD) {
                self.write_stream(ring);
            }
        }
    }
}

/// The image slot that owns a ring.
pub(crate) fn owner_slot(owner: u32) -> Option<usize> {
    let slot = (owner as usize).checked_sub(1)?;
    (slot < IMAGES).then_some(slot)
}
