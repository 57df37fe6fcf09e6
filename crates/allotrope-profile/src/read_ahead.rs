//! Decodes an image's runs of events on other threads, before the cursors ask
//! for them, in the order in which they will probably be needed.
//!
//! How far ahead is bounded. A cursor never waits for a run that nobody has
//! begun to decode: it does that itself. Where it would wait for one that is
//! being decoded, it decodes what comes after that. So nothing depends on the
//! order being right, nor on there being another thread at all, and no thread
//! sleeps for the sake of a single run: to be woken takes about as long as to
//! decode one.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};

use allotrope_trace::model::{Event, EventKind};

use crate::clock::Timeline;
use crate::error::ReplayError;
use crate::source::{Run, TraceSource};

/// Decoded events that wait for their cursors: 3 MiB, a run more a thread.
const EVENTS_AHEAD: usize = 1 << 17;
/// When so few are left, a thread that sleeps because there were enough goes on.
const FEW_AHEAD: usize = EVENTS_AHEAD / 2;
/// Images with fewer events than this are not worth a thread.
const WORTH_A_THREAD: u64 = 1 << 17;
/// More threads would wait for whoever keeps the books.
const MOST_THREADS: usize = 2;
/// Buffers that are kept for the next runs.
const MOST_SPARE: usize = 8;

/// The runs of an image's streams.
pub(crate) struct ReadAhead<'a, S: TraceSource> {
    source: &'a S,
    timeline: &'a Timeline,
    /// Number and handle of each run, in the order in which they are read.
    queue: Vec<(usize, S::Handle)>,
    counted: u64,
    state: Mutex<State>,
    /// A run was decoded, or given back undecoded.
    decoded: Condvar,
    /// Few decoded events are left, or the end has come.
    wanted: Condvar,
}

struct State {
    /// By number of the run.
    slots: Vec<Slot>,
    /// How far the queue was gone through.
    next: usize,
    /// Events that are decoded and wait.
    waiting: usize,
    /// Reading threads that sleep.
    asleep: usize,
    spare: Vec<Vec<Event>>,
    ended: bool,
}

enum Slot {
    Unread,
    Reading,
    Ready(Result<Vec<Event>, ReplayError>),
    Taken,
}

