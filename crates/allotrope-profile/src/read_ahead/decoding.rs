//! The jobs of reading ahead: what any thread does with a run of events.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::turn::{Turn, Waiting};
use super::{Decoded, Subjects};
use crate::clock::Timeline;
use crate::error::ReplayError;
use crate::short_lived::Places;
use crate::source::TraceSource;

/// Of how many events a run has a short-lived block at least, for it to cost less to
/// find it than to look it up.
const WORTH_FINDING: usize = 16;
/// In how many runs short-lived blocks are not looked for after one that had few.
pub(super) const PASSED_OVER: u32 = 7;

/// Buffers that are kept for the next runs.
const MOST_SPARE: usize = 8;

/// What all threads need to decode runs.
pub(super) struct Decoding<'a, S> {
    source: &'a S,
    timeline: &'a Timeline,
    /// Whether blocks are looked for, and short-lived ones for themselves.
    subjects: Subjects,
    /// In how many more runs no short-lived blocks are looked for.
    pub(super) pass_over: AtomicU32,
    /// What short-lived blocks are found with, one for each thread that decodes.
    places: Mutex<Vec<Places>>,
    /// Buffers for the next runs.
    spare: Mutex<Vec<Decoded>>,
}

/// A run that is to be decoded.
pub(super) struct Job<H> {
    pub handle: H,
    /// Marks among them.
    pub events: usize,
    /// Of a single stream.
    pub turn: Option<Turn>,
    /// To whom the run goes. Dropped without a message, it says that there is none.
    pub give: SyncSender<Result<Decoded, ReplayError>>,
}

/// Jobs that nobody has begun, in their order.
pub(super) struct Queue<H>(Mutex<Queued<H>>);

struct Queued<H> {
    jobs: VecDeque<Job<H>>,
    events: usize,
}

impl<'a, S: TraceSource> Decoding<'a, S> {
    pub(super) fn new(source: &'a S, timeline: &'a Timeline, subjects: Subjects) -> Self {
        Self {
            source,
            timeline,
            subjects,
            pass_over: AtomicU32::new(0),
            places: Mutex::default(),
            spare: Mutex::default(),
        }
    }

    /// Does a job, and those whose turn has come with it. In a panic their channels are
    /// closed.
    pub(super) fn run(&self, job: Job<S::Handle>) {
        let Job {
            handle, turn, give, ..
        } = job;
        let mut buffer = locked(&self.spare).pop().unwrap_or_default();
        let run = self.decode(&handle, &mut buffer).map(|()| buffer);
        let Some(Turn { before, after }) = turn else {
            // Whoever wanted it may be gone.
            let _ = give.send(run);
            return;
        };
        let mut next = before.wait(Waiting { run, give, after });
        while let Some((mut resolver, Waiting { run, give, after })) = next {
            let resolved = run.and_then(|mut run| resolver.resolve(&mut run).map(|()| run));
            let _ = give.send(resolved);
            next = after.hand_on(resolver);
        }
    }

    /// A buffer that is not needed any more.
    pub(super) fn give_back(&self, buffer: Decoded) {
        let mut spare = locked(&self.spare);
        if spare.len() < MOST_SPARE {
            spare.push(buffer);
        }
    }

    /// Replaces what is in `into` by the events of a run.
    pub(super) fn decode(&self, handle: &S::Handle, into: &mut Decoded) -> Result<(), ReplayError> {
        self.source.read(handle, &mut into.events)?;
        into.forget();
        match self.subjects {
            Subjects::None => into.list_marks(self.timeline),
            Subjects::Numbers => {
                into.find_untold(None, self.timeline);
            }
            Subjects::NumbersAndShortLived => self.find_untold(into),
        }
        Ok(())
    }

    /// Also finds the short-lived blocks; in few of the next runs, where there are
    /// hardly any.
    fn find_untold(&self, run: &mut Decoded) {
        let passed_over =
            (self.pass_over).fetch_update(Relaxed, Relaxed, |runs| runs.checked_sub(1));
        if passed_over.is_ok() {
            run.find_untold(None, self.timeline);
            return;
        }
        let mut places = locked(&self.places).pop().unwrap_or_default();
        let found = run.find_untold(Some(&mut places), self.timeline);
        locked(&self.places).push(places);
        if found < run.events.len() / WORTH_FINDING {
            self.pass_over.store(PASSED_OVER, Relaxed);
        }
    }
}

impl<H> Queue<H> {
    pub(super) fn add(&self, job: Job<H>) {
        let mut queued = locked(&self.0);
        queued.events += job.events;
        queued.jobs.push_back(job);
    }

    /// The first job, if there is one.
    pub(super) fn take(&self) -> Option<Job<H>> {
        let mut queued = locked(&self.0);
        let job = queued.jobs.pop_front()?;
        queued.events -= job.events;
        Some(job)
    }

    pub(super) fn clear(&self) {
        *locked(&self.0) = Queued::default();
    }

    /// Events in all of them.
    pub(super) fn events(&self) -> usize {
        locked(&self.0).events
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nobody panics while holding one of these.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<H> Default for Queue<H> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<H> Default for Queued<H> {
    fn default() -> Self {
        Self {
            jobs: VecDeque::new(),
            events: 0,
        }
    }
}
