//! Decodes an image's runs of events on other threads, before the cursors ask
//! for them, in the order in which they will probably be needed.
//!
//! How far ahead is bounded. A cursor never waits for a run that nobody has
//! begun to decode: it does that itself. Where it would wait for one that is
//! being decoded, it decodes what comes after that. So nothing depends on the
//! order being right, nor on there being another thread at all, and no thread
//! sleeps for the sake of a single run: to be woken takes about as long as to
//! decode one.
//!
//! Of an image with a single stream, whose events have one order, the blocks are
//! found of which the events speak: [short-lived](crate::short_lived) ones in
//! each run for itself, all others by a [`Resolver`] that goes through the
//! decoded runs in their order, in one thread at a time.

mod decoded;
mod resolving;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};

use crate::clock::Timeline;
use crate::error::ReplayError;
use crate::resolve::Resolver;
use crate::short_lived::Places;
use crate::source::{Run, TraceSource};
pub(crate) use decoded::Decoded;

/// Decoded events that wait for their cursors: 4 MiB, a run more a thread.
const EVENTS_AHEAD: usize = 1 << 17;
/// When so few are left, a thread that sleeps because there were enough goes on.
const FEW_AHEAD: usize = EVENTS_AHEAD / 2;
/// Images with fewer events than this are not worth a thread.
const WORTH_A_THREAD: u64 = 1 << 17;
/// More threads would wait for whoever keeps the books.
const MOST_THREADS: usize = 2;
/// Of how many events a run has a short-lived block at least, for it to cost less to
/// find it than to look it up.
const WORTH_FINDING: usize = 16;
/// In how many runs short-lived blocks are not looked for after one that had few.
const PASSED_OVER: u32 = 7;
/// Buffers that are kept for the next runs.
const MOST_SPARE: usize = 8;

/// The runs of an image's streams.
pub(crate) struct ReadAhead<'a, S: TraceSource> {
    source: &'a S,
    timeline: &'a Timeline,
    /// Number and handle of each run, in the order in which they are read.
    queue: Vec<(usize, S::Handle)>,
    counted: u64,
    /// Whether blocks are looked for, and short-lived ones for themselves.
    subjects: Subjects,
    /// In how many more runs no short-lived blocks are looked for.
    pass_over: AtomicU32,
    /// What short-lived blocks are found with, one for each thread that decodes.
    places: Mutex<Vec<Places>>,
    state: Mutex<State>,
    /// A run was decoded, or given back undecoded.
    decoded: Condvar,
    /// Few decoded events are left, or the end has come.
    wanted: Condvar,
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

struct State {
    /// By number of the run.
    slots: Vec<Slot>,
    /// Finds the blocks of the next run in [`Slot::Decoded`]; a thread that does
    /// so takes it out.
    resolver: Option<Resolver>,
    /// Number of the next run whose blocks are to be found.
    unresolved: usize,
    /// How far the queue was gone through.
    next: usize,
    /// Events that are decoded and wait.
    waiting: usize,
    /// Reading threads that sleep.
    asleep: usize,
    spare: Vec<Decoded>,
    ended: bool,
}

