//! New images: reads the `Image` event of each, finds its process, lets it continue
//! (`acknowledge`), and ends the image that it replaces in the process, if any.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

use allotrope_shm::layout::{
    IMAGES, MAX_EVENT_WORDS, RING_OFFSET, RING_WORDS, RINGS, image_state, region_offset,
};
use allotrope_shm::ring::ArenaRing;
use allotrope_shm::wire::{self, PackedBytes, WireEvent, origin};
use allotrope_symbols::PerfMap;
use allotrope_trace::model::{ForkPoint, ImageId, ImageStart, Origin, Record};

use crate::drain::owner_slot;
use crate::image::Image;
use crate::image::Slot;
use crate::process;
use crate::process_exit::{ExitDetection, KnownProcesses, Wanted};
use crate::process_tree::{Process, ProcessTree};
use crate::recording::Recording;

/// How long an image may take from claiming its slot to its `Image` event.
const ATTACH_GRACE: Duration = Duration::from_secs(1);

/// The decoded `Image` event of a new image, and where it was read.
struct Hello {
    start: ImageStart,
    /// Slot of the image from which this one was forked.
    parent_slot: Option<usize>,
    /// Pairs of ring and ordinal: the ends of the parent's streams at the fork.
    fork_points: Vec<u64>,
    ring: usize,
    claim: u32,
    /// Offset of the event in the arena file, in bytes.
    written_at: u64,
    /// The ring's position after the event.
    cursor: u64,
}

impl Recording {
    /// Attaches every image that waits; returns whether there was one.
    pub(crate) fn attach_images(&mut self) -> bool {
        let mut found = false;
        for slot in 0..IMAGES {
            let state = self.arena.images()[slot].state.load(Acquire);
            if state == image_state::READY {
                found = true;
                self.attach(slot);
            }
        }
        found
    }

    /// Whether an image is about to attach: its slot is claimed and its process lives.
    pub(crate) fn is_image_attaching(&mut self) -> bool {
        let mut unknown = false;
        let states = self.arena.images().iter().enumerate();
        for (_, slot) in states.filter(|(slot, _)| matches!(self.slots[*slot], Slot::Empty)) {
            match slot.state.load(Acquire) {
                image_state::READY => return true,
                // The process may have died since it claimed the slot.
                image_state::CLAIMED => match self.search.is_alive(slot.pid.load(Relaxed)) {
                    Some(true) => return true,
                    Some(false) => {}
                    None => unknown = true,
                },
                _ => {}
            }
        }
        if !unknown {
            self.maybe_attaching_since = None;
            return false;
        }
        // A process that the collector cannot see may have died; it is waited for as
        // long as an image may take to attach.
        let since = *self.maybe_attaching_since.get_or_insert(self.now);
        self.now.saturating_duration_since(since) < ATTACH_GRACE
    }

    /// Attaches the image in `slot`, or refuses it if its `Image` event is malformed.
    fn attach(&mut self, slot: usize) {
        if !matches!(self.slots[slot], Slot::Empty) {
            // The slot has an image already: a recorder does not do this twice.
            self.arena.acknowledge(slot);
            return;
        }
        // Diagnostics about the process from before this image come first: an image
        // that attaches removes them.
        self.read_diagnostics();
        let Some(hello) = self.read_hello(slot) else {
            self.arena.acknowledge(slot);
            self.refuse(slot);
            return;
        };
        let start = &hello.start;
        self.drain_images_of(start.pid);
        let wanted = Wanted {
            pid: start.pid,
            parent: start.parent_pid,
            command: &start.command,
            is_fork: start.origin == Origin::Fork,
            written_at: hello.written_at,
        };
        let found = self.search.find(wanted, &self.known());
        let executable = process::executable_identity(found.pid);
        let mut image = Image::new(
            self.context.next_image,
            found.pid,
            found.exit_detection,
            self.now,
        );
        image.own_pid = start.pid;
        image.executable = executable;
        image.is_inner = image.pid_if_seen().is_some() && process::is_in_inner_namespace(image.pid);
        // A short-lived container has gone with its files when its JIT code is to be named.
        let pid = image.pid_if_seen();
        let pid = pid.filter(|pid| process::has_own_mounts(*pid));
        image.perf_map = pid.map(PerfMap::of_process);
        self.end_replaced(&mut image);
        self.context.next_image += 1;
        let ring = hello.ring;
        self.add_image(slot, image, hello);
        // The process waits: its modules, which are the next events, can be opened now.
        self.drain_ring(ring);
        self.arena.acknowledge(slot);
    }

