//! Ends of images: detects them, drains the remaining events, writes how each image
//! ended, and frees its slot and rings. Called by the loop in `recording`.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

use allotrope_shm::arena::tick_now;
use allotrope_shm::exit_information;
use allotrope_shm::layout::RINGS;
use allotrope_trace::model::{Exit, ImageEnd, Record, ThreadEnd};

use crate::drain::owner_slot;
use crate::image::Image;
use crate::image::Slot;
use crate::process;
use crate::process_exit::ExitDetection;
use crate::process_tree::Process;
use crate::protocol::FirstExit;
use crate::recording::Recording;

/// Time without words after which an image with [`ExitDetection::Unseen`] counts as ended, if
/// its exit note has arrived or only such images are left.
const SILENCE: Duration = Duration::from_secs(2);

impl Recording {
    /// Marks the images whose processes have ended.
    pub(crate) fn mark_ended_images(&mut self) {
        for key in self.watcher.ended() {
            let Some(state) = self.slots.get_mut(key as usize) else {
                continue;
            };
            if let Some(image) = state.image_mut() {
                image.gone = true;
                if let ExitDetection::Process(process) = &image.exit_detection {
                    self.watcher.remove(process);
                }
            }
        }
    }

    /// Closes the marked images. Must be called after their rings were drained.
    pub(crate) fn close_ended_images(&mut self) {
        let only_unseen = self.first.is_over()
            && self
                .slots
                .iter()
                .filter_map(Slot::image)
                .all(|image| matches!(image.exit_detection, ExitDetection::Unseen));
        let slots: Vec<usize> = self.living().collect();
        for slot in slots {
            let Some(image) = self.slots[slot].image_mut() else {
                continue;
            };
            if matches!(image.exit_detection, ExitDetection::Unseen) {
                let silence = self.now.saturating_duration_since(image.last_event);
                image.gone |= silence > SILENCE && (image.exit_note.is_some() || only_unseen);
            }
            if image.gone
                && let Some(exit) = self.exit_of(slot)
            {
                self.finish_image(slot, exit);
            }
        }
    }

    /// How the ended image in `slot` ended; `None` as long as the launcher's message
    /// about the first process is missing.
    fn exit_of(&mut self, slot: usize) -> Option<Exit> {
        let image = self.slots[slot].image()?;
        if let Some(note) = &image.exec_note {
            // If the new program had a recorder, it would have attached.
            let path = PathBuf::from(OsStr::from_bytes(&note.path));
            let process = Process::new(image.pid_if_seen(), image.own_pid);
            self.process_tree.note_replaced(process, path);
            return Some(Exit::Exec);
        }
        if self.first.pid() == Some(image.pid) {
            match self.first.exit {
                Some(FirstExit::Status(status)) => return Some(Exit::Status(status)),
                Some(FirstExit::Signal(signal)) => return Some(Exit::Signal(signal)),
                None if !self.first.launcher_gone && !self.stopping => return None,
                None => {}
            }
        }
        Some(exit_without_waiting(image))
    }

    /// Ends the image in `slot` because a new image runs in its process.
    pub(crate) fn finish_replaced(&mut self, slot: usize) {
        for ring in self.rings_of(slot) {
            self.drain_ring(ring);
        }
        let Some(image) = self.slots[slot].image() else {
            return;
        };
        // If the process was seen to end and no exec was announced, the new image runs
        // in another process that reuses the pid. After an announced exec both images
        // may have ended by now.
        let exit = match image.gone && image.exec_note.is_none() {
            true => exit_without_waiting(image),
            false => Exit::Exec,
        };
        self.finish_image(slot, exit);
    }

    /// The rings that the image in `slot` owns.
    pub(crate) fn rings_of(&self, slot: usize) -> Vec<usize> {
        let rings = self.arena.rings().iter().enumerate();
        rings
            .filter(|(_, ring)| owner_slot(ring.owner.load(Acquire)) == Some(slot))
            .map(|(index, _)| index)
            .collect()
    }

