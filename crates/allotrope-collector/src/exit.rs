//! Ends of images: detects them, drains the remaining events, and writes how each
//! ended.

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
use crate::process;
use crate::process_tree::Process;
use crate::protocol::FirstExit;
use crate::recording::{Recording, Slot};
use crate::watch::Watch;

/// How long an unseen image has to be silent before it counts as ended, once its
/// exit note has arrived or no other image is left.
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
                if let Watch::Process(process) = &image.watch {
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
                .all(|image| matches!(image.watch, Watch::Unseen));
        let slots: Vec<usize> = self.living().collect();
        for slot in slots {
            let Some(image) = self.slots[slot].image_mut() else {
                continue;
            };
            if matches!(image.watch, Watch::Unseen) {
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

    /// How the ended image in `slot` ended; `None` while the launcher's message
    /// about that is still missing.
    fn exit_of(&mut self, slot: usize) -> Option<Exit> {
        let image = self.slots[slot].image()?;
        if let Some(note) = &image.exec_note {
            // The next image has no recorder, or it would have attached.
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

    /// Ends the image in `slot`, for a new one runs in its process.
    pub(crate) fn finish_replaced(&mut self, slot: usize) {
        for ring in self.rings_of(slot) {
            self.drain_ring(ring);
        }
        let Some(image) = self.slots[slot].image() else {
            return;
        };
        // A process that was seen to end had its pid used again, unless it has
        // said that it is about to be replaced: both may have ended by now.
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

    /// Drains what is left of the image, writes its end, and frees what it
    /// had of the arena (unless it still runs, or may).
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
        if let Watch::Process(process) = &image.watch {
            self.watcher.remove(process);
        }
        self.context.jit_symbols.end(image.id);
        self.ancestors.remember(slot, image.ancestor());
        // One that only fell silent out of sight may yet write to its rings.
        let is_over = !matches!(image.watch, Watch::Unseen) || image.exit_note.is_some();
        if exit != Exit::Running && is_over {
            rings.into_iter().for_each(|ring| self.free_ring(ring));
            self.arena.free_image(slot);
        }
    }

    fn write_end(&mut self, slot: usize, image: &mut Image, exit: Exit) {
        let trace = &mut self.context.trace;
        let tick = tick_now();
        image.write_losses(&self.arena.images()[slot], trace);
        // Streams may have been empty since the last nodes came.
        image.write_new_stacks(trace);
        if exit != Exit::Running {
            for thread in image.threads.take_gone(&[]) {
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

    /// Says how many images found no room in the arena, and how many diagnostics.
    pub(crate) fn note_refused_images(&mut self) {
        let diagnostics = self.arena.shared().diagnostics_lost.load(Relaxed);
        if diagnostics > 0 {
            let reason = format!(
                "{diagnostics} more processes could not be recorded, or not wholly, and came faster than they could be noted; record a smaller part of the work"
            );
            self.process_tree.note_more(reason);
        }
        let refused = self.arena.shared().images_refused.load(Relaxed);
        if refused > 0 {
            let reason = format!(
                "{refused} process images found no room, for more ran at once than the {} that can be recorded; record a smaller part of the work",
                allotrope_shm::layout::IMAGES
            );
            self.process_tree.note_more(reason);
        }
    }
}

/// The end as the kernel says, or the process's remains, or else as its
/// recorder announced.
fn exit_without_waiting(image: &Image) -> Exit {
    if let Watch::Process(process) = &image.watch
        && let Some(status) = exit_information::wait_status(process.as_fd())
    {
        return decode_wait_status(status);
    }
    let zombie = match image.watch {
        Watch::Process(_) | Watch::Polled => process::stat(image.pid),
        Watch::Gone | Watch::Unseen => None,
    };
    let code = zombie
        .filter(process::Stat::is_dead)
        .map(|stat| stat.exit_code);
    match (code, image.exit_note) {
        // The kernel shows 0 to those who may not know, too.
        (Some(code), _) if code != 0 => decode_wait_status(code),
        (_, Some(status)) => Exit::Status(status & 0xff),
        (Some(_), None) if process::is_own(image.pid) => Exit::Status(0),
        _ => Exit::Unknown,
    }
}

/// As `waitpid` gives it (wait(2)): the signal in the lower 7 bits, or the
/// status in the next byte but one.
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
    fn wait_statuses_are_told_apart() {
        assert_eq!(decode_wait_status(7 << 8), Exit::Status(7));
        assert_eq!(decode_wait_status(9), Exit::Signal(9));
        assert_eq!(
            decode_wait_status(11 | 0x80),
            Exit::Signal(11),
            "core dumped"
        );
    }
}
