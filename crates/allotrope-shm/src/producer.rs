//! A stand-in for the recorder, for tests of the collector: maps an arena and
//! writes to it, with the recorder's own [`Writer`], what the contract allows, or
//! what it forbids.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::futex;

use crate::arena::Arena;
use crate::layout::{
    Control, Doorbell, IMAGES, Progress, RING_MARGIN, RING_WORDS, RINGS, RingHeader, image_state,
};
use crate::location::Location;
use crate::ring::{ArenaRing, Host, Limits, Writer};
use crate::wire::{self, Encode, Image};

/// How long a test waits for its collector.
const PATIENCE: Duration = Duration::from_secs(30);

/// A mapping of somebody's arena, to write to.
#[derive(Debug)]
pub struct Producer {
    arena: Arena,
}

/// A producer that waits without sleeping, and not for ever.
struct Patient {
    begin: Instant,
}

impl Host<ArenaRing> for Patient {
    fn is_collected(&self) -> bool {
        assert!(self.begin.elapsed() < PATIENCE, "nobody drains");
        true
    }

    fn futex_wait(&self, _: &AtomicU32, _: u32) {
        thread::yield_now();
    }

    fn futex_wake(&self, word: &AtomicU32) {
        let _ = futex::wake(word, futex::Flags::empty(), u32::MAX >> 1);
    }

    fn commit(&self, _: &[AtomicU64]) -> bool {
        // The test's process gets a signal if memory is short.
        true
    }
}

impl Producer {
    /// Maps the arena of which these are the arena and the control file.
    pub fn map(memory: File, control: File) -> io::Result<Self> {
        let arena = Arena::map_existing(OwnedFd::from(memory), OwnedFd::from(control))?;
        Ok(Self { arena })
    }

    /// Maps the arena at `location`, as a recorder does that may look into the
    /// collector's `/proc/PID/fd`.
    pub fn find(location: &Location) -> io::Result<Self> {
        let path = |descriptor| format!("/proc/{}/fd/{descriptor}", location.process);
        let mut options = File::options();
        let options = options.read(true);
        let control = options.open(path(location.control))?;
        Self::map(options.write(true).open(path(location.arena))?, control)
    }

    /// The arena's control page.
    pub fn control(&self) -> &Control {
        self.arena.control()
    }

    /// Claims an image slot, writes its event as the first of a ring of its own, and
    /// waits until the collector knows it. Gives slot and ring.
    pub fn claim_image(&self, image: &Image<'_, &[u8]>) -> (usize, usize) {
        let slot = self.claim_slot();
        let ring = self.claim_ring(slot, image.pid);
        self.write_event(ring, image);
        self.make_ready(slot, image.pid, ring);
        (slot, ring)
    }

    /// Claims an image slot.
    pub fn claim_slot(&self) -> usize {
        let claim = |slot: &usize| {
            let state = &self.arena.images()[*slot].state;
            let (free, claimed) = (image_state::FREE, image_state::CLAIMED);
            let result = state.compare_exchange(free, claimed, Acquire, Relaxed);
            result.is_ok()
        };
        (0..IMAGES).find(claim).expect("a free image slot")
    }

    /// Says that the image in `slot` is ready and waits to be known.
    pub fn make_ready(&self, slot: usize, pid: u32, ring: usize) {
        let image = &self.arena.images()[slot];
        image.pid.store(pid, Relaxed);
        image.first_ring.store(ring as u32, Relaxed);
        image.state.store(image_state::READY, Release);
        let host = Patient {
            begin: Instant::now(),
        };
        self.doorbell().ring(|word| host.futex_wake(word));
        while image.state.load(Acquire) == image_state::READY {
            assert!(host.begin.elapsed() < PATIENCE, "nobody acknowledges");
            thread::yield_now();
        }
    }

    /// Claims a ring for the image in `slot`.
    pub fn claim_ring(&self, slot: usize, tid: u32) -> usize {
        let owner = slot as u32 + 1;
        let claim = |ring: &usize| {
            let owned = &self.arena.rings()[*ring].owner;
            owned.compare_exchange(0, owner, Acquire, Relaxed).is_ok()
        };
        let ring = (0..RINGS).find(claim).expect("a free ring");
        self.arena.rings()[ring].tid.store(tid, Relaxed);
        self.arena.rings()[ring].claims.fetch_add(1, Relaxed);
        ring
    }

    /// Whether an event of `words` can be written without waiting.
    pub fn has_room(&self, ring: usize, words: usize) -> bool {
        let written = self.rings()[ring].written.load(Relaxed);
        let used = written.wrapping_sub(self.progress(ring).read.load(Acquire));
        used.saturating_add((words + RING_MARGIN) as u64) <= RING_WORDS as u64
    }

    /// Writes one event, waiting for space.
    pub fn write_event(&self, ring: usize, event: &impl Encode) {
        let parts = self
            .arena
            .ring(ring)
            .expect("a ring's memory can be mapped");
        let (writer, limits) = (Writer::default(), Limits::default());
        writer.attach(parts, &limits);
        let words = event.most_words() as u64;
        let host = Patient {
            begin: Instant::now(),
        };
        let reserved = writer.reserve_slow(&limits, words, true, self.doorbell(), &host);
        reserved.expect("the ring is the producer's");
        // SAFETY: a ring was attached.
        unsafe { writer.write_long(event) };
    }

    /// Writes one event that is given as its words.
    pub fn write(&self, ring: usize, words: &[u64]) {
        self.write_event(ring, &Words(words));
    }

    /// Writes an event that begins with `kind`, `extra` and `payload`.
    pub fn event(&self, ring: usize, kind: u8, extra: u8, payload: u64, more: &[u64]) {
        let mut words = vec![wire::head(kind, extra, payload)];
        words.extend_from_slice(more);
        self.write(ring, &words);
    }

    /// How far the ring was read.
    pub fn progress(&self, ring: usize) -> &Progress {
        &self.arena.progress()[ring]
    }

    /// The rings, whosever they are.
    pub fn rings(&self) -> &[RingHeader; RINGS] {
        self.arena.rings()
    }

    /// Claims to have written up to `position`, whatever is there.
    pub fn forge_position(&self, ring: usize, position: u64) {
        self.arena.rings()[ring].written.store(position, Release);
    }

    /// Overwrites the word at an offset in the arena file, whosever it is.
    pub fn overwrite(&self, offset: usize, word: u64) {
        self.arena.word(offset).store(word, Relaxed);
    }

    /// Counts lost events of the image in `slot`.
    pub fn lose(&self, slot: usize, reason: usize, events: u64) {
        self.arena.images()[slot].lost[reason].fetch_add(events, Relaxed);
    }

    fn doorbell(&self) -> &Doorbell {
        &self.arena.shared().doorbell
    }
}

/// The words of an event.
pub fn words_of(event: &impl Encode) -> Vec<u64> {
    let mut words = vec![0; event.most_words()];
    let length = event.encode(|index, word| words[index] = word);
    words.truncate(length);
    words
}

/// An event, or what is none, as words.
struct Words<'w>(&'w [u64]);

impl Encode for Words<'_> {
    fn most_words(&self) -> usize {
        self.0.len()
    }

    fn encode(&self, mut put: impl FnMut(usize, u64)) -> usize {
        for (index, word) in self.0.iter().enumerate() {
            put(index, *word);
        }
        self.0.len()
    }
}
