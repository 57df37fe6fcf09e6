//! Decodes an image's runs of events on other threads (prefetching), in the order in
//! which their cursors will probably ask for them.
//!
//! The thread that replays dispatches jobs, at most [`EVENTS_AHEAD`] events of them at
//! a time, and each job holds the sending end of a channel of its own, on which the
//! replaying thread waits for that one run. A job that is lost, because its thread
//! panicked, closes its channel: so nobody waits for what will not come, and
//! nothing has to be remembered for that. The replaying thread never waits while a job is
//! queued: it does that itself. So nothing depends on the order being right, nor
//! on there being another thread at all.
//!
//! Of an image with a single stream, whose events have one order, the blocks are
//! found of which the events speak: [short-lived](crate::short_lived) ones in
//! each run for itself, all others by a [`Resolver`] that goes through the
//! decoded runs in their order (`turn.rs`).

mod decoded;
mod decoding;
mod turn;

use std::cell::{Cell, RefCell};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope};

use crate::clock::Timeline;
use crate::error::ReplayError;
use crate::replay::Helpers;
use crate::resolve::Resolver;
use crate::source::{Run, TraceSource};
pub(crate) use decoded::Decoded;
use decoding::{Decoding, Job, Queue};
use turn::{Passing, Turn};

/// Events of runs that are dispatched and not fetched yet: 4 MiB, and a run more.
const EVENTS_AHEAD: usize = 1 << 17;
/// When so many of them are queued, a helper thread is woken, which then does jobs until
/// none is left. Not with each run that is fetched: to wake a thread takes about as
/// long as to decode one.
const WORTH_WAKING: usize = EVENTS_AHEAD / 2;
/// Images with fewer events than this are not worth a thread.
const WORTH_A_THREAD: u64 = 1 << 17;
/// More threads would wait for whoever keeps the books.
const MOST_THREADS: usize = 2;

/// The runs of an image's streams. Belongs to the thread that replays; what the helper
/// threads share is in `decoding` and `queue`.
pub(crate) struct ReadAhead<'a, S: TraceSource> {
    decoding: Decoding<'a, S>,
    queue: Queue<S::Handle>,
    /// In the order in which they will probably be fetched.
    order: Vec<Listed<S::Handle>>,
    counted: u64,
    dispatched: RefCell<Dispatched>,
    /// A message wakes a helper thread; without the sender they all end.
    wake: Cell<Option<Sender<()>>>,
}

/// A run that has been listed.
struct Listed<H> {
    number: usize,
    handle: H,
    /// Marks among them.
    events: usize,
}

/// What is found out about the blocks of a single stream's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subjects {
    /// Nothing: there are several streams.
    None,
    /// The numbers of the blocks.
    Numbers,
    /// Numbers, and those of short-lived blocks are apart.
    NumbersAndShortLived,
}

/// What the replaying thread knows of the runs.
struct Dispatched {
    /// By number of the run.
    runs: Vec<State>,
    /// How far the order was gone through.
    next: usize,
    /// Events of the runs that are dispatched and not fetched.
    ahead: usize,
    /// Dispatches up to so many events.
    most: usize,
    /// Where the next job of a single stream gets the resolver; nothing where there are
    /// several streams.
    resolver: Option<Passing>,
}

/// How far a run is.
enum State {
    Undispatched,
    Dispatched(Promise),
    Fetched,
}

/// A run that a job will give.
struct Promise {
    run: Receiver<Result<Decoded, ReplayError>>,
    events: usize,
}

