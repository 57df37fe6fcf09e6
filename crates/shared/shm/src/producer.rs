//! A stand-in for the recorder, for tests of the collector: maps an arena and writes
//! valid or invalid words to it, with the recorder's own [`Writer`].

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

/// How long a producer waits for the collector of a test.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A mapping of another process's arena, to write to.
#[derive(Debug)]
pub struct Producer {
    arena: Arena,
}

/// The operating system for a producer that waits without sleeping, up to
/// [`TEST_TIMEOUT`].
struct TestHost {
    begin: Instant,
}

impl Host<ArenaRing> for TestHost {
    fn is_collected(&self) -> bool {
        assert!(
            self.begin.elapsed() < TEST_TIMEOUT,
            "the ring is not drained"
        );
        true
    }

    fn futex_wait(&self, _: &AtomicU32, _: u32) {
        thread::yield_now();
    }

    fn futex_wake(&self, word: &AtomicU32) {
        let _ = futex::wake(word, futex::Flags::empty(), u32::MAX >> 1);
    }

    fn commit(&self, _: &[AtomicU64]) -> bool {
        // If memory is short, the test's process gets a signal.
        true
    }
}

impl Producer {
    /// Maps an arena from its two files.
    pub fn map(memory: File, control: File) -> io::Result<Self> {
        let arena = Arena::map_existing(OwnedFd::from(memory), OwnedFd::from(control))?;
        Ok(Self { arena })
    }

    /// Maps the arena at `location`, as a recorder does that may open the collector's
    /// `/proc/PID/fd`.
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

    /// Claims an image slot and a ring, writes the `Image` event to the ring, and waits
    /// until the collector has attached the image. Returns slot and ring.
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

    /// Marks the image in `slot` as ready and waits until the collector has attached it.
    pub fn make_ready(&self, slot: usize, pid: u32, ring: usize) {
        let image = &self.arena.images()[slot];
        image.pid.store(pid, Relaxed);
        image.first_ring.store(ring as u32, Relaxed);
        image.state.store(image_state::READY, Release);
        let host = TestHost {
            begin: Instant::now(),
        };
        self.doorbell().ring(|word| host.futex_wake(word));
        while image.state.load(Acquire) == image_state::READY {
            assert!(
                host.begin.elapsed() < TEST_TIMEOUT,
                "the image is not attached"
            );
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
    pub fn has_space(&self, ring: usize, words: usize) -> bool {
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
        let host = TestHost {
            begin: Instant::now(),
        };
        let reserved = writer.reserve_slow(&limits, words, true, self.doorbell(), &host);
        reserved.expect("the ring is the producer's");
        // SAFETY: a ring was attached.
        unsafe { writer.write_long(event) };
    }

    /// Writes one event, given as words.
    pub fn write(&self, ring: usize, words: &[u64]) {
        self.write_event(ring, &Words(words));
    }

    /// Writes an event of a first word with `kind`, `extra` and `payload`, and `more`
    /// words.
    pub fn event(&self, ring: usize, kind: u8, extra: u8, payload: u64, more: &[u64]) {
        let mut words = vec![wire::head(kind, extra, payload)];
        words.extend_from_slice(more);
        self.write(ring, &words);
    }

    /// How far the ring was read.
    pub fn progress(&self, ring: usize) -> &Progress {
        &self.arena.progress()[ring]
    }

    /// The headers of all rings.
    pub fn rings(&self) -> &[RingHeader; RINGS] {
        self.arena.rings()
    }

    /// Publishes `position` without writing words.
    pub fn forge_position(&self, ring: usize, position: u64) {
        self.arena.rings()[ring].written.store(position, Release);
    }

    /// Overwrites the word at an offset in the arena file.
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

/// Words to write as an event, valid or not.
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
