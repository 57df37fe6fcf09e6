//! The threads of an image.

use allotrope_trace::model::ThreadId;
use rustc_hash::FxHashMap;

/// An image's threads, numbered densely from 0 in the order in which their records and
/// events are read.
#[derive(Default)]
pub(crate) struct Threads {
    by_id: FxHashMap<ThreadId, u32>,
    /// Threads by dense number.
    pub known: Vec<Thread>,
}

/// One thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Thread {
    /// `None` for events whose thread the trace does not name.
    pub thread: Option<ThreadId>,
    pub tid: u32,
    pub start_tick: Option<u64>,
}

impl Threads {
    /// The dense number of a thread; adds the thread if it is new.
    pub(crate) fn number(&mut self, thread: ThreadId) -> u32 {
        *self.by_id.entry(thread).or_insert_with(|| {
            self.known.push(Thread {
                thread: Some(thread),
                ..Thread::default()
            });
            (self.known.len() - 1) as u32
        })
    }

    /// Adds an unknown thread, and returns its dense number.
    pub(crate) fn unknown(&mut self) -> u32 {
        self.known.push(Thread::default());
        (self.known.len() - 1) as u32
    }
}