enum Slot {
    Unread,
    Reading,
    /// Its blocks are not found yet.
    Decoded(Result<Decoded, ReplayError>),
    Ready(Result<Decoded, ReplayError>),
    Taken,
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
                order.push((tick, order.len(), run.handle));
                counted = counted.saturating_add(run.counted);
            }
        }
        let slots = order.iter().map(|_| Slot::Unread).collect();
        let subjects = match (&resolver, short_lived) {
            (None, _) => Subjects::None,
            (Some(_), false) => Subjects::Numbers,
            (Some(_), true) => Subjects::NumbersAndShortLived,
        };
        // A single stream's runs are read in its order, whatever their times.
        if subjects == Subjects::None {
            order.sort_by_key(|&(tick, number, _)| (tick, number));
        }
        Self {
            source,
            timeline,
            queue: order
                .into_iter()
                .map(|(_, n, handle)| (n, handle))
                .collect(),
            counted,
            subjects,
            pass_over: AtomicU32::new(0),
            places: Mutex::default(),
            state: Mutex::new(State {
                slots,
                resolver,
                unresolved: 0,
                next: 0,
                waiting: 0,
                asleep: 0,
                spare: Vec::new(),
                ended: false,
            }),
            decoded: Condvar::new(),
            wanted: Condvar::new(),
        }
    }

    /// Calls `use_runs` while other threads read ahead, if there is enough to read.
    pub(crate) fn during<T>(&self, use_runs: impl FnOnce() -> T) -> T {
        thread::scope(|scope| {
            self.start(scope);
            let _end = EndOnDrop(self);
            use_runs()
        })
    }

    fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        if self.counted < WORTH_A_THREAD {
            return;
        }
        let others = thread::available_parallelism().map_or(1, |n| n.get()) - 1;
        for _ in 0..others.min(MOST_THREADS) {
            let builder = thread::Builder::new().name("read ahead".to_owned());
            // Without a thread the cursors read for themselves.
            let _ = builder.spawn_scoped(scope, || self.read());
        }
    }

    /// Replaces what is in `into` by the events of a run; anchors then hold
    /// nanoseconds.
    pub(crate) fn fetch(
        &self,
        number: usize,
        handle: &S::Handle,
        into: &mut Decoded,
    ) -> Result<(), ReplayError> {
        let mut state = self.lock();
        while !self.is_settled(state.slots.get(number)) {
            state = match state.claim(&self.queue) {
                Claim::Enough | Claim::End => wait(&self.decoded, state),
                claimed => {
                    drop(state);
                    self.work(claimed);
                    self.lock()
                }
            };
        }
        let slot = state.slots.get_mut(number);
        let slot = slot.map_or(Slot::Taken, |slot| std::mem::replace(slot, Slot::Taken));
        let Slot::Ready(events) = slot else {
            drop(state);
            return self.decode(handle, into);
        };
        let events = events?;
        state.waiting -= events.events.len();
        let old = std::mem::replace(into, events);
        if state.spare.len() < MOST_SPARE {
            state.spare.push(old);
        }
        let wake = state.asleep > 0 && state.waiting <= FEW_AHEAD;
        drop(state);
        if wake {
            self.wanted.notify_all();
        }
        Ok(())
    }

    /// Whether somebody who needs the run of this slot has nothing to wait for.
    fn is_settled(&self, slot: Option<&Slot>) -> bool {
        match slot {
            Some(Slot::Reading | Slot::Decoded(_)) => false,
            Some(Slot::Unread) => self.subjects == Subjects::None,
            Some(Slot::Ready(_) | Slot::Taken) | None => true,
        }
    }

    /// What a reading thread does.
    fn read(&self) {
        while let Some(claimed) = self.claim() {
            self.work(claimed);
        }
    }

    fn work(&self, claimed: Claim<S::Handle>) {
        match claimed {
            Claim::Run(claimed) => self.read_one(claimed),
            Claim::Resolve(claimed) => self.resolve_one(claimed),
            Claim::Enough | Claim::End => {}
        }
    }

    /// What to do next, when it is time; `None` at the end.
    fn claim(&self) -> Option<Claim<S::Handle>> {
        let mut state = self.lock();
        while !state.ended {
            match state.claim(&self.queue) {
                claimed @ (Claim::Run(_) | Claim::Resolve(_)) => return Some(claimed),
                Claim::End => break,
                Claim::Enough => {
                    state.asleep += 1;
                    state = wait(&self.wanted, state);
                    state.asleep -= 1;
                }
            }
        }
        None
    }

    fn read_one(&self, (number, handle, mut events): (usize, S::Handle, Decoded)) {
        let claimed = Claimed {
            ahead: self,
            number,
        };
        let read = self.decode(&handle, &mut events);
        claimed.give(read.map(|()| events));
    }

    fn decode(&self, handle: &S::Handle, into: &mut Decoded) -> Result<(), ReplayError> {
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
        let mut places = self.places().pop().unwrap_or_default();
        let found = run.find_untold(Some(&mut places), self.timeline);
        self.places().push(places);
        if found < run.events.len() / WORTH_FINDING {
            self.pass_over.store(PASSED_OVER, Relaxed);
        }
    }

    fn places(&self) -> MutexGuard<'_, Vec<Places>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked left every slot in one state or another.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait<'g>(until: &Condvar, state: MutexGuard<'g, State>) -> MutexGuard<'g, State> {
    let waited = until.wait(state);
    waited.unwrap_or_else(PoisonError::into_inner)
}

/// What there is to decode ahead.
enum Claim<H> {
    /// A run, by number and handle, and a buffer for it.
    Run((usize, H, Decoded)),
    /// A decoded run, by number, whose blocks are to be found by this resolver.
    Resolve((usize, Resolver, Decoded)),
    /// Nothing for now.
    Enough,
    /// Nothing any more.
    End,
}

impl State {
    /// The next run that nobody reads, which is then being read.
    fn claim<H: Copy>(&mut self, queue: &[(usize, H)]) -> Claim<H> {
        if let Some(claimed) = self.claim_resolving() {
            return Claim::Resolve(claimed);
        }
        if self.waiting >= EVENTS_AHEAD {
            return Claim::Enough;
        }
        while let Some(&(number, handle)) = queue.get(self.next) {
            self.next += 1;
            if matches!(self.slots[number], Slot::Unread) {
                self.slots[number] = Slot::Reading;
                return Claim::Run((number, handle, self.spare.pop().unwrap_or_default()));
            }
        }
        Claim::End
    }
}

/// Lets the reading threads end, also in a panic: the scope waits for them.
struct EndOnDrop<'r, 'a, S: TraceSource>(&'r ReadAhead<'a, S>);

impl<S: TraceSource> Drop for EndOnDrop<'_, '_, S> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.wanted.notify_all();
    }
}

