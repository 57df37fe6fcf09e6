//! Polls `/proc` for recorded processes: resident memory, thread names, ended threads,
//! replaced executables. Each round does a small part, so draining is delayed little.

use std::time::Duration;

use allotrope_shm::arena::tick_now;
use allotrope_shm::layout::{IMAGES, ImageSlot, RINGS, RingHeader};
use allotrope_trace::model::{Exit, Record, ThreadEnd};

use crate::image::Image;
use crate::process;
use crate::process_exit::ExitDetection;
use crate::process_tree::Process;
use crate::recording::Recording;
use crate::trace_file::TraceFile;

/// Interval at which each image is scanned; longer if there are many images.
const INTERVAL: Duration = Duration::from_millis(100);
/// Largest number of images scanned in one round of scanning, which comes every millisecond.
const IMAGES_A_ROUND: usize = 2;
/// Largest number of thread names that one scan of an image reads again.
const NAMES_AT_ONCE: usize = 16;
/// Largest number of names of new threads read in one round.
const NEW_NAMES_A_ROUND: usize = 32;
/// How long a process may run another executable before the collector concludes
/// that its new image has no recorder.
const EXEC_GRACE: Duration = Duration::from_millis(100);

impl Recording {
    /// Scans a few images.
    pub(crate) fn scan_processes(&mut self) {
        let mut scans = 0;
        let mut names = NEW_NAMES_A_ROUND;
        for _ in 0..IMAGES {
            let slot = self.scan_cursor;
            self.scan_cursor = (slot + 1) % IMAGES;
            let Some(image) = self.slots[slot].image_mut() else {
                continue;
            };
            if matches!(
                image.exit_detection,
                ExitDetection::Gone | ExitDetection::Unseen
            ) || image.gone
            {
                image.write_losses(&self.arena.images()[slot], &mut self.context.trace);
                continue;
            }
            names -= name_new_threads(image, names, &mut self.context.trace);
            if image.next_scan <= self.now {
                image.next_scan = self.now + INTERVAL;
                self.scan_image(slot);
                scans += 1;
            }
            if scans >= IMAGES_A_ROUND || names == 0 {
                break;
            }
        }
        if self.process_tree.is_due(self.now) {
            let living = self.slots.iter().filter_map(|slot| slot.image());
            // In our namespace the pid of an unseen process may be another process's.
            let roots = living.filter_map(|image| image.pid_if_seen()).collect();
            self.process_tree
                .scan(roots, self.first.pid(), &self.search, self.now);
        }
    }

    /// Scans the process of the image in `slot`. Ends the image if the process has run
    /// another executable for [`EXEC_GRACE`].
    fn scan_image(&mut self, slot: usize) {
        let Some(image) = self.slots[slot].image_mut() else {
            return;
        };
        let trace = &mut self.context.trace;
        let shared = (&self.arena.images()[slot], self.arena.rings());
        scan_image_process(image, shared, trace);
        let current = process::executable_identity(image.pid);
        if current.is_none() || image.executable.is_none() || current == image.executable {
            image.replaced_since = None;
            return;
        }
        let since = *image.replaced_since.get_or_insert(self.now);
        if self.now.saturating_duration_since(since) < EXEC_GRACE {
            return;
        }
        let pid = image.pid;
        // Otherwise the end of the new program would count as this image's end.
        self.finish_image(slot, Exit::Exec);
        self.process_tree
            .note_unrecordable(Process::new(Some(pid), pid));
    }
}

fn scan_image_process(
    image: &mut Image,
    (slot, rings): (&ImageSlot, &[RingHeader; RINGS]),
    trace: &mut TraceFile,
) {
    image.write_losses(slot, trace);
    if matches!(image.exit_detection, ExitDetection::Polled)
        && process::stat(image.pid).is_none_or(|stat| stat.is_dead())
    {
        image.gone = true;
        return;
    }
    // A zombie has the size 0.
    if let Some(bytes) = process::resident_bytes(image.pid).filter(|bytes| *bytes > 0) {
        let tick = tick_now();
        let map = process::page_map(image.pid);
        let memory = &mut image.recorder_memory;
        memory.measure(map, slot, rings, &image.streams);
        trace.write(&Record::ResidentSet {
            image: image.id,
            tick,
            bytes,
            recorder_bytes: memory.bytes().map(|it| it.min(bytes)),
        });
    }
    // If the process has ended, there is no list of threads; `exit` writes the ends of
    // all of them.
    let living = process::threads(image.pid, image.is_inner).unwrap_or_default();
    if !living.is_empty() {
        let tick = tick_now();
        for thread in image.threads.take_gone(&living, tick) {
            trace.write(&Record::ThreadEnd(ThreadEnd { thread, tick }));
        }
        name_some_threads(image, trace);
    }
}

/// Reads the names of up to `most` new threads; returns the number of threads.
fn name_new_threads(image: &mut Image, most: usize, trace: &mut TraceFile) -> usize {
    let portion = image.new_threads.len().min(most);
    let tids: Vec<u32> = image.new_threads.drain(..portion).collect();
    for tid in tids {
        name_thread(image, tid, trace);
    }
    portion
}

/// Reads the names of the next [`NAMES_AT_ONCE`] threads again: they may have changed.
fn name_some_threads(image: &mut Image, trace: &mut TraceFile) {
    let tids = image.threads.tids();
    for _ in 0..tids.len().min(NAMES_AT_ONCE) {
        image.name_cursor = (image.name_cursor + 1) % tids.len();
        name_thread(image, tids[image.name_cursor], trace);
    }
}

/// Reads a thread's name and writes it if it has changed.
fn name_thread(image: &mut Image, tid: u32, trace: &mut TraceFile) {
    if !image.threads.has(tid) {
        return;
    }
    let tick = tick_now();
    let Some(name) = process::thread_name(image.pid, tid, image.is_inner) else {
        return;
    };
    // After an exec the first thread has the name of the new program, which is another image.
    if tid == image.own_pid {
        let current = process::executable_identity(image.pid);
        if current.is_some() && image.executable.is_some() && current != image.executable {
            return;
        }
    }
    image.name_thread(tid, tick, name, trace);
}
