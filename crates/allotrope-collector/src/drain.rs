//! Reads the rings: copies words out of the shared memory, gives the room
//! back, and has the words turned into events. Nothing that a ring says about
//! itself is believed before it was checked.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;
use std::time::Duration;

use allotrope_shm::layout::{IMAGES, MAX_EVENT_WORDS, MOST_POSITION, RINGS};
use allotrope_shm::ring::{ArenaRing, Reader};

use crate::counts;
use crate::recording::{Recording, Slot};
use crate::stream::Stream;

/// Words that are copied at once: few enough to stay in the cache until they
/// are decoded, enough for the longest event.
const PIECE: usize = 4096;
const _: () = assert!(PIECE >= MAX_EVENT_WORDS);

/// Age at which events are written though they are few, so that little is
/// missing from the file of a collector that was killed.
const OLD: Duration = Duration::from_millis(250);
/// Events that all streams together may hold back: about 100 MiB.
const MOST_PENDING: usize = 4 << 20;
/// Stack nodes of an image that are held back.
const MOST_FRESH_NODES: usize = 256 << 10;

/// How far a ring was read, and what into.
#[derive(Debug, Default)]
pub(crate) struct RingState {
    /// How far.
    pub(crate) reader: Reader,
    /// The stream of the ring's present claim.
    pub(crate) stream: Option<Box<Stream>>,
    /// The ring's present claim is corrupt: its words are thrown away, so that
    /// its producer does not wait for ever.
    discards: bool,
}

impl Recording {
    /// Reads all rings once; how many words there were.
    pub(crate) fn drain(&mut self) -> u64 {
        let mut found = 0;
        for ring in 0..RINGS {
            found += self.drain_ring(ring);
        }
        if self.book.pending_events > MOST_PENDING {
            self.write_all_events();
        }
        found
    }

    /// Reads one ring as far as it is written now; how many words there were.
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
                image.last_heard = self.now;
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

    /// Makes sure that the ring's stream is the one of this claim.
    pub(crate) fn open_stream(&mut self, ring: usize, slot: usize, claim: u32) {
        let known = self.rings[ring].stream.as_ref();
        if known.is_some_and(|stream| stream.slot == slot && stream.claim == claim) {
            return;
        }
        // Only the collector frees rings, and closes their streams then:
        // another owner while a stream is open is no honest one, but what
        // came before it is kept.
        self.close_stream(ring);
        let id = self.book.next_stream;
        self.book.next_stream += 1;
        if let Some(image) = self.slots[slot].image_mut() {
            image.streams.insert(ring as u32, id);
        }
        let state = &mut self.rings[ring];
        state.discards = false;
        state.stream = Some(Box::new(Stream::new(id, slot, claim)));
    }

    fn skip(&mut self, ring: usize, written: u64) {
        self.arena
            .release(ring, &mut self.rings[ring].reader, written);
    }

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
                .copy_words(ring, &state.reader, written, PIECE, words);
            let Ok(starts_below) = copied else {
                // The address space has no room for one more mapping.
                is_sound = false;
                break;
            };
            let taken = stream.take(&self.words, starts_below, image, &mut self.book);
            // An event that does not fit into a piece is malformed.
            let taken = taken.unwrap_or(0) as u64;
            is_sound = taken > 0;
            if is_sound {
                let to = state.reader.cursor().wrapping_add(taken);
                self.arena.release(ring, &mut state.reader, to);
            }
            if stream.has_run() || image.stacks.fresh_nodes() > MOST_FRESH_NODES {
                stream.write(image, &mut self.book);
            }
        }
        if !is_sound {
            image.write_corrupt(&mut self.book.trace);
            state.discards = true;
            self.skip(ring, written);
        }
    }

    fn write_stream(&mut self, ring: usize) {
        if let Some(stream) = &mut self.rings[ring].stream
            && let Slot::Image(image) = &mut self.slots[stream.slot]
        {
            stream.write(image, &mut self.book);
        }
    }

    /// Writes what the ring's stream holds back, and ends the stream.
    pub(crate) fn close_stream(&mut self, ring: usize) {
        self.write_stream(ring);
        if let Some(mut stream) = self.rings[ring].stream.take() {
            stream.release(&mut self.book);
        }
    }

    /// Frees a ring of an image that has ended.
    pub(crate) fn free_ring(&mut self, ring: usize) {
        // A position of a hostile program's may be anything; honest ones go on
        // from here.
        let cursor = self.rings[ring].reader.cursor() % MOST_POSITION;
        self.arena.free_ring(ring, cursor);
        self.rings[ring] = RingState {
            reader: Reader::at(cursor),
            ..RingState::default()
        };
    }

    fn write_all_events(&mut self) {
        for ring in 0..RINGS {
            self.write_stream(ring);
        }
    }

    /// Writes what the ring's counters have come to.
    pub(crate) fn read_counters(&mut self, ring: usize) {
        if self.rings[ring].stream.is_none() {
            return;
        }
        let Ok(counters) = self.arena.counters(ring) else {
            // There is no room for one more mapping: said as the words are read.
            return;
        };
        let now = counts::read(counters);
        // A thread that has taken the ring over said so before it counted: what
        // was counted before that is told here, and the rest is its own.
        fence(Acquire);
        self.drain_ring(ring);
        if let Some(stream) = &mut self.rings[ring].stream
            && let Slot::Image(image) = &mut self.slots[stream.slot]
        {
            stream.write_counts(now, image, &mut self.book);
        }
    }

    /// Writes what every ring's counters have come to.
    pub(crate) fn read_all_counters(&mut self) {
        for ring in 0..RINGS {
            self.read_counters(ring);
        }
    }

    /// Writes the events of streams that have held some back for long.
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