impl<'a, S: TraceSource> ReadAhead<'a, S> {
    /// For the runs of these streams, which are numbered through. Of a single
    /// stream the blocks are found of which its events speak, with what there was
    /// before the first one; short-lived ones for themselves if that is asked for.
    pub(crate) fn new<'r>(
        source: &'a S,
        timeline: &'a Timeline,
        streams: impl Iterator<Item = &'r [Run<S::Handle>]>,
        resolver: Option<Resolver>,
        short_lived: bool,
    ) -> Self
    where
        S::Handle: 'r,
    {
        let mut order = Vec::new();
        let mut counted = 0_u64;
        for runs in streams {
            // A run without a time follows the one before it.
            let mut tick = 0;
            for run in runs {
                tick = run.first_tick.unwrap_or(tick);
                let listed = Listed {
                    number: order.len(),
                    handle: run.handle,
                    events: run.events as usize,
                };
                order.push((tick, listed));
                counted = counted.saturating_add(run.counted);
            }
        }
        let subjects = match (&resolver, short_lived) {
            (None, _) => Subjects::None,
            (Some(_), false) => Subjects::Numbers,
            (Some(_), true) => Subjects::NumbersAndShortLived,
        };
        // A single stream's runs are read in its order, whatever their times.
        if subjects == Subjects::None {
            order.sort_by_key(|(tick, run)| (*tick, run.number));
        }
        let dispatched = Dispatched {
            runs: order.iter().map(|_| State::Undispatched).collect(),
            next: 0,
            ahead: 0,
            // Without helper threads a run is decoded when it is asked for.
            most: 0,
            resolver: resolver.map(|resolver| {
                let first = Passing::default();
                // No run waits for it yet.
                first.clone().hand_on(resolver);
                first
            }),
        };
        Self {
            decoding: Decoding::new(source, timeline, subjects),
            queue: Queue::default(),
            order: order.into_iter().map(|(_, run)| run).collect(),
            counted,
            dispatched: RefCell::new(dispatched),
            wake: Cell::new(None),
        }
    }

    /// Calls `use_runs` while other threads read ahead, if there is enough to read.
    pub(crate) fn during<T>(&self, helpers: Helpers, use_runs: impl FnOnce() -> T) -> T {
        let (wake, woken) = channel();
        let woken = Mutex::new(woken);
        thread::scope(|scope| {
            if self.start(scope, helpers, &woken) > 0 {
                self.dispatched.borrow_mut().most = EVENTS_AHEAD;
                self.wake.set(Some(wake));
            }
            let _end = EndOnDrop(self);
            use_runs()
        })
    }

    /// Gives the number of threads that it started.
    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        helpers: Helpers,
        woken: &'scope Mutex<Receiver<()>>,
    ) -> usize {
        let (decoding, queue) = (&self.decoding, &self.queue);
        let wanted = helpers.number(self.counted >= WORTH_A_THREAD, MOST_THREADS);
        let start = |_: &usize| {
            let builder = thread::Builder::new().name("read ahead".to_owned());
            let thread = builder.spawn_scoped(scope, || help(decoding, queue, woken));
            // Those that there are do all.
            thread.is_ok()
        };
        (0..wanted).filter(start).count()
    }

    /// Replaces what is in `into` by the events of a run; anchors then hold
    /// nanoseconds.
    pub(crate) fn fetch(
        &self,
        number: usize,
        handle: &S::Handle,
        into: &mut Decoded,
    ) -> Result<(), ReplayError> {
        let promise = {
            let mut dispatched = self.dispatched.borrow_mut();
            self.dispatch(&mut dispatched);
            // Only with the runs before it are its blocks known.
            while dispatched.resolver.is_some()
                && matches!(dispatched.runs.get(number), Some(State::Undispatched))
                && self.dispatch_next(&mut dispatched)
            {}
            dispatched.take(number)
        };
        let Some(Promise { run, events }) = promise else {
            return self.decoding.decode(handle, into);
        };
        let run = self.wait_for(&run);
        self.dispatched.borrow_mut().ahead -= events + 1;
        let run = run.unwrap_or(Err(ReplayError::NoSuchRun(number)))?;
        self.decoding.give_back(std::mem::replace(into, run));
        Ok(())
    }

    /// What a job gives; `None` if its thread ended before.
    fn wait_for(
        &self,
        run: &Receiver<Result<Decoded, ReplayError>>,
    ) -> Option<Result<Decoded, ReplayError>> {
        loop {
            match run.try_recv() {
                Ok(run) => return Some(run),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {}
            }
            match self.queue.take() {
                Some(job) => self.decoding.run(job),
                // All jobs are at work, this one among them: it sends, or hangs up.
                None => return run.recv().ok(),
            }
        }
    }

    /// Dispatches as many runs as there may be.
    fn dispatch(&self, dispatched: &mut Dispatched) {
        while dispatched.ahead < dispatched.most && self.dispatch_next(dispatched) {}
        let queued = self.queue.events();
        let last = dispatched.next == self.order.len() && queued > 0;
        if let Some(wake) = self.wake.take() {
            if last || queued >= WORTH_WAKING {
                // If no thread is left, the replaying one does all jobs.
                let _ = wake.send(());
            }
            self.wake.set(Some(wake));
        }
    }

    /// Dispatches the next run that is not; `false` if there is none.
    fn dispatch_next(&self, dispatched: &mut Dispatched) -> bool {
        while let Some(listed) = self.order.get(dispatched.next) {
            dispatched.next += 1;
            let is_new = matches!(dispatched.runs[listed.number], State::Undispatched);
            if is_new {
                self.queue.add(dispatched.job(listed));
                return true;
            }
        }
        false
    }
}

