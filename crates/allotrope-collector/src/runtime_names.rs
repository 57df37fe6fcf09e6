//! Names of code that recorded programs make while they run, as the draining
//! thread sees it: it asks for the name of an address when a stack first holds
//! it, and gets records for the trace some time later. It never waits for
//! them: a thread of its own, started when the first such address is met,
//! reads what the programs write down (`runtime_names/reader`).

mod process;
mod reader;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use allotrope_trace::model::{ImageId, Record};

use crate::trace_file::TraceFile;

/// Questions that wait for the thread.
const QUEUE: usize = 4 << 10;
/// Questions that wait for room in the queue; addresses beyond have no names.
const MOST_UNSENT: usize = 256 << 10;
/// Records that wait to be written.
const ANSWERS: usize = 256;
/// Answers that are written in one round of the draining thread.
const ANSWERS_AT_ONCE: usize = 16;

/// What the thread is told.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Question {
    /// An image makes code; its addresses follow.
    Begin(Begin),
    /// A stack of the image holds this address.
    Address {
        image: ImageId,
        address: u64,
        exact: bool,
    },
    /// The image has ended: nothing of it follows.
    End(ImageId),
}

/// An image that makes code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begin {
    pub(crate) image: ImageId,
    pub(crate) pid: u32,
    /// When the image began.
    pub(crate) tick: u64,
    /// The image it was forked from and its pid: that one's code is also its own.
    pub(crate) parent: Option<(ImageId, u32)>,
}

/// The draining thread's end of it.
#[derive(Debug, Default)]
pub(crate) struct RuntimeNames {
    thread: Option<Thread>,
    /// In order; what the queue had no room for.
    unsent: VecDeque<Question>,
    /// No thread could be started: nothing has a name.
    refused: bool,
}

#[derive(Debug)]
struct Thread {
    questions: SyncSender<Question>,
    answers: Receiver<Record>,
}

impl RuntimeNames {
    /// An image makes code: to be said before its first address.
    pub(crate) fn begin(&mut self, begin: Begin) {
        if self.thread.is_none() && !self.refused {
            self.thread = start();
            self.refused = self.thread.is_none();
        }
        self.send(Question::Begin(begin));
    }

    /// A stack of an image that has begun holds this address.
    pub(crate) fn ask(&mut self, image: ImageId, address: u64, exact: bool) {
        self.send(Question::Address {
            image,
            address,
            exact,
        });
    }

    /// An image that has begun has ended.
    pub(crate) fn end(&mut self, image: ImageId) {
        self.send(Question::End(image));
    }

    fn send(&mut self, question: Question) {
        let Some(thread) = &self.thread else {
            return;
        };
        let unsent = match self.unsent.is_empty() {
            true => thread.questions.try_send(question).err(),
            // Not before what waits.
            false => Some(TrySendError::Full(question)),
        };
        if let Some(TrySendError::Full(question)) = unsent {
            // An end says when to forget: it is never left out.
            if self.unsent.len() < MOST_UNSENT || matches!(question, Question::End(_)) {
                self.unsent.push_back(question);
            }
        }
    }

    /// Hands on what waits and writes what has come: one round's portion.
    pub(crate) fn round(&mut self, trace: &mut TraceFile) {
        let Some(thread) = &self.thread else {
            return;
        };
        while let Some(question) = self.unsent.pop_front() {
            if let Err(TrySendError::Full(question)) = thread.questions.try_send(question) {
                self.unsent.push_front(question);
                break;
            }
        }
        for answer in thread.answers.try_iter().take(ANSWERS_AT_ONCE) {
            trace.write(&answer);
        }
    }

    /// Waits for the names that are still to come: for when there is nothing
    /// left to drain.
    pub(crate) fn finish(self, trace: &mut TraceFile) {
        let Some(Thread { questions, answers }) = self.thread else {
            return;
        };
        // Sent from aside, for the thread waits until its answers are taken.
        let unsent = self.unsent;
        let sender = std::thread::Builder::new().spawn(move || {
            for question in unsent {
                if questions.send(question).is_err() {
                    break;
                }
            }
        });
        // Ends when the thread has answered everything.
        for answer in answers {
            trace.write(&answer);
        }
        if let Ok(sender) = sender {
            let _ = sender.join();
        }
    }
}

fn start() -> Option<Thread> {
    let (questions, asked) = sync_channel(QUEUE);
    let (answer, answers) = sync_channel(ANSWERS);
    let thread = std::thread::Builder::new().name("code names".into());
    thread.spawn(move || reader::read(&asked, &answer)).ok()?;
    Some(Thread { questions, answers })
}

#[cfg(test)]
mod tests;
