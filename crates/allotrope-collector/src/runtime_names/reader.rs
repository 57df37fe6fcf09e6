//! The thread that reads what programs write of the code they make: takes
//! questions in the order in which they come, and looks at the files again at
//! most every 10 ms, and when an image ends. It may wait for files; nobody
//! waits for it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use allotrope_trace::model::{ImageId, Record};
use rustc_hash::FxHashMap;

use super::process::{Process, Sources};
use super::{Begin, Question};
use crate::clock::Conversion;

/// How often files are looked at: new code has a name after this time.
const INTERVAL: Duration = Duration::from_millis(10);
/// Images whose code is named at one time.
const MOST_IMAGES: usize = 256;
/// Pieces of code that are known of all images together: about 500 MiB with
/// names of the usual length.
const MOST_PIECES: usize = 4 << 20;
/// Questions that are taken before files are looked at again.
const QUESTIONS_AT_ONCE: usize = 4096;

/// Answers questions until nobody can ask any more and every image was looked
/// at for the last time.
pub(super) fn read(questions: &Receiver<Question>, answers: &SyncSender<Record>) {
    let mut reader = Reader {
        answers,
        processes: FxHashMap::default(),
        clock: Conversion::begin(),
        next_look: Instant::now(),
    };
    loop {
        // What has come is to be looked up now.
        let wait = if reader.processes.values().any(Process::is_living) {
            reader.next_look.saturating_duration_since(Instant::now())
        } else {
            Duration::from_secs(3600)
        };
        match questions.recv_timeout(wait) {
            Ok(question) => {
                reader.take(question);
                for question in questions.try_iter().take(QUESTIONS_AT_ONCE) {
                    reader.take(question);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if Instant::now() >= reader.next_look {
            reader.clock.read_again();
            reader.look();
        }
    }
    let left: Vec<ImageId> = reader.processes.keys().copied().collect();
    for image in left {
        reader.end(image);
    }
}

struct Reader<'a> {
    answers: &'a SyncSender<Record>,
    processes: FxHashMap<ImageId, Process>,
    clock: Conversion,
    next_look: Instant,
}

impl Reader<'_> {
    fn take(&mut self, question: Question) {
        match question {
            Question::Begin(begin) => self.begin(begin),
            Question::Address {
                image,
                address,
                exact,
            } => {
                if let Some(process) = self.processes.get_mut(&image) {
                    process.ask(address, exact);
                }
            }
            Question::End(image) => self.end(image),
        }
    }

    fn begin(&mut self, begin: Begin) {
        if self.processes.len() >= MOST_IMAGES {
            return;
        }
        if let Some((image, pid)) = begin.parent {
            // Its own addresses may never have been asked for.
            self.processes
                .entry(image)
                .or_insert_with(|| Process::parent(image, pid));
        }
        let since = self.clock.system_time(begin.tick);
        self.processes
            .insert(begin.image, Process::new(&begin, since));
    }

    /// Looks at the files of all living images.
    fn look(&mut self) {
        let living = self.processes.values().filter(|it| it.is_living());
        let images: Vec<ImageId> = living.map(|it| it.image).collect();
        for image in images {
            self.look_at(image, false);
        }
        self.next_look = Instant::now() + INTERVAL;
    }

    fn look_at(&mut self, image: ImageId, is_last: bool) {
        let Some(mut process) = self.processes.remove(&image) else {
            return;
        };
        let others: usize = self.processes.values().map(Process::pieces).sum();
        if others + process.pieces() < MOST_PIECES {
            process.refresh(&self.clock);
        }
        let parent = process.parent_image();
        if let Some(parent) = parent.and_then(|parent| self.processes.get_mut(&parent))
            && !parent.was_asked()
        {
            parent.refresh(&self.clock);
        }
        let parent = parent.and_then(|parent| self.processes.get(&parent));
        let sources = Sources {
            clock: &self.clock,
            parent,
        };
        for record in process.answers(&sources, is_last) {
            // Fails when the recording has failed: then nobody asks either.
            if self.answers.send(Record::RuntimeSymbols(record)).is_err() {
                break;
            }
        }
        self.processes.insert(image, process);
    }

    /// Looks at the image's files once more and forgets it, unless a forked
    /// child runs on with its code.
    fn end(&mut self, image: ImageId) {
        self.look_at(image, true);
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