/// A run that a thread has begun to read. In a panic it is given back, or said to
/// be missing, so that nobody waits for it.
struct Claimed<'r, 'a, S: TraceSource> {
    ahead: &'r ReadAhead<'a, S>,
    number: usize,
}

impl<S: TraceSource> Claimed<'_, '_, S> {
    fn give(self, events: Result<Decoded, ReplayError>) {
        let mut state = self.ahead.lock();
        state.waiting += events.as_ref().map_or(0, |run| run.events.len());
        state.slots[self.number] = match self.ahead.subjects {
            Subjects::None => Slot::Ready(events),
            Subjects::Numbers | Subjects::NumbersAndShortLived => Slot::Decoded(events),
        };
    }
}

impl<S: TraceSource> Drop for Claimed<'_, '_, S> {
    fn drop(&mut self) {
        let mut state = self.ahead.lock();
        if matches!(state.slots[self.number], Slot::Reading) {
            state.slots[self.number] = match self.ahead.subjects {
                Subjects::None => Slot::Unread,
                // The runs behind it can not do without it.
                Subjects::Numbers | Subjects::NumbersAndShortLived => {
                    Slot::Decoded(Err(ReplayError::NoSuchRun(self.number)))
                }
            };
        }
        drop(state);
        self.ahead.decoded.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::LivePlaces;
    use crate::made_events::event;
    use crate::source::{MemoryTrace, NodeVisitor, SourceEntry, StackPart, Visitor};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use allotrope_trace::model::{Clock, Event, EventKind, Events, Record};

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
            let mut events = vec![event(EventKind::Anchor, u64::from(run) * 10)];
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
        ahead.during(|| {
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
                assert!(ahead.lock().waiting <= EVENTS_AHEAD + MOST_THREADS * 1_000);
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
        ahead.during(|| {
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
        ahead.during(|| {
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
        ahead.during(|| {
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
            let before = ahead.pass_over.load(Relaxed);
            ahead
                .fetch(number, &listed.handle, &mut run)
                .expect("in memory");
            let expected = before.checked_sub(1).unwrap_or(PASSED_OVER);
            assert_eq!(ahead.pass_over.load(Relaxed), expected);
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
            let ended = catch_unwind(AssertUnwindSafe(|| ahead.during(replayed)));
            assert!(ended.is_err());
        }
    }
}
