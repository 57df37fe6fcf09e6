//! New images: reads the `Image` event of each, finds its process, and lets it
//! continue.

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
use allotrope_trace::model::{ForkPoint, ImageId, ImageStart, Origin, Record};

use crate::drain::owner_slot;
use crate::image::Image;
use crate::process;
use crate::process_tree::{Process, ProcessTree};
use crate::recording::{Recording, Slot};
use crate::watch::{KnownProcesses, Wanted, Watch};

/// How long an image may take from claiming its slot to its `Image` event.
const ATTACH_GRACE: Duration = Duration::from_secs(1);

/// The `Image` event of a new image.
struct Hello {
    start: ImageStart,
    /// Slot of the image it was forked from.
    parent_slot: Option<usize>,
    /// Pairs of ring and ordinal.
    fork_points: Vec<u64>,
    ring: usize,
    claim: u32,
    /// Where in the arena the event is.
    written_at: u64,
    /// Position behind the event.
    cursor: u64,
}

impl Recording {
    /// Attaches every image that waits; whether there was one.
    pub(crate) fn attach_images(&mut self) -> bool {
        let mut found = false;
        for slot in 0..IMAGES {
            let state = self.arena.images()[slot].state.load(Acquire);
            if state == image_state::READY {
                found = true;
                self.receive(slot);
            }
        }
        found
    }

    /// Whether an image is about to attach.
    pub(crate) fn is_image_attaching(&mut self) -> bool {
        let mut may = false;
        let states = self.arena.images().iter().enumerate();
        for (_, slot) in states.filter(|(slot, _)| matches!(self.slots[*slot], Slot::Empty)) {
            match slot.state.load(Acquire) {
                image_state::READY => return true,
                // The process may have died meanwhile.
                image_state::CLAIMED => match self.search.is_alive(slot.pid.load(Relaxed)) {
                    Some(true) => return true,
                    Some(false) => {}
                    None => may = true,
                },
                _ => {}
            }
        }
        if !may {
            self.maybe_attaching_since = None;
            return false;
        }
        // A process that the collector cannot see gets as much time as any image
        // needs.
        let since = *self.maybe_attaching_since.get_or_insert(self.now);
        self.now.saturating_duration_since(since) < ATTACH_GRACE
    }

    fn receive(&mut self, slot: usize) {
        if !matches!(self.slots[slot], Slot::Empty) {
            // The slot is known: nobody honest says it again.
            self.arena.acknowledge(slot);
            return;
        }
        // What was said of the process before it had this image comes first.
        self.read_diagnostics();
        let Some(introduction) = self.read_introduction(slot) else {
            self.arena.acknowledge(slot);
            self.refuse(slot);
            return;
        };
        let start = &introduction.start;
        self.drain_images_of(start.pid);
        let wanted = Wanted {
            pid: start.pid,
            parent: start.parent_pid,
            command: &start.command,
            is_fork: start.origin == Origin::Fork,
            written_at: introduction.written_at,
        };
        let found = self.search.find(wanted, &self.known());
        let executable = process::executable_identity(found.pid);
        self.arena.acknowledge(slot);
        let mut image = Image::new(self.context.next_image, found.pid, found.watch, self.now);
        image.own_pid = start.pid;
        image.executable = executable;
        image.is_inner = image.pid_if_seen().is_some() && process::is_in_inner_namespace(image.pid);
        self.end_replaced(&mut image);
        self.context.next_image += 1;
        self.admit(slot, image, introduction);
    }

    fn read_introduction(&mut self, slot: usize) -> Option<Hello> {
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

    fn admit(&mut self, slot: usize, mut image: Image, introduction: Hello) {
        let mut start = introduction.start;
        let pid = image.pid;
        let own_parent = start.parent_pid;
        start.image = image.id;
        start.pid = pid;
        if image.is_inner {
            // What the parent is called in there, or 0 if it is outside.
            let stat = process::stat(pid);
            start.parent_pid = stat.map_or(start.parent_pid, |stat| stat.parent);
        }
        image.tick = start.tick;
        if start.origin == Origin::Fork
            && let Some(parent_slot) = introduction.parent_slot
            && let Some((parent, points)) =
                self.parent(parent_slot, own_parent, &introduction.fork_points)
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
        self.context.trace.write(&Record::ImageStart(start));
        if let Watch::Process(process) = &image.watch
            && self.watcher.add(process, slot as u64).is_err()
        {
            // The kernel has no memory for it.
            image.watch = Watch::Polled;
        }
        self.slots[slot] = Slot::Image(Box::new(image));
        self.open_stream(introduction.ring, slot, introduction.claim);
        let reader = &mut self.rings[introduction.ring].reader;
        self.arena
            .release(introduction.ring, reader, introduction.cursor);
    }

    /// The image that had `slot` when a child of it was forked, and where the
    /// fork cut its streams.
    fn parent(
        &mut self,
        slot: usize,
        pid: u32,
        pairs: &[u64],
    ) -> Option<(ImageId, Vec<ForkPoint>)> {
        // Parent and child may both have come since the last look, the child
        // to a lower slot.
        let state = self.arena.images().get(slot)?.state.load(Acquire);
        if state == image_state::READY && matches!(self.slots[slot], Slot::Empty) {
            self.receive(slot);
        }
        // A ring is a stream from its first event on: those before the fork
        // may not have been read.
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

    fn refuse(&mut self, slot: usize) {
        self.slots[slot] = Slot::Refused;
        let pid = self.arena.images()[slot].pid.load(Relaxed);
        let found = self.search.find_mentioned(pid, &self.known());
        self.process_tree.note_unrecorded(
            Process::new(found, pid),
            found.and_then(process::executable_path),
            "its recorder wrote what is no introduction; record it with the recorder that belongs to this allotrope",
        );
    }

    /// Ends the living image of the process in which `image` has come up. If the
    /// process is gone already, that one knows its pid.
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

    /// Reads what images whose recorders have this pid have said: perhaps that
    /// they are about to be replaced.
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

    /// What is known of processes, to find others by.
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