    /// Drains the image's rings, writes its end, and frees its rings and slot, unless
    /// the process still runs or may run.
    pub(crate) fn finish_image(&mut self, slot: usize, exit: Exit) {
        let rings = self.rings_of(slot);
        for ring in &rings {
            self.drain_ring(*ring);
        }
        for ring in 0..RINGS {
            let stream = self.rings[ring].stream.as_ref();
            if stream.is_some_and(|stream| stream.slot == slot) {
                if self.counts_only {
                    self.read_counters(ring);
                }
                self.close_stream(ring);
            }
        }
        let Slot::Image(mut image) = std::mem::take(&mut self.slots[slot]) else {
            return;
        };
        self.write_end(slot, &mut image, exit);
        image.stacks.release(&mut self.context.budget);
        if let ExitDetection::Process(process) = &image.exit_detection {
            self.watcher.remove(process);
        }
        self.context.jit_symbols.end(image.id);
        if let Some(figures) = &mut self.context.figures {
            figures.end(image.id);
        }
        self.ancestors.remember(slot, image.ancestor());
        // An unseen image that only wrote nothing for a while may write again.
        let is_over =
            !matches!(image.exit_detection, ExitDetection::Unseen) || image.exit_note.is_some();
        if exit != Exit::Running && is_over {
            rings.into_iter().for_each(|ring| self.free_ring(ring));
            self.arena.free_image(slot);
        }
    }

    fn write_end(&mut self, slot: usize, image: &mut Image, exit: Exit) {
        let trace = &mut self.context.trace;
        let tick = tick_now();
        image.write_losses(&self.arena.images()[slot], trace);
        // Nodes may have arrived since a stream last wrote events.
        image.write_new_stacks(trace);
        if exit != Exit::Running {
            for thread in image.threads.take_gone(&[], tick) {
                trace.write(&Record::ThreadEnd(ThreadEnd { thread, tick }));
            }
        }
        trace.write(&Record::ImageEnd(ImageEnd {
            image: image.id,
            tick,
            exit,
            complete: !image.corrupt,
        }));
        trace.flush();
    }

    /// Adds a note about the images and the diagnostics for which the arena had no slot.
    pub(crate) fn note_refused_images(&mut self) {
        let diagnostics = self.arena.shared().diagnostics_lost.load(Relaxed);
        if diagnostics > 0 {
            let reason = format!(
                "{diagnostics} more processes could not be recorded, or only in part, and started too fast to be listed; record a smaller part of the work"
            );
            self.process_tree.note_more(reason);
        }
        let refused = self.arena.shared().images_refused.load(Relaxed);
        if refused > 0 {
            let reason = format!(
                "{refused} process images could not be recorded, since at most {} can be recorded at once; record a smaller part of the work",
                allotrope_shm::layout::IMAGES
            );
            self.process_tree.note_more(reason);
        }
    }
}

/// How an image ended, by the first source that knows: its pidfd, its zombie in
/// `/proc`, its exit note.
fn exit_without_waiting(image: &Image) -> Exit {
    if let ExitDetection::Process(process) = &image.exit_detection
        && let Some(status) = exit_information::wait_status(process.as_fd())
    {
        return decode_wait_status(status);
    }
    let zombie = match image.exit_detection {
        ExitDetection::Process(_) | ExitDetection::Polled => process::stat(image.pid),
        ExitDetection::Gone | ExitDetection::Unseen => None,
    };
    let code = zombie
        .filter(process::Stat::is_dead)
        .map(|stat| stat.exit_code);
    match (code, image.exit_note) {
        // Processes that may not read the exit code see 0.
        (Some(code), _) if code != 0 => decode_wait_status(code),
        (_, Some(status)) => Exit::Status(status & 0xff),
        (Some(_), None) if process::is_own(image.pid) => Exit::Status(0),
        _ => Exit::Unknown,
    }
}

/// Decodes a wait status (wait(2)): the signal in bits 0 to 6, or if that is 0 the exit
/// status in bits 8 to 15.
fn decode_wait_status(code: i32) -> Exit {
    match code & 0x7f {
        0 => Exit::Status(code >> 8 & 0xff),
        signal => Exit::Signal(signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_statuses_are_decoded() {
        assert_eq!(decode_wait_status(7 << 8), Exit::Status(7));
        assert_eq!(decode_wait_status(9), Exit::Signal(9));
        assert_eq!(
            decode_wait_status(11 | 0x80),
            Exit::Signal(11),
            "core dumped"
        );
    }
}
