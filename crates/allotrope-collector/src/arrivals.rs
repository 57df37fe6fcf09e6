//! New images: reads how each introduces itself, finds its process, and lets
//! it run on.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use allotrope_ring::layout::{IMAGES, LANES, MAX_EVENT_WORDS, RING_WORDS, image_state};
use allotrope_ring::words::{self, ImageWords, Word, bytes, origin};
use allotrope_trace::model::{ForkPoint, ImageId, ImageStart, Origin, Record};

use crate::drain::owner_slot;
use crate::image::Image;
use crate::process;
use crate::recording::{Recording, Slot};
use crate::watch::{self, Watch};

/// How an image introduced itself.
struct Introduction {
    start: ImageStart,
    /// Slot of the image it was forked from.
    parent_slot: Option<usize>,
    /// Pairs of lane and ordinal.
    fork_points: Vec<u64>,
    lane: usize,
    claim: u32,
    /// Position behind the introduction.
    cursor: u64,
}

impl Recording {
    /// Takes note of every image that waits; whether there was one.
    pub(crate) fn receive_arrivals(&mut self) -> bool {
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

    /// Whether an image is about to introduce itself.
    pub(crate) fn is_arriving(&self) -> bool {
        let states = self.arena.images().iter().enumerate();
        states
            .filter(|(slot, _)| matches!(self.slots[*slot], Slot::Empty))
            .any(|(_, slot)| match slot.state.load(Acquire) {
                image_state::READY => true,
                // It may have died meanwhile.
                image_state::CLAIMED => {
                    process::stat(slot.pid.load(Relaxed)).is_some_and(|stat| !stat.is_dead())
                }
                _ => false,
            })
    }

    fn receive(&mut self, slot: usize) {
        if !matches!(self.slots[slot], Slot::Empty) {
            // The slot is known: nobody honest says it again.
            self.arena.acknowledge(slot);
            return;
        }
        let Some(introduction) = self.read_introduction(slot) else {
            self.arena.acknowledge(slot);
            self.refuse(slot);
            return;
        };
        let found = watch::find(introduction.start.pid, self.arena_inode);
        let executable = process::executable_identity(found.pid);
        self.arena.acknowledge(slot);
        self.end_replaced(found.pid);
        let mut image = Image::new(self.book.next_image, found.pid, found.watch, self.now);
        image.executable = executable;
        self.book.next_image += 1;
        self.admit(slot, image, introduction);
    }

    fn read_introduction(&mut self, slot: usize) -> Option<Introduction> {
        let first_lane = self.arena.images()[slot].first_lane.load(Acquire);
        let lane = first_lane as usize;
        if lane >= LANES || self.lanes[lane].stream.is_some() {
            return None;
        }
        let shared = &self.arena.lanes()[lane];
        if owner_slot(shared.owner.load(Acquire)) != Some(slot) {
            return None;
        }
        let cursor = self.lanes[lane].cursor;
        let written = shared.written.load(Acquire);
        let there = written.wrapping_sub(cursor);
        if there > RING_WORDS as u64 {
            return None;
        }
        let claim = shared.claims.load(Relaxed);
        self.words.clear();
        let to = cursor.wrapping_add(there.min(MAX_EVENT_WORDS as u64));
        let copied = self.arena.copy_words(lane, cursor, to, &mut self.words);
        copied.ok()?;
        let Ok((Word::Image(words), length)) = words::decode(&self.words) else {
            return None;
        };
        Some(Introduction {
            start: image_start(&words),
            parent_slot: words.parent_slot.map(|slot| slot as usize),
            fork_points: words.fork_points.to_vec(),
            lane,
            claim,
            cursor: cursor.wrapping_add(length as u64),
        })
    }

    fn admit(&mut self, slot: usize, mut image: Image, introduction: Introduction) {
        let mut start = introduction.start;
        let pid = image.pid;
        start.image = image.id;
        start.pid = pid;
        image.tick = start.tick;
        if start.origin == Origin::Fork
            && let Some(parent_slot) = introduction.parent_slot
            && let Some((parent, points)) =
                self.parent(parent_slot, start.parent_pid, &introduction.fork_points)
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
        self.book.trace.write(&Record::ImageStart(start));
        if let Watch::Process(process) = &image.watch
            && self.watcher.add(process, slot as u64).is_err()
        {
            // The kernel has no memory for it.
            image.watch = Watch::Polled;
        }
        self.family.arrived(pid);
        self.slots[slot] = Slot::Image(Box::new(image));
        self.open_stream(introduction.lane, slot, introduction.claim);
        self.lanes[introduction.lane].cursor = introduction.cursor;
        self.arena.release(introduction.lane, introduction.cursor);
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
        // A lane is a stream from its first event on: those before the fork
        // may not have been read.
        for lane in pairs.iter().step_by(2) {
            if *lane < LANES as u64 {
                self.drain_lane(*lane as usize);
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
        self.family.note_unrecorded(
            pid,
            process::executable_path(pid),
            "its recorder wrote what is no introduction; record it with the recorder that belongs to this allotrope",
        );
    }

    /// Ends the living image of a process in which a new image has come up.
    fn end_replaced(&mut self, pid: u32) {
        let replaced: Vec<usize> = self
            .living()
            .filter(|slot| self.slots[*slot].image().is_some_and(|it| it.pid == pid))
            .collect();
        for slot in replaced {
            self.finish_replaced(slot);
        }
    }
}

fn image_start(words: &ImageWords<'_>) -> ImageStart {
    let executable: Vec<u8> = bytes(words.executable).collect();
    let command: Vec<u8> = bytes(words.command).collect();
    let arguments = command.strip_suffix(&[0]).unwrap_or(&command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
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
        executable: text(&executable),
        command: match command.is_empty() {
            true => Vec::new(),
            false => arguments.split(|byte| *byte == 0).map(text).collect(),
        },
        tick: words.tick,
    }
}
