//! The thread that reads the files in which runtimes describe their JIT code. It
//! receives requests in order, and reads the files of all images at most every 10 ms,
//! those of one image also at its end. It may block on files; until the end of the
//! recording no other thread waits for it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use allotrope_trace::model::{ImageId, Record};
use rustc_hash::FxHashMap;

use super::process::{Process, Sources};
use super::{Begin, Request};
use crate::clock::Conversion;

/// Interval at which files are read, and so the delay with which new code gets a name.
const INTERVAL: Duration = Duration::from_millis(10);
/// Largest number of images whose code is named at one time.
const MAX_IMAGES: usize = 256;
/// Largest number of pieces of code of all images together: about 500 MiB with names of the usual
/// length.
const MAX_PIECES: usize = 4 << 20;
/// Largest number of requests that are received between two checks whether files are due.
const REQUESTS_AT_ONCE: usize = 4096;

/// Serves requests until the draining thread closes the queue, then reads the files of
/// every image for the last time.
pub(super) fn read(requests: &Receiver<Request>, records: &SyncSender<Record>) {
    let mut reader = Reader {
        records,
        processes: FxHashMap::default(),
        clock: Conversion::begin(),
        next_read: Instant::now(),
    };
    loop {
        // If images live, until their files are due.
        let wait = if reader.processes.values().any(Process::is_living) {
            reader.next_read.saturating_duration_since(Instant::now())
        } else {
            Duration::from_secs(3600)
        };
        match requests.recv_timeout(wait) {
            Ok(request) => {
                reader.take(request);
                for request in requests.try_iter().take(REQUESTS_AT_ONCE) {
                    reader.take(request);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if Instant::now() >= reader.next_read {
            reader.clock.read_again();
            reader.read_all();
        }
    }
    let left: Vec<ImageId> = reader.processes.keys().copied().collect();
    for image in left {
        reader.end(image);
    }
}

struct Reader<'a> {
    records: &'a SyncSender<Record>,
    processes: FxHashMap<ImageId, Process>,
    clock: Conversion,
    next_read: Instant,
}

impl Reader<'_> {
    fn take(&mut self, request: Request) {
        match request {
            Request::Begin(begin) => self.begin(*begin),
            Request::Address {
                image,
                address,
                exact,
            } => {
                if let Some(process) = self.processes.get_mut(&image) {
                    process.request(address, exact);
                }
            }
            Request::End(image) => self.end(image),
        }
    }

    fn begin(&mut self, begin: Begin) {
        if self.processes.len() >= MAX_IMAGES {
            return;
        }
        if let Some((image, pid)) = begin.parent {
            // No address of the parent itself may have been requested.
            self.processes
                .entry(image)
                .or_insert_with(|| Process::parent(image, pid));
        }
        let since = self.clock.system_time(begin.tick);
        self.processes
            .insert(begin.image, Process::new(begin, since));
    }

    /// Reads the files of all living images.
    fn read_all(&mut self) {
        let living = self.processes.values().filter(|it| it.is_living());
        let images: Vec<ImageId> = living.map(|it| it.image).collect();
        for image in images {
            self.read_image(image, false);
        }
        self.next_read = Instant::now() + INTERVAL;
    }

    fn read_image(&mut self, image: ImageId, is_last: bool) {
        let Some(mut process) = self.processes.remove(&image) else {
            return;
        };
        let others: usize = self.processes.values().map(Process::pieces).sum();
        if others + process.pieces() < MAX_PIECES {
            process.refresh(&self.clock);
        }
        let parent = process.parent_image();
        if let Some(parent) = parent.and_then(|parent| self.processes.get_mut(&parent))
            && !parent.was_requested()
        {
            parent.refresh(&self.clock);
        }
        let parent = parent.and_then(|parent| self.processes.get(&parent));
        let sources = Sources {
            clock: &self.clock,
            parent,
        };
        for record in process.records(&sources, is_last) {
            // Fails if the recording has failed: then no request follows either.
            if self.records.send(Record::JitSymbols(record)).is_err() {
                break;
            }
        }
        self.processes.insert(image, process);
    }

    /// Reads the image's files once more, then removes all ended images whose code no
    /// living forked child needs.
    fn end(&mut self, image: ImageId) {
        self.read_image(image, true);
        if let Some(process) = self.processes.get_mut(&image) {
            process.end();
        }
        loop {
            let is_needed = |id: &ImageId| {
                let mut living = self.processes.values().filter(|it| it.is_living());
                living.any(|it| it.parent_image() == Some(*id))
            };
            let ended = self.processes.iter().filter(|(_, it)| !it.is_living());
            let Some(id) = ended.map(|(id, _)| *id).find(|id| !is_needed(id)) else {
                return;
            };
            self.processes.remove(&id);
        }
    }
}