/// What a helper thread does, until nobody can wake it any more.
fn help<S: TraceSource>(
    decoding: &Decoding<'_, S>,
    queue: &Queue<S::Handle>,
    woken: &Mutex<Receiver<()>>,
) {
    let next = || {
        let woken = woken.lock().unwrap_or_else(PoisonError::into_inner);
        woken.recv()
    };
    while next().is_ok() {
        while let Some(job) = queue.take() {
            decoding.run(job);
        }
    }
}

impl Dispatched {
    /// A job for this run, whose number then has its promise.
    fn job<H: Copy>(&mut self, listed: &Listed<H>) -> Job<H> {
        let (give, run) = sync_channel(1);
        let events = listed.events;
        self.runs[listed.number] = State::Dispatched(Promise { run, events });
        // Runs without events take memory, too.
        self.ahead += events + 1;
        let turn = self.resolver.take().map(|before| {
            let after = Passing::default();
            self.resolver = Some(after.clone());
            Turn { before, after }
        });
        Job {
            handle: listed.handle,
            events,
            turn,
            give,
        }
    }

    /// What was promised of a run; `None` if it was not dispatched, which it then will
    /// not be any more.
    fn take(&mut self, number: usize) -> Option<Promise> {
        let state = self.runs.get_mut(number)?;
        match std::mem::replace(state, State::Fetched) {
            State::Dispatched(promise) => Some(promise),
            State::Undispatched | State::Fetched => None,
        }
    }
}

/// Lets the helper threads end, also in a panic: the scope waits for them.
struct EndOnDrop<'r, 'a, S: TraceSource>(&'r ReadAhead<'a, S>);