impl<'a, S: TraceSource> ReadAhead<'a, S> {
    /// For the runs of these streams, which are numbered through.
    pub(crate) fn new<'r>(
        source: &'a S,
        timeline: &'a Timeline,
        streams: impl Iterator<Item = &'r [Run<S::Handle>]>,
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
        order.sort_by_key(|&(tick, number, _)| (tick, number));
        Self {
            source,
            timeline,
            queue: order
                .into_iter()
                .map(|(_, n, handle)| (n, handle))
                .collect(),
            counted,
            state: Mutex::new(State {
                slots,
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
        into: &mut Vec<Event>,
    ) -> Result<(), ReplayError> {
        let mut state = self.lock();
        while matches!(state.slots.get(number), Some(Slot::Reading)) {
            state = match state.claim(&self.queue) {
                Claim::Run(claimed) => {
                    drop(state);
                    self.read_one(claimed);
                    self.lock()
                }
                Claim::Enough | Claim::End => wait(&self.decoded, state),
            };
        }
        let slot = state.slots.get_mut(number);
        let slot = slot.map_or(Slot::Taken, |slot| std::mem::replace(slot, Slot::Taken));
        let Slot::Ready(events) = slot else {
            drop(state);
            return self.decode(handle, into);
        };
        let events = events?;
        state.waiting -= events.len();
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

    /// What a reading thread does.
    fn read(&self) {
        while let Some(claimed) = self.claim() {
            self.read_one(claimed);
        }
    }

    /// The next run that nobody reads, when it is time; `None` at the end.
    fn claim(&self) -> Option<(usize, S::Handle, Vec<Event>)> {
        let mut state = self.lock();
        while !state.ended {
            match state.claim(&self.queue) {
                Claim::Run(claimed) => return Some(claimed),
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

    fn read_one(&self, (number, handle, mut events): (usize, S::Handle, Vec<Event>)) {
        let claimed = Claimed {
            ahead: self,
            number,
        };
        let read = self.decode(&handle, &mut events);
        claimed.give(read.map(|()| events));
    }

    fn decode(&self, handle: &S::Handle, into: &mut Vec<Event>) -> Result<(), ReplayError> {
        self.source.read(handle, into)?;
        for event in into {
            if event.kind == EventKind::Anchor {
                event.address = self.timeline.ns(event.address);
            }
        }
        Ok(())
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
    Run((usize, H, Vec<Event>)),
    /// Nothing for now.
    Enough,
    /// Nothing any more.
    End,
}

impl State {
    /// The next run that nobody reads, which is then being read.
    fn claim<H: Copy>(&mut self, queue: &[(usize, H)]) -> Claim<H> {
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

/// A run that a thread has begun to read. In a panic it is given back, so that
/// nobody waits for it.
struct Claimed<'r, 'a, S: TraceSource> {
    ahead: &'r ReadAhead<'a, S>,
    number: usize,
}

impl<S: TraceSource> Claimed<'_, '_, S> {
    fn give(self, events: Result<Vec<Event>, ReplayError>) {
        let mut state = self.ahead.lock();
        state.waiting += events.as_ref().map_or(0, Vec::len);
        state.slots[self.number] = Slot::Ready(events);
    }
}

impl<S: TraceSource> Drop for Claimed<'_, '_, S> {
    fn drop(&mut self) {
        let mut state = self.ahead.lock();
        if matches!(state.slots[self.number], Slot::Reading) {
            state.slots[self.number] = Slot::Unread;
        }
        drop(state);
        self.ahead.decoded.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{MemoryTrace, SourceEntry};
    use allotrope_trace::model::{Clock, EntryPoint, Events, Record};

    fn event(kind: EventKind, address: u64) -> Event {
        Event {
            kind,
            entry: EntryPoint::Malloc,
            alignment_log2: 0,
            stack: 8,
            address,
            size: 1,
        }
    }

    /// Two streams of runs of 1,000 events whose addresses tell the run.
    fn trace(runs: u32) -> MemoryTrace {
        let records = (0..runs).map(|run| {
            let mut events = vec![event(EventKind::Anchor, u64::from(run) * 10)];
            events.resize(1_000, event(EventKind::Allocation, u64::from(run)));
            Record::Events(Events {
                image: 0,
                stream: run % 2,
                first_ordinal: 0,
                events,
            })
        });
        MemoryTrace {
            records: records.collect(),
            cut: None,
        }
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

    #[test]
    fn every_run_comes_once_in_whatever_order_it_is_asked_for() {
        let trace = trace(400);
        let streams = streams(&trace);
        // 2 ticks a nanosecond.
        let clock = |tick, monotonic_ns| Clock { tick, monotonic_ns };
        let timeline = Timeline::new(vec![clock(0, 0), clock(2_000, 1_000)], 0);
        let ahead = ReadAhead::new(&trace, &timeline, streams.iter().map(Vec::as_slice));
        assert!(ahead.counted >= WORTH_A_THREAD);
        // The second stream first, against the order of their times.
        let order = (0..200).map(|n| (200 + n, 2 * n + 1));
        let order = order.chain((0..200).map(|n| (n, 2 * n)));
        ahead.during(|| {
            let mut events = Vec::new();
            for (number, run) in order {
                let handle = run;
                ahead
                    .fetch(number, &handle, &mut events)
                    .expect("in memory");
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
        let ahead = ReadAhead::new(&trace, &timeline, streams.iter().map(Vec::as_slice));
        ahead.during(|| {
            let mut events = Vec::new();
            for (number, run) in streams[0].iter().enumerate() {
                let read = ahead.fetch(number, &run.handle, &mut events);
                assert_eq!(read.is_err(), number == 5);
            }
        });
    }
}
