//! A stand-in for the recorder, for tests of the collector: maps an arena and
//! writes to it as the contract says, or against it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use crate::arena::Arena;
use crate::layout::{
    Control, IMAGES, Progress, RING_MARGIN, RING_WORDS, RINGS, RingHeader, image_state,
};
use crate::location::Location;
use crate::wire::{self, head, kind};

/// How long a test waits for its collector.
const PATIENCE: Duration = Duration::from_secs(30);

/// A mapping of somebody's arena, to write to.
#[derive(Debug)]
pub struct Producer {
    arena: Arena,
}

/// What an `Image` event says.
#[derive(Debug, Clone, Copy)]
pub struct Introduction<'a> {
    /// The process.
    pub pid: u32,
    /// Its parent.
    pub parent_pid: u32,
    /// One of [`wire::origin`].
    pub origin: u32,
    /// The parent's slot, for a fork.
    pub parent_slot: Option<u32>,
    /// Pairs of ring and ordinal.
    pub fork_points: &'a [(u64, u64)],
    /// Path of the executable.
    pub executable: &'a str,
    /// Arguments, each ended by a zero byte.
    pub command: &'a str,
}

/// The words of a byte string.
pub fn string_words(text: &[u8]) -> impl Iterator<Item = u64> + '_ {
    text.chunks(8).map(|chunk| {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(bytes)
    })
}

/// The words of an `Image` event.
pub fn image_words(introduction: &Introduction<'_>, tick: u64) -> Vec<u64> {
    let it = introduction;
    let mut words = vec![
        0,
        u64::from(it.pid) | u64::from(it.parent_pid) << 32,
        tick,
        u64::from(it.origin) | u64::from(it.parent_slot.map_or(0, |slot| slot + 1)) << 32,
        it.fork_points.len() as u64
            | (it.executable.len() as u64) << 16
            | (it.command.len() as u64) << 32,
    ];
    words.extend(it.fork_points.iter().flat_map(|point| [point.0, point.1]));
    words.extend(string_words(it.executable.as_bytes()));
    words.extend(string_words(it.command.as_bytes()));
    words[0] = head(kind::IMAGE, 0, (words.len() as u64) << 16);
    words
}

/// The words of a `Mapping` event of the range `start..end` with bias `start`.
pub fn mapping_words(mapping: u16, start: u64, end: u64, build_id: &[u8], path: &str) -> Vec<u64> {
    let lengths = build_id.len() as u64 | (path.len() as u64) << 32;
    let mut words = vec![0, start, end, start, crate::arena::tick_now(), lengths];
    words.extend(string_words(build_id));
    words.extend(string_words(path.as_bytes()));
    words[0] = head(
        kind::MAPPING,
        0,
        u64::from(mapping) | (words.len() as u64) << 16,
    );
    words
}

/// The words of a `Window` event.
pub fn window_words(flags: u8, opened: u64, iterations: u64, name: &[u8]) -> Vec<u64> {
    let mut words = vec![
        0,
        opened,
        iterations,
        crate::arena::tick_now(),
        name.len() as u64,
    ];
    words.extend(string_words(name));
    words[0] = head(kind::WINDOW, flags, (words.len() as u64) << 16);
    words
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

    /// Claims an image slot, introduces the image in a ring of its own, and
    /// waits until the collector knows it. Gives slot and ring.
    pub fn claim_image(&self, introduction: &Introduction<'_>) -> (usize, usize) {
        let slot = self.claim_slot();
        let ring = self.claim_ring(slot, introduction.pid);
        self.write(ring, &image_words(introduction, crate::arena::tick_now()));
        self.make_ready(slot, introduction.pid, ring);
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
        self.ring_doorbell();
        let begin = Instant::now();
        while image.state.load(Acquire) == image_state::READY {
            assert!(begin.elapsed() < PATIENCE, "nobody acknowledges");
            std::thread::yield_now();
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
        let positions = &self.arena.rings()[ring];
        let (written, read) = (
            positions.written.load(Relaxed),
            self.progress(ring).read.load(Acquire),
        );
        let used = written
            .wrapping_sub(read)
            .saturating_add((words + RING_MARGIN) as u64);
        used <= RING_WORDS as u64
    }

    /// Writes one event, waiting for room.
    pub fn write(&self, ring: usize, event: &[u64]) {
        let begin = Instant::now();
        while !self.has_room(ring, event.len()) {
            assert!(begin.elapsed() < PATIENCE, "nobody drains");
            self.ring_doorbell();
            std::thread::yield_now();
        }
        let positions = &self.arena.rings()[ring];
        let written = positions.written.load(Relaxed);
        self.arena.put_words(ring, written, event);
        let end = written.wrapping_add(event.len() as u64);
        positions.written.store(end, Release);
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

    fn ring_doorbell(&self) {
        self.arena.shared().doorbell.fetch_add(1, Release);
    }
}