impl<S: TraceSource> Drop for EndOnDrop<'_, '_, S> {
    fn drop(&mut self) {
        self.0.wake.set(None);
        // Nobody wants what is still queued.
        self.0.queue.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::decoding::PASSED_OVER;
    use super::*;
    use crate::live::LivePlaces;
    use crate::made_events::event;
    use crate::source::{MemoryTrace, NodeVisitor, SourceEntry, StackPart, Visitor};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::Ordering::Relaxed;

    use allotrope_trace::model::{Clock, Event, EventKind, Events, Record};

    const HELPERS: Helpers = Helpers::WhereWorthIt;

    /// Runs by stream.
    fn of_runs(runs: impl Iterator<Item = (u32, Vec<Event>)>) -> MemoryTrace {
        let record = |(stream, events)| {
            Record::Events(Events {
                image: 0,
                stream,
                first_ordinal: 0,
                events,
            })
        };
        MemoryTrace {
            records: runs.map(record).collect(),
            cut: None,
        }
    }

    /// Two streams of runs of 1,000 events whose addresses tell the run.
    fn trace(runs: u32) -> MemoryTrace {
        of_runs((0..runs).map(|run| {
            let mut events = vec![event(EventKind::Timestamp, u64::from(run) * 10)];
            events.resize(1_000, event(EventKind::Allocation, u64::from(run)));
            (run % 2, events)
        }))
    }

    fn streams(trace: &MemoryTrace) -> [Vec<Run<usize>>; 2] {
        let mut streams = [Vec::new(), Vec::new()];
        let listed = trace.visit(&mut |entry| {
            if let SourceEntry::Run(run) = entry {
                streams[run.stream as usize].push(run);
            }
            Ok(())
        });
        listed.expect("a trace in memory");
        streams
    }

    /// Of streams that are merged.
    fn merged<'a>(
        trace: &'a MemoryTrace,
        timeline: &'a Timeline,
        streams: &[Vec<Run<usize>>; 2],
    ) -> ReadAhead<'a, MemoryTrace> {
        let runs = streams.iter().map(Vec::as_slice);
        ReadAhead::new(trace, timeline, runs, None, false)
    }

    /// Of a single stream whose blocks get numbers.
    fn numbered<'a, S: TraceSource>(
        trace: &'a S,
        timeline: &'a Timeline,
        runs: &[Run<S::Handle>],
    ) -> ReadAhead<'a, S> {
        let resolver = Resolver::new(LivePlaces::new(std::iter::empty()));
        let only = std::iter::once(runs);
        ReadAhead::new(trace, timeline, only, Some(resolver), true)
    }

    #[test]
    fn every_run_comes_once_in_whatever_order_it_is_asked_for() {
        let trace = trace(400);
        let streams = streams(&trace);
        // 2 ticks a nanosecond.
        let clock = |tick, monotonic_ns| Clock { tick, monotonic_ns };
        let timeline = Timeline::new(vec![clock(0, 0), clock(2_000, 1_000)], 0);
        let ahead = merged(&trace, &timeline, &streams);
        assert!(ahead.counted >= WORTH_A_THREAD);
        // The second stream first, against the order of their times.
        let order = (0..200).map(|n| (200 + n, 2 * n + 1));
        let order = order.chain((0..200).map(|n| (n, 2 * n)));
        ahead.during(HELPERS, || {
            let mut run_events = Decoded::default();
            for (number, run) in order {
                let handle = run;
                ahead
                    .fetch(number, &handle, &mut run_events)
                    .expect("in memory");
                let events = &run_events.events;
                assert_eq!(events.len(), 1_000);
                assert_eq!(events[0].address, run as u64 * 10 / 2);
                assert!(events[1..].iter().all(|e| e.address == run as u64));
                assert!(ahead.dispatched.borrow().ahead < EVENTS_AHEAD + 1_001);
            }
        });
    }

    #[test]
    fn a_run_that_can_not_be_read_is_an_error_where_it_is_asked_for() {
        let trace = trace(400);
        let mut streams = streams(&trace);
        streams[0][5].handle = 4_000;
        let timeline = Timeline::new(vec![], 0);
        let ahead = merged(&trace, &timeline, &streams);
        ahead.during(HELPERS, || {
            let mut events = Decoded::default();
            for (number, run) in streams[0].iter().enumerate() {
                let read = ahead.fetch(number, &run.handle, &mut events);
                assert_eq!(read.is_err(), number == 5);
            }
        });
    }

    /// One stream: each run hands out a block that the next run gives back, and
    /// 500 more that it gives back itself.
    fn single_stream(runs: u64) -> MemoryTrace {
        of_runs((0..runs).map(|run| {
            let passed_on = |run: u64| 16 + run % 2 * 16;
            let mut events = vec![event(EventKind::Allocation, passed_on(run))];
            if run > 0 {
                events.push(event(EventKind::Deallocation, passed_on(run - 1)));
            }
            for kind in [EventKind::Allocation, EventKind::Deallocation] {
                events.extend((0..500).map(|at| event(kind, 1_000 + at * 16)));
            }
            (0, events)
        }))
    }

    #[test]
    fn the_blocks_of_a_single_stream_have_numbers_from_run_to_run() {
        let trace = single_stream(400);
        let [runs, _] = streams(&trace);
        let timeline = Timeline::new(vec![], 0);
        let ahead = numbered(&trace, &timeline, &runs);
        assert!(ahead.counted >= WORTH_A_THREAD);
        ahead.during(HELPERS, || {
            let mut run = Decoded::default();
            let mut passed_on = None;
            for (number, listed) in runs.iter().enumerate() {
                let fetched = ahead.fetch(number, &listed.handle, &mut run);
                fetched.expect("in memory");
                let own = run
                    .subjects
                    .iter()
                    .filter(|subject| subject.is_short_lived());
                assert_eq!(own.count(), 1_000);
                assert!(run.subjects[0].number().is_some());
                if let Some(passed_on) = passed_on {
                    assert_eq!(run.subjects[1], passed_on, "run {number}");
                }
                passed_on = Some(run.subjects[0]);
                assert!(run.replaced.is_empty());
            }
        });
    }

    #[test]
    fn a_run_that_can_not_be_read_does_not_keep_the_next_ones_waiting() {
        let trace = single_stream(400);
        let [mut runs, _] = streams(&trace);
        runs[7].handle = 4_000;
        let timeline = Timeline::new(vec![], 0);
        let ahead = numbered(&trace, &timeline, &runs);
        ahead.during(HELPERS, || {
            let mut run = Decoded::default();
            for (number, listed) in runs.iter().enumerate() {
                let fetched = ahead.fetch(number, &listed.handle, &mut run);
                assert_eq!(fetched.is_err(), number == 7);
            }
        });
    }

    #[test]
    fn where_no_block_is_short_lived_most_runs_are_not_searched_for_them() {
        let trace = of_runs((0..400_u64).map(|run| {
            let fresh = |at| event(EventKind::Allocation, (run * 1_000 + at) * 16);
            (0, (0..1_000).map(fresh).collect())
        }));
        let [runs, _] = streams(&trace);
        let timeline = Timeline::new(vec![], 0);
        let ahead = numbered(&trace, &timeline, &runs);
        let mut run = Decoded::default();
        for (number, listed) in runs.iter().enumerate() {
            let before = ahead.decoding.pass_over.load(Relaxed);
            ahead
                .fetch(number, &listed.handle, &mut run)
                .expect("in memory");
            let expected = before.checked_sub(1).unwrap_or(PASSED_OVER);
            assert_eq!(ahead.decoding.pass_over.load(Relaxed), expected);
            let numbers = run.subjects.iter().map(|subject| subject.number());
            let first = number * 1_000;
            assert!(numbers.eq((first..first + 1_000).map(Some)));
        }
    }

    /// Whose run 50 can not even be tried.
    struct Broken(MemoryTrace);

    impl TraceSource for Broken {
        type Handle = usize;
        type Stacks = <MemoryTrace as TraceSource>::Stacks;

        fn visit(&self, visitor: &mut Visitor<'_, usize, Self::Stacks>) -> Result<(), ReplayError> {
            self.0.visit(visitor)
        }

        fn read_stacks(
            &self,
            parts: &[StackPart<Self::Stacks>],
            visitor: &mut NodeVisitor<'_>,
        ) -> Result<(), ReplayError> {
            self.0.read_stacks(parts, visitor)
        }

        fn read(&self, handle: &usize, into: &mut Vec<Event>) -> Result<(), ReplayError> {
            assert_ne!(*handle, 50, "broken on purpose");
            self.0.read(handle, into)
        }

        fn cut(&self) -> Option<String> {
            None
        }
    }

    #[test]
    fn nobody_waits_for_a_run_whose_thread_has_panicked() {
        let trace = single_stream(400);
        let [runs, _] = streams(&trace);
        let broken = Broken(trace);
        let timeline = Timeline::new(vec![], 0);
        let only = std::iter::once(runs.as_slice());
        let unnumbered = ReadAhead::new(&broken, &timeline, only, None, true);
        for ahead in [unnumbered, numbered(&broken, &timeline, &runs)] {
            let replayed = || {
                let mut run = Decoded::default();
                for (number, listed) in runs.iter().enumerate() {
                    if ahead.fetch(number, &listed.handle, &mut run).is_err() {
                        return;
                    }
                }
            };
            let ended = catch_unwind(AssertUnwindSafe(|| ahead.during(HELPERS, replayed)));
            assert!(ended.is_err());
        }
    }
}