    /// Reads the `Image` event, the first event of the image's first ring; `None` if it
    /// is malformed.
    fn read_hello(&mut self, slot: usize) -> Option<Hello> {
        let first_ring = self.arena.images()[slot].first_ring.load(Acquire);
        let ring = first_ring as usize;
        if ring >= RINGS || self.rings[ring].stream.is_some() {
            return None;
        }
        let shared = &self.arena.rings()[ring];
        if owner_slot(shared.owner.load(Acquire)) != Some(slot) {
            return None;
        }
        let reader = self.rings[ring].reader;
        let published = shared.published();
        reader.unread::<ArenaRing>(published)?;
        let claim = shared.claims.load(Relaxed);
        self.words.clear();
        let words = &mut self.words;
        let copied = self
            .arena
            .copy_words(ring, &reader, published, MAX_EVENT_WORDS, words);
        copied.ok()?;
        let cursor = reader.cursor();
        let Ok((WireEvent::Image(words), length)) = wire::decode(&self.words) else {
            return None;
        };
        Some(Hello {
            start: image_start(&words),
            parent_slot: words.parent_slot.map(|slot| slot as usize),
            fork_points: words.fork_points.to_vec(),
            ring,
            claim,
            written_at: (region_offset(ring) + RING_OFFSET) as u64 + cursor % RING_WORDS as u64 * 8,
            cursor: cursor.wrapping_add(length as u64),
        })
    }

    /// Writes the image's start and begins to read its first ring after the `Image`
    /// event.
    fn add_image(&mut self, slot: usize, mut image: Image, hello: Hello) {
        let mut start = hello.start;
        let pid = image.pid;
        let own_parent = start.parent_pid;
        start.image = image.id;
        start.pid = pid;
        if image.is_inner {
            // The event has the parent's pid in the inner namespace, 0 if the parent is
            // outside of it.
            let stat = process::stat(pid);
            start.parent_pid = stat.map_or(start.parent_pid, |stat| stat.parent);
        }
        image.tick = start.tick;
        if start.origin == Origin::Fork
            && let Some(parent_slot) = hello.parent_slot
            && let Some((parent, points)) = self.parent(parent_slot, own_parent, &hello.fork_points)
        {
            image.parent = Some((parent, start.parent_pid));
            start.forked_from = Some(parent);
            start.fork_points = points;
        }
        if start.origin == Origin::Exec {
            self.first.guessed.get_or_insert(pid);
            if self.first.pid() == Some(pid) && !self.first.has_image {
                self.first.has_image = true;
                start.origin = Origin::First;
            }
        }
        let process = Process::new(image.pid_if_seen(), image.own_pid);
        self.process_tree.arrived(process, &start.executable);
        let first = self.context.first_image_tick.get_or_insert(start.tick);
        *first = start.tick.min(*first);
        let environment = match start.forked_from {
            // That of its parent.
            Some(_) => None,
            None => (image.pid_if_seen()).and_then(|pid| self.environments.read(image.id, pid)),
        };
        self.context.trace.write(&Record::ImageStart(start));
        if let Some(environment) = environment {
            self.context.trace.write(&Record::Environment(environment));
        }
        if let ExitDetection::Process(process) = &image.exit_detection
            && self.watcher.add(process, slot as u64).is_err()
        {
            // The kernel had no memory for the epoll entry.
            image.exit_detection = ExitDetection::Polled;
        }
        self.slots[slot] = Slot::Image(Box::new(image));
        self.open_stream(hello.ring, slot, hello.claim);
        let reader = &mut self.rings[hello.ring].reader;
        self.arena.release(hello.ring, reader, hello.cursor);
    }

