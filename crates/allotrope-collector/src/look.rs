//! What is read from `/proc` about recorded processes now and then, in small
//! portions so that draining hardly waits: resident memory, thread names,
//! threads that are gone, executables that were replaced.

use std::time::Duration;

use allotrope_shm::arena::tick_now;
use allotrope_shm::layout::{IMAGES, ImageSlot};
use allotrope_trace::model::{Exit, Record, ThreadEnd, ThreadName};

use crate::family::Process;
use crate::image::Image;
use crate::process;
use crate::recording::Recording;
use crate::trace_file::TraceFile;
use crate::watch::Watch;

/// How often each image is looked at, if they are few.
const INTERVAL: Duration = Duration::from_millis(100);
/// Images looked at in one round, which comes every millisecond.
const IMAGES_AT_ONCE: usize = 2;
/// Names of an image's threads read again at once.
const NAMES_AT_ONCE: usize = 16;
/// Names of new threads read in one round.
const FRESH_NAMES_AT_ONCE: usize = 32;
/// How long a process may run another executable before its new image is
/// taken to have no recorder.
const PATIENCE: Duration = Duration::from_millis(100);

impl Recording {
    /// One round's portion.
    pub(crate) fn look_around(&mut self) {
        let mut looks = 0;
        let mut names = FRESH_NAMES_AT_ONCE;
        for _ in 0..IMAGES {
            let slot = self.look_cursor;
            self.look_cursor = (slot + 1) % IMAGES;
            let Some(image) = self.slots[slot].image_mut() else {
                continue;
            };
            if matches!(image.watch, Watch::Gone | Watch::Unseen) || image.gone {
                image.write_losses(&self.arena.images()[slot], &mut self.book.trace);
                continue;
            }
            names -= name_fresh_threads(image, names, &mut self.book.trace);
            if image.next_look <= self.now {
                image.next_look = self.now + INTERVAL;
                self.look_at(slot);
                looks += 1;
            }
            if looks >= IMAGES_AT_ONCE || names == 0 {
                break;
            }
        }
        if self.family.is_due(self.now) {
            let living = self.slots.iter().filter_map(|slot| slot.image());
            // Under the pid of one out of sight we would see somebody else.
            let roots = living.filter_map(|image| image.pid_if_seen()).collect();
            self.family
                .look(roots, self.first.pid(), &self.search, self.now);
        }
    }

    fn look_at(&mut self, slot: usize) {
        let Some(image) = self.slots[slot].image_mut() else {
            return;
        };
        let trace = &mut self.book.trace;
        look_at_image(image, &self.arena.images()[slot], trace);
        let current = process::executable_identity(image.pid);
        if current.is_none() || image.executable.is_none() || current == image.executable {
            image.replaced_since = None;
            return;
        }
        let since = *image.replaced_since.get_or_insert(self.now);
        if self.now.saturating_duration_since(since) < PATIENCE {
            return;
        }
        let pid = image.pid;
        // Its end would otherwise be noticed as this image's.
        self.finish_image(slot, Exit::Exec);
        self.family.note_unrecordable(Process::new(Some(pid), pid));
    }
}

fn look_at_image(image: &mut Image, slot: &ImageSlot, trace: &mut TraceFile) {
    image.write_losses(slot, trace);
    if matches!(image.watch, Watch::Polled)
        && process::stat(image.pid).is_none_or(|stat| stat.is_dead())
    {
        image.gone = true;
        return;
    }
    // A zombie's is 0 and says nothing.
    if let Some(bytes) = process::resident_bytes(image.pid).filter(|bytes| *bytes > 0) {
        trace.write(&Record::ResidentSet {
            image: image.id,
            tick: tick_now(),
            bytes,
        });
    }
    // Before an image's end all of its threads are gone at once: that is
    // written with the end.
    let living = process::threads(image.pid, image.is_inner).unwrap_or_default();
    if !living.is_empty() {
        let tick = tick_now();
        for thread in image.threads.take_gone(&living) {
            trace.write(&Record::ThreadEnd(ThreadEnd { thread, tick }));
        }
        name_some_threads(image, trace);
    }
}

/// Names up to `most` threads that were not named yet; how many.
fn name_fresh_threads(image: &mut Image, most: usize, trace: &mut TraceFile) -> usize {
    let portion = image.fresh_threads.len().min(most);
    let fresh: Vec<u32> = image.fresh_threads.drain(..portion).collect();
    for tid in fresh {
        name_thread(image, tid, trace);
    }
    portion
}

fn name_some_threads(image: &mut Image, trace: &mut TraceFile) {
    let tids = image.threads.tids();
    for _ in 0..tids.len().min(NAMES_AT_ONCE) {
        image.name_cursor = (image.name_cursor + 1) % tids.len();
        name_thread(image, tids[image.name_cursor], trace);
    }
}

fn name_thread(image: &mut Image, tid: u32, trace: &mut TraceFile) {
    let Some(thread) = image.threads.get_mut(tid) else {
        return;
    };
    let name = process::thread_name(image.pid, tid, image.is_inner);
    if name.is_some() && name != thread.name {
        thread.name.clone_from(&name);
        trace.write(&Record::ThreadName(ThreadName {
            thread: thread.id,
            name: name.unwrap_or_default(),
        }));
    }
}