    /// The image that had `slot` when a child of it was forked, and the points of the
    /// fork in that image's streams. `pid`: the parent's, in its own namespace; `pairs`:
    /// the child's pairs of ring and ordinal.
    fn parent(
        &mut self,
        slot: usize,
        pid: u32,
        pairs: &[u64],
    ) -> Option<(ImageId, Vec<ForkPoint>)> {
        // Parent and child may both have attached since the last round. Slots are
        // visited in order, so the parent comes later if the child has a lower slot.
        let state = self.arena.images().get(slot)?.state.load(Acquire);
        if state == image_state::READY && matches!(self.slots[slot], Slot::Empty) {
            self.attach(slot);
        }
        // A ring gets its stream with its first event, and the events before the fork
        // may not have been read yet.
        for ring in pairs.iter().step_by(2) {
            if *ring < RINGS as u64 {
                self.drain_ring(*ring as usize);
            }
        }
        let living = self.slots[slot].image().map(Image::ancestor);
        let living_is_it = living.as_ref().is_some_and(|it| it.has_pid(pid));
        let parent = match living {
            Some(living) if living_is_it => Some(living),
            living => self.ancestors.find(slot, pid).cloned().or(living),
        }?;
        Some((parent.image, parent.fork_points(pairs)))
    }

    /// Notes an image whose `Image` event is malformed as unrecorded.
    fn refuse(&mut self, slot: usize) {
        self.slots[slot] = Slot::Refused;
        let pid = self.arena.images()[slot].pid.load(Relaxed);
        let found = self.search.find_mentioned(pid, &self.known());
        self.process_tree.note_unrecorded(
            Process::new(found, pid),
            found.and_then(process::executable_path),
            "its recorder's first event is malformed; record it with the recorder that belongs to this allotrope",
        );
    }

    /// Ends the living image that ran before `image` in the same process. If the process
    /// was not found, because it has ended already, takes the pid from that image.
    fn end_replaced(&mut self, image: &mut Image) {
        let replaced: Vec<usize> = self
            .living()
            .filter(|slot| {
                let of_slot = self.slots[*slot].image();
                of_slot.is_some_and(|it| it.is_replaced_by(image))
            })
            .collect();
        if let [slot] = replaced[..]
            && let Some(pid) = self.slots[slot].image().map(|image| image.pid)
        {
            image.pid = pid;
        }
        for slot in replaced {
            self.finish_replaced(slot);
        }
    }

    /// Drains the rings of images with this innermost pid: they may contain the
    /// announcement of an `exec`.
    pub(crate) fn drain_images_of(&mut self, own_pid: u32) {
        let images: Vec<usize> = self
            .living()
            .filter(|slot| {
                self.slots[*slot]
                    .image()
                    .is_some_and(|it| it.own_pid == own_pid)
            })
            .collect();
        for slot in images {
            for ring in self.rings_of(slot) {
                self.drain_ring(ring);
            }
        }
    }

    /// The processes that the recording knows, for searches in `/proc`.
    pub(crate) fn known(&self) -> impl KnownProcesses + '_ {
        Images {
            slots: &self.slots,
            first: self.first.pid(),
            process_tree: &self.process_tree,
        }
    }
}

/// The processes of living images, the first process, and those known to run
/// without a recorder.
struct Images<'a> {
    slots: &'a [Slot],
    first: Option<u32>,
    process_tree: &'a ProcessTree,
}

impl Images<'_> {
    fn of(&self, pid: u32) -> impl Iterator<Item = &Image> {
        let images = self.slots.iter().filter_map(Slot::image);
        images.filter(move |image| image.pid_if_seen() == Some(pid))
    }
}

impl KnownProcesses for Images<'_> {
    fn is_in_tree(&self, pid: u32) -> bool {
        self.first == Some(pid)
            || self.process_tree.is_unrecorded(pid)
            || self.of(pid).next().is_some()
    }

    fn has_image(&self, pid: u32) -> bool {
        self.of(pid).any(|image| !image.gone)
    }

    fn is_taken(&self, pid: u32) -> bool {
        self.of(pid)
            .any(|image| !image.gone && image.exec_note.is_none())
    }
}

/// Converts an `Image` event to a record; the image's id and parent are set later.
fn image_start(words: &wire::Image<'_, PackedBytes<'_>>) -> ImageStart {
    let executable: Vec<u8> = words.executable.iter().collect();
    let command: Vec<u8> = words.command.iter().collect();
    let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
    ImageStart {
        image: 0,
        pid: words.pid,
        parent_pid: words.parent_pid,
        origin: match words.origin {
            origin::FORK => Origin::Fork,
            _ => Origin::Exec,
        },
        forked_from: None,
        fork_points: Vec::new(),
        executable: path(&executable),
        command: process::arguments(&command),
        tick: words.tick,
    }
}
